/**
 * Time slices: how many blocks a thread runs before it looks at the time.
 *
 * @module
 */

/** The length of a time slice of the main thread, in milliseconds. */
export const sliceMilliseconds = 4;

/**
 * Chooses the number of blocks that one call of the kernel runs. The elapsed time is measured after each call, so one
 * call should only take a fraction of a time slice.
 */
export class Pace {
  /** The length of a slice in milliseconds. If it is 0, each slice runs exactly one block. */
  milliseconds: number;
  #count = 1;
  #start = 0;
  #elapsed = 0;

  constructor(milliseconds: number) {
    this.milliseconds = milliseconds;
  }

  /** The number of blocks to run next. */
  get count(): number {
    return this.#count;
  }

  /** The time in milliseconds from the beginning of the slice to the last call of `isOver`. */
  get elapsed(): number {
    return this.#elapsed;
  }

  /** Starts a time slice. */
  begin(): void {
    this.#start = performance.now();
  }

  /**
   * Returns whether the time slice is over. Increases the number of blocks per call if only a small part of the slice
   * has passed.
   */
  isOver(): boolean {
    const slice = this.milliseconds;
    if (slice === 0) return true;
    const elapsed = this.#elapsed = performance.now() - this.#start;
    if (elapsed < slice / 4) {
      // Measuring the time takes about as long as running an empty block, so the number of blocks per call grows faster
      // if hardly any time has passed.
      const factor = elapsed < slice / 32 ? 8 : 2;
      this.#count = Math.min(this.#count * factor, 2 ** 24);
    }
    return elapsed > slice;
  }
}
