/**
 * Waiting for a name's first generation.
 *
 * @module
 */
import { abortable } from "../../../support/waiting/abortable.ts";

/** The names that somebody waits for. */
export class AwaitedNames {
  readonly #waiters = new Map<string, Set<() => void>>();

  /** Resolves when something is published under a name. */
  async whenPublished(name: string, signal: AbortSignal): Promise<void> {
    const waiters = this.#waiters.get(name) ?? new Set();
    this.#waiters.set(name, waiters);
    try {
      await abortable((resolve) => {
        const notify = () => resolve();
        waiters.add(notify);
        return () => void waiters.delete(notify);
      }, { signal });
    } finally {
      if (waiters.size === 0 && this.#waiters.get(name) === waiters) this.#waiters.delete(name);
    }
  }

  /** Notifies those who wait for a name. */
  notify(name: string): void {
    for (const notify of [...this.#waiters.get(name) ?? []]) notify();
  }
}
