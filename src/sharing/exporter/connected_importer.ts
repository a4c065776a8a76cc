import type { CudaEvent } from "../../objects/cuda_event.ts";
import { CudaError, SharingError } from "../../support/errors.ts";
import { EndedError, isLoss } from "../../support/error_wording.ts";
import { whenDone } from "../../support/waiting/waiting.ts";
import { SentOffer } from "./sent_offer.ts";
import type { MessageStream } from "../protocol/message_stream.ts";
import {
  badMessage,
  codeOfGoodbye,
  type ForgetMessage,
  type GoodbyeReason,
  type Message,
} from "../protocol/messages.ts";
import type { OfferRecord } from "./offer_record.ts";
import { hasCome, whenCome } from "./ready_events.ts";
import type { PeerProcess } from "../transport/peer_process.ts";
import { RemoteEvents } from "../events/remote_events.ts";
import type { Peer } from "../transport/unix_socket.ts";

/** What the exporter does for its importers. */
export interface ImporterOwner {
  /** The device with a UUID, if memory of it was exported. */
  readonly findDevice: ConstructorParameters<typeof RemoteEvents>[0];
  /** An importer has let go of an offer for good. */
  onOver(sentOffer: SentOffer): void;
  /** The connection is at its end; why, unless the importer said goodbye. */
  onDisconnect(importer: ConnectedImporter, error: SharingError | undefined): void;
  /** The connection is at its end, and its process may still have something mapped. */
  onLinger(importer: ConnectedImporter): void;
  /** Nothing of the importer is left. */
  onGone(importer: ConnectedImporter): void;
}

/** Milliseconds until it is tried again to open an event where there was too little for that. */
const openPause = 100;

/**
 * An importer as its exporter knows it. What is to be told is kept as what has changed, not as messages: an importer that
 * reads nothing costs no more memory than there are offers.
 */
export class ConnectedImporter {
  readonly peer: Peer;
  readonly process: PeerProcess;
  readonly sentOffers: Map<number, SentOffer> = new Map();
  isConnected = true;
  /** Whether it is in this very process, where no event can be opened. */
  readonly isOwnProcess: boolean;
  readonly #stream: MessageStream;
  readonly #owner: ImporterOwner;
  readonly #events: RemoteEvents;
  /** Pools, allocations and events that it was told of, as the messages that did. */
  readonly #sentIdentifiers = new Map<string, Set<number>>([["pool", new Set()], ["allocation", new Set()], [
    "event",
    new Set(),
  ]]);
  /** Offers of which something is to be told. */
  readonly #changed = new Set<OfferRecord>();
  /** Its events that it may record again, and was not told so. */
  readonly #freeEvents = new Set<number>();
  /** Its events that are waited for. */
  readonly #awaited = new Set<number>();
  /** Cancels waiting for its events. */
  readonly #cancels = new Set<() => void>();
  #isGone = false;

  constructor(stream: MessageStream, owner: ImporterOwner) {
    this.#stream = stream;
    this.#owner = owner;
    this.peer = stream.peer;
    this.isOwnProcess = stream.process.isOwn;
    this.process = stream.process;
    this.#events = new RemoteEvents(owner.findDevice);
    stream.start({
      onMessage: (message) => this.#onMessage(message),
      onDrain: () => this.#onDrain(),
      onEnd: (error) => this.#disconnected(error),
    });
  }

  /** Something has changed of an offer. */
  sendChange(record: OfferRecord): void {
    if (!this.isConnected) return;
    // What was taken back before it was told need not be told.
    if (record.isWithdrawn && !this.sentOffers.has(record.identifier)) return void this.#changed.delete(record);
    const isAlone = this.#changed.size === 0 && this.#freeEvents.size === 0;
    if (isAlone && !this.#stream.isBacklogged) return this.#tellChange(record);
    this.#changed.add(record);
    this.#pump();
  }

  /** Sends a message about what it was told of before. */
  send(message: Message): void {
    this.#stream.send(message);
  }

  /** Whether it reads more slowly than it is told. */
  get isBacklogged(): boolean {
    return this.#stream.isBacklogged;
  }

  /** An identifier goes. */
  forget(message: ForgetMessage): void {
    if (this.isConnected && this.#sentIdentifiers.get(message.kind)!.delete(message.identifier)) {
      this.#stream.send(message);
    }
  }

  /** Ends the connection. What the process may have mapped is quarantined until it ends. */
  cutOff(reason: GoodbyeReason, text: string): void {
    if (!this.isConnected) return;
    this.#stream.end(reason, text);
    this.#disconnected(reason === "done" ? undefined : new SharingError(codeOfGoodbye(reason), text));
  }

  /** Nothing here waits for it any more, nor keeps this process alive for it. */
  abandon(): void {
    for (const cancel of [...this.#cancels]) cancel();
    for (const sentOffer of this.sentOffers.values()) {
      // Only the end of the process tells from now on.
      sentOffer.held += sentOffer.releasing;
      sentOffer.releasing = 0;
    }
    this.process.keepAlive(false);
  }

  /**
   * Calls back once one of its events has fired: at once, where it has. Returns what ends the wait.
   *
   * @throws {SharingError} `bad-message` for an event that cannot be opened, or is waited for already
   */
  whenFired(event: number, callback: () => void): () => void {
    let opened: CudaEvent | undefined;
    let nextTry = 0;
    const open = (): void => {
      try {
        opened = this.#events.open(event);
      } catch (error) {
        if (!lacksMeans(error)) throw error;
        nextTry = performance.now() + openPause;
      }
    };
    if (this.#awaited.has(event)) throw badMessage(`event ${event} is used again before it was given back`);
    try {
      open();
    } catch (error) {
      if (hasNoDevice(error)) {
        callback();
        return () => {};
      }
      if (!(error instanceof CudaError)) throw error;
      throw new SharingError(
        "bad-message",
        `Cannot open event ${event} of process ${this.peer.pid}: ${error.message}`,
        {
          cause: error,
        },
      );
    }
    this.#awaited.add(event);
    let isOver = false;
    let stop = (): void => {};
    const cancel = (): void => {
      stop();
      this.#awaited.delete(event);
      this.#cancels.delete(cancel);
    };
    const hasFired = (): boolean => {
      if (opened === undefined && performance.now() >= nextTry) open();
      return opened?.query() ?? false;
    };
    stop = whenDone(hasFired, (error) => {
      isOver = true;
      this.#cancels.delete(cancel);
      // The event cannot be asked any more: only the end of the process tells.
      if (error !== undefined && !hasNoDevice(error)) return;
      this.#awaited.delete(event);
      callback();
    });
    if (!isOver) this.#cancels.add(cancel);
    return cancel;
  }

  #pump(): void {
    const stream = this.#stream;
    for (const event of this.#freeEvents) {
      if (stream.isBacklogged) return;
      this.#freeEvents.delete(event);
      stream.send({ type: "event-free", event });
    }
    for (const record of this.#changed) {
      if (stream.isBacklogged) return;
      this.#changed.delete(record);
      this.#tellChange(record);
    }
  }

  #onDrain(): void {
    this.#pump();
    for (const { record } of this.sentOffers.values()) record.channel?.onDrain(this);
  }

  #tellChange(record: OfferRecord): void {
    const sentOffer = this.sentOffers.get(record.identifier);
    if (sentOffer === undefined) {
      if (record.isWithdrawn || !record.isPublic) return;
      if (this.isOwnProcess && record.ready !== undefined && !hasCome(record.ready)) {
        return void whenCome(record.ready, (error) => error === undefined && this.sendChange(record));
      }
      return this.#announce(record);
    }
    if (sentOffer.recall === "wanted") {
      sentOffer.recall = "sent";
      this.#stream.send({ type: "recall", offer: record.identifier });
    }
    if (record.isWithdrawn && !sentOffer.wasWithdrawn) {
      sentOffer.wasWithdrawn = true;
      this.#stream.send({ type: "withdraw", offer: record.identifier });
    }
  }

  #announce(record: OfferRecord): void {
    const { pool, allocation, channel } = record;
    this.#tellOnce(pool.message.pool, pool.message);
    if (allocation !== undefined) this.#tellOnce(allocation.message.allocation, allocation.message);
    const message = record.message();
    if (message.readyEvent !== 0) this.#tellOnce(message.readyEvent, record.ready!.own.message);
    if (channel !== undefined) { for (const each of channel.eventMessages) this.#tellOnce(each.event, each); }
    const sentOffer = new SentOffer(record, this);
    this.sentOffers.set(record.identifier, sentOffer);
    record.sentCount++;
    this.#stream.send(message);
    if (channel !== undefined) this.#stream.send(channel.message);
  }

  #tellOnce(identifier: number, message: Message): void {
    const sent = this.#sentIdentifiers.get(message.type)!;
    if (sent.has(identifier)) return;
    sent.add(identifier);
    this.#stream.send(message);
  }

  #onMessage(message: Message): void {
    switch (message.type) {
      case "event":
        return this.#events.define(message);
      case "held": {
        const sentOffer = this.#sentOffer(message.offer);
        if (sentOffer.isAnswered) throw badMessage(`offer ${message.offer} is held after it was given up`);
        if (sentOffer.held === 0) sentOffer.since = Date.now();
        sentOffer.held++;
        sentOffer.wasHeld = true;
        return;
      }
      case "released":
        return this.#onReleased(this.#sentOffer(message.offer), message.event);
      case "withdrawn": {
        const sentOffer = this.#sentOffer(message.offer);
        if (!sentOffer.wasWithdrawn || sentOffer.isAnswered) {
          throw badMessage(`offer ${message.offer} is given up, which was not asked for`);
        }
        sentOffer.isAnswered = true;
        return this.#settle(sentOffer);
      }
      case "join":
      case "taken":
      case "release-slot": {
        const { record: { channel }, held } = this.#sentOffer(message.offer);
        if (channel === undefined) throw badMessage(`offer ${message.offer} is no channel`);
        if (held === 0) throw badMessage(`channel ${message.offer} is used and was not held`);
        return channel.onMessage(this, message);
      }
      default:
        throw badMessage(`a message "${message.type}" comes from an importer`);
    }
  }

  #onReleased(sentOffer: SentOffer, event: number): void {
    if (sentOffer.held === 0) {
      throw badMessage(`offer ${sentOffer.record.identifier} is released and was not held`);
    }
    if (event === 0) {
      sentOffer.held--;
    } else {
      sentOffer.releasing++;
      this.whenFired(event, () => {
        sentOffer.releasing--;
        this.#freeEvents.add(event);
        this.#settle(sentOffer);
        if (this.isConnected) this.#pump();
      });
      sentOffer.held--;
    }
    if (sentOffer.held === 0) {
      // Who maps it again may be asked again.
      sentOffer.recall = "no";
      sentOffer.record.channel?.onLeave(this);
    }
    this.#settle(sentOffer);
  }

  #sentOffer(offer: number): SentOffer {
    const sentOffer = this.sentOffers.get(offer);
    if (sentOffer === undefined) throw badMessage(`offer ${offer} was not made, or is over`);
    return sentOffer;
  }

  /** Ends an announcement of which nothing is left, and tells those who wait for a release. */
  #settle(sentOffer: SentOffer): void {
    if (sentOffer.held === 0 && sentOffer.releasing === 0) {
      sentOffer.count();
      sentOffer.record.channel?.onReleased(this);
      if (sentOffer.isAnswered) this.#end(sentOffer);
    }
    sentOffer.notify();
    this.#leaveIfNothingIsLeft();
  }

  #end(sentOffer: SentOffer): void {
    if (sentOffer.isOver) return;
    sentOffer.isOver = true;
    this.sentOffers.delete(sentOffer.record.identifier);
    sentOffer.record.sentCount--;
    this.#owner.onOver(sentOffer);
  }

  #disconnected(error: SharingError | undefined): void {
    this.isConnected = false;
    this.#changed.clear();
    this.#freeEvents.clear();
    for (const sentOffer of [...this.sentOffers.values()]) {
      // Who says goodbye maps nothing more.
      if (error === undefined) sentOffer.isAnswered = true;
      sentOffer.record.channel?.onLeave(this);
      if (error === undefined) this.#settle(sentOffer);
    }
    this.#owner.onDisconnect(this, error);
    this.process.whenEnded(() => this.#processEnded());
    this.#leaveIfNothingIsLeft();
    if (!this.#isGone) this.#owner.onLinger(this);
  }

  /** Stands for another connection of the same process from now on, which is at its end as this one is. */
  absorb(other: ConnectedImporter): void {
    other.abandon();
    for (const [identifier, sentOffer] of other.sentOffers) {
      const { record } = sentOffer;
      record.channel?.onAbsorb(other, this);
      const known = this.sentOffers.get(identifier);
      if (known === undefined) {
        sentOffer.importer = this;
        sentOffer.isAnswered = false;
        this.sentOffers.set(identifier, sentOffer);
      } else {
        known.absorb(sentOffer);
        known.isAnswered = false;
        record.sentCount--;
      }
    }
    other.sentOffers.clear();
    other.#leaveIfNothingIsLeft();
  }

  #processEnded(): void {
    for (const sentOffer of [...this.sentOffers.values()]) {
      sentOffer.held = 0;
      sentOffer.releasing = 0;
      sentOffer.count();
      sentOffer.record.channel?.onReleased(this);
      this.#end(sentOffer);
      sentOffer.notify();
    }
    this.#leaveIfNothingIsLeft();
  }

  #leaveIfNothingIsLeft(): void {
    if (this.isConnected || this.sentOffers.size > 0 || this.#isGone) return;
    this.#isGone = true;
    for (const cancel of this.#cancels) cancel();
    this.#cancels.clear();
    this.#events.close();
    this.process[Symbol.dispose]();
    this.#owner.onGone(this);
  }
}

/** Whether the exporter has lost its devices, or given them up: its memory cannot be used for anything else. */
function hasNoDevice(error: unknown): boolean {
  return error instanceof EndedError || isLoss(error);
}

/** Whether an error says that this process has too little of something: it may have more another time. */
function lacksMeans(error: unknown): boolean {
  return error instanceof CudaError &&
    (error.code === "cudaErrorOperatingSystem" || error.code === "cudaErrorMemoryAllocation");
}
