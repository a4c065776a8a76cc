/**
 * The slots of a channel, and the quarantine of slots that a disconnected consumer may still be reading.
 *
 * @module
 */
import type { CudaDevice } from "../../objects/cuda_device.ts";
import { checkStream, type CudaStream } from "../../objects/streams/cuda_stream.ts";
import { finishedWithoutErrors, withoutCollectiveErrors } from "../../objects/device_sessions.ts";
import { allocationOf, type DeviceBuffer } from "../../memory/device_buffer.ts";
import { ignoreLoss } from "../../support/driver_errors.ts";
import type { Session } from "../../session.ts";
import { countOf } from "../../support/printing.ts";
import { type WaitOptions, waitOptionsOf, waitUntil, whenDone } from "../../support/waiting/waiting.ts";
import type { LocalEvent } from "../events/local_events.ts";
import { bufferOfSlot, endUseOfSlot, ownerOfSlot, Slot, type SlotOwner } from "./slot.ts";
import { abortable, type AbortableDescription } from "../transport/abortable.ts";
import { SharingError } from "../../support/errors.ts";
import { isLogging, logEvent } from "../../support/event_log.ts";
import { Timer } from "../../support/waiting/timer.ts";
import { ReferenceError, TypeError } from "../../support/program_errors.ts";

const reserveOptions = waitOptionsOf("reserve a slot");
const sentEnd = "its slot was sent; write to a slot before it is sent";
const returnedEnd = "its slot was returned to the channel; reserve another one";
const closedEnd = "its channel has ended";
const slotFreeRefusal = "it belongs to a channel; send its slot, or dispose of it";

/** The dependencies of `ChannelSlots`, which its producer provides. */
export interface ChannelSlotsParts {
  /** The name of the channel. */
  readonly name: string;
  readonly ring: DeviceBuffer;
  /** The distance in bytes between the starts of consecutive slots. */
  readonly stride: number;
  readonly slotByteLength: number;
  /** The ready event of each slot, recorded after the last write to the slot. */
  readonly events: readonly LocalEvent[];
  /** Returns whether enough consumers have joined for the application to reserve a slot. */
  readonly mayReserve: () => boolean;
  /** Drops a frame that no consumer reads, and releases its slot. Returns false if there is no such frame. */
  readonly drop: () => boolean;
  /**
   * Returns the reasons, for error messages, why no slot can be reserved: missing consumers, or the holders of the
   * frames in the slots; the array may be empty.
   */
  readonly whyNone: () => readonly string[];
}

/**
 * The slots of a channel on the producer's side. A slot is free, reserved by the application, or filled with a frame.
 *
 * A slot is free once no process reads it, the stream-ordered allocation of the ring has completed, and the last write
 * to the slot is done. The application may therefore write a free slot on any stream.
 */
export class ChannelSlots {
  readonly #parts: ChannelSlotsParts;
  readonly #session: Session;
  readonly #slotOwner: SlotOwner;
  /**
   * Describes a wait for a slot. Used to validate the wait's options, and quoted in the error if the wait is aborted.
   */
  readonly #wait: AbortableDescription;
  readonly #free: number[] = [];
  readonly #reserved = new Map<number, Slot>();
  /**
   * The slots that no consumer reads any longer, but whose last write, or a read in this process, is not done yet. The
   * values are functions that cancel the wait for the write or read.
   */
  readonly #settling = new Map<number, () => void>();
  /** Buffers of sent or returned slots that still have reads in progress in this process, keyed by slot. */
  readonly #beingRead = new Map<number, DeviceBuffer>();
  /**
   * A promise for each pending write on a stream on which the slot's event cannot be recorded. It resolves when the
   * write is done.
   */
  readonly #writing = new Set<Promise<void>>();
  /** The pending calls of `reserve`, oldest first. */
  readonly #reserving = new Set<{ resolve: (slot: Slot) => void; reject: (error: unknown) => void }>();
  /**
   * The error for calls of `reserve`. Set when the channel has ended or failed, so that no slot can be reserved any
   * more.
   */
  #refusal: { readonly error: unknown } | undefined;
  /** The error for calls of `reserve` while all slots are quarantined. */
  #shortage: { readonly error: unknown } | undefined;
  #isClosed = false;

  constructor(parts: ChannelSlotsParts) {
    this.#parts = parts;
    const { ring, ring: { stream }, events } = parts;
    this.#session = allocationOf(ring).session;
    this.#slotOwner = { channel: parts.name, returnSlot: (slot) => this.#returnSlot(slot) };
    this.#wait = { awaited: `a free slot of "${parts.name}"`, why: () => this.#whyNone(), known: reserveOptions };
    // Until the stream has executed the ring's allocation, the memory may belong to another buffer.
    const isAllocated = withoutCollectiveErrors(stream.device, () => stream.query())
      ? () => true
      : workDone(stream).isDone;
    for (const index of events.keys()) this.#settle(index, isAllocated);
  }

  /** The number of free slots. */
  get free(): number {
    return this.#free.length;
  }

  reserve(options: WaitOptions): Promise<Slot> {
    return abortable<Slot>(
      (resolve, reject) => {
        const refusal = this.#refusal ?? this.#shortage;
        if (refusal !== undefined) return reject(refusal.error);
        const waiting = { resolve, reject };
        this.#reserving.add(waiting);
        this.serve();
        return () => this.#reserving.delete(waiting);
      },
      options,
      this.#wait,
    );
  }

  /**
   * Throws unless a slot belongs to this channel and is reserved.
   *
   * @throws {TypeError} If the slot belongs to another channel
   * @throws {ReferenceError} If the slot was sent or returned
   */
  checkReserved(slot: Slot): void {
    if (this.#isReserved(slot)) return;
    const { name } = this.#parts;
    const owner = ownerOfSlot(slot);
    if (owner !== this.#slotOwner) {
      throw new TypeError(
        `Cannot send slot ${slot.index} in "${name}": it is a slot of another channel, "${owner.channel}"; send it there`,
      );
    }
    const why = allocationOf(slot.buffer).owner.useEnd === sentEnd ? "was sent" : "was returned to the channel";
    throw new ReferenceError(`Cannot send slot ${slot.index} in "${name}": it ${why}; reserve another slot`);
  }

  #isReserved(slot: Slot): boolean {
    return this.#reserved.get(slot.index) === slot;
  }

  /** Returns the reasons, for an error message, why no slot is free. */
  #whyNone(): string | undefined {
    const { events, mayReserve, whyNone } = this.#parts;
    const reasons = [...whyNone()];
    if (mayReserve()) {
      const { size } = this.#reserved;
      const slots = countOf(events.length, "slot");
      if (size > 0) {
        reasons.unshift(`${size} of ${slots} ${size === 1 ? "is" : "are"} reserved here, neither sent nor disposed of`);
      }
      const settling = this.#settling.size;
      if (settling > 0) {
        reasons.push(`${settling} of ${slots} ${settling === 1 ? "is" : "are"} still being written, or read here`);
      }
    }
    return reasons.length === 0 ? undefined : reasons.join("; ");
  }

  /**
   * Records a reserved slot's event on the stream that writes the slot, and ends the reservation. Returns false if no
   * event was recorded, because the write is already done.
   */
  fill(slot: Slot, stream: CudaStream): boolean {
    checkStream(stream, this.#session);
    const { device, event } = this.#parts.events[slot.index]!;
    // Record the event even if the write may be done already, because recording costs less than querying the stream.
    const hasEvent = stream.device === device;
    if (hasEvent) {
      stream.record(event);
    } else if (!withoutCollectiveErrors(stream.device, () => stream.query())) {
      throw new TypeError(
        `Cannot send slot ${slot.index}: it is written by a stream of device ${stream.device.ordinal}, and the ` +
          `channel lies on device ${device.ordinal}; make a stream of device ${device.ordinal} wait for it`,
      );
    }
    this.#endReservation(slot, sentEnd);
    return hasEvent;
  }

  /** Frees a slot that no consumer reads any longer, once the last write to the slot is done. */
  release(index: number): void {
    const { device, event } = this.#parts.events[index]!;
    this.#settle(index, () => withoutCollectiveErrors(device, () => event.query()));
  }

  /**
   * Frees the ring in stream order, after waiting for the work that the ring's stream cannot wait for. `close` must be
   * called first.
   */
  async freeRing(): Promise<void> {
    const { ring } = this.#parts;
    await Promise.all(this.#writing);
    await waitUntil(() => [...this.#beingRead.values()].every((buffer) => !allocationOf(buffer).isBeingRead));
    if (ring.stream.disposed) {
      // Wait for the whole device, because the default stream waits neither for the work of the ring's disposed stream
      // nor for the writes to slots.
      await workDone(ring.stream.device).done;
      ring.stream = ring.stream.device.defaultStream;
    }
    ring[Symbol.dispose]();
  }

  /** Resolves pending calls of `reserve` with free slots. */
  serve(): void {
    const { mayReserve, drop, ring, stride, slotByteLength } = this.#parts;
    while (this.#reserving.size > 0 && mayReserve()) {
      const index = this.#free.shift();
      if (index === undefined) {
        // Do not drop a frame if enough slots become free soon, once they have been written.
        if (this.#settling.size >= this.#reserving.size || !drop()) return;
        continue;
      }
      const [waiting] = this.#reserving;
      this.#reserving.delete(waiting!);
      const begin = index * stride;
      const { stream } = ring;
      const buffer = bufferOfSlot(ring, { begin, byteLength: slotByteLength, stream, freeRefusal: slotFreeRefusal });
      const slot = new Slot(buffer, index, this.#slotOwner);
      this.#reserved.set(index, slot);
      waiting!.resolve(slot);
    }
  }

  /** Rejects pending and future calls of `reserve`. */
  refuse(error: unknown): void {
    if (this.#refusal !== undefined) return;
    this.#refusal = { error };
    this.#rejectAll(error);
  }

  /** Rejects pending calls of `reserve`, and future calls until `endRefusal` is called. */
  refuseForNow(error: unknown): void {
    this.#shortage = { error };
    this.#rejectAll(error);
  }

  endRefusal(): void {
    this.#shortage = undefined;
  }

  /** Returns all reserved slots to the channel, and makes the ring's stream wait for all writes. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { ring, events } = this.#parts;
    for (const slot of this.#reserved.values()) ignoreLoss(() => this.#returnSlot(slot));
    for (const cancel of this.#settling.values()) cancel();
    this.#settling.clear();
    if (ring.stream.disposed) return;
    ignoreLoss(() => {
      for (const { device, event } of events) {
        if (!withoutCollectiveErrors(device, () => event.query())) ring.stream.wait(event);
      }
    });
  }

  #rejectAll(error: unknown): void {
    for (const { reject } of this.#reserving) reject(error);
    this.#reserving.clear();
  }

  #returnSlot(slot: Slot): void {
    if (!this.#isReserved(slot)) return;
    this.#endReservation(slot, this.#isClosed ? closedEnd : returnedEnd);
    const { index, buffer } = slot;
    const { stream } = buffer;
    const { device, event } = this.#parts.events[index]!;
    if (stream.disposed || stream.device !== device) {
      // A destroyed stream cannot be queried, so wait for the work of the whole device instead.
      const { isDone, done } = workDone(stream.disposed ? stream.device : stream);
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

  #endReservation({ index, buffer }: Slot, why: string): void {
    this.#reserved.delete(index);
    endUseOfSlot(buffer, why);
    if (allocationOf(buffer).isBeingRead) this.#beingRead.set(index, buffer);
  }

  #settle(index: number, isWritten: () => boolean): void {
    const buffer = this.#beingRead.get(index);
    let isOver = false;
    // The slot is also freed if a query fails: the device is then lost, and no write is in progress.
    const cancel = whenDone(() => (buffer === undefined || !allocationOf(buffer).isBeingRead) && isWritten(), () => {
      isOver = true;
      this.#settling.delete(index);
      this.#beingRead.delete(index);
      this.#free.push(index);
      this.serve();
    });
    if (!isOver) this.#settling.set(index, cancel);
  }
}

/**
 * Returns a function that reports whether the work enqueued so far on a stream or a whole device is done, and a promise
 * that resolves when the work is done. If the device is lost, the work counts as done.
 */
function workDone(work: CudaStream | CudaDevice): { isDone: () => boolean; done: Promise<void> } {
  let isDone = false;
  const end = (): void => {
    isDone = true;
  };
  return { isDone: () => isDone, done: finishedWithoutErrors(work).then(end, end) };
}

/**
 * Milliseconds for which all slots must be quarantined before `reserve` fails: the system closes a dying process's
 * connections before it reports that the process has exited.
 */
const gracePeriod = 1000;
/**
 * The milliseconds to use instead of `gracePeriod` while one of the processes may be exiting. If many processes with
 * work on a GPU are killed, each takes seconds to exit.
 */
const endingPeriod = 20_000;

/** The dependencies of `Quarantine`, which its producer provides. */
export interface QuarantineParts {
  /** The name of the channel. */
  readonly name: string;
  /** The number of slots of the channel. */
  readonly slots: number;
  /** Returns the slots that processes whose connections were closed may still use, keyed by process ID. */
  readonly quarantined: () => Map<number, Set<number>>;
  /**
   * Returns whether any process that holds quarantined slots may have begun to exit. The slots of such a process become
   * free when it exits.
   */
  readonly hasEndingHolders: () => boolean;
  /** Called when all slots have been quarantined for too long: no slot becomes free before a process exits. */
  readonly onExhausted: (error: SharingError) => void;
  /** Called when a slot becomes usable again after all slots were quarantined. */
  readonly onAvailable: () => void;
}

/**
 * Counts the quarantined slots of a channel. A process whose connection was closed may still use such a slot, so the
 * slot cannot be reused until the process exits.
 */
export class Quarantine {
  readonly #parts: QuarantineParts;
  readonly #timer = new Timer(() => this.#onGraceOver(), gracePeriod, { unref: true });
  #slots = 0;
  /** The `performance.now()` when all slots became quarantined. */
  #exhaustedSince: number | undefined;
  #isClosed = false;

  constructor(parts: QuarantineParts) {
    this.#parts = parts;
  }

  /** The number of quarantined slots. */
  get slots(): number {
    return this.#slots;
  }

  /** Recounts the quarantined slots. */
  update(): void {
    if (this.#isClosed) return;
    const { quarantined, slots, onAvailable } = this.#parts;
    this.#slots = new Set([...quarantined().values()].flatMap((each) => [...each])).size;
    if (this.#slots === slots) {
      this.#exhaustedSince ??= performance.now();
      this.#timer.start();
    } else if (this.#exhaustedSince !== undefined) {
      this.#exhaustedSince = undefined;
      onAvailable();
    }
  }

  close(): void {
    this.#isClosed = true;
  }

  #onGraceOver(): number | undefined {
    if (this.#exhaustedSince === undefined || this.#isClosed) return undefined;
    const { name, slots, quarantined, hasEndingHolders, onExhausted } = this.#parts;
    const time = performance.now() - this.#exhaustedSince;
    if (time < gracePeriod) return gracePeriod - time;
    if (time < endingPeriod && hasEndingHolders()) return gracePeriod;
    const holders = [...quarantined()].map(([pid, { size }]) => `${pid} (${size})`).join(", ");
    const text = `Cannot reserve a slot of "${name}": all ${slots} may still be used by processes that are not ` +
      `connected any more: ${holders}; they come back when these processes have ended`;
    if (isLogging) logEvent("channel-exhausted", { name, slots, holders });
    onExhausted(new SharingError("cut-off", text));
    return undefined;
  }
}
