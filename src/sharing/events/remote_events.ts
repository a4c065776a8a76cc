import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { CudaEvent } from "../../objects/cuda_event.ts";
import { SharingError } from "../../support/errors.ts";
import { ignoreLoss } from "../../support/error_wording.ts";
import { formatUuid } from "../../support/uuid.ts";
import { badMessage, type EventMessage, maximumIdentifiers } from "../protocol/messages.ts";
import { findLocalEvent } from "./local_events.ts";

interface RemoteEvent {
  readonly message: EventMessage;
  /** Who may look at it at any time. */
  users: number;
  opened: CudaEvent | undefined;
  /** Whether it is known to have fired: it stays so as long as somebody may look at it. */
  hasFired: boolean;
  /** Whether it was asked in the present run of JavaScript, and had not fired. */
  isKnownToBeAhead: boolean;
}

/** The interprocess events that a peer has told of. They are opened when they are first looked at. */
export class RemoteEvents {
  readonly #events = new Map<number, RemoteEvent>();
  readonly #findDevice: (uuid: string) => CudaDevice | undefined;

  /** @param findDevice finds a device that this process sees */
  constructor(findDevice: (uuid: string) => CudaDevice | undefined) {
    this.#findDevice = findDevice;
  }

  define(message: EventMessage): void {
    if (this.#events.has(message.event)) throw badMessage(`event ${message.event} is announced twice`);
    if (this.#events.size >= maximumIdentifiers) {
      throw badMessage(`more than ${maximumIdentifiers} events are announced`);
    }
    const event = { message, users: 0, opened: undefined, hasFired: false, isKnownToBeAhead: false };
    this.#events.set(message.event, event);
  }

  /**
   * Somebody may look at it until `leave`: the peer may not forget it.
   *
   * @throws {SharingError} `bad-message` for one that was not announced
   */
  use(identifier: number): void {
    const known = this.#known(identifier);
    // Nobody has looked at it for what it stands for now.
    if (known.users === 0) known.hasFired = false;
    known.users++;
  }

  leave(identifier: number): void {
    this.#known(identifier).users--;
  }

  /**
   * The event of a number.
   *
   * @throws {SharingError} `bad-message` for one that was not announced, `device-not-visible`
   * @throws {CudaError} where the driver does not take its handle
   */
  open(identifier: number): CudaEvent {
    const known = this.#known(identifier);
    if (known.opened === undefined) {
      const own = findLocalEvent(known.message.handle);
      if (own !== undefined) return own;
      const uuid = formatUuid(known.message.deviceUuid);
      const device = this.#findDevice(uuid);
      if (device === undefined) {
        throw new SharingError("device-not-visible", `Cannot open an event of device ${uuid}: it is not visible here`);
      }
      known.opened = device.openEvent(known.message.handle);
    }
    return known.opened;
  }

  /** Whether the ready event of offers is known to have fired. The driver is not asked. */
  isKnownToHaveFired(identifier: number): boolean {
    return this.#known(identifier).hasFired;
  }

  /**
   * Whether the ready event of offers has fired. However many offers have it, the driver is asked once in a run of
   * JavaScript, and not at all any more once it has.
   *
   * @throws as `open` does, and where the device is lost
   */
  hasFired(identifier: number): boolean {
    const known = this.#known(identifier);
    if (known.hasFired || known.isKnownToBeAhead) return known.hasFired;
    known.hasFired = this.open(identifier).query();
    if (!known.hasFired) {
      known.isKnownToBeAhead = true;
      queueMicrotask(() => known.isKnownToBeAhead = false);
    }
    return known.hasFired;
  }

  forget(identifier: number): void {
    const known = this.#events.get(identifier);
    if (known === undefined) throw badMessage(`event ${identifier} is forgotten and was not announced`);
    if (known.users > 0) throw badMessage(`event ${identifier} is forgotten, and in use`);
    this.#events.delete(identifier);
    dispose(known);
  }

  close(): void {
    for (const known of this.#events.values()) dispose(known);
    this.#events.clear();
  }

  #known(identifier: number): RemoteEvent {
    const known = this.#events.get(identifier);
    if (known === undefined) throw badMessage(`event ${identifier} was not announced`);
    return known;
  }
}

function dispose({ opened }: RemoteEvent): void {
  if (opened !== undefined) ignoreLoss(() => opened[Symbol.dispose]());
}
