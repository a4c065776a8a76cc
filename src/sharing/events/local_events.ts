/**
 * The events of this process that peers wait for: which are shared, and the answers to peers that ask when one has
 * fired.
 *
 * @module
 */
import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { CudaEvent } from "../../objects/streams/cuda_event.ts";
import { withoutCollectiveErrors } from "../../objects/device_sessions.ts";
import { ignoreLoss } from "../../support/driver_errors.ts";
import { runEach } from "../../support/errors.ts";
import { parseUuid } from "../../support/uuid.ts";
import { whenDone } from "../../support/waiting/waiting.ts";
import { badMessage, type EventMessage, maximumIdentifiers, type Message } from "../protocol/messages.ts";

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

/** A wait for an event, for all peers that wait for it. */
interface Wait {
  /** Callbacks wrapped in objects, because the same function may wait twice. */
  readonly waiting: Set<{ readonly callback: (error?: unknown) => void }>;
  cancel: () => void;
}

/**
 * The interprocess events of one exporter or importer. Creating one costs a hundred times what recording one does, so
 * they are reused, and destroyed only once no peer can query them any more.
 */
export class LocalEvents {
  readonly #all = new Map<number, LocalEvent>();
  readonly #free = new Map<CudaDevice, LocalEvent[]>();
  readonly #maximum: number;
  readonly #waits = new Map<LocalEvent, Wait>();
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

  /**
   * Calls back once the latest record of an event has fired, or with the error of a query. It may do so before this
   * returns. However many wait for an event, it is polled once. Returns a function that cancels the callback.
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

/** The dependencies of `EventAnswers`. */
export interface EventAnswersParts {
  readonly events: LocalEvents;
  /** Returns the event with a number if it was announced to the peer. */
  find(event: number): LocalEvent | undefined;
  send(message: Message): void;
  /** Whether the peer reads more slowly than messages are sent. */
  isBacklogged(): boolean;
}

/** Answers the WAIT messages of a peer that cannot open events of this process: sends FIRED for each. */
export class EventAnswers {
  readonly #parts: EventAnswersParts;
  /** The functions that cancel the waits for events whose FIRED was not sent. */
  readonly #waits = new Map<number, () => void>();
  /** Events that have fired while the peer did not read. */
  readonly #unsent = new Set<number>();

  constructor(parts: EventAnswersParts) {
    this.#parts = parts;
  }

  /** Whether FIRED has to be sent for an event before anything that is sent about a later record of it. */
  get hasUnsent(): boolean {
    return this.#unsent.size > 0;
  }

  /** Handles WAIT. */
  onWait(event: number): void {
    const localEvent = this.#parts.find(event);
    if (localEvent === undefined) throw badMessage(`event ${event} is waited for and was not announced`);
    if (this.#waits.has(event)) throw badMessage(`event ${event} is waited for twice`);
    this.#wait(event, localEvent);
  }

  /** Sends what the peer did not read before. */
  pump(): void {
    for (const event of this.#unsent) {
      if (this.#parts.isBacklogged()) return;
      this.#unsent.delete(event);
      // It may have been recorded again, for a peer that does not know that it fired before.
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
    // An event that was removed meanwhile has no waiters.
    if (localEvent === undefined) return void this.#waits.delete(event);
    const { events, send, isBacklogged } = this.#parts;
    this.#waits.set(event, () => {});
    const cancel = events.whenFired(localEvent, (error) => {
      // If the device is lost, the event never fires, and the end of the connection or the process answers.
      if (error !== undefined) return;
      if (isBacklogged()) return void this.#unsent.add(event);
      this.#waits.delete(event);
      send({ type: "fired", event });
    });
    if (this.#waits.has(event)) this.#waits.set(event, cancel);
  }
}
