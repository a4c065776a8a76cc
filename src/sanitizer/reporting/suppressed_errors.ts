/**
 * A program's own error that ends a `using` block, whose end throws another one: JavaScript joins them in a
 * `SuppressedError`, and runtimes print neither of the two.
 *
 * @module
 */

/** What is used of `process`. */
interface Process {
  on?(name: "uncaughtExceptionMonitor", listener: (error: unknown) => void): void;
}

/** The kinds that are looked for. */
const printed = new Set<(error: unknown) => boolean>();

/**
 * Prints the parts of each `SuppressedError` that nobody catches and that has an error of a kind. The process still
 * fails by it: runtimes only let monitors know.
 */
export function printSuppressed(isOfKind: (error: unknown) => boolean): void {
  if (printed.has(isOfKind)) return;
  printed.add(isOfKind);
  const { process } = globalThis as unknown as { process?: Process };
  process?.on?.("uncaughtExceptionMonitor", (error) => {
    const parts = partsOf(error);
    if (parts.length < 2 || !parts.some(isOfKind)) return;
    console.error("poolpass sanitizer: the SuppressedError is made of these errors, in the order they were thrown:");
    for (const part of parts) console.error(part);
  });
}

/** The errors that a `SuppressedError` is made of, in the order in which they were thrown. */
function partsOf(error: unknown): unknown[] {
  if (!(error instanceof Error) || error.name !== "SuppressedError") return [error];
  const { error: later, suppressed } = error as SuppressedError;
  return [...partsOf(suppressed), ...partsOf(later)];
}
