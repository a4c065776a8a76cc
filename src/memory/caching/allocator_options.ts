import { checkByteLength, checkOptions, type KnownOptions } from "../../support/validation.ts";
import { maximumImportableByteLength, shareableAdvice } from "../handles/export_data.ts";
import type { Refusal } from "../pools/out_of_memory.ts";
import type { MemoryPool } from "../pools/memory_pool.ts";
import { maximumBlockByteLength } from "./size_classes.ts";

/** Options of a new allocator. */
export interface CachingAllocatorOptions {
  /**
   * Bytes that the allocator takes from the pool at a time: more if a buffer needs more, less if less is available. By
   * default it grows with demand, from 2 MiB to 32 MiB. From a pool that can be shared, at most 4064 MiB: other processes
   * could not import more.
   */
  slabByteLength?: number;
  /** Maximum number of bytes that the allocator takes from the pool. Defaults to 0, the pool's own limit. */
  maxSize?: number;
  /**
   * How many bytes the allocator keeps that no buffer uses: after a free, slabs without buffers go back to the pool until
   * no more bytes are unused. Slabs with buffers stay. Defaults to Infinity.
   */
  maxUnused?: number;
}

const allocatorOptions: KnownOptions<CachingAllocatorOptions> = {
  action: "create an allocator",
  names: { slabByteLength: true, maxSize: true, maxUnused: true },
};

const defaultSlabByteLength = 32 * 2 ** 20;

/** Returns the maximum size in bytes of a slab of a pool. Other processes must be able to import what is shared. */
export function maximumSlabByteLengthFor({ handleType }: Pick<MemoryPool, "handleType">): number {
  return handleType === "none" ? maximumBlockByteLength : maximumImportableByteLength;
}

/** Why an allocator can never have a slab of so many bytes; undefined if it can. */
export function refusalOfSlab(byteLength: number, pool: Pick<MemoryPool, "handleType">): Refusal | undefined {
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
 * Returns the options with their defaults. Throws if one of them is not known, or not a valid number of bytes for a pool.
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
