import type { CudaStream } from "../../objects/cuda_stream.ts";
import { isLoss } from "../../support/error_wording.ts";
import { badMessage, type Message } from "../protocol/messages.ts";
import { type LocalEvent, LocalEvents } from "./local_events.ts";
import type { PeerProcess } from "../transport/peer_process.ts";

/** Tells that work is done once an event has fired, or is done already where that is 0. */
export type SendRelease = (event: number) => void;

/** Where something is released. */
export interface Release {
  readonly stream: CudaStream;
  /** Whether the exporter can look at events of the stream's device. */
  readonly isSeen: boolean;
  /** Gives the event to record: one that is lent until the exporter gives it back, unless given. */
  readonly eventOf?: () => LocalEvent;
}

/** The events by which an importer tells its exporter how far its streams must get. */
export class ReleaseEvents {
  readonly #events = new LocalEvents();
  /** Events that the exporter was told of. */
  readonly #sentIdentifiers = new Set<number>();
  /** Events that the exporter looks at, until it gives them back. */
  readonly #lent = new Set<number>();
  /** Releases that the exporter is told of when they are done. */
  #later = 0;
  readonly #send: (message: Message) => void;
  /** Is called whenever something is settled. */
  readonly #onSettled: () => void;
  /** Is called where it cannot be known when a release is done. */
  readonly #onStuck: () => void;

  constructor({ send, onSettled, onStuck }: {
    send: (message: Message) => void;
    onSettled: () => void;
    onStuck: () => void;
  }) {
    this.#send = send;
    this.#onSettled = onSettled;
    this.#onStuck = onStuck;
  }

  /** Whether the exporter has yet to give back what it looks at. */
  get areLent(): boolean {
    return this.#lent.size > 0;
  }

  /** Whether the exporter has yet to be told of a release. */
  get isOwed(): boolean {
    return this.#later > 0;
  }

  /**
   * Tells how far a stream must get: by an event that the exporter can look at, or, where it may not see the stream's
   * device, once the stream has got there. Nothing is told where it throws.
   */
  release({ stream, isSeen, eventOf }: Release, send: SendRelease): void {
    // A slot's event is its own, and its stream seldom at rest.
    if ((eventOf === undefined || !isSeen) && stream.query()) return send(0);
    if (!isSeen) return this.sendWhenDone(stream, send);
    const own = eventOf?.() ?? this.#events.take(stream.device);
    const { event, message } = own;
    try {
      stream.record(event);
    } catch (error) {
      if (eventOf === undefined) this.#events.release(own);
      throw error;
    }
    if (!this.#sentIdentifiers.has(message.event)) {
      this.#sentIdentifiers.add(message.event);
      this.#send(message);
    }
    if (eventOf === undefined) this.#lent.add(message.event);
    send(message.event);
  }

  /** Tells when the stream has got where it is to be. Where its device is lost, its work is done with, too. */
  sendWhenDone(stream: CudaStream, send: SendRelease): void {
    this.#later++;
    const settle = (): void => {
      this.#later--;
      this.#onSettled();
    };
    stream.finished().catch((error) => {
      if (!isLoss(error)) throw error;
    }).then(() => send(0), () => this.#onStuck()).then(settle);
  }

  /** An event that is not lent at each release, but belongs to a slot. */
  take(stream: CudaStream): LocalEvent {
    return this.#events.take(stream.device);
  }

  /** The exporter does not look at an event that was taken any more. */
  returnEvent(event: LocalEvent): void {
    this.#events.release(event);
  }

  /** The exporter gives an event back. */
  onFree(event: number): void {
    if (!this.#lent.delete(event)) throw badMessage(`event ${event} is given back and was not lent`);
    this.#events.release(this.#events.get(event)!);
    this.#onSettled();
  }

  /** Destroys the events: those that the exporter may still look at when it is gone. */
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
