/**
 * The memory that kernels allocate and free themselves, with `malloc` and `free`.
 *
 * @module
 */
import { boundsGranuleBytes } from "../compiler/addresses.ts";
import type { NamedRange } from "./named_memory.ts";
import { RangeAllocator } from "./range_allocator.ts";

/** The bytes that a device's kernels may have allocated at once: CUDA's default for `cudaLimitMallocHeapSize`. */
export const heapLimitBytes: number = 8 * 2 ** 20;

/** Every block counts as a multiple of so many bytes against the limit, and begins at a multiple of it. */
const leastAlignment = 16;
/** Linear memory is reserved in chunks, of at least so many bytes. */
const chunkBytes = 2 ** 20;
/** The largest alignment that can be asked for, at which chunks begin. */
const largestAlignment = 65536;

/** What a heap needs of linear memory. */
export interface HeapMemory {
  /** Reserves whole pages. Returns their offset, or undefined if there are not enough. */
  reserve(byteLength: number): number | undefined;
  release(offset: number, byteLength: number): void;
  /** Lets the device's kernels access exactly these bytes. */
  allow(offset: number, byteLength: number): void;
  deny(offset: number, byteLength: number): void;
}

/**
 * The heap of a device. Its blocks live until they are freed, by any kernel of the device, or until the driver is
 * closed. Each begins a granule of its own, so that accesses past its end are found.
 */
export class DeviceHeap {
  readonly #memory: HeapMemory;
  /** The bytes of live blocks, by offset. */
  readonly #blocks = new Map<number, number>();
  readonly #chunks: { readonly begin: number; readonly byteLength: number }[] = [];
  readonly #free: RangeAllocator = new RangeAllocator();
  /** The offsets of freed blocks by their whole bytes. Most programs allocate many blocks of few sizes. */
  readonly #recycled = new Map<number, number[]>();
  #usedBytes = 0;

  constructor(memory: HeapMemory) {
    this.#memory = memory;
  }

  /**
   * Allocates a block. Returns its offset, or undefined if the heap is full or no block can be so large or so aligned.
   */
  allocate(byteLength: number, alignment: number = leastAlignment): number | undefined {
    const counted = countedBytes(byteLength);
    if (this.#usedBytes + counted > heapLimitBytes) return undefined;
    if (alignment < 1 || alignment > largestAlignment || (alignment & (alignment - 1)) !== 0) return undefined;
    const begin = this.#take(wholeBytes(byteLength), alignment);
    if (begin === undefined) return undefined;
    this.#usedBytes += counted;
    this.#blocks.set(begin, byteLength);
    this.#memory.allow(begin, byteLength);
    return begin;
  }

  /** Frees a block. Returns false if no live block begins there. */
  free(begin: number): boolean {
    const byteLength = this.#blocks.get(begin);
    if (byteLength === undefined) return false;
    const whole = wholeBytes(byteLength);
    this.#blocks.delete(begin);
    this.#usedBytes -= countedBytes(byteLength);
    this.#memory.deny(begin, whole);
    const recycled = this.#recycled.get(whole);
    if (recycled === undefined) this.#recycled.set(whole, [begin]);
    else recycled.push(begin);
    return true;
  }

  /** The live blocks. */
  *ranges(): Generator<NamedRange> {
    for (const [begin, byteLength] of this.#blocks) {
      yield { begin, byteLength, name: `a block of ${byteLength} bytes that a kernel allocated with malloc` };
    }
  }

  /** Releases all memory. */
  close(): void {
    for (const [begin, byteLength] of this.#blocks) this.#memory.deny(begin, wholeBytes(byteLength));
    for (const { begin, byteLength } of this.#chunks) this.#memory.release(begin, byteLength);
    this.#blocks.clear();
    this.#chunks.length = 0;
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

/** The bytes of a block's granules. */
function wholeBytes(byteLength: number): number {
  return Math.max(1, Math.ceil(byteLength / boundsGranuleBytes)) * boundsGranuleBytes;
}
