/** The longest delay of `setTimeout`, which takes longer ones for 1. */
const longestDelay = 2 ** 31 - 1;

/** A timer for deadlines that are seldom reached: one serves many. It does not keep the process alive. */
export class HoldTimer {
  readonly #milliseconds: number;
  readonly #callback: () => number | undefined;
  #isRunning = false;

  /**
   * @param milliseconds may be Infinity: the timer then never starts
   * @param callback may return the milliseconds after which it is to be called again
   */
  constructor(milliseconds: number, callback: () => number | undefined) {
    this.#milliseconds = milliseconds;
    this.#callback = callback;
  }

  /** Starts the timer. Does nothing if it is running already. */
  start(): void {
    if (this.#isRunning || this.#milliseconds === Infinity) return;
    this.#isRunning = true;
    this.#wait(this.#milliseconds);
  }

  #wait(milliseconds: number): void {
    // setTimeout returns an object in all three runtimes, but a number according to the standard library's types.
    const timer = setTimeout(() => {
      const rest = this.#callback();
      if (rest === undefined) this.#isRunning = false;
      else this.#wait(rest);
    }, Math.min(Math.ceil(milliseconds), longestDelay)) as unknown as { unref(): void };
    timer.unref();
  }
}
