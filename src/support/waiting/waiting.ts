/**
 * Waiting: the options and errors of a wait, the next turn of the event loop, and a mutex.
 *
 * @module
 */
import { escapeControls } from "../printing.ts";
import { EndedError } from "../driver_errors.ts";
import { checkOptions, type KnownOptions, whatIs } from "../validation.ts";
import { startStackAtProgram, TypeError } from "../program_errors.ts";

/**
 * Returns the error with which a wait rejects when its signal is aborted.
 *
 * If an application aborts with an error of its own, the wait rejects with that error, as in every web API. The
 * runtime's own reasons, `AbortError` and `TimeoutError`, do not state what was awaited, and one signal often ends
 * several waits. So each wait rejects with a new error of the same name that states what was awaited. As in Node's own
 * APIs, its `cause` is the signal's reason. The signal's reason itself is never changed, because other waits may use
 * the same signal.
 *
 * @param awaited what is awaited, such as `"offer \"weights\" of process 12"`; if undefined, returns the reason
 * @param why returns why the wait had not ended, if that is known
 */
export function abortError(reason: unknown, awaited: string | undefined, why?: () => string | undefined): unknown {
  if (
    awaited === undefined || !(reason instanceof DOMException) ||
    (reason.name !== "AbortError" && reason.name !== "TimeoutError")
  ) {
    return reason;
  }
  const what = reason.name === "TimeoutError" ? "timed out" : "was aborted";
  const because = why?.();
  const text = `Waiting for ${awaited} ${what}${because === undefined ? "" : `: ${because}`}`;
  const error = new DOMException(escapeControls(text), reason.name);
  return Object.defineProperty(error, "cause", { value: reason, configurable: true, writable: true });
}

/** Calls `callback` in the next turn of the event loop, without the delay of a timer. */
export function atNextTurn(callback: () => void): void {
  // All three runtimes have setImmediate, but the standard library's types do not declare it.
  const { setImmediate } = globalThis as unknown as { setImmediate(callback: () => void): void };
  setImmediate(callback);
}

/** Resolves at the next turn of the event loop. */
export function nextTurn(): Promise<void> {
  return new Promise(atNextTurn);
}

/** Options for ending a wait early. */
export interface WaitOptions {
  /**
   * Ends the wait but not the work: the promise rejects with the signal's reason, or, in place of the runtime's own
   * `AbortError` or `TimeoutError`, with an error of the same name that states what was awaited and has the reason as
   * its `cause`.
   */
  signal?: AbortSignal;
}

/**
 * Describes the options of a function whose only option is `signal`, for validation by `checkOptions`. In error
 * messages, `action` follows "Cannot".
 */
export function waitOptionsOf(action: string): KnownOptions<WaitOptions> {
  return {
    action,
    names: { signal: true },
    instead: { timeout: "give { signal: AbortSignal.timeout(milliseconds) }" },
    meantBy: (value) => typeof value === "number" ? `{ signal: AbortSignal.timeout(${value}) }` : undefined,
  };
}

/** Describes the options of a wait, for validation by `checkOptions`. */
export const waitOptions: KnownOptions<WaitOptions> = waitOptionsOf("wait");

interface Wait {
  readonly isDone: () => boolean;
  readonly callback: (error?: unknown) => void;
}

const eagerMilliseconds = 2;
const intervalMilliseconds = 1;

const waits = new Set<Wait>();
/**
 * The `performance.now()` time until which pending waits are polled in every turn of the event loop. After that time, a
 * timer polls them.
 */
let eagerEnd = 0;
let isNextTurnAwaited = false;
let timer: ReturnType<typeof setTimeout> | undefined;

/**
 * Resolves once `isDone` returns true. Rejects with the error that `isDone` throws, or with an aborted signal's reason.
 *
 * @param describe returns what is awaited, for `errorOfWait`; without it, the caller must call `errorOfWait` itself
 */
export async function waitUntil(
  isDone: () => boolean,
  options: WaitOptions = {},
  describe?: () => string,
): Promise<void> {
  checkOptions(options, waitOptions);
  const { signal } = options;
  if (signal !== undefined) throwIfAborted(signal, describe?.());
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onAbort = () => reject(signal!.reason);
  signal?.addEventListener("abort", onAbort);
  const cancel = whenDone(isDone, (error) => error === undefined ? resolve() : reject(error));
  try {
    await promise;
  } catch (error) {
    throw describe === undefined ? error : errorOfWait(error, describe(), options);
  } finally {
    cancel();
    signal?.removeEventListener("abort", onAbort);
  }
}

/**
 * Returns the error with which to reject when a wait for the device has failed. The error states what was awaited if
 * the signal was aborted with the runtime's own `AbortError` or `TimeoutError`, or if the `Cuda` object was disposed.
 *
 * @param awaited what is awaited, such as `"a stream of device 0"`
 * @param why returns why the wait had not ended, if that is known
 */
export function errorOfWait(
  error: unknown,
  awaited: string,
  { signal }: WaitOptions = {},
  why?: () => string | undefined,
): unknown {
  if (error instanceof EndedError) return disposedMeanwhile(`complete the wait for ${awaited}`, "the Cuda object");
  if (signal?.aborted !== true) return error;
  // If the error comes from a nested wait, it may already state what was awaited.
  const isNamed = error instanceof DOMException && (error as Error).cause === signal.reason;
  return isNamed || error === signal.reason ? abortError(signal.reason, awaited, why) : error;
}

/**
 * Returns the error of a wait that was interrupted because an object, described by `disposed`, was disposed. `what` is
 * the failed action, phrased to follow "Cannot".
 */
export function disposedMeanwhile(what: string, disposed: string): ReferenceError {
  return startStackAtProgram(
    new EndedError(
      `Cannot ${
        escapeControls(what)
      }: ${disposed} was disposed while it was still waiting; await it before the end of the block`,
    ),
  );
}

/**
 * Calls `callback` once: without an error when `isDone` returns true, or with the error that `isDone` throws. Polls
 * `isDone` immediately, so `callback` may run before this returns. Returns a function that cancels the wait.
 */
export function whenDone(isDone: () => boolean, callback: (error?: unknown) => void): () => void {
  const wait: Wait = { isDone, callback };
  if (poll(wait)) return () => {};
  waits.add(wait);
  becomeEager();
  return () => {
    if (waits.delete(wait) && waits.size === 0) stopTimer();
  };
}

/** Polls a wait. If the wait has ended, calls its callback. Returns whether the wait has ended. */
function poll(wait: Wait): boolean {
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

function pollAll(): void {
  try {
    // A wait started by a callback was polled already, and a wait canceled by a callback must not be polled again.
    for (const wait of [...waits]) if (waits.has(wait) && poll(wait)) eagerEnd = performance.now() + eagerMilliseconds;
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
      pollAll();
    });
  } else {
    timer = setTimeout(() => {
      timer = undefined;
      pollAll();
    }, intervalMilliseconds);
  }
}

function stopTimer(): void {
  clearTimeout(timer);
  timer = undefined;
}

/**
 * Throws the reason of an aborted signal, and a `TypeError` if `signal` is not a signal.
 *
 * @param awaited what is awaited, for the error of an aborted wait
 * @param why returns why the wait has not ended, if that is known
 */
export function throwIfAborted(
  signal: AbortSignal | null | undefined,
  awaited?: string,
  why?: () => string | undefined,
): void {
  // Accepts null, as web APIs do.
  if (signal === undefined || signal === null) return;
  if (typeof signal.throwIfAborted !== "function") {
    throw new TypeError(
      `Cannot use ${whatIs(signal)} as a signal: give an AbortSignal, such as an AbortController's signal`,
    );
  }
  if (signal.aborted) throw abortError(signal.reason, awaited, why);
}

/** A mutex that serves waiters in the order of their calls. */
export class Mutex {
  #isLocked = false;
  readonly #waiting: (() => void)[] = [];

  /** Acquires the mutex if it is unlocked. Returns whether the mutex was acquired. */
  tryAcquire(): boolean {
    if (this.#isLocked) return false;
    this.#isLocked = true;
    return true;
  }

  /**
   * Waits for the mutex and acquires it.
   *
   * @param signals when any of them is aborted, the wait rejects with the error of `abortError`
   * @param awaited what is awaited, for the error of an aborted wait
   */
  acquire(signals: readonly (AbortSignal | undefined)[], awaited?: string): Promise<void> {
    return new Promise((resolve, reject) => {
      for (const signal of signals) if (signal?.aborted) return reject(abortError(signal.reason, awaited));
      if (this.tryAcquire()) return resolve();
      const grant = (): void => {
        unsubscribe();
        resolve();
      };
      const unsubscribe = (): void => {
        for (const signal of signals) signal?.removeEventListener("abort", onAbort);
      };
      const onAbort = (event: Event): void => {
        unsubscribe();
        this.#waiting.splice(this.#waiting.indexOf(grant), 1);
        reject(abortError((event.target as AbortSignal).reason, awaited));
      };
      for (const signal of signals) signal?.addEventListener("abort", onAbort);
      this.#waiting.push(grant);
    });
  }

  /** Releases the mutex, or passes it to the waiter that has waited longest. */
  release(): void {
    const grantNext = this.#waiting.shift();
    if (grantNext === undefined) this.#isLocked = false;
    else grantNext();
  }
}

/** The lanes of `moveInLanes`, and what they do. */
interface LaneMoves<Piece, Lane> {
  readonly lanes: readonly Lane[];
  readonly signal: AbortSignal | undefined;
  /** What is moved, for the error of an aborted signal. */
  readonly what: string;
  readonly move: (piece: Piece, lane: Lane) => Promise<void>;
  /** Waits until a lane whose move has failed no longer uses its resources. */
  readonly settle: (lane: Lane) => Promise<void>;
}

/**
 * Moves all pieces; each lane moves one piece at a time. If a piece fails, rejects with the first error, but only after
 * all lanes have stopped using their resources.
 */
export async function moveInLanes<Piece, Lane>(
  pieces: Iterable<Piece>,
  { lanes, signal, what, move, settle }: LaneMoves<Piece, Lane>,
): Promise<void> {
  const left = pieces[Symbol.iterator]();
  let isFailed = false;
  const outcomes = await Promise.allSettled(lanes.map(async (lane) => {
    try {
      while (!isFailed) {
        const { value, done } = left.next();
        if (done === true) return;
        throwIfAborted(signal, what);
        await move(value, lane);
      }
    } catch (error) {
      isFailed = true;
      await settle(lane).catch(() => {});
      throw error;
    }
  }));
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
}
