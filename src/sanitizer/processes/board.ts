/**
 * Where the processes of a user that are looked at tell each other what they do, at once: each appends records to a ring
 * of its own, and reads those of the others.
 *
 * A message would come too late. What a process knows to be done must be known to all before it can tell a program of
 * another process by means that nobody sees, such as a pipe.
 *
 * The rings lie in one named memory file, which is read and written but not mapped: nobody can end a process by making
 * it shorter. A process locks its place, so the system shows who has ended.
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

/** The place of a process, until it leaves. */
export interface BoardSlot {
  readonly slot: number;
  /** Counts the processes that had the slot. */
  readonly generation: number;
}

/** Another process. */
export interface Peer extends BoardSlot {
  readonly pid: number;
}

/** What a reader is told. */
export interface BoardReader {
  /** A peer has come. */
  found(peer: Peer): void;
  record(peer: Peer, text: string): void;
  /** Records of a peer were overwritten before they were read, or are damaged. */
  lost(peer: Peer): void;
  gone(peer: Peer): void;
  /** There is, or was since the last time, a process that may order what others do and does not tell. */
  hasBystander(): void;
}

/**
 * The file of the rings. Its name has the version of the format. Tests have files of their own: a process whose records
 * are damaged or lost silences all others that have the same file.
 */
export const boardFile = { name: "poolpass-order-1" };
const slotCount = 64;
/** Of a slot in the table: generation, bytes appended, work asked for (u64 each), process (u32), zero. */
const entryByteLength = 32;
const tableByteLength = slotCount * entryByteLength;
/** Counts the processes that have found no place, or have lost theirs (u64). They lock it. */
const bystanders = { offset: tableByteLength, byteLength: 8 };
/** A generation is the remainder: whatever a file holds, it is one that can be told. */
const generationCount = 2 ** 48;
const ringsBegin = 4096;
const ringByteLength = 1 << 20;
/** The longest record, in bytes. */
export const maximumRecord = 8192;
const maximumFrame = 4 + maximumRecord;

interface ReadPosition {
  readonly peer: Peer;
  position: number;
}

interface Entry {
  readonly generation: number;
  readonly appended: number;
  readonly asked: number;
  readonly pid: number;
}

/** The place of this process among the others. */
export class Board {
  readonly own: Peer;
  readonly #fd: number;
  #appended = 0;
  #table = new Uint8Array(tableByteLength);
  #bystanderCount: number;
  #mayHaveBystander: boolean;
  /** By slot. */
  readonly #positions = new Map<number, ReadPosition>();
  readonly #encoder = new TextEncoder();
  readonly #decoder = new TextDecoder();

  /** Takes a place. Returns a bystander if there is none, and undefined if the system lacks what it takes. */
  static join(): Board | Bystander | undefined {
    if (shimRefusal() !== undefined) return undefined;
    let fd: number | undefined;
    try {
      fd = openNamedMemory(boardFile.name, ringsBegin + slotCount * ringByteLength);
      if (fd === undefined) return undefined;
      // Two that try at the same time may both leave a slot.
      for (let attempt = 0; attempt < 2 * slotCount; attempt++) {
        const slot = attempt % slotCount;
        if (tryLock(fd, slot)) return new Board(fd, slot);
      }
      return new Bystander(fd);
    } catch {
      // No memory, or no locks: what other processes do is then not known.
    }
    if (fd !== undefined) closeDescriptor(fd);
    return undefined;
  }

  /** @param slot one that is locked */
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

  /** Returns the memory of processes that were killed to the system. Whoever takes such a place now loses records. */
  #releaseRings(): void {
    const table = new Uint8Array(tableByteLength);
    readAt(this.#fd, table, { offset: 0 });
    for (let slot = 0; slot < slotCount; slot++) {
      const range = { offset: slot * entryByteLength, byteLength: entryByteLength };
      if (decodeEntry(table, slot).appended === 0 || slot === this.own.slot || isRangeLocked(this.#fd, range)) continue;
      punchHole(this.#fd, { offset: ringOf(slot), byteLength: ringByteLength });
    }
  }

  /** Appends a record. Whoever reads afterwards sees it. `asked` counts the work that was asked for so far. */
  append(text: string, asked: number): void {
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
    this.#writeEntry(asked);
  }

  /** Reads what others have appended. */
  read(reader: BoardReader): void {
    const table = new Uint8Array(tableByteLength + bystanders.byteLength);
    readAt(this.#fd, table, { offset: 0 });
    const [words, before] = [new Uint32Array(table.buffer), new Uint32Array(this.#table.buffer)];
    this.#table = table;
    const bystanderCount = words[bystanders.offset / 4]!;
    const mayHaveBystander = bystanderCount !== this.#bystanderCount || this.#mayHaveBystander;
    this.#bystanderCount = bystanderCount;
    // Before what others have told since, and after it, because some may be new.
    if (mayHaveBystander) reader.hasBystander();
    // If somebody has emptied the file, others may have told what was never seen here.
    if (decodeEntry(table, this.own.slot).generation !== this.own.generation) reader.lost(this.own);
    for (let slot = 0; slot < slotCount; slot++) {
      // Most have nothing new. The low words of generation and appended bytes tell.
      if (words[8 * slot] === before[8 * slot] && words[8 * slot + 2] === before[8 * slot + 2]) continue;
      if (slot !== this.own.slot) this.#readSlot(slot, decodeEntry(table, slot), reader);
    }
    if (!mayHaveBystander) return;
    this.#mayHaveBystander = this.hasBystander();
    reader.hasBystander();
  }

  /** Lets others know that records were lost here: what this process tells from now on may lack an order. */
  warn(): void {
    countBystander(this.#fd);
  }

  /** Whether a process may order what others do and does not tell. */
  hasBystander(): boolean {
    return isRangeLocked(this.#fd, bystanders);
  }

  /** How much work a peer had asked for when it last appended something. */
  sequenceOf({ slot, generation }: BoardSlot): number {
    const entry = this.#entry(slot);
    return entry.generation === generation ? entry.asked : Infinity;
  }

  /** Whether a process still has its place. */
  holdsSlot({ slot, generation }: BoardSlot): boolean {
    return this.#entry(slot).generation === generation &&
      isRangeLocked(this.#fd, { offset: slot * entryByteLength, byteLength: entryByteLength });
  }

  /** Gives up the place to be a bystander, because it cannot tell what it does. */
  abandon(): Bystander {
    const bystander = new Bystander(this.#fd);
    unlockRange(this.#fd, { offset: this.own.slot * entryByteLength, byteLength: entryByteLength });
    return bystander;
  }

  /** Gives up the place. */
  leave(): void {
    try {
      punchHole(this.#fd, { offset: ringOf(this.own.slot), byteLength: ringByteLength });
    } catch {
      // The next process that has the place overwrites it.
    }
    closeDescriptor(this.#fd);
  }

  #readSlot(slot: number, entry: Entry, reader: BoardReader): void {
    let reading = this.#positions.get(slot);
    if (reading !== undefined && reading.peer.generation !== entry.generation) {
      reader.gone(reading.peer);
      // Otherwise another process has the slot now.
      if (entry.generation !== reading.peer.generation + 1) reader.lost(reading.peer);
      reading = undefined;
    }
    if (reading === undefined) {
      const peer = { slot, generation: entry.generation, pid: entry.pid };
      // Those that have ended have left what they had told.
      const isThere = this.holdsSlot(peer);
      this.#positions.set(slot, reading = { peer, position: isThere ? 0 : entry.appended });
      if (isThere) reader.found(peer);
    }
    const { peer, position } = reading;
    if (position === entry.appended) return;
    const bytes = this.#readRing(slot, entry, position);
    reading.position = entry.appended;
    if (bytes === undefined || !this.#readFrames(peer, bytes, reader)) reader.lost(peer);
  }

  /** Reads from a position to the end. Returns undefined if that was overwritten. */
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

  /** Returns false if they are damaged. */
  #readFrames(peer: Peer, bytes: Uint8Array, reader: BoardReader): boolean {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let at = 0; at < bytes.length;) {
      if (at + 4 > bytes.length) return false;
      const length = view.getUint32(at, true);
      if (length > maximumRecord || at + 4 + length > bytes.length) return false;
      reader.record(peer, this.#decoder.decode(bytes.subarray(at + 4, at + 4 + length)));
      at += 4 + length;
    }
    return true;
  }

  #entry(slot: number): Entry {
    const bytes = new Uint8Array(entryByteLength);
    readAt(this.#fd, bytes, { offset: slot * entryByteLength });
    return decodeEntry(bytes, 0);
  }

  #writeEntry(asked: number): void {
    const bytes = new Uint8Array(entryByteLength);
    const view = new DataView(bytes.buffer);
    view.setBigUint64(0, BigInt(this.own.generation), true);
    view.setBigUint64(8, BigInt(this.#appended), true);
    view.setBigUint64(16, BigInt(asked), true);
    view.setUint32(24, this.own.pid, true);
    writeAt(this.#fd, bytes, { offset: this.own.slot * entryByteLength });
  }
}

/** A process that does not tell what it does, although others do. They report nothing as long as it is there. */
export class Bystander {
  readonly #fd: number;

  constructor(fd: number) {
    this.#fd = fd;
    // Whoever sees the count sees the lock.
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
  return { generation: number(0), appended: number(8), asked: number(16), pid: view.getUint32(24, true) };
}

function ringOf(slot: number): number {
  return ringsBegin + slot * ringByteLength;
}

/** Locks a slot that nobody has. Two that try at the same time may both leave it. */
function tryLock(fd: number, slot: number): boolean {
  const range = { offset: slot * entryByteLength, byteLength: entryByteLength };
  if (isRangeLocked(fd, range)) return false;
  lockRange(fd, range);
  if (!isRangeLocked(fd, range)) return true;
  unlockRange(fd, range);
  return false;
}
