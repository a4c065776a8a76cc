/**
 * The board on which the sanitized processes of a user publish their operations: each process appends records to its
 * own ring buffer, and reads those of the others.
 *
 * Messages through sockets would arrive too late: when a process learns that work is complete, all others must be able
 * to read that before the program can signal it by means that are not observed, such as a pipe.
 *
 * The rings are in one named memory file, which is read and written but not mapped, so truncating the file crashes no
 * process. A process holds a file lock on its slot, which the system releases when the process ends.
 *
 * @module
 */
import { closeDescriptor, readAt, writeAt } from "../../../ffi/native/shim/descriptors.ts";
import {
  isRangeLocked,
  lockRange,
  openNamedMemory,
  punchHole,
  unlockRange,
} from "../../../ffi/native/shim/memory_files.ts";
import { shim, shimRefusal } from "../../../ffi/native/shim/shim.ts";

/** A slot of the board while one process holds it. Each later process in the slot has a different generation. */
export interface BoardSlot {
  readonly slot: number;
  /** The number of processes that have held the slot so far, including this one. */
  readonly generation: number;
}

/** A process that holds a slot of the board. */
export interface BoardPeer extends BoardSlot {
  readonly pid: number;
}

/** The callbacks of `Board.read`. */
export interface BoardReader {
  /** Called when another process has claimed a slot. */
  onPeer(peer: BoardPeer): void;
  /** Called with each new record that a peer has appended. */
  onRecord(peer: BoardPeer, text: string): void;
  /** Called if unread records of a peer were overwritten or are damaged. */
  onRecordsLost(peer: BoardPeer): void;
  /** Called when another process has claimed a peer's slot, which means that the peer has exited. */
  onPeerGone(peer: BoardPeer): void;
  /** Called if a bystander (see `Bystander`) exists, or has existed since the previous call of `read`. */
  onBystander(): void;
}

/**
 * The name of the shared file, which holds the table of slots and each slot's ring buffer of records. The number in the
 * name is the format's version. Tests use other files, because damaged records of one process suppress the reports of
 * all other processes that use the file.
 */
export const boardFile = { name: "poolpass-order-1" };
const slotCount = 64;
/**
 * The size in bytes of a table entry: the generation, the number of bytes appended to the ring, the number of
 * operations that the process has enqueued (u64 each), the process ID (u32) and a zero (u32).
 */
const entryByteLength = 32;
const tableByteLength = slotCount * entryByteLength;
/**
 * The byte range in the file of a counter (u64): how many processes have become bystanders so far. Each bystander locks
 * this range.
 */
const bystanders = { offset: tableByteLength, byteLength: 8 };
/**
 * The number at which generations wrap around. The limit ensures that a generation fits in a record, even if the file
 * is corrupt.
 */
const generationCount = 2 ** 48;
/** The offset in bytes of the first ring in the file. */
const ringsBegin = 4096;
const ringByteLength = 1 << 20;
/** The maximum size of a record in bytes. */
export const maximumRecord = 8192;
/** The maximum size in bytes of a frame: a record with its length prefix. */
const maximumFrame = 4 + maximumRecord;

interface ReadPosition {
  readonly peer: BoardPeer;
  position: number;
}

interface Entry {
  readonly generation: number;
  readonly appended: number;
  readonly sequence: number;
  readonly pid: number;
}

/**
 * The board as seen by a process that holds a slot. The process appends records to its own ring, and reads the rings of
 * the other processes.
 */
export class Board {
  readonly own: BoardPeer;
  readonly #fd: number;
  #appended = 0;
  #table = new Uint8Array(tableByteLength);
  #bystanderCount: number;
  #mayHaveBystander: boolean;
  /** The peer and the position up to which its ring was read, keyed by slot. */
  readonly #positions = new Map<number, ReadPosition>();
  readonly #encoder = new TextEncoder();
  readonly #decoder = new TextDecoder();

  /**
   * Claims a slot. Returns a `Bystander` if other processes hold all slots, and undefined if the system lacks named
   * memory or file locks.
   */
  static join(): Board | Bystander | undefined {
    if (shimRefusal() !== undefined) return undefined;
    let fd: number | undefined;
    try {
      fd = openNamedMemory(boardFile.name, ringsBegin + slotCount * ringByteLength);
      if (fd === undefined) return undefined;
      // Try each slot twice: two processes that try to lock a slot at the same time may both fail.
      for (let attempt = 0; attempt < 2 * slotCount; attempt++) {
        const slot = attempt % slotCount;
        if (tryLock(fd, slot)) return new Board(fd, slot);
      }
      return new Bystander(fd);
    } catch {
      // The system lacks named memory or file locks, so this process cannot observe other processes.
    }
    if (fd !== undefined) closeDescriptor(fd);
    return undefined;
  }

  /** @param slot the slot that this process has locked */
  private constructor(fd: number, slot: number) {
    this.#fd = fd;
    const bytes = new Uint8Array(entryByteLength);
    readAt(fd, bytes, { offset: slot * entryByteLength });
    const generation = decodeEntry(bytes, 0).generation % generationCount + 1;
    this.own = { slot, generation, pid: shim().poolpass_getpid() };
    this.#writeEntry(0);
    const count = new Uint32Array(2);
    readAt(fd, new Uint8Array(count.buffer), bystanders);
    this.#bystanderCount = count[0]!;
    this.#mayHaveBystander = this.hasBystander();
    this.#releaseRings();
  }

  /**
   * Frees the ring memory of processes that were killed. A process that claims such a slot at the same time may lose
   * records.
   */
  #releaseRings(): void {
    const table = new Uint8Array(tableByteLength);
    readAt(this.#fd, table, { offset: 0 });
    for (let slot = 0; slot < slotCount; slot++) {
      const range = { offset: slot * entryByteLength, byteLength: entryByteLength };
      if (decodeEntry(table, slot).appended === 0 || slot === this.own.slot || isRangeLocked(this.#fd, range)) continue;
      punchHole(this.#fd, { offset: ringOf(slot), byteLength: ringByteLength });
    }
  }

  /**
   * Appends a record to this process's ring. Every later `read` by another process sees the record.
   *
   * @param sequence the number of operations that this process has enqueued so far
   */
  append(text: string, sequence: number): void {
    const body = this.#encoder.encode(text);
    if (body.length > maximumRecord) throw new RangeError(`Cannot append ${body.length} bytes: it is too long`);
    const frame = new Uint8Array(4 + body.length);
    new DataView(frame.buffer).setUint32(0, body.length, true);
    frame.set(body, 4);
    const at = this.#appended % ringByteLength;
    const first = frame.subarray(0, ringByteLength - at);
    writeAt(this.#fd, first, { offset: ringOf(this.own.slot) + at });
    if (first.length < frame.length) {
      writeAt(this.#fd, frame.subarray(first.length), { offset: ringOf(this.own.slot) });
    }
    this.#appended += frame.length;
    this.#writeEntry(sequence);
  }

  /** Reads the records that other processes have appended since the previous call. */
  read(reader: BoardReader): void {
    const table = new Uint8Array(tableByteLength + bystanders.byteLength);
    readAt(this.#fd, table, { offset: 0 });
    const [words, before] = [new Uint32Array(table.buffer), new Uint32Array(this.#table.buffer)];
    this.#table = table;
    const bystanderCount = words[bystanders.offset / 4]!;
    const mayHaveBystander = bystanderCount !== this.#bystanderCount || this.#mayHaveBystander;
    this.#bystanderCount = bystanderCount;
    // Report a bystander both before and after the records are read: a process may become one in between.
    if (mayHaveBystander) reader.onBystander();
    // A different generation in this process's own entry means that the file was cleared, so records may have been
    // lost.
    if (decodeEntry(table, this.own.slot).generation !== this.own.generation) reader.onRecordsLost(this.own);
    for (let slot = 0; slot < slotCount; slot++) {
      // Skip slots without new records: those for which the low words of the generation and of the byte count are
      // unchanged.
      if (words[8 * slot] === before[8 * slot] && words[8 * slot + 2] === before[8 * slot + 2]) continue;
      if (slot !== this.own.slot) this.#readSlot(slot, decodeEntry(table, slot), reader);
    }
    if (!mayHaveBystander) return;
    this.#mayHaveBystander = this.hasBystander();
    reader.onBystander();
  }

  /**
   * Makes other processes act as if there were a bystander. Call when records were lost: a lost record may have ordered
   * operations, and the later records of this process would lack that order.
   */
  warn(): void {
    countBystander(this.#fd);
  }

  /**
   * Returns whether there is a bystander: a process that publishes no operations but may synchronize other processes.
   */
  hasBystander(): boolean {
    return isRangeLocked(this.#fd, bystanders);
  }

  /**
   * Returns the number of operations that a peer had enqueued when it last appended a record; Infinity if the peer is
   * gone.
   */
  sequenceOf({ slot, generation }: BoardSlot): number {
    const entry = this.#entry(slot);
    return entry.generation === generation ? entry.sequence : Infinity;
  }

  /** Returns whether a process still holds its slot. */
  holdsSlot({ slot, generation }: BoardSlot): boolean {
    return this.#entry(slot).generation === generation &&
      isRangeLocked(this.#fd, { offset: slot * entryByteLength, byteLength: entryByteLength });
  }

  /** Makes this process a bystander, and then releases its slot. */
  abandon(): Bystander {
    const bystander = new Bystander(this.#fd);
    unlockRange(this.#fd, { offset: this.own.slot * entryByteLength, byteLength: entryByteLength });
    return bystander;
  }

  /** Releases this process's slot and the memory of its ring. */
  leave(): void {
    try {
      punchHole(this.#fd, { offset: ringOf(this.own.slot), byteLength: ringByteLength });
    } catch {
      // Ignore the error: the next process that claims the slot overwrites the ring.
    }
    closeDescriptor(this.#fd);
  }

  #readSlot(slot: number, entry: Entry, reader: BoardReader): void {
    let reading = this.#positions.get(slot);
    if (reading !== undefined && reading.peer.generation !== entry.generation) {
      reader.onPeerGone(reading.peer);
      // If the generation has grown by more than 1, other processes have held the slot in between, and their records
      // are lost.
      if (entry.generation !== reading.peer.generation + 1) reader.onRecordsLost(reading.peer);
      reading = undefined;
    }
    if (reading === undefined) {
      const peer = { slot, generation: entry.generation, pid: entry.pid };
      // Skip the records of a process that has exited.
      const isThere = this.holdsSlot(peer);
      this.#positions.set(slot, reading = { peer, position: isThere ? 0 : entry.appended });
      if (isThere) reader.onPeer(peer);
    }
    const { peer, position } = reading;
    if (position === entry.appended) return;
    const bytes = this.#readRing(slot, entry, position);
    reading.position = entry.appended;
    if (bytes === undefined || !this.#readFrames(peer, bytes, reader)) reader.onRecordsLost(peer);
  }

  /**
   * Returns the bytes of a ring from a position to the last appended byte. Undefined if some of them were overwritten.
   */
  #readRing(slot: number, { generation, appended }: Entry, position: number): Uint8Array | undefined {
    const byteLength = appended - position;
    if (!(byteLength >= 0 && byteLength <= ringByteLength)) return undefined;
    const bytes = new Uint8Array(byteLength);
    const at = position % ringByteLength;
    const first = bytes.subarray(0, ringByteLength - at);
    readAt(this.#fd, first, { offset: ringOf(slot) + at });
    if (first.length < byteLength) readAt(this.#fd, bytes.subarray(first.length), { offset: ringOf(slot) });
    const after = this.#entry(slot);
    const isWhole = after.generation === generation && after.appended + maximumFrame - position <= ringByteLength;
    return isWhole ? bytes : undefined;
  }

  /** Decodes frames, and passes their records to `reader`. Returns false if the frames are damaged. */
  #readFrames(peer: BoardPeer, bytes: Uint8Array, reader: BoardReader): boolean {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let at = 0; at < bytes.length;) {
      if (at + 4 > bytes.length) return false;
      const length = view.getUint32(at, true);
      if (length > maximumRecord || at + 4 + length > bytes.length) return false;
      reader.onRecord(peer, this.#decoder.decode(bytes.subarray(at + 4, at + 4 + length)));
      at += 4 + length;
    }
    return true;
  }

  #entry(slot: number): Entry {
    const bytes = new Uint8Array(entryByteLength);
    readAt(this.#fd, bytes, { offset: slot * entryByteLength });
    return decodeEntry(bytes, 0);
  }

  #writeEntry(sequence: number): void {
    const bytes = new Uint8Array(entryByteLength);
    const view = new DataView(bytes.buffer);
    view.setBigUint64(0, BigInt(this.own.generation), true);
    view.setBigUint64(8, BigInt(this.#appended), true);
    view.setBigUint64(16, BigInt(sequence), true);
    view.setUint32(24, this.own.pid, true);
    writeAt(this.#fd, bytes, { offset: this.own.slot * entryByteLength });
  }
}

/**
 * A sanitized process that does not publish its operations. It may synchronize other processes unobserved. While it
 * runs, the other processes therefore report no conflicts between processes.
 */
export class Bystander {
  readonly #fd: number;

  constructor(fd: number) {
    this.#fd = fd;
    // Lock before incrementing the counter, so that a process that reads the new count also finds the lock.
    lockRange(fd, bystanders);
    countBystander(fd);
  }

  leave(): void {
    closeDescriptor(this.#fd);
  }
}

function countBystander(fd: number): void {
  const count = new Uint32Array(2);
  readAt(fd, new Uint8Array(count.buffer), bystanders);
  count[0]!++;
  writeAt(fd, new Uint8Array(count.buffer), bystanders);
}

function decodeEntry(bytes: Uint8Array, index: number): Entry {
  const view = new DataView(bytes.buffer, bytes.byteOffset + index * entryByteLength, entryByteLength);
  const number = (offset: number) => Number(view.getBigUint64(offset, true));
  return { generation: number(0), appended: number(8), sequence: number(16), pid: view.getUint32(24, true) };
}

function ringOf(slot: number): number {
  return ringsBegin + slot * ringByteLength;
}

/** Tries to lock a slot, and returns whether it succeeded. If two processes try at the same time, both may fail. */
function tryLock(fd: number, slot: number): boolean {
  const range = { offset: slot * entryByteLength, byteLength: entryByteLength };
  if (isRangeLocked(fd, range)) return false;
  lockRange(fd, range);
  if (!isRangeLocked(fd, range)) return true;
  unlockRange(fd, range);
  return false;
}
