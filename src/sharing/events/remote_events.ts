import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { CudaEvent } from "../../objects/cuda_event.ts";
import { SharingError } from "../../support/errors.ts";
import { ignoreLoss } from "../../support/driver_errors.ts";
import { runEach } from "../../support/run_each.ts";
import { formatUuid } from "../../support/uuid.ts";
import { badMessage, type EventMessage, limitExceeded, maximumIdentifiers } from "../protocol/messages.ts";
import { findLocalEvent } from "./local_events.ts";

interface RemoteEvent {
  readonly message: EventMessage;
  /** The number of users that may query it at any time. */
  users: number;
  opened: CudaEvent | undefined;
  /** Whether it is known to have fired. Stays true for as long as it has users. */
  hasFired: boolean;
  /** Set until the next microtask if a query found that it had not fired. */
  isKnownPending: boolean;
}

/** The interprocess events that a peer has announced. Each is opened when it is first queried. */
export class RemoteEvents {
  readonly #events = new Map<number, RemoteEvent>();
  readonly #findDevice: (uuid: string) => CudaDevice | undefined;

  /** @param findDevice returns the device with a UUID if it is visible to this process */
  constructor(findDevice: (uuid: string) => CudaDevice | undefined) {
    this.#findDevice = findDevice;
  }

  define(message: EventMessage): void {
    if (this.#events.has(message.event)) throw badMessage(`event ${message.event} is announced twice`);
    if (this.#events.size >= maximumIdentifiers) {
      throw limitExceeded("accept another event", `${maximumIdentifiers} events of a peer`);
    }
    const event = { message, users: 0, opened: undefined, hasFired: false, isKnownPending: false };
    this.#events.set(message.event, event);
  }

  /**
   * Adds a user, which may query the event until `release`. The peer may not forget the event before.
   *
   * @throws {SharingError} `bad-message` if it was not announced
   */
  retain(identifier: number): void {
    const known = this.#known(identifier);
    // The event may have been recorded again since it last had users.
    if (known.users === 0) known.hasFired = false;
    known.users++;
  }

  release(identifier: number): void {
    this.#known(identifier).users--;
  }

  /**
   * Returns the event with a number. Opens it on first use.
   *
   * @throws {SharingError} `bad-message` if it was not announced, `device-not-visible`
   * @throws {CudaError} if the driver does not accept its handle
   */
  open(identifier: number): CudaEvent {
    const known = this.#known(identifier);
    if (known.opened === undefined) {
      const localEvent = findLocalEvent(known.message.handle);
      if (localEvent !== undefined) return localEvent;
      const uuid = formatUuid(known.message.deviceUuid);
      const device = this.#findDevice(uuid);
      if (device === undefined) {
        throw new SharingError("device-not-visible", `Cannot open an event of device ${uuid}: it is not visible here`);
      }
      known.opened = device.openEvent(known.message.handle);
    }
    return known.opened;
  }

  /** Whether a ready event is known to have fired. Does not query the driver. */
  isKnownToHaveFired(identifier: number): boolean {
    return this.#known(identifier).hasFired;
  }

  /**
   * Whether a ready event has fired. However many offers have it, the driver is queried at most once until the next
   * microtask, and never again once the event has fired.
   *
   * @throws as `open` does, and if the device is lost
   */
  hasFired(identifier: number): boolean {
    const known = this.#known(identifier);
    if (known.hasFired || known.isKnownPending) return known.hasFired;
    known.hasFired = this.open(identifier).query();
    if (!known.hasFired) {
      known.isKnownPending = true;
      queueMicrotask(() => known.isKnownPending = false);
    }
    return known.hasFired;
  }

  forget(identifier: number): void {
    const known = this.#events.get(identifier);
    if (known === undefined) throw badMessage(`event ${identifier} is forgotten and was not announced`);
    if (known.users > 0) throw badMessage(`event ${identifier} is forgotten while in use`);
    this.#events.delete(identifier);
    dispose(known);
  }

  close(): void {
    const events = [...this.#events.values()];
    this.#events.clear();
    runEach(...events.map((known) => () => dispose(known)));
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
