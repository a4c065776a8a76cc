import { abortError } from "./abort_error.ts";

/** A mutex that serves its waiters in the order in which they came. */
export class Mutex {
  #isLocked = false;
  readonly #waiting: (() => void)[] = [];

  /** Acquires the mutex if it is free. Returns whether it was. */
  tryAcquire(): boolean {
    if (this.#isLocked) return false;
    this.#isLocked = true;
    return true;
  }

  /**
   * Waits for the mutex and acquires it.
   *
   * @param signals the first to be aborted rejects the wait, as `abortError` says
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
