/**
 * The options of caching allocators, and the size classes of their blocks.
 *
 * @module
 */
import type { SlabBlock } from "./block.ts";
import { checkByteLength, checkOptions, type KnownOptions } from "../../support/validation.ts";
import { maximumImportableByteLength, shareableAdvice } from "../handles/export_data.ts";
import type { SizeRefusal } from "../pools/pool_contents.ts";
import type { MemoryPool } from "../pools/memory_pool.ts";
import { RangeError } from "../../support/program_errors.ts";

/** Addresses and sizes of blocks are multiples of this many bytes, like the addresses that cudaMalloc returns. */
export const blockAlignment = 256;

/** Number of size classes between a power of two and the next. */
const classesPerDoubling = 16;
/** Maximum number of blocks of a size class that are examined if a larger class also has blocks. */
const searchLimit = 32;
const classCount = 28 * classesPerDoubling;
/** Size of the largest possible block: 512 GiB. */
const maximumBlockByteLength: number = 2 ** 31 * blockAlignment - blockAlignment;

/** Returns the size of a block for a buffer of `byteLength` bytes. */
export function blockByteLengthFor(byteLength: number): number {
  return byteLength < 2 ** 31 - blockAlignment
    ? (byteLength + blockAlignment - 1) & -blockAlignment
    : Math.ceil(byteLength / blockAlignment) * blockAlignment;
}

/**
 * Free blocks by size, for best-fit searches: a list for each class of similar sizes, and a bitmap of the lists that
 * are not empty.
 *
 * Up to 8 KiB, all blocks of a class have the same size; above, sizes in a class differ by less than a sixteenth.
 */
export class SizeClasses {
  readonly #lists: (SlabBlock | undefined)[] = new Array<SlabBlock | undefined>(classCount).fill(undefined);
  readonly #isFilled = new Uint32Array(classCount / 32);

  add(block: SlabBlock): void {
    const index = classOf(block.byteLength);
    const head = this.#lists[index];
    block.sizeClass = index;
    block.previous = undefined;
    block.next = head;
    if (head === undefined) this.#isFilled[index >>> 5]! |= 1 << (index & 31);
    else head.previous = block;
    this.#lists[index] = block;
  }

  remove(block: SlabBlock): void {
    const { next, previous } = block;
    if (next !== undefined) next.previous = previous;
    if (previous !== undefined) {
      previous.next = next;
    } else {
      const index = block.sizeClass;
      this.#lists[index] = next;
      if (next === undefined) this.#isFilled[index >>> 5]! &= ~(1 << (index & 31));
    }
    block.next = block.previous = undefined;
  }

  /** Whether the size classes have no blocks. */
  get isEmpty(): boolean {
    return this.#filledAfter(-1) === classCount;
  }

  /** Returns a block of at least `byteLength` bytes: the smallest of the examined blocks. */
  bestFit(byteLength: number): SlabBlock | undefined {
    const index = classOf(byteLength);
    const list = this.#lists[index];
    const larger = this.#lists[this.#filledAfter(index)];
    return smallestOf(list, byteLength, larger === undefined ? Infinity : searchLimit) ??
      smallestOf(larger, byteLength, searchLimit);
  }

  *[Symbol.iterator](): Generator<SlabBlock> {
    for (let index = this.#filledAfter(-1); index < classCount; index = this.#filledAfter(index)) {
      let next: SlabBlock | undefined;
      for (let block = this.#lists[index]; block !== undefined; block = next) {
        // Reads `next` before the yield, because the consumer may remove the block.
        next = block.next;
        yield block;
      }
    }
  }

  /** Returns the index of the first non-empty class after `index`, or `classCount` if there is none. */
  #filledAfter(index: number): number {
    const first = index + 1;
    for (let word = first >>> 5, mask = ~0 << (first & 31); word < this.#isFilled.length; word++, mask = ~0) {
      const bits = this.#isFilled[word]! & mask;
      if (bits !== 0) return word * 32 + 31 - Math.clz32(bits & -bits);
    }
    return classCount;
  }
}

function smallestOf(list: SlabBlock | undefined, byteLength: number, limit: number): SlabBlock | undefined {
  let best: SlabBlock | undefined;
  for (let block = list; block !== undefined && limit > 0; block = block.next, limit--) {
    if (block.byteLength === byteLength) return block;
    if (block.byteLength > byteLength && (best === undefined || block.byteLength < best.byteLength)) best = block;
  }
  return best;
}

function classOf(byteLength: number): number {
  const units = byteLength / blockAlignment | 0;
  if (units < classesPerDoubling) return units;
  const exponent = 31 - Math.clz32(units);
  return (exponent - 3) * classesPerDoubling + (units >>> (exponent - 4)) - classesPerDoubling;
}

/** Options of a new allocator. */
export interface CachingAllocatorOptions {
  /**
   * Size in bytes of the slabs that the allocator allocates from the pool. A slab is larger if a buffer needs more, and
   * smaller if less is available. By default it grows with demand, from 2 MiB to 32 MiB, and large buffers get slabs of
   * their own when memory is scarce. For a pool that can be shared, at most 4064 MiB, because other processes cannot
   * import larger slabs.
   */
  slabByteLength?: number;
  /** Maximum number of bytes that the allocator allocates from the pool. Defaults to 0, the pool's own limit. */
  maxSize?: number;
  /**
   * Maximum number of unused bytes that the allocator keeps: if more are unused after a free, slabs without buffers are
   * released to the pool. Slabs with buffers are kept. Defaults to Infinity.
   */
  maxUnused?: number;
}

const allocatorOptions: KnownOptions<CachingAllocatorOptions> = {
  action: "create an allocator",
  names: { slabByteLength: true, maxSize: true, maxUnused: true },
};

const defaultSlabByteLength = 32 * 2 ** 20;

/**
 * Returns the maximum size in bytes of a slab of a pool. Slabs of a pool that can be shared are limited, because other
 * processes must be able to import them.
 */
export function maximumSlabByteLengthFor({ handleType }: Pick<MemoryPool, "handleType">): number {
  return handleType === "none" ? maximumBlockByteLength : maximumImportableByteLength;
}

/** Returns why a pool can never provide a slab of `byteLength` bytes; undefined if it can. */
export function refusalOfSlab(byteLength: number, pool: Pick<MemoryPool, "handleType">): SizeRefusal | undefined {
  const most = maximumSlabByteLengthFor(pool);
  if (byteLength <= most) return undefined;
  const why = `a buffer has ${most} bytes at most`;
  if (most === maximumBlockByteLength) return { why, advice: "ask for less" };
  return {
    why: `${why}, because other processes could not import a larger one`,
    advice: `allocate it from the pool itself, or ${shareableAdvice}`,
  };
}

/**
 * Returns the options with defaults filled in. Throws if an option is unknown, or is not a valid number of bytes for a
 * pool.
 */
export function checkAllocatorOptions(
  options: CachingAllocatorOptions,
  pool: Pick<MemoryPool, "handleType">,
): Required<CachingAllocatorOptions> {
  checkOptions(options, allocatorOptions);
  const { slabByteLength = defaultSlabByteLength, maxSize = 0, maxUnused = Infinity } = options;
  checkByteLength(slabByteLength, "an allocator's slabByteLength", 1);
  checkByteLength(maxSize, "an allocator's maxSize");
  if (maxUnused !== Infinity) checkByteLength(maxUnused, "an allocator's maxUnused");
  const most = maximumSlabByteLengthFor(pool);
  if (slabByteLength > most) {
    const why = most < maximumBlockByteLength ? ", because other processes could not import a larger one" : "";
    throw new RangeError(`Cannot use slabs of ${slabByteLength} bytes: a slab has ${most} bytes at most${why}`);
  }
  return { slabByteLength, maxSize, maxUnused };
}
