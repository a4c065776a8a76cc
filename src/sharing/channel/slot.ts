import { countOf, placeOf, printAs, stateOf } from "../../support/printing.ts";
import { checkStream, type CudaStream } from "../../objects/streams/cuda_stream.ts";
import {
  type KnownStreamOptions,
  type OrStream,
  streamOf,
  type StreamOption,
} from "../../objects/streams/stream_option.ts";
import { Allocation } from "../../memory/allocation.ts";
import { allocationOf, DeviceBuffer } from "../../memory/device_buffer.ts";
import { ignoreLoss } from "../../support/driver_errors.ts";
import type { Session } from "../../session.ts";
import type { JsonValue } from "../protocol/metadata.ts";
import { ReferenceError } from "../../support/program_errors.ts";

/** The channel that a slot belongs to. */
export interface SlotOwner {
  /** The name of the channel. */
  readonly channel: string;
  /** Returns a slot to the channel without sending it. */
  returnSlot(slot: Slot): void;
}

/** Returns the channel that a slot belongs to. */
export let ownerOfSlot: (slot: Slot) => SlotOwner;

/**
 * A slot of a channel that the producer has reserved, to be written and sent. Disposing of a slot that was not sent
 * returns it to the channel. Created by `ChannelProducer.reserve`.
 */
export class Slot implements Disposable {
  /** The memory of the slot, until the slot is sent or returned. */
  readonly buffer: DeviceBuffer;
  /** The index of the slot in the ring, from 0. */
  readonly index: number;
  readonly #owner: SlotOwner;

  static {
    ownerOfSlot = (slot) => slot.#owner;
    printAs(this, "Slot", (slot) => {
      const { buffer: { device, byteLength }, index } = slot;
      const state = stateOf(() => `0x${slot.buffer.address.toString(16)}`, "sent or returned");
      return `Slot { ${placeOf(device)}, slot ${index}, ${countOf(byteLength, "byte")}, ${state} }`;
    }, ["buffer", "index"]);
  }

  /**
   * Created by `ChannelProducer.reserve`.
   *
   * @ignore
   */
  constructor(buffer: DeviceBuffer, index: number, owner: SlotOwner) {
    this.buffer = buffer;
    this.index = index;
    this.#owner = owner;
  }

  /**
   * Returns the slot to the channel, unless it was sent. The slot can be reserved again once its buffer's stream has
   * finished its current work and all reads of the buffer are done. If other streams have written to the slot, first
   * make the buffer's stream wait for them.
   */
  [Symbol.dispose](): void {
    ignoreLoss(() => this.#owner.returnSlot(this));
  }
}

const releaseOptions: KnownStreamOptions<StreamOption> = {
  action: "release a slot",
  names: { stream: true },
  usage: "release(stream) or release({ stream })",
};

/** The operations of a consumer that its slots call. */
export interface ReceivedSlotOwner {
  readonly session: Session;
  isHeld(slot: ReceivedSlot<unknown>): boolean;
  /** Releases a slot. If this throws, the slot is still held. */
  release(slot: ReceivedSlot<unknown>, stream: CudaStream): void;
}

/**
 * A frame of a channel, ready to be read. Created by `ChannelConsumer`.
 *
 * @typeParam Metadata the type of the frame's metadata, which is not checked against what the producer's application
 * sent
 */
export class ReceivedSlot<Metadata = JsonValue> implements Disposable {
  /**
   * The memory of the frame, until the slot is released. Other consumers of the frame see what is written to this
   * memory.
   */
  readonly buffer: DeviceBuffer;
  /** The index of the slot in the ring, from 0. */
  readonly index: number;
  /** The sequence number of the frame, counted from 1 in the channel. A gap means that frames were dropped. */
  readonly sequence: number;
  /** The metadata that the producer's application attached to the frame. Nothing checks its type. */
  readonly metadata: Metadata | undefined;
  readonly #owner: ReceivedSlotOwner;

  static {
    printAs(this, "ReceivedSlot", (slot) => {
      const state = slot.#owner.isHeld(slot) ? "" : ", released";
      const what = `slot ${slot.index}, frame ${slot.sequence}, ${countOf(slot.buffer.byteLength, "byte")}`;
      return `ReceivedSlot { ${placeOf(slot.buffer.device)}, ${what}${state} }`;
    }, ["buffer", "index", "sequence", "metadata", ["released", (slot) => !slot.#owner.isHeld(slot)]]);
  }

  /**
   * Created by `ChannelConsumer`.
   *
   * @ignore
   */
  constructor(
    parts: { buffer: DeviceBuffer; index: number; sequence: number; metadata: Metadata | undefined },
    owner: ReceivedSlotOwner,
  ) {
    this.buffer = parts.buffer;
    this.index = parts.index;
    this.sequence = parts.sequence;
    this.metadata = parts.metadata;
    this.#owner = owner;
  }

  /**
   * Releases the slot in stream order: the producer may write it again once the stream has finished its current work.
   *
   * @param options the stream whose current work uses the slot, or an object that has it; defaults to the buffer's own
   * stream
   * @throws {TypeError} If `stream` is not a CudaStream of the same `Cuda` object
   * @throws {ReferenceError} If the slot was released, or if the consumer or the stream was disposed
   * @throws {CudaError} If no event can be recorded on the stream; the slot is then still held
   */
  release(options?: OrStream<StreamOption>): void {
    if (!this.#owner.isHeld(this)) throw new ReferenceError(`Cannot release frame ${this.sequence}: it was released`);
    const given = streamOf(options, releaseOptions);
    const stream = given === undefined ? this.buffer.stream : given;
    checkStream(stream, this.#owner.session, releaseOptions.usage);
    // Throws if the stream is disposed, before anything changes, so that the slot stays held.
    void stream.unsafeHandle;
    this.#owner.release(this, stream);
  }

  /** Releases the slot, unless it has been released already. */
  [Symbol.dispose](): void {
    if (this.#owner.isHeld(this)) ignoreLoss(() => this.release());
  }
}

/**
 * Returns a buffer that refers to a slot's memory. Unlike a view of the ring, the buffer can be invalidated
 * independently of the ring, and the application cannot free it.
 */
export function bufferOfSlot(
  ring: DeviceBuffer,
  { begin, byteLength, stream, freeRefusal }: {
    begin: number;
    byteLength: number;
    stream: CudaStream;
    freeRefusal: string;
  },
): DeviceBuffer {
  const { session, owner, pool, device } = allocationOf(ring);
  const address = ring.address + BigInt(begin);
  // The memory is freed together with the ring: a holder of the buffer's memory keeps the whole ring allocated, so the
  // buffer needs no `awaitRelease` of its own.
  const ownerOfBuffer = { ...owner, freeRefusal, awaitRelease: undefined, useEnd: undefined };
  return new DeviceBuffer(new Allocation(session, ownerOfBuffer, pool, address, byteLength, device, stream));
}

/** Invalidates a buffer returned by `bufferOfSlot`. The errors of later uses state `why` as the reason. */
export function endUseOfSlot(buffer: DeviceBuffer, why: string): void {
  const allocation = allocationOf(buffer);
  allocation.owner.useEnd = why;
  allocation.endUse();
}
