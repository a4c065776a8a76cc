import { type Block, blocksOf, type Slab } from "./block.ts";
import type { Slabs } from "./slabs.ts";

/** Bytes of an allocator: current values, and the maximum of some since `resetHigh`. */
export interface CachingAllocatorUsage {
  /**
   * Bytes that the allocator has taken from its pool: the sizes of its slabs. Slabs that it has released do not count,
   * even while a read or another process still uses their memory.
   */
  reserved: number;
  /** The maximum of `reserved`. */
  reservedHigh: number;
  /** Bytes of the buffers that `buffers` counts. Each size is rounded up to a multiple of 256. */
  used: number;
  /** The maximum of `used`. */
  usedHigh: number;
  /** Number of buffers that are not freed, or whose memory a read or another process still uses. */
  buffers: number;
  /** Number of slabs, the allocations that the allocator has taken from its pool. */
  slabs: number;
  /** Size in bytes of the largest buffer that fits without another slab, once all streams are idle. */
  largestFree: number;
  /**
   * The fraction of free bytes outside the largest free piece: 0 if all free memory is in one piece, towards 1 if it is
   * scattered.
   */
  fragmentation: number;
}

/** The buffers and the free pieces of a size class of an allocator. */
export interface SizeClassUsage {
  /** The smallest size of the class in bytes: a power of two. */
  minByteLength: number;
  /** The largest size of the class in bytes, less than twice the smallest. */
  maxByteLength: number;
  /** Number of buffers. */
  buffers: number;
  /** Bytes of the buffers. Each size is rounded up to a multiple of 256. */
  used: number;
  /** Number of free pieces. Adjacent pieces count separately until they are merged. */
  freePieces: number;
  /** Bytes of the free pieces. */
  free: number;
}

/** Sizes of buffers and of free pieces are multiples of this. */
const granule = 256;

/** Returns the statistics of an allocator that has `buffers` buffers. Visits every block. */
export function usageOf(slabs: Slabs, buffers: number): CachingAllocatorUsage {
  const { reserved, reservedHigh, used, usedHigh, count } = slabs;
  const largestFree = largestFreeOf(slabs);
  const free = reserved - used;
  return {
    reserved,
    reservedHigh,
    used,
    usedHigh,
    buffers,
    slabs: count,
    largestFree,
    fragmentation: free === 0 ? 0 : 1 - largestFree / free,
  };
}

/** Size in bytes of the largest free piece of a slab, whichever lists its blocks are in. */
export function largestFreeOf(slabs: Iterable<Slab>): number {
  let largestFree = 0;
  for (const slab of slabs) {
    let free = 0;
    for (const block of blocksOf(slab)) {
      free = block.freeList === undefined ? 0 : free + block.byteLength;
      largestFree = Math.max(largestFree, free);
    }
  }
  return largestFree;
}

/** Yields the blocks that buffers use. */
export function* usedBlocksOf(slabs: Iterable<Slab>): Generator<Block> {
  for (const slab of slabs) {
    for (const block of blocksOf(slab)) if (block.freeList === undefined) yield block;
  }
}

/** Returns the size classes that have blocks, by size. */
export function sizeClassesOf(slabs: Iterable<Slab>): SizeClassUsage[] {
  const classes = new Map<number, SizeClassUsage>();
  for (const slab of slabs) {
    for (const { byteLength, freeList } of blocksOf(slab)) {
      const minByteLength = 2 ** Math.floor(Math.log2(byteLength));
      let found = classes.get(minByteLength);
      if (found === undefined) {
        const maxByteLength = 2 * minByteLength - granule;
        found = { minByteLength, maxByteLength, buffers: 0, used: 0, freePieces: 0, free: 0 };
        classes.set(minByteLength, found);
      }
      if (freeList === undefined) {
        found.buffers++;
        found.used += byteLength;
      } else {
        found.freePieces++;
        found.free += byteLength;
      }
    }
  }
  return [...classes.values()].sort((one, other) => one.minByteLength - other.minByteLength);
}
