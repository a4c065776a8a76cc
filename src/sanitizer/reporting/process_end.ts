/**
 * Sets the exit code of the process, calls listeners at its end, and prints suppressed errors.
 *
 * @module
 */

interface Globals {
  process?: {
    on?(name: "exit" | "uncaughtExceptionMonitor", listener: (code: unknown) => void): void;
    listenerCount?(name: "uncaughtException"): number;
  };
  Deno?: { permissions?: unknown };
  addEventListener?(name: "unload", listener: () => void): void;
}

interface Process {
  exitCode?: number | string | undefined;
}

/** The objects that were passed to `letProcessFail`, but have not been passed to `letProcessSucceed` yet. */
const failing = new Set<object>();
/** Whether this module has set the exit code to 1. */
let isFailing = false;
/** The exit code that the program had set before this module changed it. */
let exitCodeBefore: number | string | undefined;

/** Makes the process exit with code 1, unless `letProcessSucceed` is called with the same object before it exits. */
export function letProcessFail(who: object): void {
  failing.add(who);
  setExitCode();
}

/** Reverts the call of `letProcessFail` with the same object. */
export function letProcessSucceed(who: object): void {
  failing.delete(who);
  setExitCode();
}

function setExitCode(): void {
  const { process } = globalThis as unknown as { process?: Process };
  if (process === undefined || (failing.size > 0) === isFailing) return;
  isFailing = failing.size > 0;
  if (isFailing) exitCodeBefore = process.exitCode;
  // Restore 0 instead of undefined: Bun ignores an assignment of undefined.
  process.exitCode = isFailing ? 1 : exitCodeBefore ?? 0;
}

/**
 * Called when the process exits.
 *
 * @param hasFailed whether the process fails for a reason other than `letProcessFail`
 */
export type EndListener = (hasFailed: boolean) => void;

/** The listeners, in the order in which they are called. Undefined until the first listener is added. */
let listeners: Set<EndListener> | undefined;

/**
 * Adds a listener that is called once when the process exits, unless the process is killed. Returns a function that
 * removes the listener.
 */
export function atProcessEnd(listener: EndListener): () => void {
  listeners ??= listen();
  const own: EndListener = (hasFailed) => listener(hasFailed);
  listeners.add(own);
  return () => void listeners?.delete(own);
}

function listen(): Set<EndListener> {
  const all = new Set<EndListener>();
  const run = (code?: unknown) => {
    const hasFailed = typeof code === "number" && code !== 0 && !isFailing;
    for (const listener of all) {
      all.delete(listener);
      listener(hasFailed);
    }
  };
  const globals = globalThis as unknown as Globals;
  globals.process?.on?.("exit", run);
  if (globals.Deno?.permissions !== undefined) {
    // Also listen for "unload": `Deno.exit` and `deno test` do not emit "exit".
    globals.addEventListener?.("unload", run);
    // Also listen for uncaught errors, which terminate the process without "unload".
    globals.process?.on?.("uncaughtExceptionMonitor", () => {
      if (globals.process?.listenerCount?.("uncaughtException") === 0) run(1);
    });
  }
  return all;
}

/** The predicates passed to `printSuppressed`, so that each is registered only once. */
const printed = new Set<(error: unknown) => boolean>();

/**
 * Prints the errors contained in an uncaught `SuppressedError`, from now on, if `isOfKind` returns true for one of
 * them. JavaScript throws a `SuppressedError` if an error ends a `using` block and the disposal throws another error.
 * Runtimes print neither of the two errors. The process still fails with the uncaught error, because an
 * `uncaughtExceptionMonitor` listener does not handle the error.
 *
 * @param isOfKind the predicate that at least one of the contained errors must satisfy
 */
export function printSuppressed(isOfKind: (error: unknown) => boolean): void {
  if (printed.has(isOfKind)) return;
  printed.add(isOfKind);
  const { process } = globalThis as unknown as Globals;
  process?.on?.("uncaughtExceptionMonitor", (error) => {
    const parts = partsOf(error);
    if (parts.length < 2 || !parts.some(isOfKind)) return;
    console.error("poolpass sanitizer: the SuppressedError is made of these errors, in the order they were thrown:");
    for (const part of parts) console.error(part);
  });
}

/**
 * Returns the errors contained in a `SuppressedError`, in the order in which they were thrown. For any other error, the
 * returned array contains only that error.
 */
function partsOf(error: unknown): unknown[] {
  if (!(error instanceof Error) || error.name !== "SuppressedError") return [error];
  const { error: later, suppressed } = error as SuppressedError;
  return [...partsOf(suppressed), ...partsOf(later)];
}
