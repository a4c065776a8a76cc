import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import { finishedWithoutErrors } from "../../objects/device_sessions.ts";
import { isLoss } from "../../support/driver_errors.ts";
import { noteUnseen } from "../../support/lost_devices.ts";
import { badMessage, maximumImporterEvents, type Message } from "../protocol/messages.ts";
import { EventAnswers, type LocalEvent, LocalEvents } from "./local_events.ts";
import type { PeerProcess } from "../transport/peer_process.ts";

/**
 * Sends a message that names a release's event: the work is done once the event has fired, or is done already if
 * `event` is 0.
 */
export type SendRelease = (event: number) => void;

/** The position in a stream at which memory is released. */
export interface MemoryRelease {
  readonly stream: CudaStream;
  /** Whether the exporter can query events of the stream's device. */
  readonly canExporterQuery: boolean;
  /**
   * Returns the event to record; undefined if there is none left. By default, an event is lent to the exporter until
   * EVENT_FREE.
   */
  readonly eventOf?: () => LocalEvent | undefined;
}

/**
 * The events that an importer sends with its releases, so that the exporter knows when the work before each is done.
 */
export class ReleaseEvents {
  /** Answers the exporter's waits for these events. */
  readonly answers: EventAnswers;
  readonly #events = new LocalEvents(maximumImporterEvents);
  /** The events that were announced to the exporter. */
  readonly #sentIdentifiers = new Set<number>();
  /** The events that the exporter may query, until EVENT_FREE. */
  readonly #lent = new Set<number>();
  /** The number of releases that are sent once their work is done. */
  #pending = 0;
  readonly #send: (message: Message) => void;
  /** Called whenever a pending release was sent or an event was returned. */
  readonly #onSettled: () => void;
  /** Called if it can never be known when a release's work is done. */
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

  /** Whether the exporter still has to return events. */
  get hasLentEvents(): boolean {
    return this.#lent.size > 0;
  }

  /** Whether releases still have to be sent. */
  get hasPendingReleases(): boolean {
    return this.#pending > 0;
  }

  /**
   * Sends a release that takes effect when a stream has finished its work so far. Sends an event if the exporter can
   * query the stream's device and there is one left; otherwise waits for the work and sends 0. If this throws, nothing
   * was sent.
   */
  release({ stream, canExporterQuery, eventOf }: MemoryRelease, send: SendRelease): void {
    // Skips this query for a slot: it has an event anyway, and its stream is seldom idle.
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

  /** Sends 0 once a stream has finished its work so far. If the device is lost, the work has ended, too. */
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

  /** Returns an event that is not lent at each release but belongs to a slot; undefined if there is none left. */
  tryTake(stream: CudaStream): LocalEvent | undefined {
    return this.#events.tryTake(stream.device);
  }

  /** Makes an event of `tryTake` available again. The exporter no longer queries it. */
  returnEvent(event: LocalEvent): void {
    this.#events.release(event);
  }

  /** Handles EVENT_FREE: the exporter returns an event. */
  onEventFree(event: number): void {
    if (!this.#lent.delete(event)) throw badMessage(`event ${event} is freed and was not lent`);
    this.#events.release(this.#events.get(event)!);
    this.#onSettled();
  }

  /** Destroys the events. If the exporter may still query some of them, waits until its process has ended. */
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
