import type { CudaEvent } from "../../objects/streams/cuda_event.ts";
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import { finishedWithoutErrors } from "../../objects/device_sessions.ts";
import { countOf, escapeControls, printAs, refuseUsing } from "../../support/printing.ts";
import { allocationOf, type DeviceBuffer } from "../../memory/device_buffer.ts";
import { SharingError } from "../../support/errors.ts";
import { allSettledUnseen } from "../../support/lost_devices.ts";
import { FreedStreams } from "../../memory/freed_streams.ts";
import { checkOptions, type KnownOptions } from "../../support/validation.ts";
import { throwIfAborted, type WaitOptions, waitOptionsOf, waitUntil } from "../../support/waiting/waiting.ts";
import {
  badMessage,
  type ChannelMessage,
  type FrameMessage,
  type Message,
  type OfferMessage,
  type OfferNotice,
} from "../protocol/messages.ts";
import { decodeMetadata, type JsonValue } from "../protocol/metadata.ts";
import { bufferOfSlot, endUseOfSlot, ReceivedSlot, type ReceivedSlotOwner } from "./slot.ts";
import { abortable } from "../transport/abortable.ts";
import { ReferenceError } from "../../support/program_errors.ts";

/** Options of `Importer.channel`. */
export interface ConsumerOptions extends WaitOptions {
  /**
   * The stream of the buffers of received slots. Releasing a slot takes effect after the earlier work on this stream.
   * Defaults to the device's default stream.
   */
  stream?: CudaStream;
}

/** Describes `ConsumerOptions`. Used to validate the options. */
export const consumerOptions: KnownOptions<ConsumerOptions> = {
  action: "join a channel",
  names: { stream: true, signal: true },
};
const nextOptions = waitOptionsOf("wait for a frame");

/** The dependencies of a consumer, which its importer provides. */
export interface ConsumerParts {
  readonly offer: OfferMessage;
  readonly channel: ChannelMessage;
  /** The mapped allocation that contains the ring. */
  readonly whole: DeviceBuffer;
  readonly stream: CudaStream;
  /** Returns a signal that is aborted when the producer recalls the ring or its process is gone. */
  recalled(): AbortSignal;
  /** Opens a ready event. Returns undefined if this process cannot open it. */
  openEvent(identifier: number): CudaEvent | undefined;
  /**
   * Calls `callback` once the latest record of an event has fired, or with the error if querying the event fails. The
   * call may happen before this function returns. Returns a function that cancels the callback.
   */
  whenFired(identifier: number, callback: (error?: unknown) => void): () => void;
  send(message: Message): void;
  /**
   * Calls `send` to send the release of a slot that takes effect once `stream` has finished its current work. `send`
   * receives the number of the event that the exporter must wait for, or 0 if there is none. If this method throws,
   * nothing was sent.
   */
  release(stream: CudaStream, slot: number, send: (event: number) => void): void;
  /** Unmaps the ring. Returns false if that fails. */
  freeRing(): boolean;
  /**
   * Called when the consumer has been disposed of. `isFreed` is false if the ring is still mapped; then the exporter is
   * not notified of a release of the ring.
   */
  close(isFreed: boolean): void;
}

/** The interface through which an importer notifies its consumer. */
export interface ConsumerHub {
  onMessage(message: FrameMessage | OfferNotice): void;
  /** Called when the connection was closed. */
  onEnd(error: SharingError | undefined): void;
}

/**
 * The reading end of a channel: an async iterable of frames. Created by `Importer.channel`.
 *
 * Each frame must be released, in any order: the producer waits for the frame's slot, and may cut off a consumer that
 * holds a frame for longer than the channel's `holdTimeout`. If the producer dies, the frames that have already arrived
 * are still returned; then the iteration throws.
 *
 * @typeParam Metadata the type of the channel's metadata, which is not checked against what the producer's application
 * sent
 * @typeParam FrameMetadata the type of the frames' metadata, which is also unchecked
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
export class ChannelConsumer<Metadata = JsonValue, FrameMetadata = JsonValue>
  implements AsyncDisposable, AsyncIterable<ReceivedSlot<FrameMetadata>> {
  readonly #parts: ConsumerParts;
  /** The ready event of each slot; undefined if this process cannot open it. */
  readonly #events: readonly (CudaEvent | undefined)[];
  /** The slots of pending frames whose event this process cannot open, but whose event is known to have fired. */
  readonly #written = new Set<number>();
  /** Frames that have arrived but whose slots the producer may still be writing, in order of arrival. */
  readonly #pending: FrameMessage[] = [];
  /** Frames that are ready to be read, in order of arrival. */
  readonly #ready: FrameMessage[] = [];
  /** Slots of frames that have arrived and have not been released. */
  readonly #full = new Set<number>();
  /** The slots that the application holds. */
  readonly #held = new Set<ReceivedSlot<unknown>>();
  readonly #freedOn = new FreedStreams();
  /** Buffers of released slots that still have reads in progress. */
  readonly #beingRead = new Set<DeviceBuffer>();
  readonly #slotOwner: ReceivedSlotOwner;
  #lastSequence = 0;
  #cancelWait: (() => void) | undefined;
  /** Functions that wake the pending calls of `next`, in the order of the calls. */
  readonly #waiting = new Set<() => void>();
  /** Set once no more frames can arrive. `error` is undefined if the channel ended normally. */
  #end: { readonly error: unknown } | undefined;
  #disposal: Promise<void> | undefined;
  /** Whether this consumer has left the channel, which implicitly releases all its slots. */
  #hasLeft = false;

  static {
    printAs(this, "ChannelConsumer", (consumer) => {
      if (consumer.#disposal !== undefined) return `ChannelConsumer { ${consumer.name}, disposed }`;
      const state = consumer.#end === undefined ? "" : ", ended";
      return `ChannelConsumer { ${consumer.name}, ${countOf(consumer.#ready.length, "frame")} ready, ` +
        `${consumer.#held.size} held${state} }`;
    }, [
      "name",
      "slots",
      "slotByteLength",
      "metadata",
      ["ready", (consumer) => consumer.#ready.length],
      ["held", (consumer) => consumer.#held.size],
      ["ended", (consumer) => consumer.#end !== undefined],
      ["disposed", (consumer) => consumer.#disposal !== undefined],
    ]);
    refuseUsing(this, "ChannelConsumer");
  }

  /**
   * Created by `Importer.channel`. `onHub` receives the interface that the connection calls.
   *
   * @ignore
   */
  constructor(parts: ConsumerParts, onHub: (hub: ConsumerHub) => void) {
    this.#parts = parts;
    this.#events = parts.channel.readyEvents.map((event) => parts.openEvent(event));
    this.#slotOwner = {
      session: allocationOf(parts.whole).session,
      isHeld: (slot) => this.#held.has(slot),
      release: (slot, stream) => this.#release(slot, stream),
    };
    onHub({
      onMessage: (message) => this.#onMessage(message),
      onEnd: (error) => this.#onEnd(error),
    });
    parts.send({ type: "join", offer: parts.offer.offer });
  }

  /** The channel's name. */
  get name(): string {
    return this.#parts.offer.name;
  }

  /** The size of each slot in bytes, which is the maximum size of a frame. */
  get slotByteLength(): number {
    return this.#parts.channel.slotByteLength;
  }

  /**
   * The number of slots of the ring. A consumer that holds all slots, or as many as the channel's `window` allows,
   * receives no more frames.
   */
  get slots(): number {
    return this.#events.length;
  }

  /**
   * The metadata that the producer's application attached to the channel. Its type is what this process expects;
   * nothing checks that the producer sent a value of that type.
   */
  get metadata(): Metadata | undefined {
    return decodeMetadata(this.#parts.offer.metadata) as Metadata | undefined;
  }

  /**
   * Aborted when the producer's process recalls the ring: dispose of the consumer soon, or the connection may be cut
   * off.
   */
  get recalled(): AbortSignal {
    return this.#parts.recalled();
  }

  /**
   * Returns the next frame, once it is ready to be read. Returns undefined once the producer has ended the channel.
   *
   * @param options an optional signal that aborts the wait
   * @throws {ReferenceError} If the consumer was disposed
   * @throws {SharingError} If the connection is closed before the channel ends, for example with the code `peer-gone`
   * @throws {CudaError} If the device was lost
   */
  async next(options: WaitOptions = {}): Promise<ReceivedSlot<FrameMetadata> | undefined> {
    checkOptions(options, nextOptions);
    throwIfAborted(options.signal);
    for (;;) {
      if (this.#disposal !== undefined) {
        throw new ReferenceError(`Cannot read "${escapeControls(this.name)}": the consumer was disposed`);
      }
      const frame = this.#ready.shift();
      if (frame !== undefined) return this.#take(frame);
      if (this.#end !== undefined && this.#pending.length === 0) {
        if (this.#end.error !== undefined) throw this.#end.error;
        return undefined;
      }
      await abortable<void>(
        (resolve) => {
          const wake = (): void => resolve();
          this.#waiting.add(wake);
          return () => this.#waiting.delete(wake);
        },
        options,
        { awaited: `a frame of "${this.name}"` },
      );
    }
  }

  /** Yields the frames that `next` has not returned yet, until the producer ends the channel. */
  async *[Symbol.asyncIterator](): AsyncGenerator<ReceivedSlot<FrameMetadata>, void> {
    for (;;) {
      const slot = await this.next();
      if (slot === undefined) return;
      yield slot;
    }
  }

  /**
   * Releases the held slots, each in the order of its buffer's stream. Leaves the channel once the work that uses the
   * slots is done.
   */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#disposal ??= this.#dispose();
  }

  async #dispose(): Promise<void> {
    this.#cancelWait?.();
    this.#wake();
    // All slots are released implicitly when this consumer leaves the channel.
    for (const slot of this.#held) {
      this.#freedOn.add(allocationOf(slot.buffer).releaseStream(slot.buffer.stream));
      this.#endUse(slot.buffer, "its ChannelConsumer was disposed; use it before");
    }
    this.#held.clear();
    await this.#freedOn.finished();
    await Promise.all([...this.#beingRead].map(readsDone));
    const isFreed = this.#parts.freeRing();
    await allSettledUnseen([finishedWithoutErrors(this.#parts.whole.stream)]);
    this.#hasLeft = true;
    this.#parts.close(isFreed);
  }

  #take(frame: FrameMessage): ReceivedSlot<FrameMetadata> {
    const { offer, channel, whole, stream } = this.#parts;
    const { slot: index, sequence, byteLength } = frame;
    const begin = offer.byteOffset + index * channel.slotStride;
    const buffer = bufferOfSlot(whole, { begin, byteLength, stream, freeRefusal: slotFreeRefusal });
    const metadata = decodeMetadata(frame.metadata) as FrameMetadata | undefined;
    const slot = new ReceivedSlot({ buffer, index, sequence, metadata }, this.#slotOwner);
    this.#held.add(slot);
    return slot;
  }

  #release(slot: ReceivedSlot<unknown>, stream: CudaStream): void {
    const { offer, release, send } = this.#parts;
    const { index, sequence } = slot;
    const sendRelease = (event: number): void => {
      if (!this.#hasLeft) send({ type: "release-slot", offer: offer.offer, slot: index, sequence, event });
    };
    const allocation = allocationOf(slot.buffer);
    // `releaseStream` is ordered after the work of all streams that have used the slot.
    const releaseStream = allocation.releaseStream(stream);
    if (!allocation.hasHolders) release(releaseStream, index, sendRelease);
    // Some reads of the buffer have not been enqueued yet, so no stream can wait for them.
    else {void allSettledUnseen([finishedWithoutErrors(releaseStream), readsDone(slot.buffer)]).then(() =>
        sendRelease(0)
      );}
    this.#freedOn.add(releaseStream);
    this.#held.delete(slot);
    this.#full.delete(index);
    this.#endUse(slot.buffer, "its frame was released; use it before");
  }

  #endUse(buffer: DeviceBuffer, why: string): void {
    endUseOfSlot(buffer, why);
    if (!allocationOf(buffer).isBeingRead) return;
    this.#beingRead.add(buffer);
    void readsDone(buffer).then(() => this.#beingRead.delete(buffer));
  }

  #onMessage(message: FrameMessage | OfferNotice): void {
    if (message.type !== "frame") {
      if (this.#end === undefined) this.#finish(undefined);
      return;
    }
    const { slot, sequence, byteLength } = message;
    if (slot >= this.#events.length) {
      throw badMessage(`slot ${slot} of "${this.name}" does not exist: it has ${this.slots} slots`);
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
    const { window } = this.#parts.channel;
    if (this.#full.size >= window) {
      throw badMessage(`frame ${sequence} of "${this.name}" comes while ${window} are not released, the maximum`);
    }
    this.#full.add(slot);
    this.#pending.push(message);
    if (message.hasEvent && this.#events[slot] === undefined) this.#awaitSlot(slot);
    if (this.#pending.length === 1) this.#advance();
  }

  /** Moves written frames to `#ready`, and registers a callback for when the first remaining frame has been written. */
  #advance(): void {
    try {
      this.#moveReady();
    } catch (error) {
      return this.#fail(error);
    }
    const [frame] = this.#pending;
    // `#awaitSlot` already waits for a slot whose event this process cannot open.
    if (frame === undefined || this.#events[frame.slot] === undefined) return;
    let isOver = false;
    const cancel = this.#parts.whenFired(this.#parts.channel.readyEvents[frame.slot]!, (error) => {
      isOver = true;
      if (error === undefined) this.#advance();
      else this.#fail(error);
    });
    if (!isOver) this.#cancelWait = cancel;
  }

  /** Waits until a slot has been written, if this process cannot open the slot's event. */
  #awaitSlot(slot: number): void {
    const event = this.#parts.channel.readyEvents[slot]!;
    this.#parts.whenFired(event, (error) => {
      if (this.#disposal !== undefined || this.#end?.error !== undefined) return;
      if (error !== undefined) return this.#fail(error);
      this.#written.add(slot);
      if (this.#pending[0]?.slot === slot) this.#advance();
    });
  }

  /**
   * Moves frames whose slots have been written to `#ready`, in order. Stops at the first frame that is not written yet.
   */
  #moveReady(): void {
    for (let frame = this.#pending[0]; frame !== undefined && this.#isWritten(frame); frame = this.#pending[0]) {
      this.#pending.shift();
      this.#written.delete(frame.slot);
      this.#ready.push(frame);
      this.#wake();
    }
  }

  #isWritten({ hasEvent, slot }: FrameMessage): boolean {
    return !hasEvent || (this.#events[slot]?.query() ?? this.#written.has(slot));
  }

  /** Ends the consumer with an error, because its events can no longer be queried. */
  #fail(error: unknown): void {
    this.#pending.length = 0;
    this.#finish(error);
  }

  /**
   * Handles the closing of the connection. Drops the frames that are not ready yet, because an event of a dead process
   * never fires.
   */
  #onEnd(error: SharingError | undefined): void {
    if (this.#disposal !== undefined || this.#end?.error !== undefined) return;
    this.#cancelWait?.();
    // Events that fired before the producer died can still be queried.
    try {
      this.#moveReady();
    } catch (failure) {
      return this.#fail(failure);
    }
    const lost = this.#pending.length;
    this.#pending.length = 0;
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

/** Resolves once no read of a buffer is in progress. */
function readsDone(buffer: DeviceBuffer): Promise<void> {
  return waitUntil(() => !allocationOf(buffer).isBeingRead);
}

const slotFreeRefusal = "it belongs to a channel; release its slot";
