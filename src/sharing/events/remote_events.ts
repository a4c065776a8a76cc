/**
 * The events of a peer: opened where the driver can, and otherwise asked for by messages.
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
  /** The number of users that may query it at any time. */
  users: number;
  /** Whether it cannot be opened: its process lives in other namespaces, for example. */
  isUnopenable: boolean;
  /** Whether WAIT was sent and FIRED has not arrived. */
  isAsked: boolean;
  /** The callbacks for FIRED, wrapped in objects, because the same function may wait twice. */
  readonly waiting: Set<{ readonly callback: () => void }>;
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
  /** Decides which events are kept; all by default. Nobody may retain or open an event that is not. */
  readonly budget?: EventBudget;
  readonly send: (message: Message) => void;
  /** The peer. */
  readonly process: PeerProcess;
  /** Whether its events may be opened: by default, those of this process's user. */
  readonly mayOpen?: boolean;
}

/** Thrown instead of opening an event that could be taken for another one's. */
class UnopenableError extends Error {}

/**
 * The interprocess events that a peer has announced. Each is opened when it is first queried. For one that cannot be
 * opened, WAIT asks the peer.
 */
export class RemoteEvents {
  readonly #parts: RemoteEventsParts;
  readonly #events = new Map<number, RemoteEvent>();
  readonly #opened = new OpenedEvents();
  /** The events beyond the budget. */
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
   * Returns the event with a number, which stays open until the peer forgets it, or undefined if it cannot be opened
   * here. Opens it on first use.
   *
   * @throws {SharingError} `bad-message` if it was not announced, `device-not-visible`
   * @throws {CudaError} If the device is lost or resources are lacking
   */
  open(identifier: number): CudaEvent | undefined {
    const known = this.#known(identifier);
    const { message } = known;
    return findLocalEvent(message.handle) ??
      this.#ifOpenable(known, () => this.#opened.pin(identifier, () => this.#openEvent(message)));
  }

  /**
   * Calls back once the latest record of an event has fired, or with the error of a query. It may do so before this
   * returns. Returns a function that cancels the callback.
   *
   * @throws {SharingError} `bad-message` if it was not announced, `device-not-visible`
   */
  whenFired(identifier: number, callback: FiredCallback): () => void {
    if (this.#asked.has(identifier)) return this.#asked.whenFired(identifier, callback);
    const known = this.#known(identifier);
    return this.#wait(known, {
      hasFired: () => this.#query(known),
      callback: (error) => callback(error, identifier),
    });
  }

  /** Like `whenFired`, for the ready event of offers, which is not recorded again while it has users. */
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
   * Handles FIRED. It is about the event's latest record, also if WAIT was sent for an earlier one: the peer sends it
   * before it sends anything about a later record, or else when that has fired, too.
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

  /** Whether a ready event is known to have fired. Does not query the driver. */
  isKnownToHaveFired(identifier: number): boolean {
    return this.#known(identifier).hasFired;
  }

  /** Whether a ready event has fired, queried anew because there is no later query. */
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
   * The connection has ended: most waits end, as `EventWaits.end` says. Keeps only the events of those that continue,
   * and returns their numbers.
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
    // An event that was closed meanwhile may not be opened again.
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

  /** Calls back when FIRED arrives. Sends WAIT unless it is unanswered. Returns a function that cancels the callback. */
  #ask(known: RemoteEvent, callback: () => void): () => void {
    const waiting = { callback };
    known.waiting.add(waiting);
    if (!known.isAsked) {
      known.isAsked = true;
      this.#parts.send({ type: "wait", event: known.message.event });
    }
    return () => known.waiting.delete(waiting);
  }

  /** However many offers have it, queries the driver at most once until the next microtask, and never after it fired. */
  #isReady(known: RemoteEvent): boolean {
    if (known.hasFired || known.isKnownPending) return known.hasFired;
    known.hasFired = this.#query(known);
    if (!known.hasFired) {
      known.isKnownPending = true;
      queueMicrotask(() => known.isKnownPending = false);
    }
    return known.hasFired;
  }

  /** Whether an event has fired. While it cannot be opened, it has not. */
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
      // Whatever the reason, the peer can be asked: drivers do not tell another namespace's handle from garbage.
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
    // Of a process that has ended, it opens a new event, which has fired.
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

/** Why an event of a peer may not be opened, if it may not. */
function refusalOf(
  device: CudaDevice,
  handle: Uint8Array,
  { isInOwnPidNamespace, peer }: PeerProcess,
): EventRefusal | undefined {
  // The driver could take a handle from another PID namespace for that of another process.
  if (!isInOwnPidNamespace) return "other-namespace";
  if (!isOwnUser(peer)) return "other-user";
  // The driver believes what a handle states: a forged one would end this process.
  const judgment = judgeEvent(device, { handle, processId: peer.pid });
  if (judgment === "good") return undefined;
  return judgment === "unknown" ? "unknown-layout" : judgment;
}

/** The maximum number of events of one peer that are open at a time. */
const maximumOfPeer = 1024;
/** The maximum number of events that this process has open at a time. */
const maximumOfProcess = 4096;
/** Milliseconds until the next attempt to open an event after resources were lacking. */
const retryPause = 100;

/** The events of all peers that are open. */
const holders = new Set<OpenedEvents>();
let openInProcess = 0;

/**
 * The opened events of one peer, by number. Opening an event takes memory, and a page of the software device's address
 * space, for as long as it is open: what is open can therefore be closed at any time, and is opened again when it is
 * queried. If this process has too many open, the peer that has most of them loses one, or the peer that opens one does.
 */
export class OpenedEvents {
  /** Those that may be closed, oldest first. */
  readonly #events = new Map<number, CudaEvent>();
  /** The events that are used directly, and must stay open. */
  readonly #pinned = new Map<number, CudaEvent>();
  #nextTry = 0;

  /** The number of events that may be closed. */
  get size(): number {
    return this.#events.size;
  }

  /** Returns an event if it is open. */
  find(identifier: number): CudaEvent | undefined {
    return this.#events.get(identifier) ?? this.#pinned.get(identifier);
  }

  /** Opens an event that is not open. Returns undefined while resources are lacking. */
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

  /** Returns an event that stays open until it is forgotten. */
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

  /** Closes an event if too many are open. */
  #makeRoom(): void {
    if (this.#events.size >= maximumOfPeer) return this.#closeOldest();
    if (openInProcess < maximumOfProcess) return;
    let largest: OpenedEvents | undefined;
    for (const holder of holders) if (largest === undefined || holder.size > largest.size) largest = holder;
    // Peers whose shares are alike would take them from each other again and again.
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
 * Whether an error means that this process lacks resources, which it may have later. It does not if the system denies
 * access, such as to the processes of other users.
 */
function isOutOfResources(error: unknown): boolean {
  if (!(error instanceof CudaError)) return false;
  if (error.code === "cudaErrorMemoryAllocation") return true;
  // The software device says which error of the system it was.
  const { cause } = driverErrorOf(error) as { cause?: { code?: unknown } };
  return error.code === "cudaErrorOperatingSystem" && cause?.code !== "EACCES" && cause?.code !== "EPERM";
}
