import type { ConsumerConnection, ConsumerMessage } from "./channel_hub.ts";
import { badMessage, type FrameMessage } from "../protocol/messages.ts";
import { Condition } from "../../support/waiting/condition.ts";

/** The dependencies of `ChannelFrames`. */
export interface ChannelFramesParts {
  readonly name: string;
  /** The identifier of the channel's offer. */
  readonly offer: number;
  /** The maximum number of frames sent to a consumer that it has not taken. */
  readonly window: number;
  /** Called when nobody reads the slot's frame any more. */
  readonly onDone: (slot: number) => void;
  /** Called when a consumer joins. */
  readonly onJoin: () => void;
}

/** A frame that the application has sent, until nobody needs it any more. */
interface Frame {
  readonly message: FrameMessage;
  /** The consumers that it was not sent to yet. */
  readonly waiting: Set<Consumer>;
  /** The consumers that it was sent to and that have not released it. */
  readonly holders: Set<Consumer>;
}

interface Consumer {
  readonly importer: ConsumerConnection;
  readonly queue: Set<Frame>;
  /** The frames that it was sent and has not released, by slot. */
  readonly held: Map<number, Frame>;
  /** Functions that cancel the waits for its work with released frames. */
  readonly cancels: Map<Frame, () => void>;
  /** The sequence numbers of the frames that it was sent and has neither taken nor released. */
  readonly untaken: Set<number>;
  /** Whether frames are sent to it. */
  isJoined: boolean;
  hasSentEnd: boolean;
}

/** The frames of a channel that are still needed, and the consumers that they are sent to. */
export class ChannelFrames {
  readonly #parts: ChannelFramesParts;
  /** The frames that are still needed, oldest first. */
  readonly #frames = new Set<Frame>();
  readonly #consumers = new Map<ConsumerConnection, Consumer>();
  #dropped = 0;
  #hasEnded = false;
  readonly #condition = new Condition();

  constructor(parts: ChannelFramesParts) {
    this.#parts = parts;
  }

  /** The importers that frames are sent to. */
  get importers(): ConsumerConnection[] {
    return [...this.#consumers.values()].filter(({ isJoined }) => isJoined).map(({ importer }) => importer);
  }

  /** The number of frames that were dropped. */
  get dropped(): number {
    return this.#dropped;
  }

  /** A frame whose write may not be done yet; undefined if there is none. */
  get pending(): FrameMessage | undefined {
    for (const { message } of this.#frames) if (message.hasEvent) return message;
    return undefined;
  }

  hasConsumers(minimum: number): boolean {
    if (minimum === 0) return true;
    let joined = 0;
    for (const { isJoined } of this.#consumers.values()) if (isJoined) joined++;
    return joined >= minimum;
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

  /** Drops the oldest frame that no consumer holds. Returns false if there is none. */
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

  /** Ends the channel: no frame follows. */
  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    for (const consumer of this.#consumers.values()) this.#pump(consumer);
  }

  /** Resolves once no frame is needed any more, or the time is over. */
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

  /** The connection to an importer has room for messages again. */
  onDrain(importer: ConsumerConnection): void {
    const consumer = this.#consumers.get(importer);
    if (consumer !== undefined) this.#pump(consumer);
  }

  /** No more frames may be sent to an importer. */
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

  /** The frames that one importer holds are held by another from now on. */
  onAbsorb(from: ConsumerConnection, to: ConsumerConnection): void {
    const leaving = this.#consumers.get(from);
    if (leaving === undefined) return;
    this.onLeave(from);
    this.#consumers.delete(from);
    const staying = this.#consumers.get(to) ?? this.#add(to);
    staying.isJoined = false;
    for (const [slot, frame] of leaving.held) {
      // The other connection may have released the frame that this one still holds. Nothing reports when both are done
      // before the process ends.
      staying.cancels.get(frame)?.();
      staying.cancels.delete(frame);
      staying.held.set(slot, frame);
      frame.holders.delete(leaving);
      frame.holders.add(staying);
    }
  }

  /** Sends a consumer as many frames as its window and the connection allow. */
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
    if (!this.#hasEnded || consumer.hasSentEnd) return;
    consumer.hasSentEnd = true;
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
      hasSentEnd: false,
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
