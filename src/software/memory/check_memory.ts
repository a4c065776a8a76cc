/**
 * The parts of linear memory in which checked kernels record accesses, and the shadow of linear memory for the check
 * `initialization`. Kernels with that check update the shadow themselves; this module updates it for the rest of the
 * driver.
 *
 * @module
 */
import { boundsGranuleShift, shadowOffset } from "../abi/addresses.ts";
import { checkState, checkStateByteLength, checkTable, tableOff, tableOutside } from "../abi/check_state.ts";
import type { LinearMemory, PageHolder } from "./linear_memory.ts";
import { offsetOfAddress, pageByteLength, scratch, wholePages } from "./memory_layout.ts";
import type { MemoryRange } from "../../driver.ts";
import type { GlobalAccesses } from "../../kernel_checker.ts";

/** The number of tables: one for each recorded kind of access (read, write, atomic), and one for the check `race`. */
const tableCount = 4;
/** The index of the table for the check `race`. */
const raceTable = 3;

/** The minimum number of bytes of linear memory that the checks leave free for programs. */
const leastFreeBytes = 2 ** 28;
/** The maximum number of bytes that the checks keep reserved between launches. */
const mostKeptBytes = 2 ** 28;
/** The minimum size in bytes of a chunk. The checks reserve linear memory in chunks, from which cells are allocated. */
const chunkBytes = 2 ** 20;

interface Chunk {
  readonly begin: number;
  readonly byteLength: number;
}

/** Allocates the memory in which the checks of a driver's launches record accesses. */
export class CheckMemory implements PageHolder {
  /** The state of the running launch's checks, in the layout of `checkState`. */
  readonly state: Int32Array;
  readonly #linearMemory: LinearMemory;
  #tables: { begin: number; entries: Int32Array } | undefined;
  readonly #chunks: Chunk[] = [];
  #chunkedBytes = 0;
  /** The offset of the unused part of the last chunk. */
  #rest = 0;
  /** The offset of the end of the last chunk. */
  #end = 0;
  /** The offsets of free memory, by size in bytes. */
  readonly #free = new Map<number, number[]>();
  /** The launches that have allocated memory and not freed it yet. */
  readonly #users = new Set<LaunchCells>();
  /** The launch whose entries the tables currently contain. */
  #current: LaunchCells | undefined;

  constructor(linearMemory: LinearMemory) {
    this.#linearMemory = linearMemory;
    this.state = new Int32Array(linearMemory.memory.buffer, scratch.checks.begin, checkStateByteLength / 4);
    linearMemory.addPageHolder(this);
  }

  /** Creates an object that manages the cells of a launch. */
  open(): LaunchCells {
    return new LaunchCells(this);
  }

  /**
   * Writes a launch's entries to the tables, so that compiled code finds the cells of the launch. Returns the offsets
   * of the tables, or undefined if there is not enough memory for the tables.
   */
  turnTo(cells: LaunchCells): { notes: number; races: number } | undefined {
    const tables = this.#tables ??= this.#openTables();
    if (tables === undefined) return undefined;
    if (this.#current !== cells) {
      for (const index of this.#current?.entries.keys() ?? []) tables.entries[index] = 0;
      for (const [index, entry] of cells.entries) tables.entries[index] = entry;
      this.#current = cells;
    }
    return { notes: tables.begin, races: tables.begin + raceTable * checkTable.byteLength };
  }

  #openTables(): { begin: number; entries: Int32Array } | undefined {
    const byteLength = tableCount * checkTable.byteLength;
    const begin = this.#reserve(byteLength);
    if (begin === undefined) return undefined;
    this.#linearMemory.clear(begin, byteLength);
    return { begin, entries: new Int32Array(this.#linearMemory.memory.buffer, begin, byteLength / 4) };
  }

  /** Sets a launch's table entry to a new value, if the tables currently contain the entries of this launch. */
  setEntry(cells: LaunchCells, index: number, entry: number): void {
    if (this.#current === cells) this.#tables!.entries[index] = entry;
  }

  /** Allocates zeroed cells for a launch. Returns undefined if there is not enough memory. */
  allocate(cells: LaunchCells, byteLength: number): Int32Array | undefined {
    this.#users.add(cells);
    const begin = this.#free.get(byteLength)?.pop() ?? this.#allocateNew(byteLength);
    if (begin === undefined) return undefined;
    return new Int32Array(this.#linearMemory.memory.buffer, begin, byteLength / 4).fill(0);
  }

  #allocateNew(byteLength: number): number | undefined {
    if (this.#rest + byteLength > this.#end) {
      const reserved = Math.max(chunkBytes, wholePages(byteLength));
      const begin = this.#reserve(reserved);
      if (begin === undefined) return undefined;
      this.#chunks.push({ begin, byteLength: reserved });
      this.#chunkedBytes += reserved;
      this.#rest = begin;
      this.#end = begin + reserved;
    }
    const begin = this.#rest;
    this.#rest += byteLength;
    return begin;
  }

  #reserve(byteLength: number): number | undefined {
    const linearMemory = this.#linearMemory;
    return linearMemory.freeBytes < leastFreeBytes + byteLength ? undefined : linearMemory.reserve(byteLength);
  }

  /** Frees the memory that a launch has allocated. */
  close(cells: LaunchCells): void {
    if (this.#current === cells) {
      for (const index of cells.entries.keys()) this.#tables!.entries[index] = 0;
      this.#current = undefined;
    }
    for (const { byteOffset, byteLength } of cells.allocated) {
      const free = this.#free.get(byteLength);
      if (free === undefined) this.#free.set(byteLength, [byteOffset]);
      else free.push(byteOffset);
    }
    this.#users.delete(cells);
    if (this.#users.size === 0 && this.#chunkedBytes > mostKeptBytes) this.#releaseChunks();
  }

  /** Releases all chunks if no launch uses memory. */
  releaseUnused(): void {
    if (this.#users.size === 0) this.#releaseChunks();
  }

  #releaseChunks(): void {
    for (const { begin, byteLength } of this.#chunks) {
      this.#linearMemory.discardAndRelease(begin, byteLength, { isShared: false });
    }
    this.#chunks.length = 0;
    this.#chunkedBytes = 0;
    this.#rest = this.#end = 0;
    this.#free.clear();
  }

  /** Releases all chunks and the tables. */
  release(): void {
    this.#linearMemory.removePageHolder(this);
    this.#releaseChunks();
    if (this.#tables === undefined) return;
    const byteLength = tableCount * checkTable.byteLength;
    this.#linearMemory.discardAndRelease(this.#tables.begin, byteLength, { isShared: false });
    this.#tables = undefined;
  }
}

/**
 * The cells in which the checks of a launch record accesses, and the table entries by which compiled code finds the
 * cells.
 */
export class LaunchCells {
  /** The entries of the launch in the tables, by their index in the concatenated tables. */
  readonly entries: Map<number, number> = new Map<number, number>();
  readonly allocated: Int32Array[] = [];
  readonly #memory: CheckMemory;

  constructor(memory: CheckMemory) {
    this.#memory = memory;
  }

  /** The state of the checks that compiled code reads. Describes this launch only while the launch runs. */
  get state(): Int32Array {
    return this.#memory.state;
  }

  /**
   * Allocates zeroed cells in linear memory. If there is not enough linear memory, allocates them where compiled code
   * cannot access them.
   */
  allocate(byteLength: number): Int32Array {
    const rounded = wholeWords(byteLength);
    const cells = this.#memory.allocate(this, rounded);
    if (cells === undefined) return new Int32Array(rounded / 4);
    this.allocated.push(cells);
    return cells;
  }

  /** Returns the offset of cells in linear memory, or 0 if they are not in linear memory. */
  offsetOf({ buffer, byteOffset }: Int32Array): number {
    return buffer === this.state.buffer ? byteOffset : 0;
  }

  /**
   * Sets the entry of a page in the table of recorded accesses of one kind. `operation` is an index of
   * `accessOperations`.
   */
  setNotes(operation: number, page: number, entry: number): void {
    this.#set((operation - 1) * (checkTable.byteLength / 4) + page, entry);
  }

  /** Sets the entry of a page in the table of the check `race`. */
  setRaces(page: number, entry: number): void {
    this.#set(raceTable * (checkTable.byteLength / 4) + page, entry);
  }

  #set(index: number, entry: number): void {
    this.entries.set(index, entry);
    this.#memory.setEntry(this, index, entry);
  }

  /** Makes the cells available to compiled code. Must be called before the kernel runs. */
  enter(what: { readonly notes: boolean; readonly races: boolean }): void {
    const tables = this.#memory.turnTo(this);
    this.state[checkState.notes / 4] = what.notes ? tables?.notes ?? tableOutside : tableOff;
    this.state[checkState.races / 4] = what.races ? tables?.races ?? tableOutside : tableOff;
  }

  /** Makes the cells unavailable to compiled code. Must be called before another launch runs. */
  leave(): void {
    this.state[checkState.notes / 4] = this.state[checkState.races / 4] = tableOff;
  }

  /** Frees the cells. Must be called when the launch is done. */
  close(): void {
    this.#memory.close(this);
  }
}

/** Returns whether the page that contains an offset has any memory that a device may access. */
export function pageIsAllocated(allocations: Uint32Array, offset: number): boolean {
  const first = offset >>> checkTable.pageShift << checkTable.pageShift - boundsGranuleShift;
  return allocations.subarray(first, first + (1 << checkTable.pageShift - boundsGranuleShift)).some((entry) =>
    entry !== 0
  );
}

function wholeWords(byteLength: number): number {
  // Rounds up to one of a few sizes, so that the next launch can reuse freed memory.
  if (byteLength <= pageByteLength) return Math.max(4096, 2 ** Math.ceil(Math.log2(byteLength)));
  return wholePages(byteLength);
}

/** The offset of the first byte that programs can allocate. */
const firstOffset = scratch.local.begin + scratch.local.byteLength;

/** The shadow of linear memory. A bit of the shadow is 1 if the corresponding bit of memory is uninitialized. */
export class MemoryShadow {
  readonly #bytes: Uint8Array;
  readonly #words: Int32Array;
  readonly #isShared: (offset: number) => boolean;

  private constructor(linearMemory: LinearMemory, isShared: (offset: number) => boolean) {
    this.#bytes = linearMemory.bytes;
    this.#words = new Int32Array(linearMemory.memory.buffer);
    this.#isShared = isShared;
  }

  /**
   * Opens the shadow. Returns undefined if the part of linear memory for the shadow is in use.
   *
   * @param isShared returns whether the host or other processes may write the memory at an offset. Such memory always
   * counts as initialized
   */
  static open(linearMemory: LinearMemory, isShared: (offset: number) => boolean): MemoryShadow | undefined {
    return linearMemory.openShadow() ? new MemoryShadow(linearMemory, isShared) : undefined;
  }

  /** Marks bytes as uninitialized. */
  markUninitialized(begin: number, byteLength: number): void {
    this.#bytes.fill(0xff, begin + shadowOffset, begin + shadowOffset + byteLength);
  }

  /** Marks newly allocated memory as uninitialized, unless it is shared. */
  noteAllocation(begin: number, byteLength: number): void {
    if (!this.#isShared(begin)) this.markUninitialized(begin, byteLength);
  }

  /** Marks bytes as initialized. */
  markInitialized(begin: number, byteLength: number): void {
    this.#bytes.fill(0, begin + shadowOffset, begin + shadowOffset + byteLength);
  }

  /**
   * Returns whether all memory that a launch reads is initialized. If so, immediately marks the memory that the launch
   * will write as initialized, because concurrent kernels may wait for those writes and then read the memory.
   */
  admit({ reads, writes }: GlobalAccesses): boolean {
    const isInside = [...reads, ...writes].every(({ address, byteLength }) => {
      const begin = offsetOfAddress(address);
      return begin !== undefined && begin >= firstOffset && begin + byteLength <= shadowOffset;
    });
    if (!isInside || !reads.every((range) => this.#isInitialized(range))) return false;
    for (const { address, byteLength } of writes) this.markInitialized(offsetOfAddress(address)!, byteLength);
    return true;
  }

  #isInitialized({ address, byteLength }: MemoryRange): boolean {
    const begin = offsetOfAddress(address)! + shadowOffset;
    const end = begin + byteLength;
    const [first, last] = [Math.min(Math.ceil(begin / 32) * 32, end), Math.max(Math.floor(end / 32) * 32, begin)];
    return first < last
      ? areZero(this.#bytes, begin, first) && this.#areWordsZero(first / 4, last / 4) &&
        areZero(this.#bytes, last, end)
      : areZero(this.#bytes, begin, end);
  }

  /** Returns whether all words of a range are 0. Tests eight words per iteration. */
  #areWordsZero(begin: number, end: number): boolean {
    const words = this.#words;
    for (let at = begin; at < end; at += 8) {
      const bits = words[at]! | words[at + 1]! | words[at + 2]! | words[at + 3]! |
        words[at + 4]! | words[at + 5]! | words[at + 6]! | words[at + 7]!;
      if (bits !== 0) return false;
    }
    return true;
  }

  /** Records that a kernel stored uninitialized bits. If the memory is shared, it still counts as initialized. */
  noteStore(begin: number, byteLength: number): void {
    if (this.#isShared(begin)) this.markInitialized(begin, byteLength);
  }

  /**
   * Records a copy or a fill that writes `to`. `from` is the source of the copy, in any memory, or undefined for a
   * fill.
   */
  noteCopy(to: Uint8Array, from: Uint8Array | undefined): void {
    const begin = this.#offsetOf(to);
    if (begin === undefined) return;
    const source = from === undefined ? undefined : this.#offsetOf(from);
    if (source === undefined || this.#isShared(source) || this.#isShared(begin)) {
      return this.markInitialized(begin, to.byteLength);
    }
    const first = source + shadowOffset;
    this.#bytes.copyWithin(begin + shadowOffset, first, first + to.byteLength);
  }

  /** Returns the index of the first byte that has uninitialized bits, or undefined if there is none. */
  firstUninitialized(bytes: Uint8Array): number | undefined {
    const begin = this.#offsetOf(bytes);
    if (begin === undefined || this.#isShared(begin)) return undefined;
    const shadow = this.#bytes.subarray(begin + shadowOffset, begin + shadowOffset + bytes.byteLength);
    const first = shadow.findIndex((byte) => byte !== 0);
    return first < 0 ? undefined : first;
  }

  /** Returns the offset of bytes in linear memory. Returns undefined for bytes elsewhere. */
  #offsetOf({ buffer, byteOffset }: Uint8Array): number | undefined {
    return buffer === this.#bytes.buffer ? byteOffset : undefined;
  }
}

function areZero(bytes: Uint8Array, begin: number, end: number): boolean {
  for (let at = begin; at < end; at++) if (bytes[at] !== 0) return false;
  return true;
}
