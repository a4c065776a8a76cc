/**
 * The allocator of the heap from which kernels allocate memory with `malloc`. Its state lies in linear memory, where
 * kernels cannot access it, so that the threads that run a kernel's blocks can all allocate and free.
 *
 * @module
 */
import { boundsGranuleBytes, boundsGranuleShift, boundsTable, pageShift } from "../abi/addresses.ts";
import type { NamedRange } from "./named_memory.ts";
import { acquireMutex, releaseMutex } from "./mutex.ts";

/**
 * The minimum alignment of blocks in bytes. When a block's size is counted towards the limit of the heap, the size is
 * rounded up to a multiple of this alignment.
 */
export const leastAlignment = 16;
/** The maximum alignment of blocks in bytes. */
const largestAlignment = 65536;

const pageBytes = 1 << pageShift;
const granulesPerPage = pageBytes / boundsGranuleBytes;
const pageGranuleShift = pageShift - boundsGranuleShift;
const pageCount = 2 ** 32 / pageBytes;

/** The number of words with which the heap describes a granule. */
const granuleWords = 4;
/** The size in bytes of the description of the granules of a page. */
export const pageDescriptionBytes: number = granulesPerPage * granuleWords * 4;

/**
 * The words that describe a free range. `next`, `previous` and `size` are in the description of its first granule: the
 * ranges beside it in its list, or 0, and its number of granules. `first` is in the description of its last granule: the
 * number of its first granule.
 *
 * `size` is 0 for the first granule of a block, and `first` is 0 for its last granule.
 */
const rangeWords = { next: 0, previous: 1, size: 2, first: 3 } as const;

/** The number of the first lists of free ranges, each of which has ranges of one size: the number of the list. */
const exactLists = 32;
/** The binary logarithm of the number of lists for the sizes between two powers of two. */
const listsShift = 4;
/** The number of lists of free ranges. The largest possible range has 2^23 granules. */
const listCount = exactLists + (23 - 5) * 2 ** listsShift;
/** The number of ranges of about the requested size that are tried before a larger one is divided. */
const triedRanges = 8;

/** The layout of a heap's state, as indices of 32-bit words. */
const stateWords = {
  mutex: 0,
  /** The offset of the device's bounds table. */
  bounds: 1,
  /** The limit of the sizes of the live blocks, and their sum, in multiples of `leastAlignment`. */
  limit: 2,
  used: 3,
  /** The number of granules that stay unused after each block. */
  gap: 4,
  /** The number of free granules. */
  free: 5,
  /** A bit for each list: whether it has ranges. */
  hasRanges: 16,
  /** The first range of each list, or 0. */
  lists: 32,
  /** For each page of linear memory, the word index of the description of its granules. 0 if it is not the heap's. */
  pages: 512,
} as const;

/** The size in bytes of a heap's state, which begins at the start of a page. */
export const heapStateBytes: number = Math.ceil((stateWords.pages + pageCount) * 4 / pageBytes) * pageBytes;

/** What a heap is created with. */
export interface HeapOptions {
  /** The offset of the device's bounds table. */
  readonly bounds: number;
  /** The maximum total size in bytes of the live blocks. */
  readonly limit: number;
  /** The number of granules that stay unused after each block. */
  readonly gap: number;
}

/** A block that a kernel has allocated. */
export interface AllocatedBlock {
  readonly begin: number;
  readonly byteLength: number;
}

/**
 * The allocator of a device's heap. Any number of threads can have one for the same heap.
 *
 * Each block starts at a multiple of 512 bytes with its own entry of the bounds table, so that accesses past the end of
 * a block are detected. Free ranges are in lists by size, and adjacent ones are merged when a block is freed.
 */
export class HeapAllocator {
  /** All of linear memory. */
  readonly #words: Int32Array;
  /** The word index of the heap's state. */
  readonly #state: number;
  /** The word index of the device's bounds table. */
  readonly #bounds: number;
  readonly #gap: number;

  /** @param state the offset of the heap's state */
  constructor(memory: WebAssembly.Memory, state: number) {
    this.#words = new Int32Array(memory.buffer);
    this.#state = state / 4;
    this.#bounds = (this.#words[this.#state + stateWords.bounds]! >>> 0) / 4;
    this.#gap = this.#words[this.#state + stateWords.gap]!;
  }

  /** Creates an empty heap. Its state is at `state`, where `heapStateBytes` bytes have been reserved and are 0. */
  static create(memory: WebAssembly.Memory, state: number, { bounds, limit, gap }: HeapOptions): HeapAllocator {
    const words = new Int32Array(memory.buffer, state, stateWords.hasRanges);
    words[stateWords.bounds] = bounds;
    words[stateWords.limit] = Math.floor(Math.min(limit, 2 ** 32) / leastAlignment);
    words[stateWords.gap] = gap;
    return new HeapAllocator(memory, state);
  }

  /** The number of bytes that can still be allocated before the limit is reached. */
  get remainingBytes(): number {
    return (this.#get(stateWords.limit) - this.#get(stateWords.used)) * leastAlignment;
  }

  /** The total size in bytes of the free ranges. */
  get freeBytes(): number {
    return this.#get(stateWords.free) * boundsGranuleBytes;
  }

  /**
   * Allocates a block. Returns its offset, 0 if there is no free range that is large enough, or undefined if the limit
   * is reached or the alignment is not supported.
   */
  allocate(byteLength: number, alignment: number = leastAlignment): number | undefined {
    if (alignment < 1 || alignment > largestAlignment || (alignment & (alignment - 1)) !== 0) return undefined;
    const counted = countedUnits(byteLength);
    acquireMutex(this.#words, this.#state + stateWords.mutex);
    try {
      const used = this.#get(stateWords.used) + counted;
      if (used > this.#get(stateWords.limit)) return undefined;
      const granules = wholeGranules(byteLength);
      const first = this.#take(granules + this.#gap, Math.max(1, alignment >> boundsGranuleShift));
      if (first === 0) return 0;
      this.#set(stateWords.used, used);
      this.#allow(first, granules, byteLength);
      return first * boundsGranuleBytes;
    } finally {
      releaseMutex(this.#words, this.#state + stateWords.mutex);
    }
  }

  /** Frees a block. Returns false if no live block begins at the offset. */
  free(begin: number): boolean {
    acquireMutex(this.#words, this.#state + stateWords.mutex);
    try {
      const byteLength = this.#revoke(begin);
      if (byteLength === undefined) return false;
      this.#recycle(begin, byteLength);
      return true;
    } finally {
      releaseMutex(this.#words, this.#state + stateWords.mutex);
    }
  }

  /**
   * Frees a block, but leaves its memory unused until `recycle` is called. Returns the block's size in bytes, or
   * undefined if no live block begins at the offset.
   */
  revoke(begin: number): number | undefined {
    acquireMutex(this.#words, this.#state + stateWords.mutex);
    try {
      return this.#revoke(begin);
    } finally {
      releaseMutex(this.#words, this.#state + stateWords.mutex);
    }
  }

  /** Makes the memory of a block reusable that `revoke` has freed. */
  recycle({ begin, byteLength }: AllocatedBlock): void {
    acquireMutex(this.#words, this.#state + stateWords.mutex);
    try {
      this.#recycle(begin, byteLength);
    } finally {
      releaseMutex(this.#words, this.#state + stateWords.mutex);
    }
  }

  /**
   * Adds pages to the heap, whose contents do not matter.
   *
   * @param descriptions the offset of `pageDescriptionBytes` for each page
   */
  addPages({ begin, end }: { readonly begin: number; readonly end: number }, descriptions: number): void {
    acquireMutex(this.#words, this.#state + stateWords.mutex);
    try {
      let description = descriptions / 4;
      for (let page = begin / pageBytes; page < end / pageBytes; page++) {
        this.#set(stateWords.pages + page, description);
        description += pageDescriptionBytes / 4;
      }
      this.#addFree(begin / boundsGranuleBytes, (end - begin) / boundsGranuleBytes);
    } finally {
      releaseMutex(this.#words, this.#state + stateWords.mutex);
    }
  }

  /**
   * Returns the start of the unused pages at the end of a range of pages that was added at once, or the range's end.
   */
  unusedFrom({ begin, end }: { readonly begin: number; readonly end: number }): number {
    const first = this.#words[this.#descriptionOf(end / boundsGranuleBytes - 1) + rangeWords.first]!;
    return first === 0 ? end : Math.max(begin, Math.ceil(first / granulesPerPage) * pageBytes);
  }

  /** Removes the unused pages at the end of a range of pages. Returns the new end of the range. */
  removeUnused(range: { readonly begin: number; readonly end: number }): number {
    acquireMutex(this.#words, this.#state + stateWords.mutex);
    try {
      const unused = this.unusedFrom(range);
      if (unused === range.end) return unused;
      const first = this.#words[this.#descriptionOf(range.end / boundsGranuleBytes - 1) + rangeWords.first]!;
      this.#remove(first);
      for (let page = unused / pageBytes; page < range.end / pageBytes; page++) this.#set(stateWords.pages + page, 0);
      const left = unused / boundsGranuleBytes - first;
      if (left > 0) this.#insert(first, left);
      return unused;
    } finally {
      releaseMutex(this.#words, this.#state + stateWords.mutex);
    }
  }

  /** Returns the size in bytes of the live block that begins at an offset, or undefined if there is none. */
  byteLengthAt(begin: number): number | undefined {
    const first = begin / boundsGranuleBytes;
    if (!Number.isInteger(first) || this.#descriptionOf(first) === 0) return undefined;
    const entry = this.#bounds + first;
    return this.#words[entry] === first + 1 ? this.#words[entry + boundsTable.lengths / 4]! >>> 0 : undefined;
  }

  /** Yields the live blocks by address. */
  *blocks(): Generator<AllocatedBlock> {
    for (let page = 0; page < pageCount; page++) {
      if (this.#get(stateWords.pages + page) === 0) continue;
      for (let index = 0; index < granulesPerPage; index++) {
        const begin = page * pageBytes + index * boundsGranuleBytes;
        const byteLength = this.byteLengthAt(begin);
        if (byteLength !== undefined) yield { begin, byteLength };
      }
    }
  }

  /** Yields the live blocks with their names in messages. */
  *ranges(): Generator<NamedRange> {
    for (const { begin, byteLength } of this.blocks()) yield { begin, byteLength, name: nameOfBlock(byteLength) };
  }

  #get(index: number): number {
    return this.#words[this.#state + index]!;
  }

  #set(index: number, value: number): void {
    this.#words[this.#state + index] = value;
  }

  /** Returns the word index of the description of a granule. 0 if the granule is not the heap's. */
  #descriptionOf(granule: number): number {
    const page = this.#words[this.#state + stateWords.pages + (granule >> pageGranuleShift)]!;
    return page === 0 ? 0 : page + (granule & granulesPerPage - 1) * granuleWords;
  }

  /** Gives kernels access to a block. */
  #allow(first: number, granules: number, byteLength: number): void {
    const entry = this.#bounds + first;
    // A kernel that uses a freed block may read both numbers at any time: the length always is that of a block there.
    this.#words[entry + boundsTable.lengths / 4] = byteLength;
    if (granules === 1) this.#words[entry] = first + 1;
    else this.#words.fill(first + 1, entry, entry + granules);
  }

  /** Revokes the access to a block. Returns its size in bytes, or undefined if no live block begins at the offset. */
  #revoke(begin: number): number | undefined {
    const byteLength = this.byteLengthAt(begin);
    if (byteLength === undefined) return undefined;
    const entry = this.#bounds + begin / boundsGranuleBytes;
    const granules = wholeGranules(byteLength);
    if (granules === 1) this.#words[entry] = 0;
    else this.#words.fill(0, entry, entry + granules);
    this.#set(stateWords.used, this.#get(stateWords.used) - countedUnits(byteLength));
    return byteLength;
  }

  #recycle(begin: number, byteLength: number): void {
    this.#addFree(begin / boundsGranuleBytes, wholeGranules(byteLength) + this.#gap);
  }

  /** Adds a free range, and merges it with the free ranges before and after it. */
  #addFree(first: number, size: number): void {
    let [begin, end] = [first, first + size];
    const before = this.#descriptionOf(first - 1);
    if (before !== 0 && this.#words[before + rangeWords.first] !== 0) {
      begin = this.#words[before + rangeWords.first]!;
      this.#remove(begin);
    }
    const after = this.#descriptionOf(end);
    if (after !== 0 && this.#words[after + rangeWords.size] !== 0) end += this.#remove(end);
    this.#insert(begin, end - begin);
  }

  /**
   * Removes granules of which the first is a multiple of `alignment` from the free ranges. Returns the first granule,
   * or 0 if no free range is large enough.
   */
  #take(size: number, alignment: number): number {
    const range = this.#find(size, alignment);
    if (range === 0) return 0;
    const end = range + this.#remove(range);
    const first = alignedUp(range, alignment);
    if (first > range) this.#insert(range, first - range);
    if (first + size < end) this.#insert(first + size, end - first - size);
    this.#words[this.#descriptionOf(first) + rangeWords.size] = 0;
    this.#words[this.#descriptionOf(first + size - 1) + rangeWords.first] = 0;
    return first;
  }

  /** Returns a free range for aligned granules, or 0. */
  #find(size: number, alignment: number): number {
    const ofSize = listOf(size);
    const close = this.#findIn(ofSize, size, alignment, triedRanges);
    if (close !== 0) return close;
    // Any range of these lists is large enough.
    const room = size + alignment - 1;
    const larger = this.#nonEmptyList(listOf(roundedUp(room)));
    if (larger < listCount) return this.#get(stateWords.lists + larger);
    for (let list = ofSize; list <= listOf(room) && list < listCount; list++) {
      const range = this.#findIn(list, size, alignment, Infinity);
      if (range !== 0) return range;
    }
    return 0;
  }

  /** Returns the first of the ranges of a list that has aligned granules, or 0. Tries at most `count` ranges. */
  #findIn(list: number, size: number, alignment: number, count: number): number {
    let range = this.#get(stateWords.lists + list);
    for (let tried = 0; range !== 0 && tried < count; tried++) {
      const description = this.#descriptionOf(range);
      if (alignedUp(range, alignment) + size <= range + this.#words[description + rangeWords.size]!) return range;
      range = this.#words[description + rangeWords.next]!;
    }
    return 0;
  }

  /** Returns the first list from `list` on that has ranges, or `listCount`. */
  #nonEmptyList(list: number): number {
    if (list >= listCount) return listCount;
    let bits = this.#get(stateWords.hasRanges + (list >> 5)) & -1 << (list & 31);
    for (let word = list >> 5; word < listCount / 32; bits = this.#get(stateWords.hasRanges + ++word)) {
      if (bits !== 0) return word * 32 + 31 - Math.clz32(bits & -bits);
    }
    return listCount;
  }

  #insert(first: number, size: number): void {
    const list = listOf(size);
    const next = this.#get(stateWords.lists + list);
    const description = this.#descriptionOf(first);
    this.#words[description + rangeWords.next] = next;
    this.#words[description + rangeWords.previous] = 0;
    this.#words[description + rangeWords.size] = size;
    this.#words[this.#descriptionOf(first + size - 1) + rangeWords.first] = first;
    if (next !== 0) this.#words[this.#descriptionOf(next) + rangeWords.previous] = first;
    this.#set(stateWords.lists + list, first);
    this.#words[this.#state + stateWords.hasRanges + (list >> 5)]! |= 1 << (list & 31);
    this.#words[this.#state + stateWords.free]! += size;
  }

  /** Removes a free range from its list. Returns its size. */
  #remove(first: number): number {
    const description = this.#descriptionOf(first);
    const size = this.#words[description + rangeWords.size]!;
    const next = this.#words[description + rangeWords.next]!;
    const previous = this.#words[description + rangeWords.previous]!;
    if (next !== 0) this.#words[this.#descriptionOf(next) + rangeWords.previous] = previous;
    if (previous !== 0) this.#words[this.#descriptionOf(previous) + rangeWords.next] = next;
    else {
      const list = listOf(size);
      this.#set(stateWords.lists + list, next);
      if (next === 0) this.#words[this.#state + stateWords.hasRanges + (list >> 5)]! &= ~(1 << (list & 31));
    }
    this.#words[this.#state + stateWords.free]! -= size;
    return size;
  }
}

/** Returns the name of a block in messages, given the source line that allocated it. */
export function nameOfBlock(byteLength: number, source?: string): string {
  const where = source === undefined ? "" : ` at ${source}`;
  return `a block of ${byteLength} bytes that a kernel allocated with malloc${where}`;
}

/** Returns the size of a block as it is counted towards the limit, in multiples of `leastAlignment`. */
function countedUnits(byteLength: number): number {
  return Math.max(1, Math.ceil(byteLength / leastAlignment));
}

/** Returns the number of granules of a block. */
function wholeGranules(byteLength: number): number {
  return Math.max(1, Math.ceil(byteLength / boundsGranuleBytes));
}

/** Returns the list of free ranges of a size. */
function listOf(size: number): number {
  if (size < exactLists) return size;
  const exponent = 31 - Math.clz32(size);
  const part = (size >>> exponent - listsShift) - 2 ** listsShift;
  return exactLists + (exponent - 5 << listsShift) + part;
}

/** Rounds a size up to the least size of a list. */
function roundedUp(size: number): number {
  return size < exactLists ? size : size + (1 << 31 - Math.clz32(size) - listsShift) - 1;
}

function alignedUp(granule: number, alignment: number): number {
  return granule + alignment - 1 & -alignment;
}
