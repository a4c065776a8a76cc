import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { CudaEvent } from "../../objects/cuda_event.ts";
import { ignoreLoss } from "../../support/driver_errors.ts";
import { parseUuid } from "../../support/uuid.ts";
import { type EventMessage, maximumIdentifiers } from "../protocol/messages.ts";

/**
 * The events of all exporters and importers in this process, by handle. CUDA cannot open an event in the process that
 * created it.
 */
const eventsOfProcess = new Map<string, CudaEvent>();

/** The event that a handle refers to, if this process created it. */
export function findLocalEvent(handle: Uint8Array): CudaEvent | undefined {
  return eventsOfProcess.get(handle.toHex());
}

/** An interprocess event of this process. Peers know it by its number. */
export interface LocalEvent {
  readonly device: CudaDevice;
  readonly event: CudaEvent;
  /** The message that announces it to a peer. */
  readonly message: EventMessage;
}

/**
 * The interprocess events of one exporter or importer. Creating one costs a hundred times what recording one does, so
 * they are reused, and destroyed only once no peer can query them any more.
 */
export class LocalEvents {
  readonly #all = new Map<number, LocalEvent>();
  readonly #free = new Map<CudaDevice, LocalEvent[]>();
  readonly #maximum: number;
  #last = 0;

  /** @param maximum the maximum number of events, which may all be announced to a peer */
  constructor(maximum: number = maximumIdentifiers) {
    this.#maximum = maximum;
  }

  /** Returns an unused event of a device, or undefined if the maximum is reached. */
  tryTake(device: CudaDevice): LocalEvent | undefined {
    const hasMore = this.#all.size < this.#maximum || (this.#free.get(device)?.length ?? 0) > 0;
    return hasMore ? this.take(device) : undefined;
  }

  /** Returns an unused event of a device. */
  take(device: CudaDevice): LocalEvent {
    return this.#free.get(device)?.pop() ?? this.#create(device);
  }

  /** Makes an event available again. No peer may query it any more. */
  release(event: LocalEvent): void {
    const free = this.#free.get(event.device);
    if (free === undefined) this.#free.set(event.device, [event]);
    else free.push(event);
  }

  get(identifier: number): LocalEvent | undefined {
    return this.#all.get(identifier);
  }

  close(): void {
    for (const { event, message } of this.#all.values()) {
      eventsOfProcess.delete(message.handle.toHex());
      ignoreLoss(() => event[Symbol.dispose]());
    }
    this.#all.clear();
    this.#free.clear();
  }

  #create(device: CudaDevice): LocalEvent {
    if (this.#all.size >= this.#maximum) {
      throw new RangeError(
        `Cannot share with more than ${this.#maximum} events: end channels, or wait until pending offers are ready`,
      );
    }
    const event = device.createEvent({ interprocess: true });
    try {
      const message: EventMessage = {
        type: "event",
        event: ++this.#last,
        deviceUuid: parseUuid(device.uuid),
        handle: event.exportHandle(),
      };
      const localEvent = { device, event, message };
      this.#all.set(this.#last, localEvent);
      eventsOfProcess.set(message.handle.toHex(), event);
      return localEvent;
    } catch (error) {
      event[Symbol.dispose]();
      throw error;
    }
  }
}
