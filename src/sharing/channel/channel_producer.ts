import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import { optionsOf, type OrStream } from "../../objects/streams/stream_option.ts";
import { withoutCollectiveErrors } from "../../objects/device_sessions.ts";
import { countOf, printAs, refuseUsing } from "../../support/printing.ts";
import type { DeviceBuffer } from "../../memory/device_buffer.ts";
import type { MemoryPool } from "../../memory/pools/memory_pool.ts";
import { isLogging, logEvent } from "../../support/event_log.ts";
import { checkNumber, checkOptions, type KnownOptions, whatIs } from "../../support/validation.ts";
import type { WaitOptions } from "../../support/waiting/waiting.ts";
import type { ChannelHub, ChannelStatistics } from "./channel_hub.ts";
import { ChannelFrames } from "./channel_frames.ts";
import { ChannelSlots, Quarantine } from "./channel_slots.ts";
import type { ChannelMessage } from "../protocol/messages.ts";
import { encodeMetadata, type JsonValue } from "../protocol/metadata.ts";
import type { LocalEvent } from "../events/local_events.ts";
import { Slot } from "./slot.ts";
import type { Peer } from "../transport/unix_socket.ts";
import { RangeError, ReferenceError, TypeError } from "../../support/program_errors.ts";

/** Options of `Exporter.createChannel`. */
export interface ChannelOptions {
  /** The pool to allocate the ring from, created with handleType "posix-fd". */
  pool: MemoryPool;
  /** The number of frames that the ring holds, 1 to 1024. */
  slots: number;
  /** The maximum size of a frame in bytes. */
  slotByteLength: number;
  /** Metadata for consumers, such as element type and shape: any JSON value of at most 32 KiB. */
  metadata?: JsonValue;
  /**
   * What happens when all slots are in use. With `"wait"`, the default, `reserve` waits for the slowest consumer. With
   * `"drop-oldest"`, frames that no consumer holds are dropped, oldest first. A consumer holds the frames that were
   * sent to it and that it has not released, at most `window`. If there are more slots than all consumers can hold, no
   * consumer makes `reserve` wait. If there are fewer, consumers that release nothing leave two slots free as long as
   * possible: one to write, and one for the next frame of a consumer that does release its frames.
   */
  overflow?: "wait" | "drop-oldest";
  /**
   * The minimum number of consumers that must have joined before `reserve` returns a slot: 1 by default, or 0 if frames
   * are dropped.
   */
  minimumConsumers?: number;
  /**
   * The maximum number of frames that each consumer may hold at a time, from when they are sent until the consumer's
   * work with them is done. 2 by default, so that one can be read while the next one arrives; 1 if there are fewer than
   * 3 slots. Only with `overflow: "drop-oldest"`.
   */
  window?: number;
  /**
   * Milliseconds for which a consumer may hold a frame, from when it was sent and written until the consumer's work
   * with it is done. A consumer that holds a frame for longer is cut off. By default 30,000 if frames are dropped, and
   * Infinity otherwise.
   */
  holdTimeout?: number;
  /**
   * The stream on which the ring is allocated, and the default stream of the slots' buffers. Defaults to the device's
   * default stream.
   */
  stream?: CudaStream;
}

/** The default `holdTimeout`, in milliseconds, if frames are dropped. */
const defaultHoldTimeout = 30_000;

/** Options of `ChannelProducer.send`. */
export interface SendFrameOptions {
  /** The size of the frame in bytes: the whole slot by default. */
  byteLength?: number;
  /** Metadata of the frame for consumers: at most 32 KiB of JSON. */
  metadata?: JsonValue;
  /** The stream that writes the slot. Defaults to the stream of the slot's buffer. */
  stream?: CudaStream;
}

/** Describes `ChannelOptions`. Used to validate the options. */
export const channelOptions: KnownOptions<ChannelOptions> = {
  action: "create a channel",
  required: "{ pool, slots, slotByteLength }",
  names: {
    pool: true,
    slots: true,
    slotByteLength: true,
    metadata: true,
    overflow: true,
    minimumConsumers: true,
    window: true,
    holdTimeout: true,
    stream: true,
  },
};
const sendFrameOptions: KnownOptions<SendFrameOptions> = {
  action: "send a frame",
  names: { byteLength: true, metadata: true, stream: true },
};

/** The dependencies of a producer, which its exporter provides. */
export interface ChannelParts {
  readonly name: string;
  /** The identifier of the channel's offer. */
  readonly offer: number;
  readonly ring: DeviceBuffer;
  readonly stride: number;
  readonly options: ChannelOptions;
  /** The ready event of each slot. */
  readonly events: readonly LocalEvent[];
  /** Milliseconds to wait, on disposal, for consumers to release the last frames. */
  readonly closeTimeout: number;
  /** Called for each frame sent. */
  readonly onSend: () => void;
  /** Withdraws the channel's offer. The ring is freed once no process uses it any longer. */
  readonly withdraw: () => void;
}

/**
 * The writing end of a channel: a ring of slots in a pool, which kernels write and kernels of other processes read,
 * without copies or allocations. Created by `Exporter.createChannel`.
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
  /** The name by which importers find the channel. */
  readonly name: string;
  /** The size of each slot in bytes, which is the maximum size of a frame. */
  readonly slotByteLength: number;
  readonly #parts: ChannelParts;
  readonly #slots: ChannelSlots;
  readonly #frames: ChannelFrames;
  readonly #quarantine: Quarantine;
  #sequence = 0;
  #bytesSent = 0;
  /** The error thrown by later sends; set once the channel has ended. */
  #end: { readonly error: unknown } | undefined;
  #disposal: Promise<void> | undefined;

  static {
    printAs(this, "ChannelProducer", (channel) => {
      if (channel.#disposal !== undefined) return `ChannelProducer { ${channel.name}, disposed }`;
      const state = channel.#end === undefined ? "" : ", ended";
      return `ChannelProducer { ${channel.name}, ${channel.freeSlots} of ${channel.#parts.options.slots} slots free, ` +
        `${countOf(channel.consumers.length, "consumer")}, ${countOf(channel.#sequence, "frame")}${state} }`;
    }, [
      "name",
      ["slots", (channel) => channel.#parts.options.slots],
      "slotByteLength",
      "freeSlots",
      "consumers",
      "sent",
      ["ended", (channel) => channel.#end !== undefined],
      ["disposed", (channel) => channel.#disposal !== undefined],
    ]);
    refuseUsing(this, "ChannelProducer");
  }

  /**
   * Created by `Exporter.createChannel`. `onHub` receives the interface that connections call.
   *
   * @ignore
   */
  constructor(parts: ChannelParts, onHub: (hub: ChannelHub) => void) {
    const { name, offer, ring, stride, events, options } = parts;
    const { slots, slotByteLength, overflow } = options;
    const drops = overflow === "drop-oldest";
    const minimumConsumers = options.minimumConsumers ?? (drops ? 0 : 1);
    const window = drops ? options.window ?? defaultWindow(slots) : slots;
    const holdTimeout = options.holdTimeout ?? (drops ? defaultHoldTimeout : Infinity);
    this.name = name;
    this.slotByteLength = slotByteLength;
    this.#parts = parts;
    this.#frames = new ChannelFrames({
      name,
      offer,
      window,
      ...drops ? { droppingSlots: slots } : {},
      holdTimeout,
      isWritten: (slot) => isWritten(events[slot]!),
      onDone: (slot) => this.#slots.release(slot),
      onJoin: () => this.#slots.serve(),
      onDroppable: () => this.#slots.serve(),
      onQuarantine: () => this.#quarantine.update(),
    });
    this.#quarantine = new Quarantine({
      name,
      slots,
      quarantined: () => this.#frames.quarantined,
      hasEndingHolders: () => this.#frames.hasEndingHolders,
      onExhausted: (error) => this.#slots.refuseForNow(error),
      onAvailable: () => this.#slots.endRefusal(),
    });
    this.#slots = new ChannelSlots({
      name,
      ring,
      stride,
      slotByteLength,
      events,
      mayReserve: () => this.#frames.hasConsumers(minimumConsumers),
      drop: () => drops && this.#frames.drop(),
      whyNone: () =>
        this.#frames.hasConsumers(minimumConsumers)
          ? this.#frames.holders
          : [missingConsumers(this.#frames.importers.length, minimumConsumers)],
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
      statistics: () => this.#statistics(),
      onLost: (error) => this.#endWith(error),
      close: () => this.#close(),
    });
    if (isLogging) logEvent("channel", { name, slots, bytes: slots * stride });
  }

  /** The processes of the consumers that frames are sent to. */
  get consumers(): readonly Peer[] {
    return this.#frames.importers.map(({ peer }) => peer);
  }

  /** The number of frames sent. */
  get sent(): number {
    return this.#sequence;
  }

  /**
   * The number of frames that were dropped to make room: at least one consumer did not receive them. Excludes frames
   * sent while there was no consumer, and frames in transit to a consumer that left.
   */
  get dropped(): number {
    return this.#frames.dropped;
  }

  /**
   * The number of slots that processes whose connections were closed may still be using. The slots become free once
   * those processes have exited.
   */
  get quarantinedSlots(): number {
    return this.#quarantine.slots;
  }

  /** The number of slots that are not in use. A slot is in use while it is written, sent, or held by a consumer. */
  get freeSlots(): number {
    return this.#slots.free;
  }

  /**
   * Returns a slot, which may be written on any stream. If no slot is free, waits until consumers have released one and
   * their work with it is done. A slot whose buffer is also being read in this process is free only after that read.
   *
   * @param options an optional signal that aborts the wait
   * @throws {ReferenceError} If the channel has ended
   * @throws {SharingError} `cut-off` if, for a second, every slot may have been in use by a process whose connection
   * was closed but that still runs; `reserve` works again once such a process has exited
   * @throws {CudaError} If the device was lost
   */
  reserve(options: WaitOptions = {}): Promise<Slot> {
    return this.#slots.reserve(options);
  }

  /**
   * Sends a slot as a frame, in stream order: the frame can be read once the stream has finished its current work. The
   * application may not use the slot afterwards.
   *
   * @param slot a slot returned by `reserve`
   * @param options the stream that writes the slot, the size of the frame, and metadata for consumers
   * @throws {TypeError} If `slot` is not a Slot of this channel, if JSON cannot represent the metadata, if `stream` is
   * not a CudaStream of the same `Cuda` object, or if it is a stream of another device that is not idle
   * @throws {RangeError} If the frame is longer than a slot or the metadata is too long
   * @throws {ReferenceError} If the slot was sent or returned, or the channel has ended
   * @throws {CudaError} If no event can be recorded on the stream; the slot is then still reserved
   */
  send(slot: Slot, options: OrStream<SendFrameOptions> = {}): void {
    if (this.#end !== undefined) throw this.#end.error;
    if (!(slot instanceof Slot)) {
      throw new TypeError(
        `Cannot send ${whatIs(slot, "Slot")} in "${this.name}": give a slot that its reserve returned`,
      );
    }
    options = optionsOf(options);
    checkOptions(options, sendFrameOptions);
    this.#slots.checkReserved(slot);
    const { byteLength = this.slotByteLength, stream = slot.buffer.stream } = options;
    checkNumber(byteLength, "a frame's byteLength");
    if (!Number.isSafeInteger(byteLength) || byteLength < 0 || byteLength > this.slotByteLength) {
      throw new RangeError(`Cannot send ${byteLength} bytes of a slot: it has ${this.slotByteLength}`);
    }
    const metadata = encodeMetadata(options.metadata);
    const hasEvent = this.#slots.fill(slot, stream);
    this.#bytesSent += byteLength;
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

  /** Ends the channel: no more frames can be sent. Consumers can still read the frames that were sent. */
  end(): void {
    this.#endWith(new ReferenceError(`Cannot use "${this.name}": the channel has ended`));
  }

  /**
   * Ends the channel. Waits until consumers have read and released the frames that were sent, for at most the
   * exporter's `closeTimeout`, and until reads of slots in this process are done. The ring is then freed, or, if a
   * consumer still has it mapped, once the consumer has unmapped it.
   */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#disposal ??= this.#dispose();
  }

  #statistics(): ChannelStatistics {
    return {
      name: this.name,
      slots: this.#parts.options.slots,
      slotByteLength: this.slotByteLength,
      freeSlots: this.freeSlots,
      quarantinedSlots: this.quarantinedSlots,
      sent: this.sent,
      bytesSent: this.#bytesSent,
      dropped: this.dropped,
      consumers: this.#frames.statistics(),
    };
  }

  async #dispose(): Promise<void> {
    this.#close();
    await this.#frames.finished(this.#parts.closeTimeout);
    this.#parts.withdraw();
    await this.#slots.freeRing();
  }

  #close(): void {
    this.end();
    this.#quarantine.close();
    this.#slots.close();
  }

  #endWith(error: unknown): void {
    if (this.#end !== undefined) return;
    this.#end = { error };
    if (isLogging) logEvent("channel-end", { name: this.name, frames: this.sent, dropped: this.dropped });
    this.#slots.refuse(error);
    this.#frames.end();
  }
}

/**
 * Returns the default window of a channel that drops frames: smaller than the ring, so that a single consumer cannot
 * occupy all slots.
 */
function defaultWindow(slots: number): number {
  return slots < 3 ? 1 : 2;
}

/**
 * Returns the part of an error message that says that no slot can be reserved because too few consumers have joined.
 */
function missingConsumers(joined: number, minimum: number): string {
  const known = joined === 0 ? "no consumer has joined yet" : `only ${countOf(joined, "consumer")} joined yet`;
  return `${known}, and reserve waits for ${minimum} (minimumConsumers)`;
}

/** Returns whether the last write to a slot is done. If the device is lost, returns true. */
function isWritten({ device, event }: LocalEvent): boolean {
  try {
    return withoutCollectiveErrors(device, () => event.query());
  } catch {
    return true;
  }
}
