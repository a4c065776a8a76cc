import { printAs } from "../custom_inspect.ts";
import type { CudaStream } from "../cuda_stream.ts";
import type { DeviceBuffer } from "../device_buffer.ts";
import type { JsonValue } from "./metadata.ts";

/**
 * A slot of a channel that its producer has reserved: to be written, and sent. One that is not sent is given back by its
 * disposal.
 */
export class Slot implements Disposable {
  /** Its memory. */
  readonly buffer: DeviceBuffer;
  /** Which of the ring's slots it is, from 0. */
  readonly index: number;
  readonly #giveBack: (slot: Slot) => void;

  static {
    printAs(this, (slot) => `Slot { ${slot.index}, ${slot.buffer.byteLength} bytes }`);
  }

  /** Made by `ChannelProducer.reserve`. */
  constructor(buffer: DeviceBuffer, index: number, giveBack: (slot: Slot) => void) {
    this.buffer = buffer;
    this.index = index;
    this.#giveBack = giveBack;
  }

  /** Gives the slot back, unless it was sent. */
  [Symbol.dispose](): void {
    this.#giveBack(this);
  }
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
  readonly #release: (slot: ReceivedSlot, stream: CudaStream) => void;
  #isReleased = false;

  static {
    printAs(this, (slot) => {
      const state = slot.#isReleased ? ", released" : "";
      return `ReceivedSlot { ${slot.index}, frame ${slot.sequence}, ${slot.buffer.byteLength} bytes${state} }`;
    });
  }

  /** Made by `ChannelConsumer`. */
  constructor(
    parts: { buffer: DeviceBuffer; index: number; sequence: number; metadata: JsonValue | undefined },
    release: (slot: ReceivedSlot, stream: CudaStream) => void,
  ) {
    this.buffer = parts.buffer;
    this.index = parts.index;
    this.sequence = parts.sequence;
    this.metadata = parts.metadata;
    this.#release = release;
  }

  /**
   * Gives the slot back in the stream's order: the producer writes it again once the stream has got there. The buffer's
   * own stream unless given.
   */
  release(stream: CudaStream = this.buffer.stream): void {
    if (this.#isReleased) throw new ReferenceError(`Cannot release frame ${this.sequence}: it was released`);
    // Asked first: a stream that was disposed must not cost the slot.
    void stream.unsafeHandle;
    this.#isReleased = true;
    this.#release(this, stream);
  }

  /** Releases the slot, unless that is done. */
  [Symbol.dispose](): void {
    if (!this.#isReleased) this.release();
  }
}
