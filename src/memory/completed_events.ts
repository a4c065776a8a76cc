import type { Driver } from "../driver.ts";
import { ignoreLoss } from "../support/driver_errors.ts";

/** A stream or an event of the application. */
export interface Waitable {
  query(): boolean;
  synchronize(): void;
}

/** What destroys markers: the session. */
interface MarkerOwner {
  readonly driver: Driver;
  withoutCollectiveErrors<Result>(wait: () => Result): Result;
  destroyMarker(marker: bigint): void;
}

/** Once so many events are kept after their disposal, they are synchronized with and destroyed. */
const maxKeptEvents = 64;

/**
 * What a program has found complete without a synchronization, as `finished`, `read` and `query` do.
 *
 * CUDA's pools count memory as free only once a synchronization has found its free complete; a query is none. A
 * synchronization takes mappings apart and releases memory to the system, which takes 0.1 ms and more, so a wait does
 * not make one. Instead, `synchronize` makes up for all of them when it matters: before a pool is trimmed, when its usage
 * is requested, and when it has no memory left.
 *
 * A stream that has more work by then, and an event that was recorded again, do not count: they are no longer complete.
 */
export class CompletedEvents {
  readonly #session: MarkerOwner;
  readonly #markers = new Set<bigint>();
  /** Complete events of the application that it has disposed. They are markers of the session now. */
  readonly #keptEvents = new Set<bigint>();
  readonly #waitables = new Set<Waitable>();
  /** The one that was added last, which a loop of queries adds again and again. */
  #last: Waitable | undefined;

  constructor(session: MarkerOwner) {
    this.#session = session;
  }

  /** Adds a marker of the library's own, which is complete. It must not be recorded again before `deleteMarker`. */
  addMarker(marker: bigint): void {
    this.#markers.add(marker);
  }

  /** Removes a marker that is about to be recorded again or destroyed. */
  deleteMarker(marker: bigint): void {
    this.#markers.delete(marker);
    this.#keptEvents.delete(marker);
  }

  /** Adds a complete event that the application has disposed, and destroys it later. */
  keepEvent(event: bigint): void {
    this.#keptEvents.add(event);
    if (this.#keptEvents.size === maxKeptEvents) this.synchronize();
  }

  /** Adds a stream or an event of the application. */
  add(waitable: Waitable): void {
    if (waitable === this.#last) return;
    this.#last = waitable;
    this.#waitables.add(waitable);
  }

  /** Removes a stream or an event of the application that is being disposed. Returns whether it was there. */
  delete(waitable: Waitable): boolean {
    if (waitable === this.#last) this.#last = undefined;
    return this.#waitables.delete(waitable);
  }

  /** Synchronizes with all of them that are still complete, which does not block. Returns whether there were any. */
  synchronize(): boolean {
    if (this.#markers.size === 0 && this.#keptEvents.size === 0 && this.#waitables.size === 0) return false;
    const session = this.#session;
    ignoreLoss(() =>
      session.withoutCollectiveErrors(() => {
        const { driver } = session;
        for (const marker of this.#markers) driver.eventSynchronize(marker);
        for (const event of this.#keptEvents) driver.eventSynchronize(event);
        for (const waitable of this.#waitables) if (waitable.query()) waitable.synchronize();
      })
    );
    for (const event of this.#keptEvents) this.#session.destroyMarker(event);
    this.#markers.clear();
    this.#waitables.clear();
    this.#last = undefined;
    return true;
  }
}
