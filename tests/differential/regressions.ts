/**
 * Seeds that are more than numbers.
 *
 * @module
 */

/** Seeds whose programs once differed between the software device and a GPU. They are always run. */
export const regressions: readonly number[] = [];

/** Seeds whose programs are not compared, each with the reason. */
export const excludedSeeds: ReadonlyMap<number, string> = new Map();
