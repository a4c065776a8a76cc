import type { ConsumerConnection, ConsumerMessage } from "./channel_hub.ts";
import { badMessage, type FrameMessage } from "../protocol/messages.ts";
import { Condition } from "../../support/waiting/condition.ts";

/** What the frames of a channel need. */
export interface ChannelFramesParts {
  readonly name: string;
  /** The number of its offer. */
  readonly offer: number;
  /** How many frames a consumer is sent that it has not taken. */
  readonly window: number;
  /** Nobody reads a frame of the slot any more. */
  readonly onDone: (slot: number) => void;
  /** There is another consumer. */
  readonly onJoin: () => void;
}

/** What was sent, until nobody needs it any more. */
interface Frame {
  readonly message: FrameMessage;
  /** Consumers that it was not sent to yet. */
  readonly waiting: Set<Consumer>;
  /** Consumers that were sent it and have not released it. */
  readonly holders: Set<Consumer>;
}

interface Consumer {
  readonly importer: ConsumerConnection;
  readonly queue: Set<Frame>;
  /** What it was sent and has not released, by slot. */
  readonly held: Map<number, Frame>;
  /** What ends the waits for the work with what it has released. */
  readonly cancels: Map<Frame, () => void>;
  /** Sequence numbers of what it was sent and has neither taken nor released. */
  readonly untaken: Set<number>;
  /** Whether frames go there. */
  isJoined: boolean;
  hasEnd: boolean;
}

/** The frames of a channel that are not done with, and the consumers that they go to. */
export class ChannelFrames {
  readonly #parts: ChannelFramesParts;
  /** Oldest first. */
  readonly #frames = new Set<Frame>();
  readonly #consumers = new Map<ConsumerConnection, Consumer>();
  #dropped = 0;
  #hasEnded = false;
  readonly #condition = new Condition();

  constructor(parts: ChannelFramesParts) {
    this.#parts = parts;
  }

  /** Those that frames go to. */
  get importers(): ConsumerConnection[] {
    return [...this.#consumers.values()].filter(({ isJoined }) => isJoined).map(({ importer }) => importer);
  }

  /** How many were dropped. */
  get dropped(): number {
    return this.#dropped;
  }

  /** A frame that somebody may not have read yet. */
  get pending(): FrameMessage | undefined {
    for (const { message } of this.#frames) if (message.hasEvent) return message;
    return undefined;
  }

  hasConsumers(least: number): boolean {
    if (least === 0) return true;
    let joined = 0;
    for (const { isJoined } of this.#consumers.values()) if (isJoined) joined++;
    return joined >= least;
  }

  send(message: FrameMessage): void {
    const frame: Frame = { message, waiting: new Set(), holders: new Set() };
    this.#frames.add(frame);
    for (const consumer of this.#consumers.values()) {
      if (!consumer.isJoined) continue;
      frame.waiting.add(consumer);
      consumer.queue.add(frame);
      this.#pump(consumer);
    }
    this.#endIfDone(frame);
  }

  /** Takes the oldest frame back that nobody has begun with. False where there is none. */
  drop(): boolean {
    for (const frame of this.#frames) {
      if (frame.holders.size > 0) continue;
      for (const consumer of frame.waiting) consumer.queue.delete(frame);
      frame.waiting.clear();
      this.#dropped++;
      this.#endIfDone(frame);
      return true;
    }
    return false;
  }

  /** No frame follows. */
  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    for (const consumer of this.#consumers.values()) this.#pump(consumer);
  }

  /** Resolves when nobody reads anything, or the time for that is over. */
  finished(milliseconds: number): Promise<void> {
    return this.#condition.wait(() => this.#frames.size === 0, milliseconds);
  }

  onMessage(importer: ConsumerConnection, message: ConsumerMessage): void {
    if (message.type === "join") return this.#onJoin(importer);
    const { name } = this.#parts;
    const consumer = this.#consumers.get(importer);
    if (consumer === undefined) throw badMessage(`"${name}" was not joined`);
    const { sequence } = message;
    if (message.type === "taken") {
      if (consumer.untaken.delete(sequence)) this.#pump(consumer);
      return;
    }
    const { slot, event } = message;
    const frame = consumer.held.get(slot);
    if (frame?.message.sequence !== sequence || consumer.cancels.has(frame)) {
      throw badMessage(`frame ${sequence} in slot ${slot} of "${name}" is released and was not held`);
    }
    if (consumer.untaken.delete(sequence)) this.#pump(consumer);
    if (event === 0) return this.#onSlotReleased(consumer, frame);
    const cancel = importer.whenFired(event, () => this.#onSlotReleased(consumer, frame));
    if (consumer.held.get(slot) === frame) consumer.cancels.set(frame, cancel);
  }

  /** There is room for messages to an importer again. */
  onDrain(importer: ConsumerConnection): void {
    const consumer = this.#consumers.get(importer);
    if (consumer !== undefined) this.#pump(consumer);
  }

  /** No more frames may go to an importer. */
  onLeave(importer: ConsumerConnection): void {
    const consumer = this.#consumers.get(importer);
    if (consumer === undefined) return;
    consumer.isJoined = false;
    for (const frame of [...consumer.queue]) {
      consumer.queue.delete(frame);
      frame.waiting.delete(consumer);
      this.#endIfDone(frame);
    }
  }

  /** An importer uses no slot any more. */
  onReleased(importer: ConsumerConnection): void {
    const consumer = this.#consumers.get(importer);
    if (consumer === undefined) return;
    this.onLeave(importer);
    this.#consumers.delete(importer);
    for (const cancel of consumer.cancels.values()) cancel();
    for (const frame of [...consumer.held.values()]) this.#onSlotReleased(consumer, frame);
  }

  /** What an importer holds is held by another one from now on. */
  onAbsorb(from: ConsumerConnection, to: ConsumerConnection): void {
    const leaving = this.#consumers.get(from);
    if (leaving === undefined) return;
    this.onLeave(from);
    this.#consumers.delete(from);
    const staying = this.#consumers.get(to) ?? this.#add(to);
    staying.isJoined = false;
    for (const [slot, frame] of leaving.held) {
      // What the other may have released, this one holds: nothing tells when both are done, before the process ends.
      staying.cancels.get(frame)?.();
      staying.cancels.delete(frame);
      staying.held.set(slot, frame);
      frame.holders.delete(leaving);
      frame.holders.add(staying);
    }
  }

  /** Sends a consumer what it may be sent. */
  #pump(consumer: Consumer): void {
    const { importer, queue, untaken } = consumer;
    if (!consumer.isJoined || importer.isBacklogged) return;
    for (const frame of queue) {
      if (untaken.size >= this.#parts.window || importer.isBacklogged) return;
      const { message } = frame;
      queue.delete(frame);
      frame.waiting.delete(consumer);
      frame.holders.add(consumer);
      consumer.held.set(message.slot, frame);
      untaken.add(message.sequence);
      importer.send(message);
    }
    if (!this.#hasEnded || consumer.hasEnd) return;
    consumer.hasEnd = true;
    importer.send({ type: "end", offer: this.#parts.offer });
  }

  #onJoin(importer: ConsumerConnection): void {
    if (this.#consumers.has(importer)) throw badMessage(`"${this.#parts.name}" is joined twice`);
    this.#pump(this.#add(importer));
    this.#parts.onJoin();
  }

  #add(importer: ConsumerConnection): Consumer {
    const consumer: Consumer = {
      importer,
      queue: new Set(),
      held: new Map(),
      cancels: new Map(),
      untaken: new Set(),
      isJoined: true,
      hasEnd: false,
    };
    this.#consumers.set(importer, consumer);
    return consumer;
  }

  #onSlotReleased(consumer: Consumer, frame: Frame): void {
    const { slot } = frame.message;
    if (consumer.held.get(slot) !== frame) return;
    consumer.held.delete(slot);
    consumer.cancels.delete(frame);
    frame.holders.delete(consumer);
    this.#endIfDone(frame);
  }

  #endIfDone(frame: Frame): void {
    if (frame.waiting.size > 0 || frame.holders.size > 0 || !this.#frames.delete(frame)) return;
    this.#parts.onDone(frame.message.slot);
    this.#condition.notify();
  }
}
