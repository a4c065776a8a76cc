import type { CudaStream } from "../../objects/cuda_stream.ts";
import { countOf, printAs } from "../../support/printing.ts";
import type { DeviceBuffer } from "../../memory/device_buffer.ts";
import type { MemoryPool } from "../../memory/memory_pool.ts";
import { checkNumber, checkOptions, whatIs } from "../../support/validation.ts";
import type { WaitOptions } from "../../support/waiting/waiting.ts";
import { ChannelFrames } from "./channel_frames.ts";
import type { ChannelHub } from "./channel_hub.ts";
import { ChannelSlots } from "./channel_slots.ts";
import type { ChannelMessage } from "../protocol/messages.ts";
import { encodeMetadata, type JsonValue } from "../protocol/metadata.ts";
import type { LocalEvent } from "../events/local_events.ts";
import { Slot } from "./slot.ts";
import type { Peer } from "../transport/unix_socket.ts";

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
   * `"drop-oldest"`: frames that no consumer has begun with are dropped, the oldest first. A consumer keeps those that it
   * was sent, `window` of them and what its application holds: with more slots than all consumers can keep, none of them
   * makes `reserve` wait.
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
  readonly events: readonly LocalEvent[];
  /** Milliseconds that consumers have for the last frames. */
  readonly closeTimeout: number;
  /** Is told of each frame. */
  readonly onSend: () => void;
  /** Takes the channel back, and frees the ring when nobody uses it any more. */
  readonly withdraw: () => void;
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
  readonly #slots: ChannelSlots;
  readonly #frames: ChannelFrames;
  #sequence = 0;
  /** Why nothing is sent any more. */
  #end: { readonly error: unknown } | undefined;
  #disposal: Promise<void> | undefined;

  static {
    printAs(this, "ChannelProducer", (channel) => {
      if (channel.#disposal !== undefined) return `ChannelProducer { ${channel.name}, disposed }`;
      const state = channel.#end === undefined ? "" : ", ended";
      return `ChannelProducer { ${channel.name}, ${channel.freeSlots} of ${channel.#parts.options.slots} slots free, ` +
        `${countOf(channel.consumers.length, "consumer")}, ${countOf(channel.#sequence, "frame")}${state} }`;
    });
  }

  /**
   * Made by `Exporter.createChannel`. `onHub` is given what connections talk to.
   *
   * @ignore
   */
  constructor(parts: ChannelParts, onHub: (hub: ChannelHub) => void) {
    const { name, offer, ring, stride, events, options } = parts;
    const { slots, slotByteLength, overflow } = options;
    const drops = overflow === "drop-oldest";
    const minimumConsumers = options.minimumConsumers ?? (drops ? 0 : 1);
    const window = drops ? options.window ?? 1 : slots;
    this.name = name;
    this.slotByteLength = slotByteLength;
    this.#parts = parts;
    this.#frames = new ChannelFrames({
      name,
      offer,
      window,
      onDone: (slot) => this.#slots.release(slot),
      onJoin: () => this.#slots.serve(),
    });
    this.#slots = new ChannelSlots({
      ring,
      stride,
      slotByteLength,
      events,
      mayReserve: () => this.#frames.hasConsumers(minimumConsumers),
      drop: () => drops && this.#frames.drop(),
    });
    const message: ChannelMessage = {
      type: "channel",
      offer,
      slotByteLength,
      slotStride: stride,
      window,
      readyEvents: events.map(({ message }) => message.event),
    };
    onHub({
      message,
      eventMessages: events.map(({ message }) => message),
      onMessage: (importer, each) => this.#frames.onMessage(importer, each),
      onDrain: (importer) => this.#frames.onDrain(importer),
      onLeave: (importer) => this.#frames.onLeave(importer),
      onReleased: (importer) => this.#frames.onReleased(importer),
      onAbsorb: (from, to) => this.#frames.onAbsorb(from, to),
      pendingEvent: () => {
        const { pending } = this.#frames;
        return pending && events[pending.slot];
      },
      onLost: (error) => this.#endWith(error),
      close: () => this.#close(),
    });
  }

  /** The processes that frames go to. */
  get consumers(): readonly Peer[] {
    return this.#frames.importers.map(({ peer }) => peer);
  }

  /** Frames that were sent. */
  get sent(): number {
    return this.#sequence;
  }

  /**
   * Frames that were dropped to make room: some consumers, or all, did not get them. Those that were sent while there was
   * no consumer are not among them, nor those that were on their way to a consumer that left.
   */
  get dropped(): number {
    return this.#frames.dropped;
  }

  /** Slots that nobody uses. The others are written, are on their way, or are held by consumers. */
  get freeSlots(): number {
    return this.#slots.free;
  }

  /**
   * A slot to write, on any stream: at once where one is free, else when consumers have released one and their work with
   * it is done. A slot whose buffer is read here, too, is free when that is done.
   *
   * @param options a signal ends the wait
   * @throws {ReferenceError} when the channel has ended
   * @throws {CudaError} when the device was lost
   */
  reserve(options: WaitOptions = {}): Promise<Slot> {
    return this.#slots.reserve(options);
  }

  /**
   * Sends what the stream writes into a slot, in the stream's order. The slot is the channel's again.
   *
   * @param slot that `reserve` gave
   * @param options the stream that writes it, how much of it the frame is, and what consumers should know
   * @throws {TypeError} for what is no slot; for metadata that JSON cannot say; for what is no stream, one of another `Cuda`
   * object, and one of another device that is still at work
   * @throws {RangeError} for a frame that is longer than a slot, and for metadata that are too long
   * @throws {ReferenceError} for a slot that was sent, or given back, and when the channel has ended
   * @throws {CudaError} where the stream cannot be marked; the slot is still reserved then
   */
  send(slot: Slot, options: SendFrameOptions = {}): void {
    if (this.#end !== undefined) throw this.#end.error;
    if (!(slot instanceof Slot)) {
      throw new TypeError(`Cannot send ${whatIs(slot, "Slot")} in "${this.name}": give a slot that its reserve gave`);
    }
    checkOptions(options, "ChannelProducer.send");
    if (!this.#slots.isReserved(slot)) {
      throw new ReferenceError(`Cannot send slot ${slot.index} of "${this.name}": it is not reserved, or was sent`);
    }
    const { byteLength = this.slotByteLength, stream = slot.buffer.stream } = options;
    checkNumber(byteLength, "a frame's byteLength");
    if (!Number.isSafeInteger(byteLength) || byteLength < 0 || byteLength > this.slotByteLength) {
      throw new RangeError(`Cannot send ${byteLength} bytes of a slot: it has ${this.slotByteLength}`);
    }
    const metadata = encodeMetadata(options.metadata);
    const hasEvent = this.#slots.fill(slot, stream);
    this.#frames.send({
      type: "frame",
      offer: this.#parts.offer,
      slot: slot.index,
      sequence: ++this.#sequence,
      byteLength,
      hasEvent,
      metadata,
    });
    this.#parts.onSend();
  }

  /** Says that no frame follows. What was sent is still read. */
  end(): void {
    this.#endWith(new ReferenceError(`Cannot use "${this.name}": the channel has ended`));
  }

  /**
   * Ends the channel, and waits until consumers have read and released what was sent, as long as the exporter's
   * `closeTimeout` says, and until reads of slots are done here. Then the ring is freed: by and by, where a consumer still
   * has it mapped.
   */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#disposal ??= this.#dispose();
  }

  async #dispose(): Promise<void> {
    this.#close();
    await this.#frames.finished(this.#parts.closeTimeout);
    this.#parts.withdraw();
    await this.#slots.freeRing();
  }

  #close(): void {
    this.end();
    this.#slots.close();
  }

  #endWith(error: unknown): void {
    if (this.#end !== undefined) return;
    this.#end = { error };
    this.#slots.refuse(error);
    this.#frames.end();
  }
}
