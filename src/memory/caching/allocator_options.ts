import { checkByteLength, checkOptions, type KnownOptions } from "../../support/validation.ts";
import { maximumBlockByteLength } from "./size_classes.ts";

/** Options of a new allocator. */
export interface CachingAllocatorOptions {
  /**
   * Bytes that the allocator takes from the pool at a time: more if a buffer needs more, less if less is available. By
   * default it grows with demand, from 2 MiB to 32 MiB.
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

/** Returns the options with their defaults. Throws if one of them is not known, or not a valid number of bytes. */
export function checkAllocatorOptions(options: CachingAllocatorOptions): Required<CachingAllocatorOptions> {
  checkOptions(options, allocatorOptions);
  const { slabByteLength = defaultSlabByteLength, maxSize = 0, maxUnused = Infinity } = options;
  checkByteLength(slabByteLength, "an allocator's slabByteLength", 1);
  checkByteLength(maxSize, "an allocator's maxSize");
  if (maxUnused !== Infinity) checkByteLength(maxUnused, "an allocator's maxUnused");
  if (slabByteLength > maximumBlockByteLength) {
    throw new RangeError(
      `Cannot use slabs of ${slabByteLength} bytes: a slab has ${maximumBlockByteLength} bytes at most`,
    );
  }
  return { slabByteLength, maxSize, maxUnused };
}
