/**
 * Processes of a user on one machine that take part in something together: each has a place in a memory file that they
 * find by a name. The file is read and written but not mapped, so that nobody can end a process by making it shorter. A
 * process locks its place, so the system shows who has ended.
 *
 * @module
 */
import { closeDescriptor, describeDescriptor, readAt, writeAt } from "./descriptors.ts";
import { lastWrite } from "./folder_files.ts";
import { isRangeLocked, lockRange, unlockRange } from "./memory_files.ts";
import { namesOfMemory, openExistingMemory, openNamedMemory, removeNamedMemory } from "./named_memory.ts";
import { shim, shimRefusal } from "./shim.ts";

/** Whether somebody has taken a place yet, and whether it has ended without having given it up. */
export type PlaceState = "free" | "taken" | "left" | "ended";

const numbers = { free: 0, taken: 1, left: 2 } as const;
/** A place begins with its state and the number of its process (u32 each). Its record follows. */
const headerByteLength = 8;
const namePrefix = "poolpass-ranks-";
/** How many of a key's digits are in the name. */
const keyDigits = 32;
/** The files of larger rosters, in bytes, are not read to find out whether they are forgotten. */
const mostRead = 2 ** 24;
/** Milliseconds for which others may still come and see who has ended: as long as they wait, unless told otherwise. */
const remembered = 600_000;

/** How many places there are, and the sizes of the record in each and of each one's entry, in bytes. */
export interface RosterShape {
  readonly places: number;
  readonly recordByteLength: number;
  readonly entryByteLength: number;
}

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
   * Takes a place. Returns "taken" if somebody has it, and undefined if the system lacks what it takes.
   *
   * @param key hexadecimal digits, the same for all: whoever of this user knows them can take part
   */
  static join(key: string, place: number, shape: RosterShape): Roster | "taken" | undefined {
    if (shimRefusal() !== undefined) return undefined;
    const stride = headerByteLength + Math.ceil(shape.recordByteLength / 8) * 8;
    removeForgotten();
    const name = `${namePrefix}${key.slice(0, keyDigits)}`;
    const fd = openNamedMemory(name, (stride + shape.entryByteLength) * shape.places);
    if (fd === undefined) return undefined;
    const range = { offset: place * stride, byteLength: stride };
    try {
      if (isRangeLocked(fd, range)) return closeAs(fd, "taken");
      lockRange(fd, range);
      // Another one may have tried at the same time, or may have been here before.
      const state = new Uint32Array(1);
      readAt(fd, new Uint8Array(state.buffer), range);
      if (isRangeLocked(fd, range) || state[0] !== numbers.free) {
        unlockRange(fd, range);
        return closeAs(fd, "taken");
      }
      return new Roster(fd, name, { ...shape, place, stride });
    } catch (error) {
      closeDescriptor(fd);
      throw error;
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

  /** What is known of a place. */
  stateOf(place: number): PlaceState {
    const { state } = this.#header(place);
    if (state === numbers.free) return "free";
    if (state !== numbers.taken) return "left";
    if (place === this.place || isRangeLocked(this.#fd, this.#range(place))) return "taken";
    // It may have left between the two looks.
    return this.#header(place).state === numbers.taken ? "ended" : "left";
  }

  /** The number of the process that has or had a place; 0 if nobody had. */
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

  /** Removes the name: nobody else can take part. */
  close(): void {
    if (!this.#isClosed) removeNamedMemory(this.#name);
    this.#isClosed = true;
  }

  /** Gives up the place. Whoever leaves last removes the name. */
  leave(): void {
    if (this.#fd < 0) return;
    // Those who leave at the same time must not wait for each other.
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

/** Removes the names that are left where all were killed before they had met. */
function removeForgotten(): void {
  for (const name of namesOfMemory(namePrefix)) {
    const fd = openExistingMemory(name);
    if (fd === undefined) continue;
    try {
      if (isForgotten(fd)) removeNamedMemory(name);
    } finally {
      closeDescriptor(fd);
    }
  }
}

/**
 * Whether somebody has written to a file, but not of late, and nobody has a place in it: a place is locked before it is
 * written to.
 */
function isForgotten(fd: number): boolean {
  const { byteLength } = describeDescriptor(fd);
  const written = lastWrite(fd);
  if (written === undefined || Date.now() - written < remembered) return false;
  if (byteLength === 0 || byteLength > mostRead) return false;
  const bytes = new Uint8Array(byteLength);
  readAt(fd, bytes);
  return bytes.some((byte) => byte !== 0) && !isRangeLocked(fd, { offset: 0, byteLength });
}

function closeAs<R>(fd: number, result: R): R {
  closeDescriptor(fd);
  return result;
}
