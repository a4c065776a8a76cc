/**
 * A connection to an importer, from its handshake until the importer's process has ended. A process that is still
 * running after its connection has ended may still have memory mapped. The number of such connections is limited:
 * further ones of the same process are merged, so that a process that reconnects repeatedly costs little. If processes
 * cannot be distinguished, the acceptor limits their connections instead.
 *
 * @module
 */
import { runEach, SharingError } from "../../support/errors.ts";
import { EndedError, isLoss } from "../../support/driver_errors.ts";
import { isLogging, logEvent } from "../../support/event_log.ts";
import { SentOffer } from "./lease.ts";
import type { MessageStream } from "../protocol/message_stream.ts";
import {
  badMessage,
  codeOfGoodbye,
  type ForgetMessage,
  type GoodbyeReason,
  maximumImporterEvents,
  memoryVersion,
  type Message,
  type PoolMessage,
  type RequestHandleMessage,
  requestHandleVersion,
} from "../protocol/messages.ts";
import type { OfferRecord } from "./offer.ts";
import { hasFired, whenFired } from "./ready_events.ts";
import type { PeerProcess } from "../transport/peer_process.ts";
import { EventAnswers, type LocalEvents } from "../events/local_events.ts";
import type { EventBudget } from "../events/event_waits.ts";
import { RemoteEvents, type RemoteEventsParts } from "../events/remote_events.ts";
import type { Peer } from "../transport/unix_socket.ts";

/**
 * The dependencies of `ConnectedImporter`, which its exporter provides. None of the functions may call the application
 * synchronously: an error that the application throws would be treated as an error in the importer's message, and would
 * close the connection.
 */
export interface ImporterOwner {
  /** Returns the device with the given UUID; undefined if none of the device's memory was exported. */
  readonly findDevice: RemoteEventsParts["findDevice"];
  /** The exporter's events, which are announced to importers. */
  readonly events: LocalEvents;
  /** Limits the number of importers' events whose announcements are kept. */
  readonly eventBudget: EventBudget;
  /** Called when an importer can no longer use a sent offer. */
  onOver(sentOffer: SentOffer): void;
  /** Called when the connection was closed. The error is undefined if the importer sent GOODBYE `done`. */
  onDisconnect(importer: ConnectedImporter, error: SharingError | undefined): void;
  /** Called when the connection was closed but the importer's process may still have memory mapped. */
  onLinger(importer: ConnectedImporter): void;
  /** Called when the connection was closed and the importer can no longer use any offer. */
  onGone(importer: ConnectedImporter): void;
}

/**
 * The exporter's end of a connection to an importer. Pending changes are stored as a set of changed offers, not as
 * messages: the memory used for an importer that reads nothing is bounded by the number of offers.
 */
export class ConnectedImporter {
  readonly peer: Peer;
  readonly process: PeerProcess;
  readonly sentOffers: Map<number, SentOffer> = new Map();
  isConnected = true;
  /** Whether the importer runs in the exporter's own process, where CUDA cannot open the exporter's events. */
  readonly isOwnProcess: boolean;
  readonly #stream: MessageStream;
  readonly #owner: ImporterOwner;
  readonly #events: RemoteEvents;
  readonly #answers: EventAnswers;
  /**
   * The identifiers of the pools, allocations and events announced to the importer, keyed by the type of the message
   * that announced them.
   */
  readonly #sentIdentifiers = new Map<string, Set<number>>([["pool", new Set()], ["allocation", new Set()], [
    "event",
    new Set(),
  ]]);
  /** The pools that are announced to the importer, which may request their handles again. */
  readonly #sentPools = new Map<number, PoolMessage>();
  /** The token of the last handle that was sent in answer to a request; 0 before the first one. */
  #handleToken = 0;
  /** Offers with changes that have not been sent yet. */
  readonly #changed = new Set<OfferRecord>();
  /** Events of the importer for which EVENT_FREE has not been sent yet. */
  readonly #freeEvents = new Set<number>();
  /** Maps each event that is waited for to the offer whose release sent the event, or to a callback. */
  readonly #awaited = new Map<number, SentOffer | (() => void)>();
  readonly #onFired = (error: unknown, event: number): void => {
    // If the event can no longer be queried, the memory is released only when the importer's process exits.
    if (error !== undefined && !hasNoDevice(error)) return;
    const awaiting = this.#awaited.get(event)!;
    this.#awaited.delete(event);
    if (typeof awaiting === "function") awaiting();
    else this.#onWorkDone(awaiting, event);
  };
  #isGone = false;
  /**
   * Whether the connection is closed, but the importer's process may still have memory mapped. False once the
   * connection was merged into another one.
   */
  #isLingering = false;

  constructor(stream: MessageStream, owner: ImporterOwner) {
    this.#stream = stream;
    this.#owner = owner;
    this.peer = stream.peer;
    this.isOwnProcess = stream.process.isOwn;
    this.process = stream.process;
    const send = (message: Message): void => stream.send(message);
    this.#events = new RemoteEvents({
      findDevice: owner.findDevice,
      maximum: maximumImporterEvents,
      budget: owner.eventBudget,
      send,
      process: stream.process,
    });
    this.#answers = new EventAnswers({
      events: owner.events,
      find: (event) => this.#sentIdentifiers.get("event")!.has(event) ? owner.events.get(event) : undefined,
      send,
      isBacklogged: () => stream.isBacklogged,
    });
    stream.start({
      onMessage: (message) => this.#onMessage(message),
      onDrain: () => this.#onDrain(),
      onEnd: (error) => this.#disconnected(error),
    });
  }

  /** Sends the changes of an offer's state as soon as the connection is not backlogged. */
  sendChange(record: OfferRecord): void {
    if (!this.isConnected) return;
    // An offer that was withdrawn before it was sent is never sent.
    if (record.isWithdrawn && !this.sentOffers.has(record.identifier)) return void this.#changed.delete(record);
    const isAlone = this.#changed.size === 0 && this.#freeEvents.size === 0 && !this.#answers.hasUnsent;
    if (isAlone && !this.#stream.isBacklogged) return this.#sendChangeNow(record);
    this.#changed.add(record);
    this.#pump();
  }

  /** Sends a message whose identifiers have all been announced to the importer already. */
  send(message: Message): void {
    this.#stream.send(message);
  }

  /** Whether the importer's process may have begun to exit but has not exited yet. */
  get mayBeEnding(): boolean {
    return !this.process.isKnownToRun;
  }

  /** Whether messages are queued because the importer reads them more slowly than they are sent. */
  get isBacklogged(): boolean {
    return this.#stream.isBacklogged;
  }

  /** Sends FORGET, if the identifier was announced to the importer. */
  sendForget(message: ForgetMessage): void {
    if (this.isConnected && this.#sentIdentifiers.get(message.kind)!.delete(message.identifier)) {
      if (message.kind === "pool") this.#sentPools.delete(message.identifier);
      this.#stream.send(message);
    }
  }

  /** Closes the connection. Memory that the process may have mapped is quarantined until the process has exited. */
  cutOff(reason: GoodbyeReason, text: string): void {
    if (!this.isConnected) return;
    if (isLogging && reason !== "done") logEvent("cut-off", { peer: this.peer.pid, code: reason, error: text });
    this.#stream.end(reason, text);
    this.#disconnected(reason === "done" ? undefined : new SharingError(codeOfGoodbye(reason), text));
  }

  /**
   * Cancels all waits for the importer's events. Afterwards, the wait for the importer's process to exit no longer
   * keeps this process alive.
   */
  abandon(): void {
    this.#closeEvents();
    for (const sentOffer of this.sentOffers.values()) {
      // Because the waits were canceled, the memory is released only when the importer's process exits.
      sentOffer.held += sentOffer.releasing;
      sentOffer.releasing = 0;
    }
    this.process.keepAlive(false);
  }

  /**
   * Calls `callback` once an event of the importer has fired, or immediately if the event has fired already. Returns a
   * function that cancels the wait.
   *
   * @throws {SharingError} `bad-message` if the event was not announced or is already being waited for
   */
  whenFired(event: number, callback: () => void): () => void {
    const cancel = this.#await(event, callback);
    return () => {
      if (this.#awaited.get(event) !== callback) return;
      this.#awaited.delete(event);
      cancel();
    };
  }

  /**
   * Waits for an event. Avoids allocating a closure per wait, since each importer may have a thousand pending events.
   */
  #await(event: number, awaiting: SentOffer | (() => void)): () => void {
    if (this.#awaited.has(event)) throw badMessage(`event ${event} is used again before EVENT_FREE`);
    this.#awaited.set(event, awaiting);
    return this.#events.whenFired(event, this.#onFired);
  }

  /** Cancels all waits for the importer's events, and closes the events. */
  #closeEvents(): void {
    this.#events.close();
    this.#awaited.clear();
  }

  #pump(): void {
    const stream = this.#stream;
    this.#answers.pump();
    for (const event of this.#freeEvents) {
      if (stream.isBacklogged) return;
      this.#freeEvents.delete(event);
      stream.send({ type: "event-free", event });
    }
    for (const record of this.#changed) {
      if (stream.isBacklogged) return;
      this.#changed.delete(record);
      this.#sendChangeNow(record);
    }
  }

  #onDrain(): void {
    this.#pump();
    for (const { record } of this.sentOffers.values()) record.channel?.onDrain(this);
  }

  #sendChangeNow(record: OfferRecord): void {
    const sentOffer = this.sentOffers.get(record.identifier);
    if (sentOffer === undefined) {
      if (record.isWithdrawn || !record.isPublic) return;
      if (this.isOwnProcess && record.ready !== undefined && !hasFired(record.ready)) {
        return void whenFired(record.ready, (error) => error === undefined && this.sendChange(record));
      }
      return this.#sendOffer(record);
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

  #sendOffer(record: OfferRecord): void {
    const { pool, allocation, channel } = record;
    if (pool.message.kind === "memory" && this.#stream.version < memoryVersion) {
      return this.cutOff("version-mismatch", `"${record.name}" needs version ${memoryVersion}`);
    }
    if (this.#sendOnce(pool.message.pool, pool.message)) this.#sentPools.set(pool.message.pool, pool.message);
    if (allocation !== undefined) this.#sendOnce(allocation.message.allocation, allocation.message);
    const message = record.message();
    if (message.readyEvent !== 0) this.#sendOnce(message.readyEvent, record.ready!.localEvent.message);
    if (channel !== undefined) { for (const each of channel.eventMessages) this.#sendOnce(each.event, each); }
    const sentOffer = new SentOffer(record, this);
    this.sentOffers.set(record.identifier, sentOffer);
    record.sentCount++;
    this.#stream.send(message);
    if (channel !== undefined) this.#stream.send(channel.message);
  }

  /** Sends a message that announces an identifier, unless the importer knows it. Returns whether it was sent. */
  #sendOnce(identifier: number, message: Message): boolean {
    const sent = this.#sentIdentifiers.get(message.type)!;
    if (sent.has(identifier)) return false;
    sent.add(identifier);
    this.#stream.send(message);
    return true;
  }

  #onMessage(message: Message): void {
    switch (message.type) {
      case "event":
        return this.#events.define(message);
      case "wait":
        return this.#answers.onWait(message.event);
      case "fired":
        return this.#events.onFired(message.event);
      case "held": {
        const sentOffer = this.#sentOffer(message.offer);
        if (sentOffer.isAnswered) throw badMessage(`offer ${message.offer} is held after WITHDRAWN`);
        if (sentOffer.held === 0) {
          sentOffer.since = Date.now();
          if (isLogging) this.#log("map", sentOffer);
        }
        sentOffer.held++;
        sentOffer.wasHeld = true;
        return;
      }
      case "released":
        return this.#onReleased(this.#sentOffer(message.offer), message.event);
      case "withdrawn": {
        const sentOffer = this.#sentOffer(message.offer);
        if (!sentOffer.wasWithdrawn || sentOffer.isAnswered) {
          throw badMessage(`WITHDRAWN for offer ${message.offer} answers no WITHDRAW`);
        }
        sentOffer.isAnswered = true;
        return this.#settle(sentOffer);
      }
      case "join":
      case "release-slot": {
        const { record: { channel }, held } = this.#sentOffer(message.offer);
        if (channel === undefined) throw badMessage(`offer ${message.offer} is not a channel`);
        if (held === 0) throw badMessage(`channel ${message.offer} is used and was not held`);
        return channel.onMessage(this, message);
      }
      case "request-handle":
        return this.#onRequestHandle(message);
      default:
        throw badMessage(`a message "${message.type}" comes from an importer`);
    }
  }

  /**
   * Sends the handle of a pool again. The request must contain the token of the last answer, which proves that the
   * importer has read that answer. Otherwise, unread answers could occupy all descriptors that the kernel lets this
   * process's user send.
   */
  #onRequestHandle({ pool, token }: RequestHandleMessage): void {
    const message = this.#sentPools.get(pool);
    if (message === undefined) throw badMessage(`the handle of pool ${pool} is requested, which was not announced`);
    if (this.#stream.version < requestHandleVersion) {
      throw badMessage(`a handle is requested, which version ${this.#stream.version} of the protocol does not permit`);
    }
    if (token !== this.#handleToken) {
      throw badMessage(`the handle of pool ${pool} is requested without the token of the last answer`);
    }
    this.#handleToken = crypto.getRandomValues(new Uint32Array(1))[0]! || 1;
    this.#stream.send({ type: "pool-handle", pool, token: this.#handleToken, handle: message.handle });
  }

  #onReleased(sentOffer: SentOffer, event: number): void {
    if (sentOffer.held === 0) {
      throw badMessage(`offer ${sentOffer.record.identifier} is released and was not held`);
    }
    if (event === 0) {
      sentOffer.held--;
    } else {
      sentOffer.releasing++;
      this.#await(event, sentOffer);
      sentOffer.held--;
    }
    if (sentOffer.held === 0) {
      // Allow another RECALL, in case the importer maps the offer again.
      sentOffer.recall = "no";
      sentOffer.record.channel?.onLeave(this);
      if (isLogging) {
        this.#log("release", sentOffer);
        this.#logLeaseEnd(sentOffer);
      }
    }
    this.#settle(sentOffer);
  }

  #onWorkDone(sentOffer: SentOffer, event: number): void {
    sentOffer.releasing--;
    if (isLogging) this.#logLeaseEnd(sentOffer);
    this.#freeEvents.add(event);
    this.#settle(sentOffer);
    if (this.isConnected) this.#pump();
  }

  #logLeaseEnd(sentOffer: SentOffer): void {
    if (sentOffer.held === 0 && sentOffer.releasing === 0) this.#log("lease-end", sentOffer);
  }

  #log(event: "map" | "release" | "lease-end", { record: { name, byteLength } }: SentOffer): void {
    logEvent(event, { peer: this.peer.pid, name, bytes: byteLength });
  }

  #sentOffer(offer: number): SentOffer {
    const sentOffer = this.sentOffers.get(offer);
    if (sentOffer === undefined) throw badMessage(`offer ${offer} was not made, or is over`);
    return sentOffer;
  }

  /**
   * Handles a release: ends the sent offer if it is completely released and cannot be mapped again, and notifies the
   * callers that wait for the release.
   */
  #settle(sentOffer: SentOffer): void {
    if (sentOffer.held === 0 && sentOffer.releasing === 0) {
      sentOffer.countRelease();
      sentOffer.record.channel?.onReleased(this);
      if (sentOffer.isAnswered) this.#end(sentOffer);
    }
    sentOffer.notify();
    this.#endIfUnused();
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
    const awaited = this.#events.endWaits();
    for (const event of [...this.#awaited.keys()]) if (!awaited.has(event)) this.#awaited.delete(event);
    this.#changed.clear();
    this.#freeEvents.clear();
    for (const sentOffer of [...this.sentOffers.values()]) {
      // After GOODBYE `done`, the importer can no longer map anything.
      if (error === undefined) sentOffer.isAnswered = true;
      runEach(
        () => sentOffer.record.channel?.onLeave(this),
        () => error === undefined && this.#settle(sentOffer),
      );
    }
    runEach(
      () => this.#answers.close(),
      () => this.#owner.onDisconnect(this, error),
      () => void this.process.whenEnded(() => this.#processEnded()),
      () => this.#endIfUnused(),
      () => this.#isGone || this.#linger(),
    );
  }

  #linger(): void {
    this.#isLingering = true;
    if (isLogging) {
      let bytes = 0;
      for (const { record } of this.sentOffers.values()) bytes += record.byteLength;
      logEvent("quarantine", { peer: this.peer.pid, offers: this.sentOffers.size, bytes });
    }
    this.#owner.onLinger(this);
  }

  /**
   * Moves any offers still held by another connection of the same process to this connection. Both connections are
   * closed.
   */
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
    other.#isLingering = false;
    other.#endIfUnused();
  }

  #processEnded(): void {
    for (const sentOffer of [...this.sentOffers.values()]) {
      if (isLogging && (sentOffer.held > 0 || sentOffer.releasing > 0)) this.#log("lease-end", sentOffer);
      sentOffer.held = 0;
      sentOffer.releasing = 0;
      runEach(
        () => sentOffer.countRelease(),
        () => sentOffer.record.channel?.onReleased(this),
        () => this.#end(sentOffer),
        () => sentOffer.notify(),
      );
    }
    this.#endIfUnused();
  }

  #endIfUnused(): void {
    if (this.isConnected || this.sentOffers.size > 0 || this.#isGone) return;
    this.#isGone = true;
    if (isLogging && this.#isLingering) logEvent("quarantine-end", { peer: this.peer.pid });
    runEach(
      () => this.#closeEvents(),
      () => this.process[Symbol.dispose](),
      () => this.#owner.onGone(this),
    );
  }
}

/**
 * Returns whether an error indicates that the exporter's device is lost or disposed of. The memory then cannot be
 * reused anyway.
 */
function hasNoDevice(error: unknown): boolean {
  return error instanceof EndedError || isLoss(error);
}

/** The maximum number of closed connections of one process that are not merged. */
const maximumLingering = 16;

/**
 * If the process of `importer` already has `maximumLingering` other closed connections, merges the connection of
 * `importer`, which was just closed, into one of them.
 */
export function absorbLingering(importers: Iterable<ConnectedImporter>, importer: ConnectedImporter): void {
  if (importer.process.hasEnded) return;
  const others = lingering(importers).filter((other) => other !== importer && other.process.isSameAs(importer.process));
  if (others.length >= maximumLingering) others[0]!.absorb(importer);
}

function lingering(importers: Iterable<ConnectedImporter>): ConnectedImporter[] {
  return [...importers].filter(({ isConnected, process }) => !isConnected && !process.hasEnded);
}
