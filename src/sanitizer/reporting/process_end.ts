/**
 * The end of a process.
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

/** Those who want the process to fail. */
const failing = new Set<object>();
let isFailing = false;
let exitCodeBefore: number | string | undefined;

/** Lets the process fail, whenever it ends, until `letProcessSucceed`. */
export function letProcessFail(who: object): void {
  failing.add(who);
  setExitCode();
}

/** Gives up that somebody wants the process to fail. */
export function letProcessSucceed(who: object): void {
  failing.delete(who);
  setExitCode();
}

function setExitCode(): void {
  const { process } = globalThis as unknown as { process?: Process };
  if (process === undefined || (failing.size > 0) === isFailing) return;
  isFailing = failing.size > 0;
  if (isFailing) exitCodeBefore = process.exitCode;
  // Bun keeps the code if it is set to undefined.
  process.exitCode = isFailing ? 1 : exitCodeBefore ?? 0;
}

/** Called when the process ends, with whether it fails for another reason than a sanitizer's. */
export type EndListener = (hasFailed: boolean) => void;

/** What is to be called, in order. */
let listeners: Set<EndListener> | undefined;

/** Calls back once when the process ends, unless it is killed. Returns a function that gives that up. */
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
    // `Deno.exit` and `deno test` tell nobody else.
    globals.addEventListener?.("unload", run);
    // An error that nobody catches ends the process without telling of that.
    globals.process?.on?.("uncaughtExceptionMonitor", () => {
      if (globals.process?.listenerCount?.("uncaughtException") === 0) run(1);
    });
  }
  return all;
}
