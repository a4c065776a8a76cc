/**
 * Imported pools that are no longer in use and wait to be destroyed.
 *
 * @module
 */
import type { ImportedMemoryPool } from "../../memory/handles/imported_memory_pool.ts";
import { ignoreLoss } from "../../support/driver_errors.ts";

/**
 * The maximum number of pools waiting to be destroyed with which another pool may be imported when few descriptors are
 * left.
 */
const maximumEnding = 2;
/**
 * The maximum time, in milliseconds, that an import waits for pools to be destroyed. Work that never completes may
 * delay their destruction.
 */
const roomTimeout = 5000;

/**
 * Destroys imported pools once the device has executed all pending frees of their memory. Destroying a pool earlier
 * would block.
 */
export class EndingPools {
  readonly #finished: () => Promise<void>;
  /** Returns whether some memory could not be released. If so, the pools must not be destroyed. */
  readonly #isStuck: () => boolean;
  readonly #ending = new Set<Promise<void>>();

  constructor({ finished, isStuck }: { finished: () => Promise<void>; isStuck: () => boolean }) {
    this.#finished = finished;
    this.#isStuck = isStuck;
  }

  /** Whether too many pools are waiting to be destroyed for an import to proceed when few descriptors are left. */
  get areMany(): boolean {
    return this.#ending.size > maximumEnding;
  }

  /** Destroys a pool once the device has executed its pending frees. */
  add(pool: ImportedMemoryPool): void {
    const ending = this.#finished().then(() => {
      this.#ending.delete(ending);
      if (!this.#isStuck()) ignoreLoss(() => pool[Symbol.dispose]());
    });
    this.#ending.add(ending);
  }

  /**
   * Calls `callback` once one of the pools is destroyed, or after 5 seconds. Returns a function that cancels the call.
   */
  whenFewer(callback: () => void): () => void {
    let isCanceled = false;
    const once = (): void => {
      clearTimeout(timer);
      if (!isCanceled) callback();
      isCanceled = true;
    };
    const timer = setTimeout(once, roomTimeout);
    void Promise.race(this.#ending).then(once);
    return () => {
      isCanceled = true;
      clearTimeout(timer);
    };
  }

  /** Resolves once all pools are destroyed. */
  async ended(): Promise<void> {
    await Promise.all(this.#ending);
  }
}
