import type { CudaEvent } from "../../objects/cuda_event.ts";
import { CudaError, SharingError } from "../../support/errors.ts";
import { EndedError, isLoss } from "../../support/explain.ts";
import { whenDone } from "../../support/waiting/waiting.ts";
import { Announcement } from "./announcement.ts";
import type { MessageStream } from "../protocol/message_stream.ts";
import { codeOfGoodbye, type ForgetMessage, type GoodbyeReason, type Message } from "../protocol/messages.ts";
import type { OfferRecord } from "./offer_record.ts";
import { hasCome, whenCome } from "./ready_events.ts";
import type { PeerProcess } from "../transport/peer_process.ts";
import { badMessage, PeerEvents } from "../events/peer_events.ts";
import type { Peer } from "../transport/unix_socket.ts";

/** What the exporter does for its importers. */
export interface ImporterOwner {
  /** The device with a UUID, if memory of it was exported. */
  readonly findDevice: ConstructorParameters<typeof PeerEvents>[0];
  /** An importer has let go of an offer for good. */
  onOver(announcement: Announcement): void;
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
  readonly announcements: Map<number, Announcement> = new Map();
  isConnected = true;
  /** Whether it is in this very process, where no event can be opened. */
  readonly isOwnProcess: boolean;
  readonly #stream: MessageStream;
  readonly #owner: ImporterOwner;
  readonly #events: PeerEvents;
  /** Pools, allocations and events that it was told of, as the messages that did. */
  readonly #told = new Map<string, Set<number>>([["pool", new Set()], ["allocation", new Set()], ["event", new Set()]]);
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
    this.#events = new PeerEvents(owner.findDevice);
    stream.start({
      onMessage: (message) => this.#onMessage(message),
      onDrain: () => this.#onDrain(),
      onEnd: (error) => this.#disconnected(error),
    });
  }

  /** Something has changed of an offer. */
  tell(record: OfferRecord): void {
    if (!this.isConnected) return;
    // What was taken back before it was told need not be told.
    if (record.isWithdrawn && !this.announcements.has(record.identifier)) return void this.#changed.delete(record);
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
    if (this.isConnected && this.#told.get(message.kind)!.delete(message.identifier)) this.#stream.send(message);
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
    for (const announcement of this.announcements.values()) {
      // Only the end of the process tells from now on.
      announcement.held += announcement.releasing;
      announcement.releasing = 0;
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
    for (const { record } of this.announcements.values()) record.channel?.onDrain(this);
  }

  #tellChange(record: OfferRecord): void {
    const announcement = this.announcements.get(record.identifier);
    if (announcement === undefined) {
      if (record.isWithdrawn || !record.isPublic) return;
      if (this.isOwnProcess && record.ready !== undefined && !hasCome(record.ready)) {
        return void whenCome(record.ready, (error) => error === undefined && this.tell(record));
      }
      return this.#announce(record);
    }
    if (announcement.recall === "wanted") {
      announcement.recall = "sent";
      this.#stream.send({ type: "recall", offer: record.identifier });
    }
    if (record.isWithdrawn && !announcement.wasWithdrawn) {
      announcement.wasWithdrawn = true;
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
    const announcement = new Announcement(record, this);
    this.announcements.set(record.identifier, announcement);
    record.announcements++;
    this.#stream.send(message);
    if (channel !== undefined) this.#stream.send(channel.message);
  }

  #tellOnce(identifier: number, message: Message): void {
    const told = this.#told.get(message.type)!;
    if (told.has(identifier)) return;
    told.add(identifier);
    this.#stream.send(message);
  }

  #onMessage(message: Message): void {
    switch (message.type) {
      case "event":
        return this.#events.define(message);
      case "held": {
        const announcement = this.#announcement(message.offer);
        if (announcement.isAnswered) throw badMessage(`offer ${message.offer} is held after it was given up`);
        if (announcement.held === 0) announcement.since = Date.now();
        announcement.held++;
        announcement.wasHeld = true;
        return;
      }
      case "released":
        return this.#onReleased(this.#announcement(message.offer), message.event);
      case "withdrawn": {
        const announcement = this.#announcement(message.offer);
        if (!announcement.wasWithdrawn || announcement.isAnswered) {
          throw badMessage(`offer ${message.offer} is given up, which was not asked for`);
        }
        announcement.isAnswered = true;
        return this.#settle(announcement);
      }
      case "join":
      case "taken":
      case "release-slot": {
        const { record: { channel }, held } = this.#announcement(message.offer);
        if (channel === undefined) throw badMessage(`offer ${message.offer} is no channel`);
        if (held === 0) throw badMessage(`channel ${message.offer} is used and was not held`);
        return channel.onMessage(this, message);
      }
      default:
        throw badMessage(`a message "${message.type}" comes from an importer`);
    }
  }

  #onReleased(announcement: Announcement, event: number): void {
    if (announcement.held === 0) {
      throw badMessage(`offer ${announcement.record.identifier} is released and was not held`);
    }
    if (event === 0) {
      announcement.held--;
    } else {
      announcement.releasing++;
      this.whenFired(event, () => {
        announcement.releasing--;
        this.#freeEvents.add(event);
        this.#settle(announcement);
        if (this.isConnected) this.#pump();
      });
      announcement.held--;
    }
    if (announcement.held === 0) {
      // Who maps it again may be asked again.
      announcement.recall = "no";
      announcement.record.channel?.onLeave(this);
    }
    this.#settle(announcement);
  }

  #announcement(offer: number): Announcement {
    const announcement = this.announcements.get(offer);
    if (announcement === undefined) throw badMessage(`offer ${offer} was not made, or is over`);
    return announcement;
  }

  /** Ends an announcement of which nothing is left, and tells those who wait for a release. */
  #settle(announcement: Announcement): void {
    if (announcement.held === 0 && announcement.releasing === 0) {
      announcement.count();
      announcement.record.channel?.onReleased(this);
      if (announcement.isAnswered) this.#end(announcement);
    }
    announcement.tell();
    this.#leaveIfNothingIsLeft();
  }

  #end(announcement: Announcement): void {
    if (announcement.isOver) return;
    announcement.isOver = true;
    this.announcements.delete(announcement.record.identifier);
    announcement.record.announcements--;
    this.#owner.onOver(announcement);
  }

  #disconnected(error: SharingError | undefined): void {
    this.isConnected = false;
    this.#changed.clear();
    this.#freeEvents.clear();
    for (const announcement of [...this.announcements.values()]) {
      // Who says goodbye maps nothing more.
      if (error === undefined) announcement.isAnswered = true;
      announcement.record.channel?.onLeave(this);
      if (error === undefined) this.#settle(announcement);
    }
    this.#owner.onDisconnect(this, error);
    this.process.whenEnded(() => this.#processEnded());
    this.#leaveIfNothingIsLeft();
    if (!this.#isGone) this.#owner.onLinger(this);
  }

  /** Stands for another connection of the same process from now on, which is at its end as this one is. */
  absorb(other: ConnectedImporter): void {
    other.abandon();
    for (const [identifier, announcement] of other.announcements) {
      const { record } = announcement;
      record.channel?.onAbsorb(other, this);
      const known = this.announcements.get(identifier);
      if (known === undefined) {
        announcement.importer = this;
        announcement.isAnswered = false;
        this.announcements.set(identifier, announcement);
      } else {
        known.absorb(announcement);
        known.isAnswered = false;
        record.announcements--;
      }
    }
    other.announcements.clear();
    other.#leaveIfNothingIsLeft();
  }

  #processEnded(): void {
    for (const announcement of [...this.announcements.values()]) {
      announcement.held = 0;
      announcement.releasing = 0;
      announcement.count();
      announcement.record.channel?.onReleased(this);
      this.#end(announcement);
      announcement.tell();
    }
    this.#leaveIfNothingIsLeft();
  }

  #leaveIfNothingIsLeft(): void {
    if (this.isConnected || this.announcements.size > 0 || this.#isGone) return;
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
