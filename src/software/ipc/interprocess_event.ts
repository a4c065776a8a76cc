/**
 * Events that several processes record and wait for.
 *
 * Their state is in a page that all of them map: how many records were begun, each with the next number, its ticket, and
 * which of them their streams have got to. A ticket has a place among many in a ring, where its number is written: so a
 * stream that waits for one is not let go by a later one that another stream gets to before. Only the last record of
 * this process itself is known by its work; what comes before the record of another process is not known here.
 *
 * @module
 */
import { atNextTurn } from "../../support/waiting/turn.ts";
import { cudaErrorNumbers } from "../../support/cuda_error_codes.ts";
import { eventFlags } from "../../driver.ts";
import { checkSharing, fail, outOfSystem } from "../failure.ts";
import { IpcFile, openIpcFile } from "./ipc_file.ts";
import { ipcKind } from "./ipc_handle.ts";
import { type Awaited, Event } from "../execution/streams.ts";
import { Uses } from "./uses.ts";
import { type LinearMemory, pageByteLength } from "../memory/linear_memory.ts";

/** How many of the last tickets are told apart. */
const ringBits = 12;
const ringLength = 2 ** ringBits;
const ringBegin = 1;

/** A record by the number that it has in all processes. */
class Ticket implements Awaited {
  readonly #state: BigInt64Array;
  readonly #number: bigint;

  constructor(state: BigInt64Array, number: bigint) {
    this.#state = state;
    this.#number = number;
  }

  /** Whether its stream has got to it, or to one of so much later that its place was taken. */
  get done(): boolean {
    return Atomics.load(this.#state, this.#place) >= this.#number;
  }

  complete(): void {
    for (;;) {
      const seen = Atomics.load(this.#state, this.#place);
      if (seen >= this.#number) return;
      if (Atomics.compareExchange(this.#state, this.#place, seen, this.#number) === seen) return;
    }
  }

  /** In the ring, whatever another process has made of the count. */
  get #place(): number {
    return ringBegin + Number(BigInt.asUintN(ringBits, this.#number));
  }
}

/** An event in memory that processes share. */
export class InterprocessEvent extends Event {
  /** What of this process has yet to get to it: the page is needed until then. */
  readonly uses: Uses = new Uses();
  readonly #linearMemory: LinearMemory;
  readonly #begin: number;
  /** Whether its page shows a file. */
  readonly #isShared: boolean;
  readonly #state: BigInt64Array;
  /** What its handle names; undefined where the event is another process's. */
  #file: IpcFile | undefined;
  #lastOwn = 0n;
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

  /** `cudaEventCreateWithFlags`. */
  static create(
    linearMemory: LinearMemory,
    { device, flags, deviceUuid }: { device: number; flags: number; deviceUuid: Uint8Array },
  ): InterprocessEvent {
    const call = "cudaEventCreateWithFlags";
    checkSharing(call);
    const header = { kind: ipcKind.event, deviceUuid, byteLength: pageByteLength };
    const file = outOfSystem(call, () => IpcFile.create("poolpass-event", header));
    try {
      return new InterprocessEvent(linearMemory, { device, flags, begin: map(linearMemory, file, call), file });
    } catch (error) {
      file.close();
      throw error;
    }
  }

  /** `cudaIpcOpenEventHandle`. Where the event is gone, the one that is opened is as new, and this process's alone. */
  static open(
    linearMemory: LinearMemory,
    { device, handle }: { device: number; handle: Uint8Array },
  ): InterprocessEvent {
    const call = "cudaIpcOpenEventHandle";
    const flags = eventFlags.disableTiming;
    const file = openIpcFile(ipcKind.event, handle, call);
    if (file === "no handle") fail(cudaErrorNumbers.cudaErrorMapBufferObjectFailed, call);
    if (!(file instanceof IpcFile)) {
      const begin = reserve(linearMemory, call);
      linearMemory.bytes.fill(0, begin, begin + pageByteLength);
      return new InterprocessEvent(linearMemory, { device, flags, begin, isShared: false });
    }
    try {
      if (file.header.byteLength !== pageByteLength) fail(cudaErrorNumbers.cudaErrorMapBufferObjectFailed, call);
      return new InterprocessEvent(linearMemory, { device, flags, begin: map(linearMemory, file, call) });
    } finally {
      file.close();
    }
  }

  /** Whether everything that it took was given back. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  override get latest(): Awaited | undefined {
    const number = Atomics.load(this.#state, 0);
    if (number === this.#lastOwn) return this.recorded;
    return new Ticket(this.#state, number);
  }

  override beginRecord(): () => void {
    this.#lastOwn = BigInt.asIntN(64, Atomics.add(this.#state, 0, 1n) + 1n);
    const ticket = new Ticket(this.#state, this.#lastOwn);
    return () => ticket.complete();
  }

  override reached(): void {
    // What has just been reached counts as done only after it returns.
    if (this.#isDestroyed) atNextTurn(() => this.closeIfUnused());
  }

  /** `cudaIpcGetEventHandle`: only the process that made the event has it. */
  handle(): Uint8Array<ArrayBuffer> {
    const call = "cudaIpcGetEventHandle";
    return outOfSystem(call, () => this.#file?.handle()) ?? fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
  }

  /** No process can open the event any more. Its page goes once no stream has to get to it. */
  destroy(): void {
    this.#isDestroyed = true;
    this.#closeFile();
    this.closeIfUnused();
  }

  closeIfUnused(): void {
    if (this.#isDestroyed && this.uses.areDone) this.close();
  }

  /** Gives everything back at once. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#closeFile();
    this.#linearMemory.giveBack(this.#begin, pageByteLength, { isShared: this.#isShared });
  }

  #closeFile(): void {
    this.#file?.close();
    this.#file = undefined;
  }
}

/** Maps an event's page to linear memory, and says where. */
function map(linearMemory: LinearMemory, file: IpcFile, call: string): number {
  const begin = reserve(linearMemory, call);
  try {
    outOfSystem(call, () => file.map(linearMemory, begin));
    return begin;
  } catch (error) {
    // A mapping that failed may have left nothing there.
    linearMemory.giveBack(begin, pageByteLength, { isShared: true });
    throw error;
  }
}

function reserve(linearMemory: LinearMemory, call: string): number {
  return linearMemory.reserve(pageByteLength) ?? fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
}
