/**
 * The one place where the library waits for a GPU without blocking the event loop.
 *
 * CUDA has no descriptor to wait on, and a native call parked for each stream would use up the runtime's few threads:
 * so the driver is asked again and again, for all that is waited for at once: at every turn of the event loop for two
 * milliseconds after a wait began or ended, and then once in a millisecond. Nothing runs while nobody waits. A wait that
 * is pending keeps the process alive.
 *
 * @module
 */

import { atNextTurn } from "./turn.ts";
import { checkOptions, whatIs } from "../validation.ts";

/** May be ended early. */
export interface WaitOptions {
  /** Ends the wait, not the work: the promise rejects with the signal's reason. */
  signal?: AbortSignal;
}

interface Wait {
  readonly isDone: () => boolean;
  readonly callback: (error?: unknown) => void;
}

const eagerMilliseconds = 2;
const intervalMilliseconds = 1;

const waits = new Set<Wait>();
/** Until when the conditions are looked at in every turn, in milliseconds. */
let eagerEnd = 0;
let isNextTurnAwaited = false;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Resolves once `isDone` returns true. Rejects with what it throws, and at once with the reason of an aborted signal. */
export async function waitUntil(isDone: () => boolean, options: WaitOptions = {}): Promise<void> {
  checkOptions(options, "a wait");
  const { signal } = options;
  throwIfAborted(signal);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onAbort = () => reject(signal!.reason);
  signal?.addEventListener("abort", onAbort);
  const cancel = whenDone(isDone, (error) => error === undefined ? resolve() : reject(error));
  try {
    await promise;
  } finally {
    cancel();
    signal?.removeEventListener("abort", onAbort);
  }
}

/**
 * Calls back once when `isDone` has returned true, or with what it has thrown: before this returns, where that is so at
 * the first look. The function that it returns cancels.
 */
export function whenDone(isDone: () => boolean, callback: (error?: unknown) => void): () => void {
  const wait: Wait = { isDone, callback };
  if (look(wait)) return () => {};
  waits.add(wait);
  becomeEager();
  return () => {
    if (waits.delete(wait) && waits.size === 0) stopTimer();
  };
}

/** Whether the wait is at its end, which its callback then has been told. */
function look(wait: Wait): boolean {
  let error: unknown;
  try {
    if (!wait.isDone()) return false;
  } catch (thrown) {
    error = thrown;
  }
  waits.delete(wait);
  wait.callback(error);
  return true;
}

function lookAtAll(): void {
  try {
    // What begins in a callback has been looked at already, and what one cancels is not looked at any more.
    for (const wait of [...waits]) if (waits.has(wait) && look(wait)) eagerEnd = performance.now() + eagerMilliseconds;
  } finally {
    schedule();
  }
}

function becomeEager(): void {
  eagerEnd = performance.now() + eagerMilliseconds;
  stopTimer();
  schedule();
}

function schedule(): void {
  if (waits.size === 0 || isNextTurnAwaited || timer !== undefined) return;
  if (performance.now() < eagerEnd) {
    isNextTurnAwaited = true;
    atNextTurn(() => {
      isNextTurnAwaited = false;
      lookAtAll();
    });
  } else {
    timer = setTimeout(() => {
      timer = undefined;
      lookAtAll();
    }, intervalMilliseconds);
  }
}

function stopTimer(): void {
  clearTimeout(timer);
  timer = undefined;
}

/** Throws the reason of a signal that is aborted, and a `TypeError` for what is no signal. */
export function throwIfAborted(signal: AbortSignal | null | undefined): void {
  // The web's own functions take null as well.
  if (signal === undefined || signal === null) return;
  if (typeof signal.throwIfAborted !== "function") {
    throw new TypeError(`Cannot use ${whatIs(signal)} as a signal: give an AbortSignal, as a controller's signal is`);
  }
  signal.throwIfAborted();
}
