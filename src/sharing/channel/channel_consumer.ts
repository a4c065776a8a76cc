import type { CudaEvent } from "../../objects/cuda_event.ts";
import type { CudaStream } from "../../objects/cuda_stream.ts";
import { countOf, printAs } from "../../support/printing.ts";
import { awaitCopies, type DeviceBuffer, endUse, isBeingRead, sessionOfBuffer } from "../../memory/device_buffer.ts";
import { SharingError } from "../../support/errors.ts";
import { FreedStreams } from "../../memory/freed_streams.ts";
import { checkOptions } from "../../support/validation.ts";
import { throwIfAborted, type WaitOptions, waitUntil, whenDone } from "../../support/waiting/waiting.ts";
import {
  badMessage,
  type ChannelMessage,
  type FrameMessage,
  type Message,
  type OfferMessage,
  type OfferNotice,
} from "../protocol/messages.ts";
import { decodeMetadata, type JsonValue } from "../protocol/metadata.ts";
import { bufferOfSlot, ReceivedSlot, type ReceivedSlotOwner } from "./slot.ts";
import { abortable } from "../../support/waiting/abortable.ts";

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
  /** Aborted when the producer asks for the ring, or is gone. */
  recalled(): AbortSignal;
  openEvent(identifier: number): CudaEvent;
  send(message: Message): void;
  /** Tells how far a stream must get, by the event of a slot where that is needed. Nothing is told where it throws. */
  release(stream: CudaStream, slot: number, send: (event: number) => void): void;
  /** Unmaps the ring. False where that has failed. */
  freeRing(): boolean;
  /** The consumer is done. `isFreed` is false where the ring is still mapped: the exporter is not told. */
  close(isFreed: boolean): void;
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
  /** Slots of frames that came and were not released. */
  readonly #full = new Set<number>();
  /** What the application has. */
  readonly #held = new Set<ReceivedSlot>();
  readonly #freedOn = new FreedStreams();
  /** Buffers that the application has no more, and that were being read then. */
  readonly #beingRead = new Set<DeviceBuffer>();
  readonly #isDrops: boolean;
  readonly #slotOwner: ReceivedSlotOwner;
  #lastSequence = 0;
  #cancelWait: (() => void) | undefined;
  /** Who waits for a frame, first come first. */
  readonly #waiting = new Set<() => void>();
  /** The last frame has come; or none comes any more, and why. */
  #end: { readonly error: unknown } | undefined;
  #disposal: Promise<void> | undefined;
  /** The producer was told that nothing is held any more. */
  #hasLeft = false;

  static {
    printAs(this, "ChannelConsumer", (consumer) => {
      if (consumer.#disposal !== undefined) return `ChannelConsumer { ${consumer.name}, disposed }`;
      const state = consumer.#end === undefined ? "" : ", ended";
      return `ChannelConsumer { ${consumer.name}, ${countOf(consumer.#ready.length, "frame")} ready, ` +
        `${consumer.#held.size} held${state} }`;
    });
  }

  /**
   * Made by `Importer.channel`. `onHub` is given what the connection talks to.
   *
   * @ignore
   */
  constructor(parts: ConsumerParts, onHub: (hub: ConsumerHub) => void) {
    this.#parts = parts;
    const { readyEvents, window } = parts.channel;
    this.#isDrops = window < readyEvents.length;
    this.#events = readyEvents.map((event) => parts.openEvent(event));
    this.#slotOwner = {
      session: sessionOfBuffer(parts.whole),
      isHeld: (slot) => this.#held.has(slot),
      release: (slot, stream) => this.#release(slot, stream),
    };
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
   * Aborted when the producer's process asks for the ring back: dispose of this soon. Who does not may be cut off.
   */
  get recalled(): AbortSignal {
    return this.#parts.recalled();
  }

  /**
   * The next frame: once it may be read. Undefined when the producer has ended the channel.
   *
   * @param options a signal ends the wait
   * @throws {ReferenceError} where the consumer was disposed
   * @throws {SharingError} `peer-gone` and others, when the connection ends otherwise
   * @throws {CudaError} when the device was lost
   */
  async next(options: WaitOptions = {}): Promise<ReceivedSlot | undefined> {
    checkOptions(options, "ChannelConsumer.next");
    throwIfAborted(options.signal);
    for (;;) {
      if (this.#disposal !== undefined) {
        throw new ReferenceError(`Cannot read "${this.name}": the consumer was disposed`);
      }
      const frame = this.#ready.shift();
      if (frame !== undefined) return this.#take(frame);
      if (this.#end !== undefined && this.#coming.length === 0) {
        if (this.#end.error !== undefined) throw this.#end.error;
        return undefined;
      }
      await abortable<void>((resolve) => {
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
  [Symbol.asyncDispose](): Promise<void> {
    return this.#disposal ??= this.#dispose();
  }

  async #dispose(): Promise<void> {
    this.#cancelWait?.();
    this.#wake();
    // To leave the channel releases all slots.
    for (const slot of this.#held) {
      this.#freedOn.note(slot.buffer.stream);
      this.#endUse(slot.buffer);
    }
    this.#held.clear();
    await this.#freedOn.finished();
    await Promise.all([...this.#beingRead].map(readDone));
    const isFreed = this.#parts.freeRing();
    await Promise.allSettled([this.#parts.whole.stream.finished()]);
    this.#hasLeft = true;
    this.#parts.close(isFreed);
  }

  #take(frame: FrameMessage): ReceivedSlot {
    const { offer, channel, whole, stream, send } = this.#parts;
    const { slot: index, sequence, byteLength } = frame;
    const begin = offer.byteOffset + index * channel.slotStride;
    const buffer = bufferOfSlot(whole, { begin, byteLength, stream, freeRefusal: ofChannel });
    const metadata = decodeMetadata(frame.metadata);
    const slot = new ReceivedSlot({ buffer, index, sequence, metadata }, this.#slotOwner);
    this.#held.add(slot);
    if (this.#isDrops) send({ type: "taken", offer: offer.offer, sequence });
    return slot;
  }

  #release(slot: ReceivedSlot, stream: CudaStream): void {
    const { offer, release, send } = this.#parts;
    const { index, sequence } = slot;
    const sendRelease = (event: number): void => {
      if (!this.#hasLeft) send({ type: "release-slot", offer: offer.offer, slot: index, sequence, event });
    };
    if (awaitCopies(slot.buffer, stream)) release(stream, index, sendRelease);
    // The stream cannot wait for copies that it is yet to be told of.
    else void Promise.allSettled([stream.finished(), readDone(slot.buffer)]).then(() => sendRelease(0));
    this.#freedOn.note(stream);
    this.#held.delete(slot);
    this.#full.delete(index);
    this.#endUse(slot.buffer);
  }

  #endUse(buffer: DeviceBuffer): void {
    endUse(buffer);
    if (!isBeingRead(buffer)) return;
    this.#beingRead.add(buffer);
    void readDone(buffer).then(() => this.#beingRead.delete(buffer));
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
    if (this.#disposal !== undefined || this.#end?.error !== undefined) return;
    if (this.#end !== undefined) throw badMessage(`frame ${sequence} of "${this.name}" comes after its end`);
    if (this.#full.has(slot)) {
      throw badMessage(`frame ${sequence} of "${this.name}" comes in slot ${slot}, whose frame was not released`);
    }
    this.#full.add(slot);
    this.#coming.push(message);
    if (this.#coming.length === 1) this.#advance();
  }

  /** Moves frames on that may be read, now and later. */
  #advance(): void {
    try {
      this.#moveReady();
    } catch (error) {
      return this.#fail(error);
    }
    const [frame] = this.#coming;
    if (frame === undefined) return;
    let isOver = false;
    const cancel = whenDone(() => this.#isWritten(frame), (error) => {
      isOver = true;
      if (error === undefined) this.#advance();
      else this.#fail(error);
    });
    if (!isOver) this.#cancelWait = cancel;
  }

  /** Moves frames on that may be read. They keep their order: each waits for those before it. */
  #moveReady(): void {
    for (let frame = this.#coming[0]; frame !== undefined && this.#isWritten(frame); frame = this.#coming[0]) {
      this.#coming.shift();
      this.#ready.push(frame);
      this.#wake();
    }
  }

  #isWritten({ hasEvent, slot }: FrameMessage): boolean {
    return !hasEvent || this.#events[slot]!.query();
  }

  /** Nobody can tell any more what is written. */
  #fail(error: unknown): void {
    this.#coming.length = 0;
    this.#finish(error);
  }

  /** An event of a dead process never fires: what was not ready by then never is. */
  #onEnd(error: SharingError | undefined): void {
    if (this.#disposal !== undefined || this.#end?.error !== undefined) return;
    this.#cancelWait?.();
    // What fired before the producer died stays so.
    try {
      this.#moveReady();
    } catch (failure) {
      return this.#fail(failure);
    }
    const lost = this.#coming.length;
    this.#coming.length = 0;
    if (lost > 0) {
      this.#finish(
        error ?? new SharingError("peer-gone", `Cannot read ${lost} frames of "${this.name}": the producer has closed`),
      );
    } else if (this.#end === undefined) {
      this.#finish(error);
    }
  }

  #finish(error: unknown): void {
    this.#end = { error };
    this.#wake();
  }

  #wake(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const wake of waiting) wake();
  }
}

/** Resolves when nothing is copied out of a buffer any more. */
function readDone(buffer: DeviceBuffer): Promise<void> {
  return waitUntil(() => !isBeingRead(buffer));
}

const ofChannel = "it is a channel's; release its slot";
