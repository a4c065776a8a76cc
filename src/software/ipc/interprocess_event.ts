/**
 * Events that several processes record and wait for.
 *
 * An event's state is a page that these processes map: the number of records so far, and a ring of completed records.
 * Each record gets the next number as its ticket. When a stream reaches a record, it writes the ticket's number to the
 * ticket's entry in the ring. Recent tickets have separate entries, so that a later record that completes first does
 * not release a stream that waits for an earlier one. If the last record is local, it is represented by its work
 * instead of a ticket: only for local records does the process know the preceding work.
 *
 * @module
 */
import { type Awaited, Event, type Stream, type Work } from "../execution/streams.ts";
import { atNextTurn } from "../../support/waiting/waiting.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import { eventFlags } from "../../driver.ts";
import { checkSharing, fail, translateSystemErrors } from "../failure.ts";
import { IpcFile, ipcKind, openIpcFile } from "./ipc_file.ts";
import type { LinearMemory } from "../memory/linear_memory.ts";
import { pageByteLength } from "../memory/memory_layout.ts";

/**
 * Tracks the work that uses an event. Stores only the last such work of each stream, because the work of a stream
 * completes in order.
 */
class Uses {
  readonly #last = new Map<Stream, Work>();

  add(work: Work): void {
    for (const [stream, { done }] of this.#last) if (done) this.#last.delete(stream);
    this.#last.set(work.stream, work);
  }

  /** Whether all work that uses the event is done. */
  get areDone(): boolean {
    for (const { done } of this.#last.values()) if (!done) return false;
    return true;
  }
}

/** The base-2 logarithm of the number of entries in the ring of recent records. */
const ringBits = 12;
const ringLength = 2 ** ringBits;
const ringBegin = 1;

/**
 * A record of an event. The number of the record is the same in all processes, and determines the record's entry in a
 * ring in the event's page.
 */
class Ticket implements Awaited {
  readonly #state: BigInt64Array;
  readonly #number: bigint;

  constructor(state: BigInt64Array, number: bigint) {
    this.#state = state;
    this.#number = number;
  }

  /**
   * Whether a stream has reached the record. Also true if a much later record has overwritten the entry in the ring.
   */
  get done(): boolean {
    return Atomics.load(this.#state, this.#index) >= this.#number;
  }

  complete(): void {
    for (;;) {
      const seen = Atomics.load(this.#state, this.#index);
      if (seen >= this.#number) return;
      if (Atomics.compareExchange(this.#state, this.#index, seen, this.#number) === seen) return;
    }
  }

  /**
   * The index in `#state` of the record's entry. Always lies within the ring, even if another process has corrupted the
   * number of records.
   */
  get #index(): number {
    return ringBegin + Number(BigInt.asUintN(ringBits, this.#number));
  }
}

/** An event whose state is stored in a page of memory that several processes map. */
export class InterprocessEvent extends Event {
  /**
   * The work of this process that records the event or waits for the event. The event's page must not be released
   * before this work is done.
   */
  readonly uses: Uses = new Uses();
  readonly #linearMemory: LinearMemory;
  readonly #begin: number;
  /** Whether the event's page is mapped from a file. */
  readonly #isShared: boolean;
  readonly #state: BigInt64Array;
  /** The file through which other processes open the event. Undefined if another process created the event. */
  #file: IpcFile | undefined;
  #lastLocal = 0n;
  #isDestroyed = false;
  #isClosed = false;

  private constructor(
    linearMemory: LinearMemory,
    { device, flags, begin, file, isShared = true }: {
      device: number;
      flags: number;
      begin: number;
      file?: IpcFile;
      isShared?: boolean;
    },
  ) {
    super(device, flags);
    this.#linearMemory = linearMemory;
    this.#begin = begin;
    this.#isShared = isShared;
    this.#file = file;
    this.#state = new BigInt64Array(linearMemory.memory.buffer, begin, ringBegin + ringLength);
  }

  /** Implements `cudaEventCreateWithFlags` for interprocess events. */
  static create(
    linearMemory: LinearMemory,
    { device, flags, deviceUuid }: { device: number; flags: number; deviceUuid: Uint8Array },
  ): InterprocessEvent {
    const call = "cudaEventCreateWithFlags";
    checkSharing(call);
    const header = { kind: ipcKind.event, deviceUuid, byteLength: pageByteLength };
    const file = translateSystemErrors(call, () => IpcFile.create("poolpass-event", header));
    try {
      return new InterprocessEvent(linearMemory, { device, flags, begin: mapPage(linearMemory, file, call), file });
    } catch (error) {
      file.close();
      throw error;
    }
  }

  /**
   * Implements `cudaIpcOpenEventHandle`. If the event no longer exists, returns a new event that only this process
   * uses.
   */
  static open(
    linearMemory: LinearMemory,
    { device, handle }: { device: number; handle: Uint8Array },
  ): InterprocessEvent {
    const call = "cudaIpcOpenEventHandle";
    const flags = eventFlags.disableTiming;
    const file = openIpcFile(ipcKind.event, handle, call);
    if (file === "not a handle") fail(cudaErrorNumbers.cudaErrorMapBufferObjectFailed, call);
    if (!(file instanceof IpcFile)) {
      const begin = reservePage(linearMemory, call);
      linearMemory.bytes.fill(0, begin, begin + pageByteLength);
      return new InterprocessEvent(linearMemory, { device, flags, begin, isShared: false });
    }
    try {
      if (file.header.byteLength !== pageByteLength) fail(cudaErrorNumbers.cudaErrorMapBufferObjectFailed, call);
      return new InterprocessEvent(linearMemory, { device, flags, begin: mapPage(linearMemory, file, call) });
    } finally {
      file.close();
    }
  }

  /** Whether the event's page and file have been released. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  override get latest(): Awaited | undefined {
    const number = Atomics.load(this.#state, 0);
    if (number === this.#lastLocal) return this.recorded;
    return new Ticket(this.#state, number);
  }

  override beginRecord(): () => void {
    this.#lastLocal = BigInt.asIntN(64, Atomics.add(this.#state, 0, 1n) + 1n);
    const ticket = new Ticket(this.#state, this.#lastLocal);
    return () => ticket.complete();
  }

  override reached(): void {
    // Closes the event in the next turn of the event loop: work is marked as done only after its callback, which calls
    // this method, has returned.
    if (this.#isDestroyed) atNextTurn(() => this.closeIfUnused());
  }

  /** Implements `cudaIpcGetEventHandle`. Only the process that created the event can get its handle. */
  handle(): Uint8Array<ArrayBuffer> {
    const call = "cudaIpcGetEventHandle";
    return translateSystemErrors(call, () => this.#file?.handle()) ??
      fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
  }

  /**
   * Destroys the event, so that no process can open it any longer. The page is released when no work uses the event.
   */
  destroy(): void {
    this.#isDestroyed = true;
    this.#closeFile();
    this.closeIfUnused();
  }

  closeIfUnused(): void {
    if (this.#isDestroyed && this.uses.areDone) this.close();
  }

  /** Releases the event's page and file immediately. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#closeFile();
    this.#linearMemory.discardAndRelease(this.#begin, pageByteLength, { isShared: this.#isShared });
  }

  #closeFile(): void {
    this.#file?.close();
    this.#file = undefined;
  }
}

/** Maps the page of an event into linear memory. Returns the page's offset. */
function mapPage(linearMemory: LinearMemory, file: IpcFile, call: string): number {
  const begin = reservePage(linearMemory, call);
  try {
    translateSystemErrors(call, () => file.map(linearMemory, begin));
    return begin;
  } catch (error) {
    // Fills the hole that a failed mapping may have left in linear memory.
    linearMemory.discardAndRelease(begin, pageByteLength, { isShared: true });
    throw error;
  }
}

function reservePage(linearMemory: LinearMemory, call: string): number {
  return linearMemory.reserve(pageByteLength) ?? fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
}
