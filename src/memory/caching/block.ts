/**
 * Blocks of a caching allocator, and the statistics computed from them.
 *
 * @module
 */
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import type { AllocationOwner, SlabPart } from "../allocation.ts";
import type { DeviceBuffer } from "../device_buffer.ts";
import type { FreeList } from "./free_list.ts";
import type { Slabs } from "./slabs.ts";

/** An allocation of the pool that is divided into blocks, from which buffers are allocated. */
export interface Slab {
  readonly owner: BlockOwner;
  readonly buffer: DeviceBuffer;
  readonly address: bigint;
  readonly isHostMemory: boolean;
  readonly isManaged: boolean;
  /** The block at the start of the slab. */
  readonly first: SlabBlock;
  /** Whether the slab was allocated for a single large buffer, because memory was scarce. */
  readonly isDedicated: boolean;
}

/** The allocator that hands out the blocks of a slab. */
export interface BlockOwner {
  /**
   * Called when the buffer that uses the block is freed: work that is enqueued on `stream` from now on may use the
   * block.
   */
  release(block: SlabBlock, stream: CudaStream): void;
  /**
   * Called when a buffer is freed while its memory has holders. `release` is called when the last holder has released
   * the memory.
   */
  awaitRelease(block: SlabBlock): void;
}

/**
 * A piece of a slab, free or used by a buffer. The block is itself the owner of the buffer's allocation, so that a free
 * needs no lookup.
 */
export class SlabBlock implements AllocationOwner {
  readonly slab: Slab;
  /** Offset in the slab, in bytes. */
  readonly byteOffset: number;
  byteLength: number;
  /** The preceding block in the slab. */
  before: SlabBlock | undefined = undefined;
  /** The following block in the slab. */
  after: SlabBlock | undefined = undefined;
  /** The free list that has the block; undefined while a buffer uses the block. */
  freeList: FreeList | undefined = undefined;
  /** The free list of the stream on which the block's current or latest buffer was allocated. */
  usedBy: FreeList | undefined = undefined;
  /**
   * Whether the block is free but was not merged with adjacent free blocks, because its size is likely to be requested
   * again.
   */
  isUnmerged = false;
  /** The epoch of the block's free list when the block was freed. */
  epoch = 0;
  /** The `performance.now()` time at which the block's current or latest buffer was allocated; 0 for small buffers. */
  time = 0;
  /** The index of the block's class in `SizeClasses`. Valid only while the block is in a size class. */
  sizeClass = 0;
  /** The next block in the linked list of free blocks to which this block belongs. */
  next: SlabBlock | undefined = undefined;
  /** The previous block in the linked list of free blocks to which this block belongs. */
  previous: SlabBlock | undefined = undefined;
  #address: bigint | undefined = undefined;

  /** @param slab The slab that contains the block, or the parameters of a new slab. */
  private constructor(
    slab: Slab | { owner: BlockOwner; buffer: DeviceBuffer; isDedicated: boolean },
    byteOffset: number,
    byteLength: number,
  ) {
    this.byteOffset = byteOffset;
    this.byteLength = byteLength;
    this.slab = "first" in slab ? slab : {
      owner: slab.owner,
      buffer: slab.buffer,
      address: slab.buffer.address,
      isHostMemory: slab.buffer.pool?.device === undefined && !slab.buffer.isManaged,
      isManaged: slab.buffer.isManaged,
      first: this,
      isDedicated: slab.isDedicated,
    };
  }

  /** Creates the block that spans an entire new slab. */
  static ofSlab(owner: BlockOwner, buffer: DeviceBuffer, isDedicated: boolean): SlabBlock {
    return new SlabBlock({ owner, buffer, isDedicated }, 0, buffer.byteLength);
  }

  /** The block's address. Computed on first use: many blocks are merged before a buffer uses them. */
  get address(): bigint {
    return this.#address ??= this.slab.address + BigInt(this.byteOffset);
  }

  get isHostMemory(): boolean {
    return this.slab.isHostMemory;
  }

  get isManaged(): boolean {
    return this.slab.isManaged;
  }

  release(_address: bigint, _byteLength: number, stream: CudaStream): void {
    this.slab.owner.release(this, stream);
  }

  get part(): SlabPart {
    return { slab: this.slab.buffer, byteOffset: this.byteOffset };
  }

  awaitRelease(): void {
    this.slab.owner.awaitRelease(this);
  }

  /** Splits the block after `byteLength` bytes and returns the second part. */
  split(byteLength: number): SlabBlock {
    const { slab, after } = this;
    const rest = new SlabBlock(slab, this.byteOffset + byteLength, this.byteLength - byteLength);
    this.byteLength = byteLength;
    rest.before = this;
    rest.after = after;
    this.after = rest;
    if (after !== undefined) after.before = rest;
    return rest;
  }

  /** Merges the next block into this one. The next block must not be used afterwards. */
  merge(): void {
    const { after } = this;
    this.byteLength += after!.byteLength;
    this.after = after!.after;
    if (this.after !== undefined) this.after.before = this;
    if (after!.epoch > this.epoch) this.epoch = after!.epoch;
  }
}

/** Yields the blocks of a slab in address order. */
export function* blocksOf(slab: Slab): Generator<SlabBlock> {
  for (let block: SlabBlock | undefined = slab.first; block !== undefined; block = block.after) yield block;
}

/** Memory usage of an allocator in bytes: current values, and for some the maximum since `resetHigh`. */
export interface CachingAllocatorUsage {
  /**
   * Bytes that the allocator has allocated from its pool: the total size of its slabs. Released slabs do not count,
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
  /** Number of slabs, the allocations that the allocator has made from its pool. */
  slabs: number;
  /** Size in bytes of the largest buffer that fits without another slab, once all streams are idle. */
  largestFree: number;
  /**
   * The fraction of free bytes outside the largest free piece: 0 if all free memory is in one piece, close to 1 if it
   * is in many small pieces.
   */
  fragmentation: number;
}

/** The buffers and the free pieces of one size class of an allocator. */
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

/** The sizes of buffers and of free pieces are multiples of this many bytes. */
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

/**
 * Returns the size in bytes of the largest contiguous free piece of any slab, even if its blocks are in different free
 * lists.
 */
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
export function* usedBlocksOf(slabs: Iterable<Slab>): Generator<SlabBlock> {
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
