import { UnreferencedTimer } from "../../support/waiting/unreferenced_timer.ts";
import type { LocalEvent } from "./local_events.ts";

/** Milliseconds between two looks. */
const interval = 100;

/**
 * Looks now and then whether the exporter's device is still there, while importers wait for its work: a kernel that
 * faults takes the device's context with it, its process lives on, and the events that importers wait for never fire.
 */
export class DeviceWatch {
  /** Gives events, one of each device, of which nobody knows that they have fired. */
  readonly #pending: () => Iterable<LocalEvent>;
  readonly #onLost: (error: unknown) => void;
  readonly #timer = new UnreferencedTimer(() => this.#look(), interval);

  constructor(pending: () => Iterable<LocalEvent>, onLost: (error: unknown) => void) {
    this.#pending = pending;
    this.#onLost = onLost;
  }

  /** An importer may wait for an event from now on. */
  start(): void {
    this.#timer.start();
  }

  stop(): void {
    this.#timer.stop();
  }

  #look(): void {
    let isPending = false;
    try {
      for (const { event } of this.#pending()) {
        isPending = true;
        event.query();
      }
    } catch (error) {
      return this.#onLost(error);
    }
    if (isPending) this.start();
  }
}
