/**
 * The heap from which kernels allocate memory with `malloc`.
 *
 * @module
 */
import { boundsGranuleBytes } from "../abi/addresses.ts";
import type { NamedRange } from "./named_memory.ts";
import { RangeAllocator } from "./allocations.ts";

/**
 * The default maximum total size in bytes of the live blocks in a device's heap. The same as CUDA's default for
 * `cudaLimitMallocHeapSize`.
 */
export const heapLimitBytes: number = 8 * 2 ** 20;

/**
 * The minimum alignment of blocks in bytes. When a block's size is counted towards the limit of the heap, the size is
 * rounded up to a multiple of this alignment.
 */
const leastAlignment = 16;
/** The minimum size in bytes of the chunks in which linear memory is reserved. */
const chunkBytes = 2 ** 20;
/** The maximum alignment of blocks in bytes, which is also the alignment of chunks. */
const largestAlignment = 65536;

/** The maximum total size in bytes of freed blocks whose reuse is delayed. */
const mostFreedBytes = heapLimitBytes / 2;
/** The maximum number of freed blocks whose reuse is delayed. */
const mostFreedBlocks = 4096;

/** The operations of linear memory that a heap uses. */
export interface HeapMemory {
  /** Reserves whole pages. Returns their offset, or undefined if linear memory is full. */
  reserve(byteLength: number): number | undefined;
  release(offset: number, byteLength: number): void;
  /** Grants the device's kernels access to exactly `byteLength` bytes. */
  allow(offset: number, byteLength: number): void;
  deny(offset: number, byteLength: number): void;
}

/** The kernel and the source line that allocated a block. */
export interface HeapSite {
  readonly kernel: string;
  readonly source: string;
}

/** A block that a kernel has allocated. */
export interface HeapBlock {
  readonly byteLength: number;
  /** The call site that allocated the block. Undefined if it is unknown. */
  readonly site?: HeapSite | undefined;
}

/**
 * The heap of a device, for `malloc` and `free` in kernels. A block lives until any kernel of the device frees it, or
 * until the driver is closed. Each block starts at a multiple of 512 bytes with its own entry of the bounds table, so
 * that accesses past the end of a block are detected.
 */
export class DeviceHeap {
  readonly #memory: HeapMemory;
  /** The maximum total size in bytes of the live blocks. */
  readonly #limitBytes: number;
  /** The freed blocks whose reuse is delayed. Undefined if freed blocks are reused immediately. */
  readonly #freed: FreedBlocks | undefined;
  /** The live blocks, by offset. */
  readonly #blocks = new Map<number, HeapBlock>();
  readonly #chunks: { readonly begin: number; readonly byteLength: number }[] = [];
  readonly #free: RangeAllocator = new RangeAllocator();
  /**
   * The offsets of reusable blocks, by size in bytes including the gap after the block. Most programs allocate many
   * blocks of few sizes.
   */
  readonly #recycled = new Map<number, number[]>();
  #usedBytes = 0;

  /**
   * @param options `limit` is the maximum total size in bytes of the live blocks; `findsMistakes` leaves a gap after each block and delays the reuse of freed blocks, so that accesses
   * outside of live blocks are detected
   */
  constructor(
    memory: HeapMemory,
    { findsMistakes = false, limit = heapLimitBytes }: { readonly findsMistakes?: boolean; readonly limit?: number } =
      {},
  ) {
    this.#memory = memory;
    this.#limitBytes = limit;
    this.#freed = findsMistakes ? new FreedBlocks() : undefined;
  }

  /**
   * Allocates a block. Returns the offset, or undefined if the heap is full or the alignment is not supported.
   *
   * @param site the call site that allocates the block, if it is known
   */
  allocate(byteLength: number, alignment: number = leastAlignment, site?: HeapSite): number | undefined {
    const counted = countedBytes(byteLength);
    if (this.#usedBytes + counted > this.#limitBytes) return undefined;
    if (alignment < 1 || alignment > largestAlignment || (alignment & (alignment - 1)) !== 0) return undefined;
    const begin = this.#take(this.#wholeBytes(byteLength), alignment);
    if (begin === undefined) return undefined;
    this.#usedBytes += counted;
    this.#blocks.set(begin, { byteLength, site });
    this.#memory.allow(begin, byteLength);
    return begin;
  }

  /** Frees a block. Returns false if no live block begins at the offset. */
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

  /** Returns the size in bytes of the live block that begins at an offset, or 0 if there is none. */
  byteLengthAt(begin: number): number {
    return this.#blocks.get(begin)?.byteLength ?? 0;
  }

  /** The live blocks. */
  get blocks(): Iterable<HeapBlock> {
    return this.#blocks.values();
  }

  /** Yields the live blocks and, with `findsMistakes`, the freed blocks whose reuse is delayed. */
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

  /**
   * Returns the number of bytes that a block of the given size occupies: a multiple of 512 bytes that includes the gap
   * after the block.
   */
  #wholeBytes(byteLength: number): number {
    const granules = Math.max(1, Math.ceil(byteLength / boundsGranuleBytes)) + (this.#freed === undefined ? 0 : 1);
    return granules * boundsGranuleBytes;
  }

  #take(whole: number, alignment: number): number | undefined {
    const recycled = this.#recycled.get(whole);
    const last = recycled?.at(-1);
    if (last !== undefined && last % alignment === 0) return recycled!.pop();
    // Reserves enough space for aligning the block. The part that alignment leaves unused is freed again.
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

  /**
   * Merges reusable blocks into free ranges, so that blocks of other sizes can use them. Returns whether there were any
   * reusable blocks.
   */
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

/** The most recently freed blocks, whose reuse is delayed. */
class FreedBlocks {
  /** The blocks by offset, in the order in which they were freed. */
  readonly blocks = new Map<number, HeapBlock>();
  #bytes = 0;

  /** Adds a freed block. Yields the oldest freed blocks, which may now be reused. */
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
