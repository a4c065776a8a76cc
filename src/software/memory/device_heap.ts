/**
 * The memory that kernels allocate and free themselves, with `malloc` and `free`.
 *
 * @module
 */
import { boundsGranuleBytes } from "../abi/addresses.ts";
import type { NamedRange } from "./named_memory.ts";
import { RangeAllocator } from "./allocations.ts";

/** The bytes that a device's kernels may have allocated at once: CUDA's default for `cudaLimitMallocHeapSize`. */
export const heapLimitBytes: number = 8 * 2 ** 20;

/** The size of every block is rounded up to a multiple of this many bytes, and so is its offset. */
const leastAlignment = 16;
/** The minimum size in bytes of the chunks in which linear memory is reserved. */
const chunkBytes = 2 ** 20;
/** The largest alignment that can be asked for, at which chunks begin. */
const largestAlignment = 65536;

/** How much freed memory is not used again yet, at most. */
const mostFreedBytes = heapLimitBytes / 2;
const mostFreedBlocks = 4096;

/** What a heap needs of linear memory. */
export interface HeapMemory {
  /** Reserves whole pages. Returns their offset, or undefined if there are not enough. */
  reserve(byteLength: number): number | undefined;
  release(offset: number, byteLength: number): void;
  /** Lets the device's kernels access exactly these bytes. */
  allow(offset: number, byteLength: number): void;
  deny(offset: number, byteLength: number): void;
}

/** Which kernel has allocated something, and where in its source. */
export interface HeapSite {
  readonly kernel: string;
  readonly source: string;
}

/** A block that a kernel has allocated. */
export interface HeapBlock {
  readonly byteLength: number;
  /** Undefined if it is not known. */
  readonly site?: HeapSite | undefined;
}

/**
 * The heap of a device. Its blocks live until they are freed, by any kernel of the device, or until the driver is
 * closed. Each begins a granule of its own, so that accesses past its end are found.
 */
export class DeviceHeap {
  readonly #memory: HeapMemory;
  /** Undefined if freed blocks are used again at once. */
  readonly #freed: FreedBlocks | undefined;
  /** Live blocks, by offset. */
  readonly #blocks = new Map<number, HeapBlock>();
  readonly #chunks: { readonly begin: number; readonly byteLength: number }[] = [];
  readonly #free: RangeAllocator = new RangeAllocator();
  /** The offsets of freed blocks by their whole bytes. Most programs allocate many blocks of few sizes. */
  readonly #recycled = new Map<number, number[]>();
  #usedBytes = 0;

  /**
   * @param options `findsMistakes` leaves a gap behind each block, and uses freed blocks late, so that accesses outside
   * blocks are found
   */
  constructor(memory: HeapMemory, { findsMistakes = false }: { readonly findsMistakes?: boolean } = {}) {
    this.#memory = memory;
    this.#freed = findsMistakes ? new FreedBlocks() : undefined;
  }

  /**
   * Allocates a block. Returns its offset, or undefined if the heap is full or no block can be so large or so aligned.
   *
   * @param site the call site that allocates it, if that is known
   */
  allocate(byteLength: number, alignment: number = leastAlignment, site?: HeapSite): number | undefined {
    const counted = countedBytes(byteLength);
    if (this.#usedBytes + counted > heapLimitBytes) return undefined;
    if (alignment < 1 || alignment > largestAlignment || (alignment & (alignment - 1)) !== 0) return undefined;
    const begin = this.#take(this.#wholeBytes(byteLength), alignment);
    if (begin === undefined) return undefined;
    this.#usedBytes += counted;
    this.#blocks.set(begin, { byteLength, site });
    this.#memory.allow(begin, byteLength);
    return begin;
  }

  /** Frees a block. Returns false if no live block begins there. */
  free(begin: number): boolean {
    const block = this.#blocks.get(begin);
    if (block === undefined) return false;
    this.#blocks.delete(begin);
    this.#usedBytes -= countedBytes(block.byteLength);
    this.#memory.deny(begin, this.#wholeBytes(block.byteLength));
    if (this.#freed === undefined) this.#recycle(begin, block);
    else for (const [oldest, its] of this.#freed.add(begin, block)) this.#recycle(oldest, its);
    return true;
  }

  #recycle(begin: number, { byteLength }: HeapBlock): void {
    const whole = this.#wholeBytes(byteLength);
    const recycled = this.#recycled.get(whole);
    if (recycled === undefined) this.#recycled.set(whole, [begin]);
    else recycled.push(begin);
  }

  /** The bytes of the live block that begins at an offset. 0 if there is none. */
  byteLengthAt(begin: number): number {
    return this.#blocks.get(begin)?.byteLength ?? 0;
  }

  /** The live blocks. */
  get blocks(): Iterable<HeapBlock> {
    return this.#blocks.values();
  }

  /** The live blocks, and those that were freed last if mistakes are to be found. */
  *ranges(): Generator<NamedRange> {
    for (const [begin, block] of this.#blocks) yield { begin, byteLength: block.byteLength, name: nameOf(block) };
    for (const [begin, block] of this.#freed?.blocks ?? []) {
      const name = `${nameOf(block)}, and that was freed`;
      yield { begin, byteLength: block.byteLength, name, mistake: "use-after-free" };
    }
  }

  /** Releases all memory. */
  close(): void {
    for (const [begin, { byteLength }] of this.#blocks) this.#memory.deny(begin, this.#wholeBytes(byteLength));
    for (const { begin, byteLength } of this.#chunks) this.#memory.release(begin, byteLength);
    this.#blocks.clear();
    this.#chunks.length = 0;
  }

  /** The bytes of a block's granules, with the gap behind them. */
  #wholeBytes(byteLength: number): number {
    const granules = Math.max(1, Math.ceil(byteLength / boundsGranuleBytes)) + (this.#freed === undefined ? 0 : 1);
    return granules * boundsGranuleBytes;
  }

  #take(whole: number, alignment: number): number | undefined {
    const recycled = this.#recycled.get(whole);
    const last = recycled?.at(-1);
    if (last !== undefined && last % alignment === 0) return recycled!.pop();
    // A part of the room that an alignment may need stays unused until the block is freed and merged.
    const room = whole + Math.max(0, alignment - boundsGranuleBytes);
    return this.#takeAligned(room, whole, alignment) ??
      (this.#mergeRecycled() ? this.#takeAligned(room, whole, alignment) : undefined) ??
      (this.#addChunk(room) ? this.#takeAligned(room, whole, alignment) : undefined);
  }

  #takeAligned(room: number, whole: number, alignment: number): number | undefined {
    const begin = this.#free.allocate(room);
    if (begin === undefined) return undefined;
    const aligned = Math.ceil(begin / alignment) * alignment;
    if (aligned > begin) this.#free.free(begin, aligned - begin);
    const end = aligned + whole;
    if (end < begin + room) this.#free.free(end, begin + room - end);
    return aligned;
  }

  /** Makes freed blocks available for other sizes. Returns whether there are any. */
  #mergeRecycled(): boolean {
    if (this.#recycled.size === 0) return false;
    for (const [whole, offsets] of this.#recycled) for (const begin of offsets) this.#free.free(begin, whole);
    this.#recycled.clear();
    return true;
  }

  #addChunk(room: number): boolean {
    const byteLength = Math.ceil(Math.max(room, chunkBytes) / largestAlignment) * largestAlignment;
    const begin = this.#memory.reserve(byteLength);
    if (begin === undefined) return false;
    this.#chunks.push({ begin, byteLength });
    this.#free.free(begin, byteLength);
    return true;
  }
}

function countedBytes(byteLength: number): number {
  return Math.max(1, Math.ceil(byteLength / leastAlignment)) * leastAlignment;
}

function nameOf({ byteLength, site }: HeapBlock): string {
  const where = site === undefined ? "" : ` at ${site.source}`;
  return `a block of ${byteLength} bytes that a kernel allocated with malloc${where}`;
}

/** The blocks that were freed last, which are not used again yet. */
class FreedBlocks {
  /** By offset, in the order of their frees. */
  readonly blocks = new Map<number, HeapBlock>();
  #bytes = 0;

  /** Adds a block, and returns those that may be used again. */
  *add(begin: number, block: HeapBlock): Generator<[begin: number, block: HeapBlock]> {
    this.blocks.set(begin, block);
    this.#bytes += countedBytes(block.byteLength);
    for (const entry of this.blocks) {
      if (this.#bytes <= mostFreedBytes && this.blocks.size <= mostFreedBlocks) return;
      this.blocks.delete(entry[0]);
      this.#bytes -= countedBytes(entry[1].byteLength);
      yield entry;
    }
  }
}
