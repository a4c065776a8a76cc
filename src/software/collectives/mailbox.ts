/**
 * What a rank posts for the others of its communicator: a memory file that it alone writes, and all others read. Nothing
 * is mapped, so that no rank can end another one by what it does with its file.
 *
 * A mailbox has a ring of entries for each kind of things that are posted, and one for each rank to send to or receive
 * from. The entries of a ring are numbered from 1. An entry's number is written after the rest of it, and compared for
 * equality: whoever sees it sees all of the entry. Behind the rings are the bytes that the entries refer to.
 *
 * @module
 */
import { type IpcFailure, IpcFile } from "../ipc/ipc_file.ts";
import { ipcKind } from "../ipc/ipc_handle.ts";
import { pageByteLength, wholePages } from "../memory/linear_memory.ts";

/** How many entries of a ring can be in use at once. */
export const ringLength = 1024;
/** An entry: its number, its operation, type, reduction and root (u32 each), its count, offset and length (f64 each). */
const entryByteLength = 48;
const numberByteLength = 4;
const ringByteLength = ringLength * entryByteLength;

/** The rings that every mailbox has once. */
export const commonRings = {
  /** Collectives, with what the rank gives. */
  collectives: 0,
  /** The collectives in which the rank has read everything. */
  finished: 1,
  /** Colors and keys by which communicators are divided. */
  divisions: 2,
} as const;

const firstRingOfRanks = 3;

/** The ring of messages to a rank. */
export function sentTo(rank: number): number {
  return firstRingOfRanks + 2 * rank;
}

/** The ring of messages that were received from a rank. */
export function receivedFrom(rank: number): number {
  return firstRingOfRanks + 2 * rank + 1;
}

/** What a rank says of a call, and where its bytes are. */
export interface Entry {
  /** One of `operations`. */
  readonly operation: number;
  readonly type: number;
  /** One of `reductionOperation`; 0 if nothing is reduced. */
  readonly reduction: number;
  /** The rank that stands out; 0 if none does. */
  readonly root: number;
  readonly count: number;
  /** The first of the bytes. */
  readonly offset: number;
  readonly byteLength: number;
}

/** The mailbox of another rank, or of this one, to be read. Whoever reads it must check what it says. */
export class Mailbox {
  readonly #file: IpcFile;

  protected constructor(file: IpcFile) {
    this.#file = file;
  }

  /** Opens the mailbox that a handle names. */
  static open(handle: Uint8Array, size: number): Mailbox | IpcFailure {
    const file = IpcFile.openAnywhere(ipcKind.mailbox, handle);
    if (!(file instanceof IpcFile)) return file;
    if (file.header.byteLength === byteLengthFor(size)) return new Mailbox(file);
    file.close();
    return "not a handle";
  }

  /** Whether an entry has been posted. */
  has(ring: number, number: number): boolean {
    const found = new Uint32Array(1);
    this.#file.readInto(new Uint8Array(found.buffer), placeOf(ring, number));
    return found[0] === number;
  }

  /** An entry that has been posted. */
  entry(ring: number, number: number): Entry {
    const bytes = new ArrayBuffer(entryByteLength);
    this.#file.readInto(new Uint8Array(bytes), placeOf(ring, number));
    const [, operation, type, reduction, root] = new Uint32Array(bytes) as unknown as number[];
    const [count, offset, byteLength] = new Float64Array(bytes, 24) as unknown as number[];
    return {
      operation: operation!,
      type: type!,
      reduction: reduction!,
      root: root!,
      count: count!,
      offset: offset!,
      byteLength: byteLength!,
    };
  }

  /** Fills `bytes` with those from an offset. Returns false if it cannot. */
  read(bytes: Uint8Array, offset: number): boolean {
    if (!Number.isSafeInteger(offset) || offset < 0) return false;
    return this.#file.readInto(bytes, offset) === bytes.length;
  }

  close(): void {
    this.#file.close();
  }
}

/** The mailbox of this rank. */
export class OwnMailbox extends Mailbox {
  readonly #file: IpcFile;
  readonly #firstOffset: number;
  #end: number;
  /** How many ranges of bytes are in use. */
  #used = 0;

  /** @throws {SystemError} if the system cannot create it */
  static create(size: number, deviceUuid: Uint8Array): OwnMailbox {
    const header = { kind: ipcKind.mailbox, deviceUuid, byteLength: byteLengthFor(size) };
    return new OwnMailbox(IpcFile.create("poolpass-mailbox", header));
  }

  private constructor(file: IpcFile) {
    super(file);
    this.#file = file;
    this.#firstOffset = file.header.byteLength;
    this.#end = this.#firstOffset;
  }

  /** The handle with which the others open it. */
  handle(): Uint8Array<ArrayBuffer> {
    return this.#file.handle();
  }

  /** Posts an entry. The entry of the same number one round before must not be in use. */
  post(ring: number, number: number, entry: Entry): void {
    const { operation, type, reduction, root, count, offset, byteLength } = entry;
    const bytes = new ArrayBuffer(entryByteLength);
    new Uint32Array(bytes).set([number, operation, type, reduction, root]);
    new Float64Array(bytes, 24).set([count, offset, byteLength]);
    const place = placeOf(ring, number);
    this.#file.write(new Uint8Array(bytes, numberByteLength), place + numberByteLength);
    this.#file.write(new Uint8Array(bytes, 0, numberByteLength), place);
  }

  /** Finds room for bytes, and returns their offset. */
  reserve(byteLength: number): number {
    const offset = this.#end;
    this.#end += wholePages(byteLength);
    this.#used++;
    return offset;
  }

  /** Writes bytes to where there is room for them. */
  write(bytes: Uint8Array, offset: number): void {
    this.#file.write(bytes, offset);
  }

  /** Gives up bytes that everybody has read. Their memory goes back to the system. */
  release({ offset, byteLength }: { readonly offset: number; readonly byteLength: number }): void {
    if (byteLength > 0) this.#file.punchHole(offset, wholePages(byteLength));
    // The file has no other memory than what is in use, however long it is.
    if (--this.#used === 0) this.#end = this.#firstOffset;
  }
}

/** The length of the rings of a mailbox. */
function byteLengthFor(size: number): number {
  return Math.ceil(sentTo(size) * ringByteLength / pageByteLength) * pageByteLength;
}

function placeOf(ring: number, number: number): number {
  return ring * ringByteLength + number % ringLength * entryByteLength;
}
