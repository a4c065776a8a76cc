/**
 * Waiting for a name's first generation.
 *
 * @module
 */

/** A waiter for a name. Kept small, because there may be many. */
export interface NameWaiter {
  /** Tries again. Returns whether the wait is over. */
  attempt(): boolean;
}

/** The names that requests wait for. */
export class AwaitedNames {
  /** Most names have one waiter, which needs no set. */
  readonly #waiters = new Map<string, NameWaiter | Set<NameWaiter>>();

  /** Adds a waiter for a name. */
  add(name: string, waiter: NameWaiter): void {
    const waiting = this.#waiters.get(name);
    if (waiting instanceof Set) waiting.add(waiter);
    else this.#waiters.set(name, waiting === undefined ? waiter : new Set([waiting, waiter]));
  }

  /** Removes a waiter. */
  delete(name: string, waiter: NameWaiter): void {
    const waiting = this.#waiters.get(name);
    if (waiting instanceof Set && waiting.delete(waiter) && waiting.size > 0) return;
    if (waiting === waiter || waiting instanceof Set && waiting.size === 0) this.#waiters.delete(name);
  }

  /** Lets the waiters for a name try again, in a later microtask. */
  notify(name: string): void {
    if (!this.#waiters.has(name)) return;
    queueMicrotask(() => {
      const waiting = this.#waiters.get(name);
      for (const waiter of waiting instanceof Set ? [...waiting] : waiting === undefined ? [] : [waiting]) {
        if (waiter.attempt()) this.delete(name, waiter);
      }
    });
  }
}
