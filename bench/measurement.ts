/**
 * Times, and what is said of them.
 *
 * @module
 */

/** How long something took, in milliseconds, each time. */
export type Times = readonly number[];

/** Rounds that are not timed come first: an engine makes code fast once it has run for a while. */
const warmUpRounds = 4;

/**
 * Times things that do the same, in turn: whatever else the machine does falls on all of them alike.
 *
 * @returns the times of each, in the order of the things
 */
export function timeInterleaved(things: readonly (() => void)[], { rounds }: { rounds: number }): Times[] {
  const times = things.map((): number[] => []);
  for (let round = -warmUpRounds; round < rounds; round++) {
    for (const [index, run] of things.entries()) {
      const start = performance.now();
      run();
      const elapsed = performance.now() - start;
      if (round >= 0) times[index]!.push(elapsed);
    }
  }
  return times;
}

/** The middle of some numbers, or the mean of the two in the middle. */
export function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  return (sorted[Math.ceil(middle) - 1]! + sorted[Math.floor(middle)]!) / 2;
}

/** The median, and in brackets the least and the most. */
export function formatTimes(times: Times): string {
  const [middle, least, most] = [median(times), Math.min(...times), Math.max(...times)].map((time) =>
    time.toPrecision(3)
  );
  return `${middle} (${least} to ${most})`;
}
