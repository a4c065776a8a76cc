/**
 * Measures and formats times.
 *
 * @module
 */

/** The durations of repeated runs, in milliseconds. */
export type Times = readonly number[];

/** The number of untimed rounds that come first. Engines optimize code only after it has run for a while. */
const warmUpRounds = 4;

/**
 * Times functions that compute the same, in turn, so that other load on the machine affects all of them equally.
 *
 * @returns the times of each function, in the order of `functions`
 */
export function timeInterleaved(functions: readonly (() => void)[], { rounds }: { rounds: number }): Times[] {
  const times = functions.map((): number[] => []);
  for (let round = -warmUpRounds; round < rounds; round++) {
    for (const [index, run] of functions.entries()) {
      const start = performance.now();
      run();
      const elapsed = performance.now() - start;
      if (round >= 0) times[index]!.push(elapsed);
    }
  }
  return times;
}

/** Returns the median: the middle number, or the mean of the two in the middle. */
export function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  return (sorted[Math.ceil(middle) - 1]! + sorted[Math.floor(middle)]!) / 2;
}

/** Formats the median, with the minimum and the maximum in parentheses. */
export function formatTimes(times: Times): string {
  const [middle, least, most] = [median(times), Math.min(...times), Math.max(...times)].map((time) =>
    time.toPrecision(3)
  );
  return `${middle} (${least} to ${most})`;
}
