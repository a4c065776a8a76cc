import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { CudaEvent } from "../../objects/cuda_event.ts";
import { SharingError } from "../../support/errors.ts";
import { formatUuid } from "../../support/uuid.ts";
import { badMessage, type EventMessage, limitExceeded } from "../protocol/messages.ts";
import { EventWaits } from "./event_waits.ts";
import { findLocalEvent } from "./local_events.ts";
import { OpenedEvents } from "./opened_events.ts";

interface RemoteEvent {
  readonly message: EventMessage;
  /** The number of users that may query it at any time. */
  users: number;
  /** Whether it is known to have fired. Stays true for as long as it has users. */
  hasFired: boolean;
  /** Set until the next microtask if a query found that it had not fired. */
  isKnownPending: boolean;
}

/** The dependencies of `RemoteEvents`. */
export interface RemoteEventsParts {
  /** Returns the device with a UUID if it is visible to this process. */
  readonly findDevice: (uuid: string) => CudaDevice | undefined;
  /** The maximum number of events that the peer may announce at a time. */
  readonly maximum: number;
}

/** The interprocess events that a peer has announced. Each is opened when it is first queried. */
export class RemoteEvents {
  readonly #parts: RemoteEventsParts;
  readonly #events = new Map<number, RemoteEvent>();
  readonly #opened = new OpenedEvents();
  readonly #waits = new EventWaits();

  constructor(parts: RemoteEventsParts) {
    this.#parts = parts;
  }

  define(message: EventMessage): void {
    const { maximum } = this.#parts;
    if (this.#events.has(message.event)) throw badMessage(`event ${message.event} is announced twice`);
    if (this.#events.size >= maximum) throw limitExceeded("accept another event", `${maximum} events of a peer`);
    const event = { message, users: 0, hasFired: false, isKnownPending: false };
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
   * Returns the event with a number, which stays open until the peer forgets it. Opens it on first use.
   *
   * @throws {SharingError} `bad-message` if it was not announced, `device-not-visible`
   * @throws {CudaError} if the driver does not accept its handle
   */
  open(identifier: number): CudaEvent {
    const { message } = this.#known(identifier);
    return findLocalEvent(message.handle) ?? this.#opened.pin(identifier, () => this.#openEvent(message));
  }

  /**
   * Opens an event, if resources are not lacking, to see whether the driver accepts its handle.
   *
   * @throws as `open` does
   */
  check(identifier: number): void {
    this.#find(this.#known(identifier));
  }

  /**
   * Calls back once the latest record of an event has fired, or with the error of a query. It may do so before this
   * returns. Returns a function that cancels the callback.
   */
  whenFired(identifier: number, callback: (error?: unknown) => void): () => void {
    const known = this.#known(identifier);
    return this.#waits.start(() => this.#query(known), callback);
  }

  /** Like `whenFired`, for the ready event of offers, which is not recorded again while it has users. */
  whenReady(identifier: number, callback: (error?: unknown) => void): () => void {
    return this.#waits.start(() => this.hasFired(identifier), callback);
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
    known.hasFired = this.#query(known);
    if (!known.hasFired) {
      known.isKnownPending = true;
      queueMicrotask(() => known.isKnownPending = false);
    }
    return known.hasFired;
  }

  /** Whether a ready event has fired, queried anew because there is no later query. */
  hasFiredAtEnd(identifier: number): boolean {
    return this.#query(this.#known(identifier));
  }

  forget(identifier: number): void {
    const known = this.#events.get(identifier);
    if (known === undefined) throw badMessage(`event ${identifier} is forgotten and was not announced`);
    if (known.users > 0) throw badMessage(`event ${identifier} is forgotten while in use`);
    this.#events.delete(identifier);
    this.#opened.close(identifier);
  }

  /** The connection has ended: most waits end, as `EventWaits.end` says. */
  endWaits(): void {
    this.#waits.end();
  }

  close(): void {
    this.#waits.cancelAll();
    this.#events.clear();
    this.#opened.closeAll();
  }

  /** Whether an event has fired. While resources to open it are lacking, it has not. */
  #query(known: RemoteEvent): boolean {
    return this.#find(known)?.query() ?? false;
  }

  #find({ message }: RemoteEvent): CudaEvent | undefined {
    return this.#opened.find(message.event) ?? findLocalEvent(message.handle) ??
      this.#opened.tryOpen(message.event, () => this.#openEvent(message));
  }

  #openEvent({ deviceUuid, handle }: EventMessage): CudaEvent {
    const uuid = formatUuid(deviceUuid);
    const device = this.#parts.findDevice(uuid);
    if (device === undefined) {
      throw new SharingError("device-not-visible", `Cannot open an event of device ${uuid}: it is not visible here`);
    }
    return device.openEvent(handle);
  }

  #known(identifier: number): RemoteEvent {
    const known = this.#events.get(identifier);
    if (known === undefined) throw badMessage(`event ${identifier} was not announced`);
    return known;
  }
}
