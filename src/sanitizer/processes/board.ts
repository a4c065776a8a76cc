/**
 * The board on which the sanitized processes of a user publish what they do: each appends records to a ring of its own,
 * and reads the rings of the others.
 *
 * Messages through sockets would arrive too late: what a process knows to be complete must be readable by all others
 * before its program can pass that on by means that are not observed, such as a pipe.
 *
 * The rings lie in one named memory file, which is read and written but not mapped: truncating it crashes nobody. A
 * process holds a lock on its slot, so the system shows which processes have ended.
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

/** A slot of the board while one process holds it. */
export interface BoardSlot {
  readonly slot: number;
  /** Counts the processes that have held the slot. */
  readonly generation: number;
}

/** A process that holds a slot. */
export interface BoardPeer extends BoardSlot {
  readonly pid: number;
}

/** Takes what `Board.read` finds. */
export interface BoardReader {
  /** A peer has joined. */
  onPeer(peer: BoardPeer): void;
  onRecord(peer: BoardPeer, text: string): void;
  /** Records of a peer were overwritten before they were read, or are damaged. */
  onRecordsLost(peer: BoardPeer): void;
  onPeerGone(peer: BoardPeer): void;
  /** There is a bystander, or was one since the last call of `read`. */
  onBystander(): void;
}

/**
 * The file of the rings. Its name contains the version of the format. Tests use files of their own: a process with damaged
 * records silences all others on the same file.
 */
export const boardFile = { name: "poolpass-order-1" };
const slotCount = 64;
/** A slot's entry in the table: generation, bytes appended, operations enqueued (u64 each), pid (u32), zero. */
const entryByteLength = 32;
const tableByteLength = slotCount * entryByteLength;
/** The number of processes that became bystanders so far (u64). Bystanders hold locks on it. */
const bystanders = { offset: tableByteLength, byteLength: 8 };
/** Generations wrap around here, so that a file with any content gives one that fits a record. */
const generationCount = 2 ** 48;
const ringsBegin = 4096;
const ringByteLength = 1 << 20;
/** The longest record, in bytes. */
export const maximumRecord = 8192;
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

/** This process's slot on the board. */
export class Board {
  readonly own: BoardPeer;
  readonly #fd: number;
  #appended = 0;
  #table = new Uint8Array(tableByteLength);
  #bystanderCount: number;
  #mayHaveBystander: boolean;
  /** The positions up to which rings were read, by slot. */
  readonly #positions = new Map<number, ReadPosition>();
  readonly #encoder = new TextEncoder();
  readonly #decoder = new TextDecoder();

  /** Takes a slot. Returns a bystander if all are taken, and undefined if the system lacks named memory or locks. */
  static join(): Board | Bystander | undefined {
    if (shimRefusal() !== undefined) return undefined;
    let fd: number | undefined;
    try {
      fd = openNamedMemory(boardFile.name, ringsBegin + slotCount * ringByteLength);
      if (fd === undefined) return undefined;
      // Two processes that try the same slot at once may both give it up, hence a second round.
      for (let attempt = 0; attempt < 2 * slotCount; attempt++) {
        const slot = attempt % slotCount;
        if (tryLock(fd, slot)) return new Board(fd, slot);
      }
      return new Bystander(fd);
    } catch {
      // There is no memory, or no locks: this process knows of no others then.
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

  /** Returns the rings of killed processes to the system. A process that takes such a slot at this moment loses records. */
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
   * Appends a record, which every later `read` sees.
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

  /** Reads the records that others have appended since the last call. */
  read(reader: BoardReader): void {
    const table = new Uint8Array(tableByteLength + bystanders.byteLength);
    readAt(this.#fd, table, { offset: 0 });
    const [words, before] = [new Uint32Array(table.buffer), new Uint32Array(this.#table.buffer)];
    this.#table = table;
    const bystanderCount = words[bystanders.offset / 4]!;
    const mayHaveBystander = bystanderCount !== this.#bystanderCount || this.#mayHaveBystander;
    this.#bystanderCount = bystanderCount;
    // Check before and after reading the records: a bystander may join in between.
    if (mayHaveBystander) reader.onBystander();
    // If the file was cleared, records of others may have been lost with it.
    if (decodeEntry(table, this.own.slot).generation !== this.own.generation) reader.onRecordsLost(this.own);
    for (let slot = 0; slot < slotCount; slot++) {
      // Most slots have nothing new: the low words of their generation and appended bytes are the same.
      if (words[8 * slot] === before[8 * slot] && words[8 * slot + 2] === before[8 * slot + 2]) continue;
      if (slot !== this.own.slot) this.#readSlot(slot, decodeEntry(table, slot), reader);
    }
    if (!mayHaveBystander) return;
    this.#mayHaveBystander = this.hasBystander();
    reader.onBystander();
  }

  /** Makes the others note a bystander, because records were lost here: later ones of this process may lack an order. */
  warn(): void {
    countBystander(this.#fd);
  }

  /** Whether some process may synchronize others' work without publishing its own (a bystander). */
  hasBystander(): boolean {
    return isRangeLocked(this.#fd, bystanders);
  }

  /** The number of operations that a peer had enqueued when it last appended a record. */
  sequenceOf({ slot, generation }: BoardSlot): number {
    const entry = this.#entry(slot);
    return entry.generation === generation ? entry.sequence : Infinity;
  }

  /** Whether a process still holds its slot. */
  holdsSlot({ slot, generation }: BoardSlot): boolean {
    return this.#entry(slot).generation === generation &&
      isRangeLocked(this.#fd, { offset: slot * entryByteLength, byteLength: entryByteLength });
  }

  /** Makes this process a bystander, and releases its slot. */
  abandon(): Bystander {
    const bystander = new Bystander(this.#fd);
    unlockRange(this.#fd, { offset: this.own.slot * entryByteLength, byteLength: entryByteLength });
    return bystander;
  }

  /** Releases the slot. */
  leave(): void {
    try {
      punchHole(this.#fd, { offset: ringOf(this.own.slot), byteLength: ringByteLength });
    } catch {
      // The next process with the slot overwrites the ring.
    }
    closeDescriptor(this.#fd);
  }

  #readSlot(slot: number, entry: Entry, reader: BoardReader): void {
    let reading = this.#positions.get(slot);
    if (reading !== undefined && reading.peer.generation !== entry.generation) {
      reader.onPeerGone(reading.peer);
      // With a larger step, processes between them have come and gone unread.
      if (entry.generation !== reading.peer.generation + 1) reader.onRecordsLost(reading.peer);
      reading = undefined;
    }
    if (reading === undefined) {
      const peer = { slot, generation: entry.generation, pid: entry.pid };
      // The records of a process that has ended are no longer of use.
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

  /** Reads a ring from a position to its end. Returns undefined if a part was overwritten. */
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

  /** Returns false if the frames are damaged. */
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
 * A sanitized process that does not publish what it does. It may synchronize the others in ways that they cannot know, so
 * they report nothing as long as it runs.
 */
export class Bystander {
  readonly #fd: number;

  constructor(fd: number) {
    this.#fd = fd;
    // The lock comes first: a process that sees the new count sees the lock.
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

/** Locks a free slot. If two processes try at once, both may give it up. */
function tryLock(fd: number, slot: number): boolean {
  const range = { offset: slot * entryByteLength, byteLength: entryByteLength };
  if (isRangeLocked(fd, range)) return false;
  lockRange(fd, range);
  if (!isRangeLocked(fd, range)) return true;
  unlockRange(fd, range);
  return false;
}
