import type { CudaStream } from "../cuda_stream.ts";
import { printAs } from "../custom_inspect.ts";
import type { DeviceBuffer } from "../device_buffer.ts";
import type { MemoryPool } from "../memory_pool.ts";
import type { WaitOptions } from "../waiting.ts";
import type { ChannelHub, ConsumerMessage } from "./channel_hub.ts";
import type { ConnectedImporter } from "./connected_importer.ts";
import type { ChannelMessage } from "./messages.ts";
import { encodeMetadata, type JsonValue } from "./metadata.ts";
import type { OwnEvent } from "./own_events.ts";
import { badMessage } from "./peer_events.ts";
import { Slot } from "./slot.ts";
import type { Peer } from "./unix_socket.ts";
import { until } from "./until.ts";

/** Options of `Exporter.createChannel`. */
export interface ChannelOptions {
  /** Where the ring is allocated: a pool created with handleType "posix-fd". */
  pool: MemoryPool;
  /** How many frames there is room for, 1 to 1024. */
  slots: number;
  /** Bytes of the largest frame. */
  slotByteLength: number;
  /** What consumers should know of it: type, shape, anything that JSON can say, of at most 32 KiB. */
  metadata?: JsonValue;
  /**
   * What happens when all slots are in use. `"wait"`, the default: `reserve` waits for the slowest consumer.
   * `"drop-oldest"`: frames that no consumer has begun with are dropped, the oldest first.
   */
  overflow?: "wait" | "drop-oldest";
  /** `reserve` waits until there are as many: 1 unless given, 0 where frames are dropped. */
  minimumConsumers?: number;
  /** Where frames are dropped: how many are sent ahead to each consumer, and dropped no more. 1 unless given. */
  window?: number;
  /** The stream that the ring is allocated on, and its slots' own: the device's default stream unless given. */
  stream?: CudaStream;
}

/** Options of `ChannelProducer.send`. */
export interface SendFrameOptions {
  /** Bytes of the slot that are the frame's: all of them unless given. */
  byteLength?: number;
  /** What consumers should know of the frame, of at most 32 KiB of JSON. */
  metadata?: JsonValue;
  /** The stream that writes the slot: the slot's buffer's own unless given. */
  stream?: CudaStream;
}

/** What a producer needs of its exporter. */
export interface ChannelParts {
  readonly name: string;
  /** The number of its offer. */
  readonly offer: number;
  readonly ring: DeviceBuffer;
  readonly stride: number;
  readonly options: ChannelOptions;
  /** One for each slot. */
  readonly events: readonly OwnEvent[];
  /** Milliseconds that consumers have for the last frames. */
  readonly closeTimeout: number;
  /** Is told of each frame. */
  readonly onSend: () => void;
  /** Takes the channel back, and frees the ring when nobody uses it any more. */
  readonly withdraw: () => void;
}

/** A slot as the producer knows it. */
interface SlotState {
  readonly index: number;
  /** What the application has of it; undefined unless it is reserved. */
  reserved: Slot | undefined;
  frame: Frame | undefined;
}

/** What was sent, until nobody needs it any more. */
interface Frame {
  readonly slot: SlotState;
  readonly sequence: number;
  readonly byteLength: number;
  readonly hasEvent: boolean;
  readonly metadata: string;
  /** Consumers that it was not sent to yet. */
  readonly waiting: Set<Consumer>;
  /** Consumers that were sent it and have not released it. */
  readonly holders: Set<Consumer>;
}

interface Consumer {
  readonly importer: ConnectedImporter;
  readonly queue: Set<Frame>;
  /** What it was sent and has not released, by slot. */
  readonly held: Map<number, Frame>;
  /** What ends the waits for the work with what it has released. */
  readonly cancels: Map<Frame, () => void>;
  /** Sequence numbers of what it was sent and has not taken. */
  readonly untaken: Set<number>;
  /** Whether frames go there. */
  isJoined: boolean;
  hasEnd: boolean;
}

/**
 * The writing end of a channel: a ring of slots in a pool, which kernels write and other processes' kernels read, with
 * no copy and no allocation. Made by `Exporter.createChannel`.
 *
 * @example
 * ```ts ignore
 * await using channel = exporter.createChannel("frames", { pool, slots: 4, slotByteLength: 64 * 2 ** 20 });
 * for (let frame = 0; frame < 1000; frame++) {
 *   const slot = await channel.reserve();
 *   kernel.launch({ grid, block, stream }, slot.buffer, frame);
 *   channel.send(slot, { stream });
 * }
 * ```
 */
export class ChannelProducer implements AsyncDisposable {
  /** The name by which importers find it. */
  readonly name: string;
  /** Bytes of a slot. */
  readonly slotByteLength: number;
  readonly #parts: ChannelParts;
  readonly #slots: readonly SlotState[];
  readonly #free: SlotState[];
  /** Frames that are not done with, oldest first. */
  readonly #frames = new Set<Frame>();
  readonly #consumers = new Map<ConnectedImporter, Consumer>();
  readonly #window: number;
  readonly #minimumConsumers: number;
  readonly #drops: boolean;
  /** Who waits for a slot, first come first. */
  readonly #reserving = new Set<{ resolve: (slot: Slot) => void; reject: (error: unknown) => void }>();
  #onIdle: (() => void) | undefined;
  #sequence = 0;
  #dropped = 0;
  #hasEnded = false;
  #isDisposed = false;

  static {
    printAs(this, (channel) => {
      const state = channel.#isDisposed ? ", disposed" : channel.#hasEnded ? ", ended" : "";
      return `ChannelProducer { ${channel.name}, ${channel.#free.length} of ${channel.#slots.length} slots free, ` +
        `${channel.consumers.length} consumers, ${channel.#sequence} frames${state} }`;
    });
  }

  /** Made by `Exporter.createChannel`. `onHub` is given what connections talk to. */
  constructor(parts: ChannelParts, onHub: (hub: ChannelHub) => void) {
    const { options } = parts;
    this.name = parts.name;
    this.slotByteLength = options.slotByteLength;
    this.#parts = parts;
    this.#drops = options.overflow === "drop-oldest";
    this.#minimumConsumers = options.minimumConsumers ?? (this.#drops ? 0 : 1);
    this.#window = this.#drops ? options.window ?? 1 : options.slots;
    this.#slots = Array.from({ length: options.slots }, (_, index) => ({
      index,
      reserved: undefined,
      frame: undefined,
    }));
    this.#free = [...this.#slots];
    onHub({
      eventMessages: parts.events.map(({ message }) => message),
      message: () => this.#message(),
      onMessage: (importer, message) => this.#onMessage(importer, message),
      onDrain: (importer) => {
        const consumer = this.#consumers.get(importer);
        if (consumer !== undefined) this.#pump(consumer);
      },
      onLeave: (importer) => this.#onLeave(importer),
      onReleased: (importer) => this.#onReleased(importer),
      pendingEvent: () => this.#pendingEvent(),
      close: () => this.end(),
    });
  }

  /** The processes that frames go to. */
  get consumers(): readonly Peer[] {
    return [...this.#consumers.values()].filter(({ isJoined }) => isJoined).map(({ importer }) => importer.peer);
  }

  /** Frames that were sent. */
  get sent(): number {
    return this.#sequence;
  }

  /** Frames that were dropped before the last consumer had begun with them. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Slots that nobody uses. The others are written, are on their way, or are held by consumers. */
  get freeSlots(): number {
    return this.#free.length;
  }

  /**
   * A slot to write: at once where one is free, else when consumers have released one and their work with it is done.
   *
   * @throws {ReferenceError} when the channel has ended
   */
  reserve(options: WaitOptions = {}): Promise<Slot> {
    return until<Slot>((resolve, reject) => {
      if (this.#hasEnded) return reject(new ReferenceError(`Cannot reserve a slot of "${this.name}": it has ended`));
      const waiting = { resolve, reject };
      this.#reserving.add(waiting);
      this.#serve();
      return () => this.#reserving.delete(waiting);
    }, options);
  }

  /**
   * Sends what the stream writes into a slot, in the stream's order. The slot is the channel's again.
   *
   * @throws {ReferenceError} for a slot that was sent, or given back
   */
  send(slot: Slot, options: SendFrameOptions = {}): void {
    const state = this.#slots[slot.index];
    if (state?.reserved !== slot) {
      throw new ReferenceError(`Cannot send slot ${slot.index} of "${this.name}": it is not reserved, or was sent`);
    }
    const { byteLength = this.slotByteLength, stream = slot.buffer.stream } = options;
    if (!Number.isSafeInteger(byteLength) || byteLength < 0 || byteLength > this.slotByteLength) {
      throw new RangeError(`Cannot send ${byteLength} bytes of a slot: it has ${this.slotByteLength}`);
    }
    const metadata = encodeMetadata(options.metadata);
    const { device, event } = this.#parts.events[state.index]!;
    // A record costs less than to ask whether the stream is done.
    const hasEvent = stream.device === device || !stream.query();
    if (hasEvent) {
      if (stream.device !== device) {
        throw new TypeError(
          `Cannot send slot ${slot.index}: it is written by a stream of device ${stream.device.ordinal}, and the ` +
            `channel lies on device ${device.ordinal}; let a stream of that wait for it`,
        );
      }
      stream.record(event);
    }
    state.reserved = undefined;
    const sequence = ++this.#sequence;
    const frame: Frame = {
      slot: state,
      sequence,
      byteLength,
      hasEvent,
      metadata,
      waiting: new Set(),
      holders: new Set(),
    };
    state.frame = frame;
    this.#frames.add(frame);
    for (const consumer of this.#consumers.values()) {
      if (!consumer.isJoined) continue;
      frame.waiting.add(consumer);
      consumer.queue.add(frame);
      this.#pump(consumer);
    }
    this.#freeIfDone(frame);
    this.#parts.onSend();
  }

  /** Says that no frame follows. What was sent is still read. */
  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const error = new ReferenceError(`Cannot reserve a slot of "${this.name}": it has ended`);
    for (const { reject } of [...this.#reserving]) reject(error);
    this.#reserving.clear();
    for (const consumer of this.#consumers.values()) this.#pump(consumer);
  }

  /**
   * Ends the channel, and waits until consumers have read and released what was sent, as long as the exporter's
   * `closeTimeout` says. Then the ring is freed: by and by, where a consumer still has it mapped.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    this.end();
    if (this.#frames.size > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, this.#parts.closeTimeout);
        this.#onIdle = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.#parts.withdraw();
    this.#parts.ring[Symbol.dispose]();
  }

  #message(): ChannelMessage {
    return {
      type: "channel",
      offer: this.#parts.offer,
      slotByteLength: this.slotByteLength,
      slotStride: this.#parts.stride,
      window: this.#window,
      readyEvents: this.#parts.events.map(({ message }) => message.event),
    };
  }

  /** Gives free slots to those who wait, as far as there are. */
  #serve(): void {
    while (this.#reserving.size > 0 && this.#hasMinimum()) {
      const state = this.#free.shift() ?? this.#drop();
      if (state === undefined) return;
      const [waiting] = this.#reserving;
      this.#reserving.delete(waiting!);
      const begin = state.index * this.#parts.stride;
      const buffer = this.#parts.ring.subarray(begin, begin + this.slotByteLength);
      state.reserved = new Slot(buffer, state.index, (slot) => this.#giveBack(state, slot));
      waiting!.resolve(state.reserved);
    }
  }

  #pendingEvent(): OwnEvent | undefined {
    for (const frame of this.#frames) if (frame.hasEvent) return this.#parts.events[frame.slot.index];
    return undefined;
  }

  #hasMinimum(): boolean {
    if (this.#minimumConsumers === 0) return true;
    let joined = 0;
    for (const { isJoined } of this.#consumers.values()) if (isJoined) joined++;
    return joined >= this.#minimumConsumers;
  }

  #giveBack(state: SlotState, slot: Slot): void {
    if (state.reserved !== slot) return;
    state.reserved = undefined;
    this.#free.push(state);
    this.#serve();
  }

  /** The slot of the oldest frame that no consumer has begun with. */
  #drop(): SlotState | undefined {
    if (!this.#drops) return undefined;
    for (const frame of this.#frames) {
      if (frame.holders.size > 0) continue;
      for (const consumer of frame.waiting) consumer.queue.delete(frame);
      this.#frames.delete(frame);
      frame.slot.frame = undefined;
      this.#dropped++;
      return frame.slot;
    }
    return undefined;
  }

  /** Sends a consumer what it may be sent. */
  #pump(consumer: Consumer): void {
    const { importer, queue, untaken } = consumer;
    if (!consumer.isJoined || importer.isBacklogged) return;
    for (const frame of queue) {
      if (untaken.size >= this.#window || importer.isBacklogged) return;
      queue.delete(frame);
      frame.waiting.delete(consumer);
      frame.holders.add(consumer);
      consumer.held.set(frame.slot.index, frame);
      if (this.#drops) untaken.add(frame.sequence);
      const { slot, sequence, byteLength, hasEvent, metadata } = frame;
      importer.send({
        type: "frame",
        offer: this.#parts.offer,
        slot: slot.index,
        sequence,
        byteLength,
        hasEvent,
        metadata,
      });
    }
    if (!this.#hasEnded || consumer.hasEnd) return;
    consumer.hasEnd = true;
    importer.send({ type: "end", offer: this.#parts.offer });
  }

  #onMessage(importer: ConnectedImporter, message: ConsumerMessage): void {
    if (message.type === "join") return this.#onJoin(importer);
    const consumer = this.#consumers.get(importer);
    if (consumer === undefined) throw badMessage(`"${this.name}" was not joined`);
    if (message.type === "taken") {
      // What was released is taken; the two may cross.
      consumer.untaken.delete(message.sequence);
      return this.#pump(consumer);
    }
    const { slot, sequence, event } = message;
    const frame = consumer.held.get(slot);
    if (frame?.sequence !== sequence) {
      throw badMessage(`frame ${sequence} in slot ${slot} of "${this.name}" is released and was not held`);
    }
    consumer.untaken.delete(sequence);
    if (event === 0) return this.#onSlotReleased(consumer, frame);
    const cancel = importer.whenFired(event, () => this.#onSlotReleased(consumer, frame));
    if (consumer.held.get(slot) === frame) consumer.cancels.set(frame, cancel);
  }

  #onJoin(importer: ConnectedImporter): void {
    if (this.#consumers.has(importer)) throw badMessage(`"${this.name}" is joined twice`);
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
    this.#pump(consumer);
    this.#serve();
  }

  #onSlotReleased(consumer: Consumer, frame: Frame): void {
    if (consumer.held.get(frame.slot.index) !== frame) return;
    consumer.held.delete(frame.slot.index);
    consumer.cancels.delete(frame);
    frame.holders.delete(consumer);
    this.#pump(consumer);
    this.#freeIfDone(frame);
  }

  #freeIfDone(frame: Frame): void {
    if (frame.waiting.size > 0 || frame.holders.size > 0 || !this.#frames.delete(frame)) return;
    frame.slot.frame = undefined;
    this.#free.push(frame.slot);
    if (this.#frames.size === 0) this.#onIdle?.();
    this.#serve();
  }

  #onLeave(importer: ConnectedImporter): void {
    const consumer = this.#consumers.get(importer);
    if (consumer === undefined) return;
    consumer.isJoined = false;
    for (const frame of [...consumer.queue]) {
      consumer.queue.delete(frame);
      frame.waiting.delete(consumer);
      this.#freeIfDone(frame);
    }
  }

  #onReleased(importer: ConnectedImporter): void {
    const consumer = this.#consumers.get(importer);
    if (consumer === undefined) return;
    this.#onLeave(importer);
    this.#consumers.delete(importer);
    for (const cancel of consumer.cancels.values()) cancel();
    for (const frame of [...consumer.held.values()]) this.#onSlotReleased(consumer, frame);
  }
}
