/**
 * Imported pools that nothing maps any longer, until they are destroyed.
 *
 * @module
 */
import type { ImportedMemoryPool } from "../../memory/handles/imported_memory_pool.ts";
import { ignoreLoss } from "../../support/driver_errors.ts";

/** The maximum number of pools to be destroyed while a further pool is imported and few descriptors are left. */
const maximumEnding = 2;
/** Milliseconds for which an import waits for other pools to be destroyed. Work that never ends may delay them. */
const roomTimeout = 5000;

/** Destroys imported pools once the device has executed the frees in them: destroying a pool earlier would block. */
export class EndingPools {
  readonly #finished: () => Promise<void>;
  /** Returns whether memory could not be released. The pools that contain it must not be destroyed. */
  readonly #isStuck: () => boolean;
  readonly #ending = new Set<Promise<void>>();

  constructor({ finished, isStuck }: { finished: () => Promise<void>; isStuck: () => boolean }) {
    this.#finished = finished;
    this.#isStuck = isStuck;
  }

  /** Whether so many pools are to be destroyed that an import waits for them if few descriptors are left. */
  get areMany(): boolean {
    return this.#ending.size > maximumEnding;
  }

  /** Destroys a pool once its frees are complete. */
  add(pool: ImportedMemoryPool): void {
    const ending = this.#finished().then(() => {
      this.#ending.delete(ending);
      if (!this.#isStuck()) ignoreLoss(() => pool[Symbol.dispose]());
    });
    this.#ending.add(ending);
  }

  /** Calls `callback` once one of the pools is destroyed, or after 5 seconds. Returns a function that cancels this. */
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
