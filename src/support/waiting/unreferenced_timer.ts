/** A timer that does not keep the process alive. */
export class UnreferencedTimer {
  readonly #callback: () => void;
  readonly #milliseconds: number;
  #timer: { unref(): void } | undefined;

  constructor(callback: () => void, milliseconds: number) {
    this.#callback = callback;
    this.#milliseconds = milliseconds;
  }

  /** Starts the timer, which calls back once. Does nothing if the timer is running already. */
  start(): void {
    if (this.#timer !== undefined) return;
    // setTimeout returns an object in all three runtimes, but a number according to the standard library's types.
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
