import { withoutCollectiveErrors } from "../../objects/streams/library_waits.ts";
import { UnreferencedTimer } from "../../support/waiting/unreferenced_timer.ts";
import type { LocalEvent } from "./local_events.ts";

/** Milliseconds between two polls. */
const pollInterval = 100;

/**
 * Polls whether the exporter's device still works while importers wait for its events. A kernel that faults destroys
 * the device's context, but the process lives on, and the events never fire.
 */
export class DeviceWatch {
  /** Returns at most one event of each device, none of which is known to have fired. */
  readonly #pending: () => Iterable<LocalEvent>;
  readonly #onLost: (error: unknown) => void;
  readonly #timer = new UnreferencedTimer(() => this.#poll(), pollInterval);

  constructor(pending: () => Iterable<LocalEvent>, onLost: (error: unknown) => void) {
    this.#pending = pending;
    this.#onLost = onLost;
  }

  /** Starts polling, because an importer may wait for an event. */
  start(): void {
    this.#timer.start();
  }

  stop(): void {
    this.#timer.stop();
  }

  #poll(): void {
    let isPending = false;
    try {
      for (const { device, event } of this.#pending()) {
        isPending = true;
        withoutCollectiveErrors(device, () => event.query());
      }
    } catch (error) {
      return this.#onLost(error);
    }
    if (isPending) this.start();
  }
}
