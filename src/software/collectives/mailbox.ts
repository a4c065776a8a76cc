/**
 * Mailboxes: a rank's mailbox is a memory file that it alone writes and the other ranks of its communicator read. It is
 * read and written but not mapped: a rank that truncates its file cannot crash the others.
 *
 * A mailbox has a ring of entries for each kind of post, and two for each rank: messages sent to it, and received from
 * it. The entries of a ring are numbered from 1. An entry's number is written after the rest of it, and compared for
 * equality: a rank that sees the number sees the whole entry. Behind the rings are the bytes that the entries refer to.
 *
 * @module
 */
import { reductionOperation } from "../../collective_library.ts";
import { type IpcFailure, IpcFile, ipcKind } from "../ipc/ipc_file.ts";
import { pageByteLength, wholePages } from "../memory/memory_layout.ts";
import { elementType } from "./reduction.ts";

/** The number of entries in a ring. */
export const ringLength = 1024;
/**
 * The size in bytes of a ring entry: its sequence number, the call's operation, type, reduction and root (u32 each),
 * padding, and the count, offset and length of the call's data (f64 each).
 */
const entryByteLength = 48;
const numberByteLength = 4;
const ringByteLength = ringLength * entryByteLength;

/** The indices of the rings that exist once per mailbox. All other rings exist once per peer rank. */
export const commonRings = {
  /** The ring of the collectives that the mailbox's rank has called, each with the rank's input. */
  collectives: 0,
  /** The ring of the collectives for which the mailbox's rank has read the inputs of all ranks. */
  finished: 1,
  /** The ring of the colors and keys that the mailbox's rank has passed for splits of the communicator. */
  divisions: 2,
} as const;

const firstRingOfRanks = 3;

/** Returns the index of the ring for messages that the mailbox's rank sends to `rank`. */
export function sentTo(rank: number): number {
  return firstRingOfRanks + 2 * rank;
}

/** Returns the index of the ring in which the mailbox's rank confirms messages received from `rank`. */
export function receivedFrom(rank: number): number {
  return firstRingOfRanks + 2 * rank + 1;
}

/** The numbers that identify operations in ring entries. */
export const operationNumbers = {
  allReduce: 1,
  reduce: 2,
  broadcast: 3,
  allGather: 4,
  reduceScatter: 5,
  allToAll: 6,
  send: 7,
  recv: 8,
} as const;

/** The name of an operation. */
export type OperationName = keyof typeof operationNumbers;

/** A ring entry: a call, and the location of the call's data in the mailbox. */
export interface MailboxEntry {
  /** The number that identifies the operation, as in `operationNumbers`. */
  readonly operation: number;
  readonly type: number;
  /** The number that identifies the reduction, as in `reductionOperation`; 0 if the call reduces nothing. */
  readonly reduction: number;
  /** The root of a collective or the peer of a message; 0 if the call has neither. */
  readonly root: number;
  readonly count: number;
  /** The offset in bytes of the call's data in the mailbox. */
  readonly offset: number;
  readonly byteLength: number;
}

/**
 * Returns a description of a call for messages: "allReduce of 8 float32 with sum". Accepts invalid entries, since they
 * may come from another rank.
 */
export function describe(entry: Omit<MailboxEntry, "offset" | "byteLength">): string {
  const { operation, type, reduction, root, count } = entry;
  const { allReduce, reduce, broadcast, reduceScatter } = operationNumbers;
  const name = nameIn(operationNumbers, operation);
  const elements = `${name} of ${count} ${elementType(type)?.name ?? `elements of type ${type}`}`;
  const how = `with ${nameIn(reductionOperation, reduction)}`;
  if (operation === allReduce || operation === reduceScatter) return `${elements} ${how}`;
  if (operation === reduce) return `${elements} ${how} to rank ${root}`;
  return operation === broadcast ? `${elements} from rank ${root}` : elements;
}

/** Returns whether two entries describe the same call, regardless of the data. */
export function agree(one: MailboxEntry, other: MailboxEntry): boolean {
  return one.operation === other.operation && one.type === other.type && one.reduction === other.reduction &&
    one.root === other.root && one.count === other.count;
}

/** Returns the name of a number in a table. */
export function nameIn(names: Readonly<Record<string, number>>, number: number): string {
  return Object.keys(names).find((name) => names[name] === number) ?? `operation ${number}`;
}

/** A read-only view of a rank's mailbox. Entries may be invalid, and must be checked before use. */
export class Mailbox {
  readonly #file: IpcFile;

  protected constructor(file: IpcFile) {
    this.#file = file;
  }

  /** Opens another rank's mailbox by its handle. `size` is the number of ranks of the communicator. */
  static open(handle: Uint8Array, size: number): Mailbox | IpcFailure {
    const file = IpcFile.openAnywhere(ipcKind.mailbox, handle);
    if (!(file instanceof IpcFile)) return file;
    if (file.header.byteLength === byteLengthFor(size)) return new Mailbox(file);
    file.close();
    return "not a handle";
  }

  /** Returns whether the entry with sequence number `number` has been posted in a ring. */
  has(ring: number, number: number): boolean {
    const found = new Uint32Array(1);
    this.#file.readInto(new Uint8Array(found.buffer), placeOf(ring, number));
    return found[0] === number;
  }

  /** Returns the entry with a sequence number, which must have been posted. */
  entry(ring: number, number: number): MailboxEntry {
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

  /**
   * Fills `bytes` with the mailbox's data that begins at `offset`. Returns false if the mailbox ends before `bytes` is
   * full.
   */
  read(bytes: Uint8Array, offset: number): boolean {
    if (!Number.isSafeInteger(offset) || offset < 0) return false;
    return this.#file.readInto(bytes, offset) === bytes.length;
  }

  close(): void {
    this.#file.close();
  }
}

/** The writable mailbox of this rank. */
export class OwnMailbox extends Mailbox {
  readonly #file: IpcFile;
  readonly #firstOffset: number;
  #end: number;
  /** The number of byte ranges that are reserved and not released. */
  #used = 0;

  /** @throws {SystemError} If the system cannot create the mailbox */
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

  /** Returns the handle by which other ranks open this mailbox. */
  handle(): Uint8Array<ArrayBuffer> {
    return this.#file.handle();
  }

  /**
   * Posts an entry in a ring. This overwrites the entry `ringLength` sequence numbers earlier, which must be unused.
   */
  post(ring: number, number: number, entry: MailboxEntry): void {
    const { operation, type, reduction, root, count, offset, byteLength } = entry;
    const bytes = new ArrayBuffer(entryByteLength);
    new Uint32Array(bytes).set([number, operation, type, reduction, root]);
    new Float64Array(bytes, 24).set([count, offset, byteLength]);
    const place = placeOf(ring, number);
    this.#file.write(new Uint8Array(bytes, numberByteLength), place + numberByteLength);
    this.#file.write(new Uint8Array(bytes, 0, numberByteLength), place);
  }

  /** Reserves bytes for data. Returns their offset in the mailbox, which is after the rings. */
  reserve(byteLength: number): number {
    const offset = this.#end;
    this.#end += wholePages(byteLength);
    this.#used++;
    return offset;
  }

  /** Writes data to reserved bytes of the mailbox. */
  write(bytes: Uint8Array, offset: number): void {
    this.#file.write(bytes, offset);
  }

  /** Releases reserved bytes, which no rank needs any longer, and returns their memory to the system. */
  release({ offset, byteLength }: { readonly offset: number; readonly byteLength: number }): void {
    if (byteLength > 0) this.#file.punchHole(offset, wholePages(byteLength));
    // Reset the offset only when all bytes are released. Until then, released bytes are holes that occupy no memory.
    if (--this.#used === 0) this.#end = this.#firstOffset;
  }
}

/** Returns the total size in bytes of a mailbox's rings in a communicator of `size` ranks. */
function byteLengthFor(size: number): number {
  return Math.ceil(sentTo(size) * ringByteLength / pageByteLength) * pageByteLength;
}

function placeOf(ring: number, number: number): number {
  return ring * ringByteLength + number % ringLength * entryByteLength;
}
