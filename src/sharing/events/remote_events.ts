/**
 * The events of a peer, which are queried through the driver if they can be opened, and otherwise through WAIT
 * messages.
 *
 * @module
 */
import type { CudaDevice } from "../../objects/cuda_device.ts";
import { judgeEvent } from "../../objects/ipc_handles.ts";
import type { CudaEvent } from "../../objects/streams/cuda_event.ts";
import { CudaError, runEach, SharingError } from "../../support/errors.ts";
import { driverErrorOf, ignoreLoss, isLoss } from "../../support/driver_errors.ts";
import { countRefusedEvent, type EventRefusal } from "../../support/refusals.ts";
import { formatUuid } from "../../support/uuid.ts";
import { badMessage, type EventMessage, limitExceeded, type Message } from "../protocol/messages.ts";
import { AskedEvents, type EventBudget, EventWaits, type FiredCallback } from "./event_waits.ts";
import { findLocalEvent } from "./local_events.ts";
import type { PeerProcess } from "../transport/peer_process.ts";
import { isOwnUser } from "../transport/users.ts";

interface RemoteEvent {
  readonly message: EventMessage;
  /**
   * The reference count: `retain` adds one, `release` subtracts one. While the count is positive, the event may be
   * queried.
   */
  users: number;
  /** Whether the event cannot be opened, for example because the peer runs in another PID namespace. */
  isUnopenable: boolean;
  /** Whether WAIT was sent for the event, and FIRED has not arrived yet. */
  isAsked: boolean;
  /** The callbacks for FIRED, each wrapped in an object because the same function may be registered twice. */
  readonly waiting: Set<{ readonly callback: () => void }>;
  /** Whether the event is known to have fired. Reset when the reference count rises from 0 to 1. */
  hasFired: boolean;
  /** Whether a query in the current microtask found that the event has not fired yet. */
  isKnownPending: boolean;
}

/** The dependencies of `RemoteEvents`, which its connection provides. */
export interface RemoteEventsParts {
  /** Returns the device with the given UUID; undefined if the device is not visible to this process. */
  readonly findDevice: (uuid: string) => CudaDevice | undefined;
  /** The maximum number of events that the peer may announce at a time. */
  readonly maximum: number;
  /**
   * Limits the number of events whose announcements are kept; unlimited by default. Events beyond the limit cannot be
   * retained or opened.
   */
  readonly budget?: EventBudget;
  readonly send: (message: Message) => void;
  /** The peer's process. */
  readonly process: PeerProcess;
  /** Whether the peer's events may be opened; true by default. Events of a peer of another user are never opened. */
  readonly mayOpen?: boolean;
}

/**
 * Thrown if an event must not be opened: it fails a check, or the driver could confuse it with an event of another
 * process.
 */
class UnopenableError extends Error {}

/**
 * The interprocess events that a peer has announced. An event is opened when first queried. If opening the event fails,
 * a WAIT message asks the peer whether the event has fired.
 */
export class RemoteEvents {
  readonly #parts: RemoteEventsParts;
  readonly #events = new Map<number, RemoteEvent>();
  readonly #opened = new OpenedEvents();
  /** The events beyond `parts.budget`, of which only the numbers are kept. */
  readonly #asked = new AskedEvents((event) => this.#parts.send({ type: "wait", event }));
  readonly #waits = new EventWaits();

  constructor(parts: RemoteEventsParts) {
    this.#parts = parts;
  }

  define(message: EventMessage): void {
    const { maximum, budget, process: { peer } } = this.#parts;
    if (this.#events.has(message.event) || this.#asked.has(message.event)) {
      throw badMessage(`event ${message.event} is announced twice`);
    }
    if (this.#events.size + this.#asked.size >= maximum) {
      throw limitExceeded("accept another event", `${maximum} events of a peer`);
    }
    if (budget?.tryAdd(peer.uid) === false) return this.#asked.add(message.event);
    this.#events.set(message.event, {
      message,
      users: 0,
      isUnopenable: false,
      isAsked: false,
      waiting: new Set(),
      hasFired: false,
      isKnownPending: false,
    });
  }

  /**
   * Increments the reference count of an event. Until `release` is called, the event may be queried, and the peer must
   * not send FORGET for the event.
   *
   * @throws {SharingError} `bad-message` if the event was not announced
   */
  retain(identifier: number): void {
    const known = this.#known(identifier);
    // The event may have been recorded again while its reference count was 0.
    if (known.users === 0) known.hasFired = false;
    known.users++;
  }

  release(identifier: number): void {
    this.#known(identifier).users--;
  }

  /**
   * Returns the event with the given number, or undefined if this process cannot open the event. The event stays open
   * until the peer sends FORGET for it.
   *
   * @throws {SharingError} `bad-message` if the event was not announced; `device-not-visible` if this process does not
   * see the event's device
   * @throws {CudaError} If the device is lost, or the process lacks resources
   */
  open(identifier: number): CudaEvent | undefined {
    const known = this.#known(identifier);
    const { message } = known;
    return findLocalEvent(message.handle) ??
      this.#ifOpenable(known, () => this.#opened.pin(identifier, () => this.#openEvent(message)));
  }

  /**
   * Calls `callback` once the latest record of an event has fired, or with the error if querying the event fails. The
   * call may happen before this function returns. Returns a function that cancels the callback.
   *
   * @throws {SharingError} `bad-message` if the event was not announced; `device-not-visible` if this process does not
   * see the event's device
   */
  whenFired(identifier: number, callback: FiredCallback): () => void {
    if (this.#asked.has(identifier)) return this.#asked.whenFired(identifier, callback);
    const known = this.#known(identifier);
    return this.#wait(known, {
      hasFired: () => this.#query(known),
      callback: (error) => callback(error, identifier),
    });
  }

  /**
   * Like `whenFired`, for the ready event of an offer. Remembers that the event has fired, because a ready event is not
   * recorded again while its reference count is positive.
   */
  whenReady(identifier: number, callback: (error?: unknown) => void): () => void {
    const known = this.#known(identifier);
    return this.#wait(known, {
      hasFired: () => this.#isReady(known),
      callback: (error) => {
        if (error === undefined) known.hasFired = true;
        callback(error);
      },
    });
  }

  /**
   * Handles FIRED, which states that the latest record of the event has fired. That also holds if the event was
   * recorded again after WAIT was sent: the peer sends FIRED either before any message about the later record, or after
   * the later record has fired.
   */
  onFired(identifier: number): void {
    if (this.#asked.onFired(identifier)) return;
    const known = this.#known(identifier);
    if (!known.isAsked) throw badMessage(`FIRED for event ${identifier} answers no WAIT`);
    known.isAsked = false;
    const waiting = [...known.waiting];
    known.waiting.clear();
    runEach(...waiting.map(({ callback }) => callback));
  }

  /** Returns whether a ready event is known to have fired. Does not query the driver. */
  isKnownToHaveFired(identifier: number): boolean {
    return this.#known(identifier).hasFired;
  }

  /**
   * Returns whether a ready event has fired when the connection is closed. Always queries the driver, because there is
   * no later query.
   */
  hasFiredAtEnd(identifier: number): boolean {
    return this.#query(this.#known(identifier));
  }

  forget(identifier: number): void {
    const known = this.#events.get(identifier);
    if (known === undefined) throw badMessage(`event ${identifier} is forgotten and was not announced`);
    if (known.users > 0) throw badMessage(`event ${identifier} is forgotten while in use`);
    this.#drop(identifier);
  }

  /**
   * Handles the closing of the connection: cancels most waits, as described in `EventWaits.end`. Drops all events
   * except the ones that are still waited for, and returns the numbers of the remaining events.
   */
  endWaits(): ReadonlySet<number> {
    const awaited = this.#waits.end();
    this.#dropAllBut(awaited);
    return awaited;
  }

  close(): void {
    this.#waits.cancelAll();
    this.#dropAllBut(new Set());
  }

  #dropAllBut(kept: ReadonlySet<number>): void {
    this.#asked.clear();
    const dropped = [...this.#events.keys()].filter((event) => !kept.has(event));
    runEach(...dropped.map((event) => () => this.#drop(event)));
  }

  #drop(event: number): void {
    const { budget, process: { peer } } = this.#parts;
    this.#events.delete(event);
    budget?.remove(peer.uid);
    this.#opened.close(event);
  }

  #wait(
    known: RemoteEvent,
    { hasFired, callback }: { hasFired: () => boolean; callback: (error?: unknown) => void },
  ): () => void {
    try {
      this.#find(known);
    } catch (error) {
      if (error instanceof SharingError) throw error;
      callback(error);
      return () => {};
    }
    if (known.isUnopenable) return this.#ask(known, () => callback());
    // If the event was closed in the meantime and reopening it fails, a WAIT message asks the peer.
    let answer: "wanted" | "asked" | "fired" = "wanted";
    let cancelAnswer = (): void => {};
    const cancel = this.#waits.start(() => {
      if (answer === "fired" || hasFired()) return true;
      if (known.isUnopenable && answer === "wanted") {
        answer = "asked";
        cancelAnswer = this.#ask(known, () => answer = "fired");
      }
      return false;
    }, { callback, event: known.message.event });
    return () => {
      cancelAnswer();
      cancel();
    };
  }

  /**
   * Calls `callback` when FIRED arrives for the event. Sends WAIT unless an earlier WAIT is unanswered. Returns a
   * function that cancels the callback.
   */
  #ask(known: RemoteEvent, callback: () => void): () => void {
    const waiting = { callback };
    known.waiting.add(waiting);
    if (!known.isAsked) {
      known.isAsked = true;
      this.#parts.send({ type: "wait", event: known.message.event });
    }
    return () => known.waiting.delete(waiting);
  }

  /**
   * Returns whether a ready event has fired. Queries the driver at most once per microtask, regardless of how many
   * offers share the event. Does not query the driver once the event is known to have fired.
   */
  #isReady(known: RemoteEvent): boolean {
    if (known.hasFired || known.isKnownPending) return known.hasFired;
    known.hasFired = this.#query(known);
    if (!known.hasFired) {
      known.isKnownPending = true;
      queueMicrotask(() => known.isKnownPending = false);
    }
    return known.hasFired;
  }

  /** Returns whether an event has fired. Returns false while the event cannot be opened. */
  #query(known: RemoteEvent): boolean {
    return this.#find(known)?.query() ?? false;
  }

  #find(known: RemoteEvent): CudaEvent | undefined {
    const { message } = known;
    return this.#opened.find(message.event) ?? findLocalEvent(message.handle) ??
      this.#ifOpenable(known, () => this.#opened.tryOpen(message.event, () => this.#openEvent(message)));
  }

  #ifOpenable<Opened>(known: RemoteEvent, open: () => Opened): Opened | undefined {
    if (known.isUnopenable) return undefined;
    try {
      return open();
    } catch (error) {
      // If the driver rejects the handle for any reason, the peer is asked instead: drivers do not distinguish a handle
      // of another namespace from an invalid one.
      const isUnopenable = error instanceof UnopenableError || error instanceof CudaError && !isLoss(error);
      if (!isUnopenable || isOutOfResources(error)) throw error;
      known.isUnopenable = true;
      return undefined;
    }
  }

  #openEvent({ deviceUuid, handle }: EventMessage): CudaEvent {
    const uuid = formatUuid(deviceUuid);
    const { findDevice, process } = this.#parts;
    const device = findDevice(uuid);
    if (device === undefined) {
      throw new SharingError("device-not-visible", `Cannot open an event of device ${uuid}: it is not visible here`);
    }
    if (this.#parts.mayOpen === false) throw new UnopenableError();
    const refusal = refusalOf(device, handle, process);
    if (refusal !== undefined) {
      countRefusedEvent(refusal, process.peer.pid);
      throw new UnopenableError();
    }
    const event = device.openEvent(handle);
    // If the peer's process has exited, the driver may have opened a newly created event instead of the peer's. A query
    // would find the new event fired, so do not use it.
    if (process.isKnownToRun) return event;
    event[Symbol.dispose]();
    throw new UnopenableError();
  }

  #known(identifier: number): RemoteEvent {
    const known = this.#events.get(identifier);
    if (known === undefined) throw badMessage(`event ${identifier} was not announced`);
    return known;
  }
}

/** Returns the reason why an event of a peer may not be opened; undefined if opening the event is permitted. */
function refusalOf(
  device: CudaDevice,
  handle: Uint8Array,
  { isInOwnPidNamespace, peer }: PeerProcess,
): EventRefusal | undefined {
  // The driver could resolve a handle from another PID namespace to a different process.
  if (!isInOwnPidNamespace) return "other-namespace";
  if (!isOwnUser(peer)) return "other-user";
  // The driver trusts the contents of a handle: a forged handle would crash this process.
  const judgment = judgeEvent(device, { handle, processId: peer.pid });
  if (judgment === "good") return undefined;
  return judgment === "unknown" ? "unknown-layout" : judgment;
}

/** The maximum number of events of one peer that this process has open at a time, excluding pinned events. */
const maximumOfPeer = 1024;
/** The maximum number of events of all peers that this process has open at a time, excluding pinned events. */
const maximumOfProcess = 4096;
/** Milliseconds until the next attempt to open an event after an attempt failed for lack of resources. */
const retryPause = 100;

/** The `OpenedEvents` of the peers with at least one open event that is not pinned. */
const holders = new Set<OpenedEvents>();
let openInProcess = 0;

/**
 * The opened events of one peer, keyed by number. An open event occupies memory, and a page of the software device's
 * address space. Therefore, any event that is not pinned may be closed at any time, and is opened again when queried.
 * If too many events are open in this process, opening an event closes another event: one of the peer with the most
 * open events, or one of the same peer.
 */
export class OpenedEvents {
  /** The open events that are not pinned and may therefore be closed, oldest first. */
  readonly #events = new Map<number, CudaEvent>();
  /** The pinned events: other code references them directly, so they must stay open. */
  readonly #pinned = new Map<number, CudaEvent>();
  #nextTry = 0;

  /** The number of open events that are not pinned. */
  get size(): number {
    return this.#events.size;
  }

  /** Returns the event with the given number; undefined if the event is not open. */
  find(identifier: number): CudaEvent | undefined {
    return this.#events.get(identifier) ?? this.#pinned.get(identifier);
  }

  /** Opens an event that is not open. Returns undefined while this process lacks resources. */
  tryOpen(identifier: number, open: () => CudaEvent): CudaEvent | undefined {
    if (performance.now() < this.#nextTry) return undefined;
    try {
      this.#makeRoom();
      const event = open();
      this.#events.set(identifier, event);
      openInProcess++;
      holders.add(this);
      return event;
    } catch (error) {
      if (!isOutOfResources(error)) throw error;
    }
    this.#nextTry = performance.now() + retryPause;
    return undefined;
  }

  /** Returns an event that stays open until `close`. If the event is not open yet, opens it. */
  pin(identifier: number, open: () => CudaEvent): CudaEvent {
    let event = this.#pinned.get(identifier);
    if (event === undefined) {
      event = this.#events.get(identifier) ?? open();
      if (this.#events.delete(identifier)) openInProcess--;
      this.#pinned.set(identifier, event);
    }
    return event;
  }

  close(identifier: number): void {
    const event = this.find(identifier);
    if (this.#events.delete(identifier)) openInProcess--;
    this.#pinned.delete(identifier);
    if (this.#events.size === 0) holders.delete(this);
    if (event !== undefined) ignoreLoss(() => event[Symbol.dispose]());
  }

  closeAll(): void {
    const identifiers = [...this.#events.keys(), ...this.#pinned.keys()];
    runEach(...identifiers.map((identifier) => () => this.close(identifier)));
  }

  /** Closes one event if too many events of this peer or of this process are open. */
  #makeRoom(): void {
    if (this.#events.size >= maximumOfPeer) return this.#closeOldest();
    if (openInProcess < maximumOfProcess) return;
    let largest: OpenedEvents | undefined;
    for (const holder of holders) if (largest === undefined || holder.size > largest.size) largest = holder;
    // A peer with at least half as many open events as the peer with the most closes one of its own events. Otherwise,
    // peers with similar numbers of open events would repeatedly cause each other's events to be closed.
    const hasShare = this.#events.size > 0 && largest!.size <= 2 * (this.#events.size + 1);
    if (hasShare) this.#closeOldest();
    else largest!.#closeOldest();
  }

  #closeOldest(): void {
    const [oldest] = this.#events.keys();
    this.close(oldest!);
  }
}

/**
 * Returns whether an error indicates that this process temporarily lacks resources. Returns false if the system has
 * denied access, for example to a process of another user.
 */
function isOutOfResources(error: unknown): boolean {
  if (!(error instanceof CudaError)) return false;
  if (error.code === "cudaErrorMemoryAllocation") return true;
  // The software device sets `cause` to the system error.
  const { cause } = driverErrorOf(error) as { cause?: { code?: unknown } };
  return error.code === "cudaErrorOperatingSystem" && cause?.code !== "EACCES" && cause?.code !== "EPERM";
}
