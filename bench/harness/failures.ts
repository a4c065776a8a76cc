/**
 * What a benchmark could not measure.
 *
 * @module
 */

const failures: string[] = [];

/** Notes that something could not be measured, and why. Returns undefined. */
export function fail(name: string, error: unknown): undefined {
  failures.push(`${name}: ${error instanceof Error ? error.message : error}`);
}

/** Measures a row of a table. The cells behind its name say so if it cannot be measured. */
export async function rowOf(
  name: string,
  measure: () => readonly string[] | Promise<readonly string[]>,
): Promise<string[]> {
  try {
    return [name, ...await measure()];
  } catch (error) {
    fail(name, error);
    return [name, "not measured"];
  }
}

/** Prints what could not be measured, a line each, and lets the program exit with 1. Does nothing if all was measured. */
export function reportFailures(): void {
  if (failures.length === 0) return;
  console.log(`\nNot measured:\n${failures.join("\n")}`);
  Deno.exitCode = 1;
}
