import { countOf, placeOf, printAs, stateOf } from "../../support/printing.ts";
import { checkStream, type CudaStream } from "../../objects/cuda_stream.ts";
import { DeviceBuffer, partsOf } from "../../memory/device_buffer.ts";
import { ignoreLoss } from "../../support/error_wording.ts";
import type { Session } from "../../session.ts";
import type { JsonValue } from "../protocol/metadata.ts";

/**
 * A slot of a channel that its producer has reserved: to be written, and sent. One that is not sent is given back by its
 * disposal. Made by `ChannelProducer.reserve`.
 */
export class Slot implements Disposable {
  /** Its memory, until the slot is sent or given back. */
  readonly buffer: DeviceBuffer;
  /** Which of the ring's slots it is, from 0. */
  readonly index: number;
  readonly #giveBack: (slot: Slot) => void;

  static {
    printAs(this, "Slot", (slot) => {
      const { buffer: { device, byteLength }, index } = slot;
      const state = stateOf(() => `0x${slot.buffer.address.toString(16)}`, "sent or given back");
      return `Slot { ${placeOf(device)}, slot ${index}, ${countOf(byteLength, "byte")}, ${state} }`;
    });
  }

  /**
   * Made by `ChannelProducer.reserve`.
   *
   * @ignore
   */
  constructor(buffer: DeviceBuffer, index: number, giveBack: (slot: Slot) => void) {
    this.buffer = buffer;
    this.index = index;
    this.#giveBack = giveBack;
  }

  /** Gives the slot back, unless it was sent: it is reserved again after the work that its buffer's stream was given. */
  [Symbol.dispose](): void {
    ignoreLoss(() => this.#giveBack(this));
  }
}

/** What a received slot needs of its consumer. */
export interface ReceivedSlotOwner {
  readonly session: Session;
  isHeld(slot: ReceivedSlot): boolean;
  /** Nothing has changed where it throws. */
  release(slot: ReceivedSlot, stream: CudaStream): void;
}

/** A frame of a channel, ready to be read. Made by `ChannelConsumer`. */
export class ReceivedSlot implements Disposable {
  /** The frame's memory, until the slot is released. What is written there, the other consumers see. */
  readonly buffer: DeviceBuffer;
  /** Which of the ring's slots it is, from 0. */
  readonly index: number;
  /** 1 for the channel's first frame, one more for each that was sent; gaps are frames that were dropped. */
  readonly sequence: number;
  /** What the producer's application says of it. */
  readonly metadata: JsonValue | undefined;
  readonly #owner: ReceivedSlotOwner;

  static {
    printAs(this, "ReceivedSlot", (slot) => {
      const state = slot.#owner.isHeld(slot) ? "" : ", released";
      const what = `slot ${slot.index}, frame ${slot.sequence}, ${countOf(slot.buffer.byteLength, "byte")}`;
      return `ReceivedSlot { ${placeOf(slot.buffer.device)}, ${what}${state} }`;
    });
  }

  /**
   * Made by `ChannelConsumer`.
   *
   * @ignore
   */
  constructor(
    parts: { buffer: DeviceBuffer; index: number; sequence: number; metadata: JsonValue | undefined },
    owner: ReceivedSlotOwner,
  ) {
    this.buffer = parts.buffer;
    this.index = parts.index;
    this.sequence = parts.sequence;
    this.metadata = parts.metadata;
    this.#owner = owner;
  }

  /**
   * Gives the slot back in the stream's order: the producer writes it again once the stream has got there. The buffer's
   * own stream unless given.
   *
   * @param stream behind whose work so far the slot is free; the buffer's own unless given
   * @throws {TypeError} for what is no stream, or one of another `Cuda` object
   * @throws {ReferenceError} where it was released, or the consumer or the stream disposed
   * @throws {CudaError} where the stream cannot be marked; the slot is still held then
   */
  release(stream: CudaStream = this.buffer.stream): void {
    if (!this.#owner.isHeld(this)) throw new ReferenceError(`Cannot release frame ${this.sequence}: it was released`);
    checkStream(stream, this.#owner.session);
    // Asked first: a stream that was disposed must not cost the slot.
    void stream.unsafeHandle;
    this.#owner.release(this, stream);
  }

  /** Releases the slot, unless that is done. */
  [Symbol.dispose](): void {
    if (this.#owner.isHeld(this)) ignoreLoss(() => this.release());
  }
}

/** The memory of a slot: unlike a view of the ring, it ends on its own, and nobody frees it. */
export function bufferOfSlot(
  ring: DeviceBuffer,
  { begin, byteLength, stream, freeRefusal }: {
    begin: number;
    byteLength: number;
    stream: CudaStream;
    freeRefusal: string;
  },
): DeviceBuffer {
  const [session, owner, pool, address] = partsOf(ring, begin, begin + byteLength);
  // Its use ends without a free, which nobody could await: whoever keeps memory keeps the ring.
  return new DeviceBuffer(
    session,
    { ...owner, freeRefusal, awaitRelease: undefined },
    pool,
    address,
    byteLength,
    stream,
  );
}
