import type { OwnEvent } from "./own_events.ts";

/** Milliseconds between two looks. */
const interval = 100;

/**
 * Looks now and then whether the exporter's device is still there, while importers wait for its work: a kernel that
 * faults takes the device's context with it, its process lives on, and the events that importers wait for never fire.
 */
export class DeviceWatch {
  /** Gives events, one of each device, of which nobody knows that they have fired. */
  readonly #pending: () => Iterable<OwnEvent>;
  readonly #onLost: (error: unknown) => void;
  #timer: { unref(): void } | undefined;

  constructor(pending: () => Iterable<OwnEvent>, onLost: (error: unknown) => void) {
    this.#pending = pending;
    this.#onLost = onLost;
  }

  /** An importer may wait for an event from now on. */
  start(): void {
    // All three runtimes give an object; the standard library's types do not.
    this.#timer ??= setTimeout(() => this.#look(), interval) as unknown as { unref(): void };
    this.#timer.unref();
  }

  stop(): void {
    clearTimeout(this.#timer as unknown as number);
    this.#timer = undefined;
  }

  #look(): void {
    this.#timer = undefined;
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
