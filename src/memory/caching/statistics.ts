import { type Block, blocksOf, type Slab } from "./block.ts";

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
