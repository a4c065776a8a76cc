/**
 * Waiting for another process, which tells nobody when it is done: neither burns a processor.
 *
 * @module
 */

const pauseMilliseconds = 0.2;

let unchanging: Int32Array<SharedArrayBuffer> | undefined;

/** Blocks for a moment. */
export function pause(): void {
  unchanging ??= new Int32Array(new SharedArrayBuffer(4));
  Atomics.wait(unchanging, 0, 0, pauseMilliseconds);
}

/** A timer that does not keep the process alive. */
export class UnreferencedTimer {
  readonly #callback: () => void;
  readonly #milliseconds: number;
  #timer: { unref(): void } | undefined;

  constructor(callback: () => void, milliseconds: number) {
    this.#callback = callback;
    this.#milliseconds = milliseconds;
  }

  /** Calls back once, when the time is over; it does not begin anew where this was called before. */
  start(): void {
    if (this.#timer !== undefined) return;
    // All three runtimes give an object; the standard library's types do not.
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#callback();
    }, this.#milliseconds) as unknown as { unref(): void };
    this.#timer.unref();
  }

  stop(): void {
    clearTimeout(this.#timer as unknown as number);
    this.#timer = undefined;
  }
}
