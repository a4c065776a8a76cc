/**
 * First come, first served.
 *
 * @module
 */

/** One turn at a time, in the order in which they were asked for. */
export class Mutex {
  #taken = false;
  readonly #waiting: (() => void)[] = [];

  /** Takes the turn if it is free. */
  tryAcquire(): boolean {
    if (this.#taken) return false;
    this.#taken = true;
    return true;
  }

  /**
   * Waits for the turn and takes it.
   *
   * @param signals each of them, once aborted, rejects the wait with its reason
   */
  acquire(signals: readonly (AbortSignal | undefined)[]): Promise<void> {
    return new Promise((resolve, reject) => {
      for (const signal of signals) if (signal?.aborted) return reject(signal.reason);
      if (this.tryAcquire()) return resolve();
      const turn = (): void => {
        forget();
        resolve();
      };
      const forget = (): void => {
        for (const signal of signals) signal?.removeEventListener("abort", onAbort);
      };
      const onAbort = (event: Event): void => {
        forget();
        this.#waiting.splice(this.#waiting.indexOf(turn), 1);
        reject((event.target as AbortSignal).reason);
      };
      for (const signal of signals) signal?.addEventListener("abort", onAbort);
      this.#waiting.push(turn);
    });
  }

  /** Ends the turn: it goes to whoever has waited longest. */
  release(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#taken = false;
    else next();
  }
}
