/**
 * Processes of a user on one machine that form a group: each has a place in a memory file that they find by a name. The
 * file is read and written but not mapped, so that nobody can end a process by making it shorter. A process locks its
 * place, so the system shows who has ended.
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

/** Whether a process has taken a place yet, and whether that process has ended without giving it up. */
export type PlaceState = "free" | "taken" | "left" | "ended";

const numbers = { free: 0, taken: 1, left: 2 } as const;
/** A place begins with its state and the number of its process (u32 each). Its record follows. */
const headerByteLength = 8;
const namePrefix = "poolpass-ranks-";
/** How many of a key's digits are in the name. */
const keyDigits = 32;
/**
 * The file with the keys of this user's rosters. It lets those of killed processes be found without a search of
 * `/dev/shm`, where other users may have made any number of files. Its name has the version of the format.
 */
const indexName = "poolpass-rosters-1";
/** A key has one of a few slots, by its digits. */
const index = { slots: 512, slotsOfKey: 8, slotByteLength: keyDigits / 2 } as const;
/**
 * Milliseconds for which a roster is kept, so that late processes see which ones have ended: the default time for which
 * they wait.
 */
const remembered = 600_000;

/** How many places there are, and the sizes of the record in each and of each one's entry, in bytes. */
export interface RosterShape {
  readonly places: number;
  readonly recordByteLength: number;
  readonly entryByteLength: number;
}

/** There is no memory for a roster. The message is the reason, and says what to do. */
export class RosterFullError extends Error {}

/** A place among others. */
export class Roster {
  /** The place of this object, from 0. */
  readonly place: number;
  readonly places: number;
  readonly #name: string;
  readonly #stride: number;
  readonly #entryByteLength: number;
  #fd: number;
  #isClosed = false;

  /**
   * Takes a place. Returns "taken" if another process has it, and undefined if the system lacks what it takes.
   *
   * @param key hexadecimal digits, the same for all: every process of this user that knows them can take part
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
      // Another one may have tried at the same time, or may have been here before.
      const state = new Uint32Array(1);
      readAt(fd, new Uint8Array(state.buffer), range);
      if (isRangeLocked(fd, range) || state[0] !== numbers.free) {
        unlockRange(fd, range);
        return closeAs(fd, "taken");
      }
      // No later write may find that there is no memory.
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

  /** Whether this object has given up its place. */
  get hasLeft(): boolean {
    return this.#fd < 0;
  }

  /** The state of a place. */
  stateOf(place: number): PlaceState {
    const { state } = this.#header(place);
    if (state === numbers.free) return "free";
    if (state !== numbers.taken) return "left";
    if (place === this.place || isRangeLocked(this.#fd, this.#range(place))) return "taken";
    // It may have left between the two looks.
    return this.#header(place).state === numbers.taken ? "ended" : "left";
  }

  /** The ID of the process that has or had a place; 0 if none had. */
  pidOf(place: number): number {
    return this.#header(place).pid;
  }

  /** Writes to this object's record. */
  write(bytes: Uint8Array, offset = 0): void {
    writeAt(this.#fd, bytes, { offset: this.#recordOf(this.place) + offset });
  }

  /** Fills `bytes` from the record of a place. */
  readInto(bytes: Uint8Array, place: number, offset = 0): void {
    readAt(this.#fd, bytes, { offset: this.#recordOf(place) + offset });
  }

  /** Writes to this object's entry. */
  writeEntry(bytes: Uint8Array, offset = 0): void {
    writeAt(this.#fd, bytes, { offset: this.#stride * this.places + this.place * this.#entryByteLength + offset });
  }

  /** Fills `bytes` from the entries of all places, which are read together. */
  readEntriesInto(bytes: Uint8Array): void {
    readAt(this.#fd, bytes, { offset: this.#stride * this.places });
  }

  /** Removes the name: no other process can join. */
  close(): void {
    if (!this.#isClosed) removeNamedMemory(this.#name);
    this.#isClosed = true;
  }

  /** Gives up the place. The last process that leaves removes the name. */
  leave(): void {
    if (this.#fd < 0) return;
    // Processes that leave at the same time must not wait for each other.
    this.#writeHeader(numbers.left);
    if (!this.#hasOthers()) this.close();
    closeDescriptor(this.#fd);
    this.#fd = -1;
  }

  #hasOthers(): boolean {
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

/** Does nothing if there is no memory for the index, or another user has taken its name: then nothing is removed. */
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

/** Removes the names that are left where all were killed before they had met. */
function removeStale(fd: number): void {
  const keys = new Uint8Array(index.slots * index.slotByteLength);
  readAt(fd, keys);
  for (let offset = 0; offset < keys.length; offset += index.slotByteLength) {
    const digits = keys.subarray(offset, offset + index.slotByteLength).toHex();
    if (isFree(digits) || isKept(nameOf(digits))) continue;
    // Meanwhile, another process may have removed it and used the slot again.
    if (digitsAt(fd, offset) === digits) writeAt(fd, new Uint8Array(index.slotByteLength), { offset });
  }
}

/**
 * Adds a key, unless all its slots are in use. Processes that use a slot at the same time add the same key, as a rule: if
 * not, one of them is not found later.
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

/** Whether memory has a name. Removes the name first if the memory is forgotten. */
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

/** Whether no process has written to a file recently, and none has a place in it. */
function isStale(fd: number): boolean {
  const written = lastWrite(fd);
  if (written === undefined || Date.now() - written < remembered) return false;
  // A file that was never grown has no places, and a lock of no bytes would be one of all.
  const { byteLength } = describeDescriptor(fd);
  return byteLength === 0 || !isRangeLocked(fd, { offset: 0, byteLength });
}

function closeAs<R>(fd: number, result: R): R {
  closeDescriptor(fd);
  return result;
}
