/**
 * Ends things whose ends consist of several steps.
 *
 * @module
 */

/** Runs every step, whatever the others throw. Returns the errors in the order in which they were thrown. */
export function errorsOf(steps: Iterable<() => void>): unknown[] {
  const errors: unknown[] = [];
  for (const step of steps) {
    try {
      step();
    } catch (error) {
      errors.push(error);
    }
  }
  return errors;
}

/** Runs every step, whatever the others throw. Each error is reported as uncaught. */
export function runEach(...steps: readonly (() => void)[]): void {
  for (const error of errorsOf(steps)) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
