/**
 * Timers, and pauses between attempts.
 *
 * @module
 */
import { abortError, throwIfAborted } from "./waiting.ts";

/** The maximum delay of `setTimeout` in milliseconds. The runtimes treat longer delays as 1 ms. */
const longestDelay = 2 ** 31 - 1;
/** The time in milliseconds between polls of another process. */
export const pauseMilliseconds = 0.2;

/** A timer that can be started repeatedly. */
export class Timer {
  readonly #callback: () => number | void;
  readonly #milliseconds: number;
  readonly #isUnreferenced: boolean;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /**
   * @param callback may return a delay in milliseconds, after which it is called again
   * @param milliseconds the default delay; with Infinity, the timer never starts
   * @param options.unref whether the timer lets the process exit
   */
  constructor(callback: () => number | void, milliseconds: number, { unref = false }: { unref?: boolean } = {}) {
    this.#callback = callback;
    this.#milliseconds = milliseconds;
    this.#isUnreferenced = unref;
  }

  /** Whether the timer was started and has not fired since. */
  get isRunning(): boolean {
    return this.#timer !== undefined;
  }

  /** Starts the timer, which fires once. Does nothing if the timer is already running. */
  start(milliseconds: number = this.#milliseconds): void {
    if (this.#timer !== undefined || milliseconds === Infinity) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      const rest = this.#callback();
      if (rest === undefined) return;
      this.stop();
      this.start(Math.ceil(rest));
    }, Math.min(milliseconds, longestDelay));
    // setTimeout returns an object in all three runtimes, but a number according to the standard library's types.
    if (this.#isUnreferenced) (this.#timer as unknown as { unref(): void }).unref();
  }

  stop(): void {
    // The first call of a timer function loads some of Deno's own modules, which takes 8 ms. Avoid the call if no timer
    // was started.
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

/**
 * Resolves after `milliseconds`.
 *
 * @param awaited what is awaited, for the error message if the signal is aborted
 * @throws if the signal is aborted: the signal's reason, or an error whose `cause` is the reason
 */
export function delay(milliseconds: number, signal?: AbortSignal | null, awaited?: string): Promise<void> {
  return new Promise((resolve, reject) => {
    throwIfAborted(signal, awaited);
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, milliseconds);
    function onAbort(): void {
      clearTimeout(timer);
      reject(abortError(signal!.reason, awaited));
    }
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** A shared integer that is always 0, so that `Atomics.wait` on it always waits until the timeout. */
let neverChanged: Int32Array<SharedArrayBuffer> | undefined;

/**
 * Blocks the thread for the given time, by default 0.2 milliseconds, without using the CPU. Called between polls of
 * another process.
 */
export function pause(milliseconds: number = pauseMilliseconds): void {
  neverChanged ??= new Int32Array(new SharedArrayBuffer(4));
  Atomics.wait(neverChanged, 0, 0, milliseconds);
}
