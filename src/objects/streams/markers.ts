import type { Session } from "../../session.ts";
import { ignoreLoss } from "../../support/driver_errors.ts";
import { type WaitOptions, waitUntil } from "../../support/waiting/waiting.ts";

/** A recorded event. */
export interface Marker {
  readonly event: bigint;
  /** How many records there were up to this one. */
  readonly order: number;
}

/**
 * The events that `finished` of a stream or a device records and waits for. Each is used again for later records, except
 * the latest that was found complete: the session synchronizes with it when a pool needs that.
 */
export class Markers implements Disposable {
  readonly #session: Session;
  /** The ordinal of the device that the events belong to. */
  readonly #device: number;
  readonly #idle: bigint[] = [];
  #recordCount = 0;
  /** Of the markers that were found complete, the one that was recorded last. */
  #completed: Marker | undefined;
  #isDisposed = false;

  constructor(session: Session, device: number) {
    this.#session = session;
    this.#device = device;
  }

  /** Calls `record` with an event. Returns what `wait` takes, once. */
  record(record: (event: bigint) => void): Marker {
    const event = this.#idle.pop() ?? this.#session.createMarker(this.#device);
    try {
      record(event);
    } catch (error) {
      this.#release(event);
      throw error;
    }
    return { event, order: ++this.#recordCount };
  }

  /**
   * Resolves when a marker is complete.
   *
   * @param isHeard whether it rejects with errors of collectives
   */
  async wait(marker: Marker, options: WaitOptions, isHeard: boolean): Promise<void> {
    try {
      // Reads the driver at each poll, because the session replaces it at its end.
      await waitUntil(() => {
        const isDone = this.#session.driver.eventQuery(marker.event);
        if (isHeard) this.#session.faults?.ofEvent(marker.event, isDone);
        return isDone;
      }, options);
      this.complete(marker);
    } catch (error) {
      this.abandon(marker);
      throw error;
    }
  }

  /** Takes back a marker that is not waited for any more. */
  abandon(marker: Marker): void {
    this.#release(marker.event);
  }

  /**
   * Takes back a marker that is known to be complete. Waits that overlap may be found complete in another order than that
   * of their records.
   */
  complete(marker: Marker): void {
    if (this.#isDisposed) return this.#observe(marker);
    const latest = this.#completed;
    if (latest !== undefined && latest.order > marker.order) return this.#release(marker.event);
    if (latest !== undefined) this.#release(latest.event);
    this.#completed = marker;
    this.#session.completed.addMarker(marker.event);
  }

  /** Synchronizes with a complete marker, so that pools count the work before it as done, and destroys the marker. */
  #observe({ event }: Marker): void {
    ignoreLoss(() => this.#session.driver.eventSynchronize(event));
    this.#session.destroyMarker(event);
  }

  /** Makes an event available for another record. */
  #release(event: bigint): void {
    this.#session.completed.deleteMarker(event);
    if (this.#isDisposed) this.#session.destroyMarker(event);
    else this.#idle.push(event);
  }

  /** Destroys the events. Waits that are pending still resolve. */
  [Symbol.dispose](): void {
    this.#isDisposed = true;
    const completed = this.#completed;
    this.#completed = undefined;
    if (completed !== undefined) this.#observe(completed);
    for (const event of this.#idle.splice(0)) this.#session.destroyMarker(event);
  }
}
