import { ignoreLoss } from "../driver_errors.ts";
import { Timer } from "./timer.ts";

/** Pending work of a device that a release waits for. */
export interface AwaitedWork {
  /** Whether the work is done, or its device is lost. */
  readonly isComplete: boolean;
}

interface DeferredRelease {
  readonly work: readonly AwaitedWork[];
  readonly release: () => void;
}

const pollMilliseconds = 10;
/**
 * The number of earlier releases that are polled whenever one is added, so that releases do not accumulate in a program
 * that never waits.
 */
const polledByNew = 2;

/**
 * Releases that wait for a device's work without blocking. They are polled by a timer that does not keep the process
 * alive, and some of them whenever another release is added.
 */
export class DeferredReleases {
  readonly #releases = new Set<DeferredRelease>();
  readonly #timer = new Timer(() => this.poll(), pollMilliseconds, { unref: true });

  /** Calls `release` when all of the work is complete, but never before `add` returns. */
  add(work: readonly AwaitedWork[], release: () => void): void {
    this.poll(polledByNew);
    this.#releases.add({ work, release });
    this.#timer.start();
  }

  /**
   * Runs the releases whose work is complete. Prints the error of a release that throws, because the caller that could
   * catch the error has already returned.
   */
  poll(limit: number = Infinity): void {
    for (const deferred of this.#releases.values().take(limit).toArray()) {
      if (!this.#releases.delete(deferred)) continue;
      try {
        if (deferred.work.every(({ isComplete }) => isComplete)) ignoreLoss(deferred.release);
        else this.#releases.add(deferred);
      } catch (error) {
        console.warn("poolpass:", error);
      }
    }
    if (this.#releases.size > 0) this.#timer.start();
    else this.#timer.stop();
  }

  /** Drops all pending releases without calling them. */
  clear(): void {
    this.#releases.clear();
    this.#timer.stop();
  }
}
