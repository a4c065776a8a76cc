/**
 * The events of this process that peers wait for: the interprocess events themselves, the events that an importer sends
 * with its releases, and the answers to WAIT messages.
 *
 * @module
 */
import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { CudaEvent } from "../../objects/streams/cuda_event.ts";
import { finishedWithoutErrors, withoutCollectiveErrors } from "../../objects/device_sessions.ts";
import { ignoreLoss, isLoss } from "../../support/driver_errors.ts";
import { runEach } from "../../support/errors.ts";
import { parseUuid } from "../../support/uuid.ts";
import { whenDone } from "../../support/waiting/waiting.ts";
import {
  badMessage,
  type EventMessage,
  maximumIdentifiers,
  maximumImporterEvents,
  type Message,
} from "../protocol/messages.ts";
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import { noteUnseen } from "../../support/lost_devices.ts";
import type { PeerProcess } from "../transport/peer_process.ts";
import { RangeError } from "../../support/program_errors.ts";

/**
 * The events of all exporters and importers in this process, keyed by handle in hexadecimal. CUDA cannot open an event
 * in the process that created the event.
 */
const eventsOfProcess = new Map<string, CudaEvent>();

/** Returns the event that a handle refers to, if this process created the event, and undefined otherwise. */
export function findLocalEvent(handle: Uint8Array): CudaEvent | undefined {
  return eventsOfProcess.get(handle.toHex());
}

/** An interprocess event of this process, which messages identify by a number. */
export interface LocalEvent {
  readonly device: CudaDevice;
  readonly event: CudaEvent;
  /** The message that announces the event to a peer. */
  readonly message: EventMessage;
}

/** The polling of one event, shared by all callbacks that wait for the event. */
interface Wait {
  /** The callbacks, each wrapped in an object because the same function may be registered twice. */
  readonly waiting: Set<{ readonly callback: (error?: unknown) => void }>;
  cancel: () => void;
}

/**
 * The interprocess events of one exporter or importer. Creating an event costs a hundred times as much as recording an
 * event, so events are reused, and are destroyed only once no peer can query them any longer.
 */
export class LocalEvents {
  readonly #all = new Map<number, LocalEvent>();
  readonly #free = new Map<CudaDevice, LocalEvent[]>();
  #maximum: number;
  readonly #waits = new Map<LocalEvent, Wait>();
  #last = 0;

  /**
   * @param maximum the maximum number of events, limited so that all of them can be announced to one peer
   */
  constructor(maximum: number = maximumIdentifiers) {
    this.#maximum = maximum;
  }

  /** Lowers the maximum number of events. Events beyond it stay. */
  limit(maximum: number): void {
    this.#maximum = Math.min(this.#maximum, maximum);
  }

  /** Returns an unused event of a device, or undefined if all events are in use and no more may be created. */
  tryTake(device: CudaDevice): LocalEvent | undefined {
    const hasMore = this.#all.size < this.#maximum || (this.#free.get(device)?.length ?? 0) > 0;
    return hasMore ? this.take(device) : undefined;
  }

  /** Returns an unused event of a device. Throws a `RangeError` if all events are in use and no more may be created. */
  take(device: CudaDevice): LocalEvent {
    return this.#free.get(device)?.pop() ?? this.#create(device);
  }

  /** Marks an event as unused. The caller guarantees that no peer queries the event any longer. */
  release(event: LocalEvent): void {
    const free = this.#free.get(event.device);
    if (free === undefined) this.#free.set(event.device, [event]);
    else free.push(event);
  }

  get(identifier: number): LocalEvent | undefined {
    return this.#all.get(identifier);
  }

  /**
   * Calls `callback` once the latest record of an event has fired, or with the error if querying the event fails. The
   * call may happen before this function returns. All callbacks that wait for the same event share one poll. Returns a
   * function that cancels the callback.
   */
  whenFired(localEvent: LocalEvent, callback: (error?: unknown) => void): () => void {
    const waiting = { callback };
    const wait = this.#waits.get(localEvent) ?? { waiting: new Set(), cancel: () => {} };
    wait.waiting.add(waiting);
    if (wait.waiting.size === 1) {
      this.#waits.set(localEvent, wait);
      wait.cancel = whenDone(
        () => withoutCollectiveErrors(localEvent.device, () => localEvent.event.query()),
        (error) => {
          this.#waits.delete(localEvent);
          const all = [...wait.waiting];
          wait.waiting.clear();
          runEach(...all.map((each) => () => each.callback(error)));
        },
      );
    }
    return () => {
      if (!wait.waiting.delete(waiting) || wait.waiting.size > 0) return;
      wait.cancel();
      this.#waits.delete(localEvent);
    };
  }

  close(): void {
    for (const { cancel } of this.#waits.values()) cancel();
    this.#waits.clear();
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

/** The maximum number of events of an importer if few descriptors are left: an event may occupy one. */
const fewEvents = 2;

/** The dependencies of `EventAnswers`, which its connection provides. */
export interface EventAnswersParts {
  readonly events: LocalEvents;
  /** Returns the event with the given number; undefined if the event was not announced to the peer. */
  find(event: number): LocalEvent | undefined;
  send(message: Message): void;
  /** Returns whether messages are queued because the peer reads them more slowly than they are sent. */
  isBacklogged(): boolean;
}

/**
 * Answers the WAIT messages of a peer that cannot open events of this process: sends FIRED once the event has fired.
 */
export class EventAnswers {
  readonly #parts: EventAnswersParts;
  /** Maps each event for which FIRED is still to be sent to a function that cancels the wait. */
  readonly #waits = new Map<number, () => void>();
  /** The events whose FIRED messages are delayed because the connection was backlogged when the event fired. */
  readonly #unsent = new Set<number>();

  constructor(parts: EventAnswersParts) {
    this.#parts = parts;
  }

  /**
   * Whether a backlog has delayed FIRED messages. A FIRED message must be sent before any message about a later record
   * of the same event.
   */
  get hasUnsent(): boolean {
    return this.#unsent.size > 0;
  }

  /** Handles a WAIT message: sends FIRED once the event has fired. */
  onWait(event: number): void {
    const localEvent = this.#parts.find(event);
    if (localEvent === undefined) throw badMessage(`event ${event} is waited for and was not announced`);
    if (this.#waits.has(event)) throw badMessage(`event ${event} is waited for twice`);
    this.#wait(event, localEvent);
  }

  /** Sends the FIRED messages that a backlog has delayed. */
  pump(): void {
    for (const event of this.#unsent) {
      if (this.#parts.isBacklogged()) return;
      this.#unsent.delete(event);
      // Wait again, because another peer may have caused the event to be recorded again after the event fired.
      this.#wait(event, this.#parts.find(event));
    }
  }

  /** Cancels all waits. */
  close(): void {
    const cancels = [...this.#waits.values()];
    this.#waits.clear();
    this.#unsent.clear();
    runEach(...cancels);
  }

  #wait(event: number, localEvent: LocalEvent | undefined): void {
    // The event may have been removed in the meantime. Nothing waits for such an event.
    if (localEvent === undefined) return void this.#waits.delete(event);
    const { events, send, isBacklogged } = this.#parts;
    this.#waits.set(event, () => {});
    const cancel = events.whenFired(localEvent, (error) => {
      // If the device is lost, the event never fires. Instead, the peer notices that the connection is closed or that
      // this process exits.
      if (error !== undefined) return;
      if (isBacklogged()) return void this.#unsent.add(event);
      this.#waits.delete(event);
      send({ type: "fired", event });
    });
    if (this.#waits.has(event)) this.#waits.set(event, cancel);
  }
}

/**
 * Sends the release of memory. The exporter may reuse the memory once the event with the number `event` has fired, or
 * immediately if `event` is 0.
 */
export type SendRelease = (event: number) => void;

/** The parameters of a release of memory. */
export interface MemoryRelease {
  readonly stream: CudaStream;
  /** Whether the exporter can query events of the stream's device. */
  readonly canExporterQuery: boolean;
  /**
   * Returns the event to record on `stream`; undefined if no event is left. By default, an unused event is recorded and
   * lent to the exporter until EVENT_FREE.
   */
  readonly eventOf?: () => LocalEvent | undefined;
}

/**
 * The events that an importer sends with its releases of memory. They tell the exporter when the work before a release
 * is done.
 */
export class ReleaseEvents {
  /** Answers the exporter's WAIT messages for the release events. */
  readonly answers: EventAnswers;
  readonly #events = new LocalEvents(maximumImporterEvents);
  /** The events that were announced to the exporter. */
  readonly #sentIdentifiers = new Set<number>();
  /** The events lent to the exporter, which may query an event until it sends EVENT_FREE. */
  readonly #lent = new Set<number>();
  /** The number of releases that are delayed until the stream's earlier work is done. */
  #pending = 0;
  readonly #send: (message: Message) => void;
  /** Called whenever a delayed release was sent or the exporter has returned an event. */
  readonly #onSettled: () => void;
  /**
   * Called if it cannot be determined when the work before a delayed release is done. The release is then never sent.
   */
  readonly #onStuck: () => void;

  constructor({ send, isBacklogged, onSettled, onStuck }: {
    send: (message: Message) => void;
    isBacklogged: () => boolean;
    onSettled: () => void;
    onStuck: () => void;
  }) {
    this.#send = send;
    this.answers = new EventAnswers({
      events: this.#events,
      find: (event) => this.#sentIdentifiers.has(event) ? this.#events.get(event) : undefined,
      send,
      isBacklogged,
    });
    this.#onSettled = onSettled;
    this.#onStuck = onStuck;
  }

  /** Lends few events from now on, because few descriptors are left. Further releases wait for their work. */
  useFew(): void {
    this.#events.limit(fewEvents);
  }

  /** Whether the exporter has events that it has not returned with EVENT_FREE. */
  get hasLentEvents(): boolean {
    return this.#lent.size > 0;
  }

  /** Whether releases are delayed until the work before them is done. */
  get hasPendingReleases(): boolean {
    return this.#pending > 0;
  }

  /**
   * Sends a release that takes effect once `stream` has finished its current work. Calls `send` with an event's number
   * if the exporter can query the stream's device and an event is left; otherwise waits for the work, and then calls
   * `send` with 0. If this method throws, nothing was sent.
   */
  release({ stream, canExporterQuery, eventOf }: MemoryRelease, send: SendRelease): void {
    // Do not query the stream for the slot of a channel: the slot has an event of its own, and the stream is seldom
    // idle.
    if ((eventOf === undefined || !canExporterQuery) && stream.query()) return send(0);
    if (!canExporterQuery) return this.sendWhenDone(stream, send);
    const localEvent = eventOf === undefined ? this.#events.tryTake(stream.device) : eventOf();
    if (localEvent === undefined) return this.sendWhenDone(stream, send);
    const { event, message } = localEvent;
    try {
      stream.record(event);
    } catch (error) {
      if (eventOf === undefined) this.#events.release(localEvent);
      throw error;
    }
    if (!this.#sentIdentifiers.has(message.event)) {
      this.#sentIdentifiers.add(message.event);
      this.#send(message);
    }
    if (eventOf === undefined) this.#lent.add(message.event);
    send(message.event);
  }

  /** Calls `send` with 0 once the stream has finished its current work, or the device is lost. */
  sendWhenDone(stream: CudaStream, send: SendRelease): void {
    this.#pending++;
    const settle = (): void => {
      this.#pending--;
      this.#onSettled();
    };
    finishedWithoutErrors(stream).catch((error) => {
      if (!isLoss(error)) throw error;
      noteUnseen(error);
    }).then(() => send(0), () => this.#onStuck()).then(settle);
  }

  /**
   * Returns an event for all releases of one slot. In contrast, `release` lends an event for a single release. Returns
   * undefined if no event is left.
   */
  tryTake(stream: CudaStream): LocalEvent | undefined {
    return this.#events.tryTake(stream.device);
  }

  /**
   * Makes an event from `tryTake` available again. The caller guarantees that the exporter no longer queries the event.
   */
  returnEvent(event: LocalEvent): void {
    this.#events.release(event);
  }

  /** Handles EVENT_FREE, with which the exporter returns a lent event. */
  onEventFree(event: number): void {
    if (!this.#lent.delete(event)) throw badMessage(`event ${event} is freed and was not lent`);
    this.#events.release(this.#events.get(event)!);
    this.#onSettled();
  }

  /**
   * Destroys the events. If the exporter may still query some of them, first waits until the exporter's process has
   * exited.
   */
  close(exporter: PeerProcess): void {
    const end = (): void => {
      this.#events.close();
      exporter[Symbol.dispose]();
    };
    if (this.#lent.size === 0 || exporter.hasEnded) return end();
    exporter.keepAlive(false);
    exporter.whenEnded(end);
  }
}
