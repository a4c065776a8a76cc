/**
 * Measures times, and the statistics of them.
 *
 * @module
 */

/** The durations of repeated runs, in milliseconds. */
export type Times = readonly number[];

/** The number of untimed rounds that come first. Engines optimize code only after it has run for a while. */
export const warmUpRounds = 4;

/**
 * Times functions that compute the same, in turn, so that other load on the machine affects all of them equally.
 *
 * @returns the times of each function, in the order of `functions`
 */
function timeInterleaved(functions: readonly (() => void)[], { rounds }: { rounds: number }): Times[] {
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

/** Two functions' times, and the median of the first one's divided by that of the second. */
export interface ComparedTimes {
  readonly ratio: number;
  /** The times of each function, with their spread, and the ratio. */
  readonly cells: readonly [first: string, second: string, ratio: string];
}

/** Times two functions that compute the same, in turn. */
export function compareTimes(first: () => void, second: () => void, { rounds }: { rounds: number }): ComparedTimes {
  const [ofFirst, ofSecond] = timeInterleaved([first, second], { rounds }) as [Times, Times];
  const ratio = median(ofFirst) / median(ofSecond);
  return { ratio, cells: [formatSpread(ofFirst), formatSpread(ofSecond), ratio.toFixed(2)] };
}

/** Returns the median: the middle number, or the mean of the two in the middle. */
export function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  return (sorted[Math.ceil(middle) - 1]! + sorted[Math.floor(middle)]!) / 2;
}

/** Returns the quantile of a fraction: 0.5 for the median. */
export function quantile(numbers: readonly number[], fraction: number): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(fraction * sorted.length))]!;
}

/** Formats the median, with the minimum and the maximum in parentheses, by default with three digits. */
export function formatSpread(
  numbers: readonly number[],
  format: (number: number) => string = (number) => number.toPrecision(3),
): string {
  const [middle, least, most] = [median(numbers), Math.min(...numbers), Math.max(...numbers)].map(format);
  return `${middle} (${least} to ${most})`;
}
