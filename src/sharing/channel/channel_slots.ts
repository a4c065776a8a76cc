import type { CudaDevice } from "../../objects/cuda_device.ts";
import { checkStream, type CudaStream } from "../../objects/cuda_stream.ts";
import { type DeviceBuffer, endUse, isBeingRead, sessionOfBuffer } from "../../memory/device_buffer.ts";
import { ignoreLoss } from "../../support/error_wording.ts";
import type { Session } from "../../session.ts";
import { type WaitOptions, waitUntil, whenDone } from "../../support/waiting/waiting.ts";
import type { LocalEvent } from "../events/local_events.ts";
import { bufferOfSlot, Slot } from "./slot.ts";
import { abortable } from "../../support/waiting/abortable.ts";

const ofChannel = "it is a channel's; send its slot, or dispose of it";

/** What the slots of a channel need. */
export interface ChannelSlotsParts {
  readonly ring: DeviceBuffer;
  /** Bytes from one slot to the next. */
  readonly stride: number;
  readonly slotByteLength: number;
  /** One for each slot: recorded behind what was written there last. */
  readonly events: readonly LocalEvent[];
  /** Whether the application may have a slot now. */
  readonly mayReserve: () => boolean;
  /** Takes a frame back that nobody reads, and releases its slot. False where there is none. */
  readonly drop: () => boolean;
}

/**
 * The slots of a channel as its producer has them: free, reserved by the application, or full of a frame.
 *
 * A slot is free when nobody reads it, its memory is the ring's, and what was written there last is done: so the
 * application may write it on any stream, whichever wrote it before.
 */
export class ChannelSlots {
  readonly #parts: ChannelSlotsParts;
  readonly #session: Session;
  readonly #free: number[] = [];
  readonly #reserved = new Map<number, Slot>();
  /** Slots that nobody reads and that are still written, with what ends the wait for that. */
  readonly #settling = new Map<number, () => void>();
  /** Buffers of slots that were sent or given back while they were read, by slot. */
  readonly #beingRead = new Map<number, DeviceBuffer>();
  /** Ends of what is written by streams that no event of a slot can be recorded on. */
  readonly #writing = new Set<Promise<void>>();
  /** Who waits for a slot, first come first. */
  readonly #reserving = new Set<{ resolve: (slot: Slot) => void; reject: (error: unknown) => void }>();
  /** Why no slot is given any more. */
  #refusal: { readonly error: unknown } | undefined;
  #isClosed = false;

  constructor(parts: ChannelSlotsParts) {
    this.#parts = parts;
    const { ring, ring: { stream }, events } = parts;
    this.#session = sessionOfBuffer(ring);
    // Until the stream gets to the ring's allocation, its memory may be another buffer's.
    const isAllocated = stream.query() ? () => true : doneBehind(stream).isDone;
    for (const index of events.keys()) this.#settle(index, isAllocated);
  }

  /** How many are free. */
  get free(): number {
    return this.#free.length;
  }

  reserve(options: WaitOptions): Promise<Slot> {
    return abortable<Slot>((resolve, reject) => {
      if (this.#refusal !== undefined) return reject(this.#refusal.error);
      const waiting = { resolve, reject };
      this.#reserving.add(waiting);
      this.serve();
      return () => this.#reserving.delete(waiting);
    }, options);
  }

  isReserved(slot: Slot): boolean {
    return this.#reserved.get(slot.index) === slot;
  }

  /**
   * Marks what a stream has written into a reserved slot, which is not the application's any more. False where that is
   * done already, and there is nothing to mark.
   */
  fill(slot: Slot, stream: CudaStream): boolean {
    checkStream(stream, this.#session);
    const { device, event } = this.#parts.events[slot.index]!;
    // A record costs less than to ask whether the stream is done.
    const hasEvent = stream.device === device;
    if (hasEvent) {
      stream.record(event);
    } else if (!stream.query()) {
      throw new TypeError(
        `Cannot send slot ${slot.index}: it is written by a stream of device ${stream.device.ordinal}, and the ` +
          `channel lies on device ${device.ordinal}; let a stream of that wait for it`,
      );
    }
    this.#end(slot);
    return hasEvent;
  }

  /** Nobody reads a slot any more. */
  release(index: number): void {
    const { event } = this.#parts.events[index]!;
    this.#settle(index, () => event.query());
  }

  /** Frees the ring, once what its stream cannot wait for is done. The slots were closed before. */
  async freeRing(): Promise<void> {
    const { ring } = this.#parts;
    await Promise.all(this.#writing);
    await waitUntil(() => [...this.#beingRead.values()].every((buffer) => !isBeingRead(buffer)));
    if (ring.stream.disposed) {
      // The default stream need not come after what the ring's was given, nor after what is written.
      await doneBehind(ring.stream.device).done;
      ring.stream = ring.stream.device.defaultStream;
    }
    ring[Symbol.dispose]();
  }

  /** Gives free slots to those who wait, as far as there are. */
  serve(): void {
    const { mayReserve, drop, ring, stride, slotByteLength } = this.#parts;
    while (this.#reserving.size > 0 && mayReserve()) {
      const index = this.#free.shift();
      if (index === undefined) {
        // What is written comes as well.
        if (this.#settling.size >= this.#reserving.size || !drop()) return;
        continue;
      }
      const [waiting] = this.#reserving;
      this.#reserving.delete(waiting!);
      const begin = index * stride;
      const { stream } = ring;
      const buffer = bufferOfSlot(ring, { begin, byteLength: slotByteLength, stream, freeRefusal: ofChannel });
      const slot = new Slot(buffer, index, (each) => this.#giveBack(each));
      this.#reserved.set(index, slot);
      waiting!.resolve(slot);
    }
  }

  /** Gives no slot any more. */
  refuse(error: unknown): void {
    if (this.#refusal !== undefined) return;
    this.#refusal = { error };
    for (const { reject } of this.#reserving) reject(error);
    this.#reserving.clear();
  }

  /** Takes what is reserved away, and lets the ring's stream wait for all that is still written. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { ring, events } = this.#parts;
    for (const slot of this.#reserved.values()) ignoreLoss(() => this.#giveBack(slot));
    for (const cancel of this.#settling.values()) cancel();
    this.#settling.clear();
    if (ring.stream.disposed) return;
    ignoreLoss(() => {
      for (const { event } of events) if (!event.query()) ring.stream.wait(event);
    });
  }

  #giveBack(slot: Slot): void {
    if (!this.isReserved(slot)) return;
    this.#end(slot);
    const { index, buffer } = slot;
    const { stream } = buffer;
    const { device, event } = this.#parts.events[index]!;
    if (stream.disposed || stream.device !== device) {
      // What a stream leaves behind when it is destroyed, its device alone knows.
      const { isDone, done } = doneBehind(stream.disposed ? stream.device : stream);
      this.#writing.add(done);
      void done.then(() => this.#writing.delete(done));
      return this.#settle(index, isDone);
    }
    try {
      stream.record(event);
    } finally {
      this.release(index);
    }
  }

  #end({ index, buffer }: Slot): void {
    this.#reserved.delete(index);
    endUse(buffer);
    if (isBeingRead(buffer)) this.#beingRead.set(index, buffer);
  }

  #settle(index: number, isWritten: () => boolean): void {
    const buffer = this.#beingRead.get(index);
    let isOver = false;
    // Where the device is lost, nothing is written any more.
    const cancel = whenDone(() => (buffer === undefined || !isBeingRead(buffer)) && isWritten(), () => {
      isOver = true;
      this.#settling.delete(index);
      this.#beingRead.delete(index);
      this.#free.push(index);
      this.serve();
    });
    if (!isOver) this.#settling.set(index, cancel);
  }
}

/** When all that a stream, or a whole device, was given so far is done: where its device is lost, too. */
function doneBehind(work: CudaStream | CudaDevice): { isDone: () => boolean; done: Promise<void> } {
  let isDone = false;
  const end = (): void => {
    isDone = true;
  };
  return { isDone: () => isDone, done: work.finished().then(end, end) };
}
