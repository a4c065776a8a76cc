/**
 * A roster: the processes of one user on one machine that form a group. Each has a slot in a memory file that they find
 * by a name. The file is read and written but not mapped, so that shrinking it cannot crash a process. Each process
 * locks its slot, so the system shows which processes have ended.
 *
 * @module
 */
import { closeDescriptor, describeDescriptor, readAt, writeAt } from "./descriptors.ts";
import { lastWrite, reserveRange } from "./folder_files.ts";
import {
  isRangeLocked,
  lockRange,
  openExistingMemory,
  openNamedMemory,
  removeNamedMemory,
  unlockRange,
} from "./memory_files.ts";
import { errno, shim, shimRefusal, SystemError } from "./shim.ts";

/**
 * The state of a slot: `"free"`, `"taken"` by a running process, or last taken by a process that has released it
 * (`"left"`) or has exited without releasing it (`"ended"`).
 */
export type PlaceState = "free" | "taken" | "left" | "ended";

const numbers = { free: 0, taken: 1, left: 2 } as const;
/** The size in bytes of a slot's header: the state and the process ID (u32 each). The record follows. */
const headerByteLength = 8;
const namePrefix = "poolpass-ranks-";
/** The number of hexadecimal digits that a roster's file name contains to identify its key. */
const keyDigits = 32;
/**
 * The name of the file with the keys of this user's rosters. It makes the rosters of killed processes discoverable
 * without searching `/dev/shm`, where other users may have created any number of files. The number at the end of the
 * name is the version of the file format.
 */
const indexName = "poolpass-rosters-1";
/**
 * The layout of the index file: the total number of slots, the number of consecutive slots in which a key may be stored
 * (the key's first digits select the first of these slots), and the size of a slot in bytes.
 */
const index = { slots: 512, slotsOfKey: 8, slotByteLength: keyDigits / 2 } as const;
/**
 * Time in milliseconds for which an unused roster is kept, so that processes that join late see which ones have exited.
 * Joining processes wait equally long by default.
 */
const remembered = 600_000;

/** The number of slots, and the sizes in bytes of each slot's record and entry. */
export interface RosterShape {
  readonly places: number;
  readonly recordByteLength: number;
  readonly entryByteLength: number;
}

/** Thrown if there is no memory for a roster. The message contains the reason and advice. */
export class RosterFullError extends Error {}

/** A roster as one process sees it: the process writes to its own slot, and reads the slots of the other processes. */
export class Roster {
  /** The index of this object's slot, from 0. */
  readonly place: number;
  readonly places: number;
  readonly #name: string;
  readonly #stride: number;
  readonly #entryByteLength: number;
  #fd: number;
  #isClosed = false;

  /**
   * Claims slot `place`. Returns "taken" if another process holds it, and undefined if the system lacks a required
   * feature.
   *
   * @param key hexadecimal digits, the same for all processes of the group: every process of this user that knows them
   *   can join
   * @throws {RosterFullError}
   */
  static join(key: string, place: number, shape: RosterShape): Roster | "taken" | undefined {
    if (shimRefusal() !== undefined) return undefined;
    const stride = headerByteLength + Math.ceil(shape.recordByteLength / 8) * 8;
    withIndex(removeStale);
    const digits = key.slice(0, keyDigits);
    const name = nameOf(digits);
    const byteLength = (stride + shape.entryByteLength) * shape.places;
    let fd: number | undefined;
    try {
      fd = openNamedMemory(name, byteLength);
      if (fd === undefined) return undefined;
      const range = { offset: place * stride, byteLength: stride };
      if (isRangeLocked(fd, range)) return closeAs(fd, "taken");
      lockRange(fd, range);
      // Check the lock again, and check the slot's state, because another process may be claiming the slot at the same
      // time, or may have held it before.
      const state = new Uint32Array(1);
      readAt(fd, new Uint8Array(state.buffer), range);
      if (isRangeLocked(fd, range) || state[0] !== numbers.free) {
        unlockRange(fd, range);
        return closeAs(fd, "taken");
      }
      // Reserves the storage now, so that no later write fails for lack of memory.
      reserveRange(fd, range);
      if (shape.entryByteLength > 0) {
        const offset = stride * shape.places + place * shape.entryByteLength;
        reserveRange(fd, { offset, byteLength: shape.entryByteLength });
      }
      withIndex((index) => addToIndex(index, digits));
      return new Roster(fd, name, { ...shape, place, stride });
    } catch (error) {
      const isFull = error instanceof SystemError && error.errno === errno.ENOSPC;
      if (fd !== undefined) {
        if (isFull && !isRangeLocked(fd, { offset: 0, byteLength })) removeNamedMemory(name);
        closeDescriptor(fd);
      }
      if (!isFull) throw error;
      throw new RosterFullError(
        `/dev/shm is full: ${byteLength} bytes are needed there for ${shape.places} ranks; remove what is not used, or ` +
          "make it larger (in a container: --shm-size 1g)",
        { cause: error },
      );
    }
  }

  private constructor(
    fd: number,
    name: string,
    { place, places, stride, entryByteLength }: RosterShape & { readonly place: number; readonly stride: number },
  ) {
    this.#fd = fd;
    this.#name = name;
    this.place = place;
    this.places = places;
    this.#stride = stride;
    this.#entryByteLength = entryByteLength;
    this.#writeHeader(numbers.taken);
  }

  /** Whether this object has released its slot. */
  get hasLeft(): boolean {
    return this.#fd < 0;
  }

  /** Returns the state of a slot. */
  stateOf(place: number): PlaceState {
    const { state } = this.#header(place);
    if (state === numbers.free) return "free";
    if (state !== numbers.taken) return "left";
    if (place === this.place || isRangeLocked(this.#fd, this.#range(place))) return "taken";
    // The process may have left between the two reads of the header.
    return this.#header(place).state === numbers.taken ? "ended" : "left";
  }

  /** Returns the ID of the process that holds or has held a slot; 0 if none has. */
  pidOf(place: number): number {
    return this.#header(place).pid;
  }

  /** Writes to the record of this object's slot. */
  write(bytes: Uint8Array, offset = 0): void {
    writeAt(this.#fd, bytes, { offset: this.#recordOf(this.place) + offset });
  }

  /** Fills `bytes` from the record of a slot. */
  readInto(bytes: Uint8Array, place: number, offset = 0): void {
    readAt(this.#fd, bytes, { offset: this.#recordOf(place) + offset });
  }

  /** Writes to the entry of this object's slot. */
  writeEntry(bytes: Uint8Array, offset = 0): void {
    writeAt(this.#fd, bytes, { offset: this.#stride * this.places + this.place * this.#entryByteLength + offset });
  }

  /** Fills `bytes` from the entries of all slots, which are contiguous. */
  readEntriesInto(bytes: Uint8Array): void {
    readAt(this.#fd, bytes, { offset: this.#stride * this.places });
  }

  /** Removes the roster's name, so that no other process can join. */
  close(): void {
    if (!this.#isClosed) removeNamedMemory(this.#name);
    this.#isClosed = true;
  }

  /** Releases the slot. The last process that leaves removes the roster's name. */
  leave(): void {
    if (this.#fd < 0) return;
    // The state is written before the check, so that if several processes leave at the same time, at least one removes
    // the name.
    this.#writeHeader(numbers.left);
    if (!this.hasOthers()) this.close();
    closeDescriptor(this.#fd);
    this.#fd = -1;
  }

  /** Whether other processes hold slots. */
  hasOthers(): boolean {
    for (let place = 0; place < this.places; place++) {
      if (place !== this.place && this.stateOf(place) === "taken") return true;
    }
    return false;
  }

  #header(place: number): { readonly state: number; readonly pid: number } {
    const words = new Uint32Array(2);
    readAt(this.#fd, new Uint8Array(words.buffer), { offset: place * this.#stride });
    return { state: words[0]!, pid: words[1]! };
  }

  #writeHeader(state: number): void {
    const words = Uint32Array.of(state, shim().poolpass_getpid());
    writeAt(this.#fd, new Uint8Array(words.buffer), { offset: this.place * this.#stride });
  }

  #range(place: number): { offset: number; byteLength: number } {
    return { offset: place * this.#stride, byteLength: this.#stride };
  }

  #recordOf(place: number): number {
    return place * this.#stride + headerByteLength;
  }
}

function nameOf(digits: string): string {
  return `${namePrefix}${digits}`;
}

/** Calls `use` with the index. Does nothing if there is no memory for the index, or another user has taken its name. */
function withIndex(use: (fd: number) => void): void {
  let fd: number | undefined;
  try {
    fd = openNamedMemory(indexName, index.slots * index.slotByteLength);
    if (fd !== undefined) use(fd);
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
  } finally {
    if (fd !== undefined) closeDescriptor(fd);
  }
}

/** Removes the names of rosters whose processes were all killed before one of them could remove the name. */
function removeStale(fd: number): void {
  const keys = new Uint8Array(index.slots * index.slotByteLength);
  readAt(fd, keys);
  for (let offset = 0; offset < keys.length; offset += index.slotByteLength) {
    const digits = keys.subarray(offset, offset + index.slotByteLength).toHex();
    if (isFree(digits) || isKept(nameOf(digits))) continue;
    // In the meantime, another process may have removed the name and reused the slot of the index.
    if (digitsAt(fd, offset) === digits) writeAt(fd, new Uint8Array(index.slotByteLength), { offset });
  }
}

/**
 * Adds a key to the index, unless all slots for this key are in use. Processes that use a slot at the same time usually
 * add the same key; otherwise one of the keys is lost, and its roster is not found later.
 */
function addToIndex(fd: number, digits: string): void {
  const first = Number.parseInt(digits.slice(0, 4), 16);
  for (let slot = first; slot < first + index.slotsOfKey; slot++) {
    const offset = slot % index.slots * index.slotByteLength;
    const found = digitsAt(fd, offset);
    if (isFree(found)) writeAt(fd, Uint8Array.fromHex(digits), { offset });
    if (isFree(found) || found === digits) return;
  }
}

function digitsAt(fd: number, offset: number): string {
  const key = new Uint8Array(index.slotByteLength);
  readAt(fd, key, { offset });
  return key.toHex();
}

function isFree(digits: string): boolean {
  return /^0*$/.test(digits);
}

/** Returns whether a roster with this file name exists. If the roster is stale, removes its name and returns false. */
function isKept(name: string): boolean {
  const fd = openExistingMemory(name);
  if (fd === undefined) return false;
  try {
    if (!isStale(fd)) return true;
    removeNamedMemory(name);
    return false;
  } finally {
    closeDescriptor(fd);
  }
}

/** Returns whether no process has written to a roster recently and none has a lock in it. */
function isStale(fd: number): boolean {
  const written = lastWrite(fd);
  if (written === undefined || Date.now() - written < remembered) return false;
  // A file of length 0 has no slots, and a lock range of length 0 would mean the whole file.
  const { byteLength } = describeDescriptor(fd);
  return byteLength === 0 || !isRangeLocked(fd, { offset: 0, byteLength });
}

function closeAs<R>(fd: number, result: R): R {
  closeDescriptor(fd);
  return result;
}
