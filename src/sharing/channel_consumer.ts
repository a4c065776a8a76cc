import type { CudaEvent } from "../cuda_event.ts";
import type { CudaStream } from "../cuda_stream.ts";
import { printAs } from "../custom_inspect.ts";
import { DeviceBuffer, partsOf, retire } from "../device_buffer.ts";
import type { SharingError } from "../errors.ts";
import { giveBack } from "../explain.ts";
import { FreedStreams } from "../freed_streams.ts";
import { type WaitOptions, whenDone } from "../waiting.ts";
import type { ChannelMessage, FrameMessage, Message, OfferMessage, OfferNotice } from "./messages.ts";
import { decodeMetadata, type JsonValue } from "./metadata.ts";
import { badMessage } from "./peer_events.ts";
import { ReceivedSlot } from "./slot.ts";
import { until } from "./until.ts";

/** Options of `Importer.channel`. */
export interface ConsumerOptions extends WaitOptions {
  /** The stream of the slots' buffers, on which they are released: the device's default stream unless given. */
  stream?: CudaStream;
}

/** What a consumer needs of its importer. */
export interface ConsumerParts {
  readonly offer: OfferMessage;
  readonly channel: ChannelMessage;
  /** All of the allocation that the ring is in. */
  readonly whole: DeviceBuffer;
  readonly stream: CudaStream;
  openEvent(identifier: number): CudaEvent;
  send(message: Message): void;
  /** Tells how far a stream must get, by the event of a slot where that is needed. */
  release(stream: CudaStream, slot: number, tell: (event: number) => void): void;
  /** The consumer is done: its ring is unmapped. */
  close(): void;
}

/** What the importer tells its consumer. */
export interface ConsumerHub {
  onMessage(message: FrameMessage | OfferNotice): void;
  /** The connection is at its end. */
  onEnd(error: SharingError | undefined): void;
}

/**
 * The reading end of a channel: an async iterable of frames. Made by `Importer.channel`.
 *
 * Each frame must be released, in whatever order: the producer waits for its slot. Frames that came before the producer
 * died are still given; then the iteration throws.
 *
 * @example
 * ```ts ignore
 * await using frames = await importer.channel("frames", { stream });
 * for await (const slot of frames) {
 *   kernel.launch({ grid, block, stream }, slot.buffer); // in stream order: the frame is there
 *   slot.release(); // in stream order: the slot is written again after the kernel
 * }
 * ```
 */
export class ChannelConsumer implements AsyncDisposable, AsyncIterable<ReceivedSlot> {
  readonly #parts: ConsumerParts;
  readonly #events: readonly CudaEvent[];
  /** Frames that came and are not known to be ready, in their order. */
  readonly #coming: FrameMessage[] = [];
  /** Frames that may be read. */
  readonly #ready: FrameMessage[] = [];
  /** What the application has. */
  readonly #held = new Set<ReceivedSlot>();
  readonly #freedOn = new FreedStreams();
  readonly #isDrops: boolean;
  #lastSequence = 0;
  #cancelWait: (() => void) | undefined;
  /** Who waits for a frame, first come first. */
  readonly #waiting = new Set<() => void>();
  /** The last frame has come; or the connection is at its end, and why. */
  #end: { readonly error: SharingError | undefined } | undefined;
  #isDisposed = false;

  static {
    printAs(this, (consumer) => {
      const state = consumer.#isDisposed ? ", disposed" : consumer.#end !== undefined ? ", ended" : "";
      return `ChannelConsumer { ${consumer.name}, ${consumer.#ready.length} frames ready, ` +
        `${consumer.#held.size} held${state} }`;
    });
  }

  /** Made by `Importer.channel`. `onHub` is given what the connection talks to. */
  constructor(parts: ConsumerParts, onHub: (hub: ConsumerHub) => void) {
    this.#parts = parts;
    const { readyEvents, window } = parts.channel;
    this.#isDrops = window < readyEvents.length;
    this.#events = readyEvents.map((event) => parts.openEvent(event));
    onHub({
      onMessage: (message) => this.#onMessage(message),
      onEnd: (error) => this.#onEnd(error),
    });
    parts.send({ type: "join", offer: parts.offer.offer });
  }

  /** What the producer calls it. */
  get name(): string {
    return this.#parts.offer.name;
  }

  /** Bytes of a slot. */
  get slotByteLength(): number {
    return this.#parts.channel.slotByteLength;
  }

  /** How many slots the ring has: a consumer that holds all of them gets no frame. */
  get slots(): number {
    return this.#events.length;
  }

  /** What the producer's application says of the channel. */
  get metadata(): JsonValue | undefined {
    return decodeMetadata(this.#parts.offer.metadata);
  }

  /**
   * The next frame: once it may be read. Undefined when the producer has ended the channel.
   *
   * @throws {SharingError} `peer-gone` and others, when the connection ends otherwise
   */
  async next(options: WaitOptions = {}): Promise<ReceivedSlot | undefined> {
    options.signal?.throwIfAborted();
    for (;;) {
      if (this.#isDisposed) throw new ReferenceError(`Cannot read "${this.name}": the consumer was disposed`);
      const frame = this.#ready.shift();
      if (frame !== undefined) return this.#take(frame);
      if (this.#end !== undefined && this.#coming.length === 0) {
        if (this.#end.error !== undefined) throw this.#end.error;
        return undefined;
      }
      await until<void>((resolve) => {
        const wake = (): void => resolve();
        this.#waiting.add(wake);
        return () => this.#waiting.delete(wake);
      }, options);
    }
  }

  /** The frames from now on, until the producer ends the channel. */
  async *[Symbol.asyncIterator](): AsyncGenerator<ReceivedSlot, void> {
    for (;;) {
      const slot = await this.next();
      if (slot === undefined) return;
      yield slot;
    }
  }

  /** Releases what is held, each slot on its buffer's stream, and leaves the channel when the work with it is done. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isDisposed) return;
    for (const slot of [...this.#held]) giveBack(() => slot[Symbol.dispose]());
    this.#isDisposed = true;
    this.#end ??= { error: undefined };
    this.#cancelWait?.();
    this.#wake();
    await this.#freedOn.finished();
    giveBack(() => this.#parts.whole.free());
    this.#parts.close();
  }

  #take(frame: FrameMessage): ReceivedSlot {
    const { offer, channel, whole, stream, send } = this.#parts;
    const { slot: index, sequence, byteLength } = frame;
    const begin = offer.byteOffset + index * channel.slotStride;
    const [session, owner, pool, address] = partsOf(whole, begin, begin + byteLength);
    const buffer = new DeviceBuffer(session, { ...owner, keeper: ofChannel }, pool, address, byteLength, stream);
    const metadata = decodeMetadata(frame.metadata);
    const slot = new ReceivedSlot({ buffer, index, sequence, metadata }, (each, onto) => this.#release(each, onto));
    this.#held.add(slot);
    if (this.#isDrops) send({ type: "taken", offer: offer.offer, sequence });
    return slot;
  }

  #release(slot: ReceivedSlot, stream: CudaStream): void {
    const { offer, release, send } = this.#parts;
    this.#held.delete(slot);
    this.#freedOn.note(stream);
    retire(slot.buffer);
    const { index, sequence } = slot;
    release(stream, index, (event) => {
      send({ type: "release-slot", offer: offer.offer, slot: index, sequence, event });
    });
  }

  #onMessage(message: FrameMessage | OfferNotice): void {
    if (message.type !== "frame") {
      if (this.#end === undefined) this.#finish(undefined);
      return;
    }
    const { slot, sequence, byteLength } = message;
    if (slot >= this.#events.length) {
      throw badMessage(`slot ${slot} of "${this.name}" has a frame: it has ${this.slots}`);
    }
    if (byteLength > this.slotByteLength) {
      throw badMessage(`a frame of "${this.name}" has ${byteLength} bytes, and a slot ${this.slotByteLength}`);
    }
    if (sequence <= this.#lastSequence) {
      throw badMessage(`frame ${sequence} of "${this.name}" comes after frame ${this.#lastSequence}`);
    }
    this.#lastSequence = sequence;
    if (this.#isDisposed) return;
    if (this.#coming.length + this.#ready.length >= this.slots) {
      throw badMessage(`more frames of "${this.name}" come than it has slots`);
    }
    this.#coming.push(message);
    if (this.#coming.length === 1) this.#advance();
  }

  /** Moves frames on that may be read. They keep their order: each waits for those before it. */
  #advance(): void {
    for (let frame = this.#coming[0]; frame !== undefined; frame = this.#coming[0]) {
      const event = this.#events[frame.slot]!;
      if (frame.hasEvent && !event.query()) {
        this.#cancelWait = whenDone(() => event.query(), (error) => {
          if (error === undefined) return this.#advance();
          this.#coming.length = 0;
          throw error;
        });
        return;
      }
      this.#coming.shift();
      this.#ready.push(frame);
      this.#wake();
    }
  }

  /** An event of a dead process never fires: what was not ready by then never is. */
  #onEnd(error: SharingError | undefined): void {
    if (this.#end !== undefined && this.#coming.length === 0) return;
    this.#cancelWait?.();
    // What fired before the producer died stays so.
    this.#advance();
    this.#cancelWait?.();
    this.#coming.length = 0;
    this.#end = undefined;
    this.#finish(error);
  }

  #finish(error: SharingError | undefined): void {
    this.#end = { error };
    this.#wake();
  }

  #wake(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const wake of waiting) wake();
  }
}

const ofChannel = "it is a channel's; release its slot";
