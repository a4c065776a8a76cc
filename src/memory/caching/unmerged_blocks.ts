import type { Block } from "./block.ts";
import { blockAlignment } from "./size_classes.ts";

/** Blocks of less than this many units of `blockAlignment` have a bucket for each size. */
const exactBuckets = 1024;
/** Larger blocks share this many buckets. */
const hashBits = 10;
const bucketCount = exactBuckets + 2 ** hashBits;
/** How many blocks of a bucket are examined: blocks of other sizes may be in it. */
const searchLimit = 8;

/**
 * Unmerged blocks by exact size, in a hash table. Each bucket is a linked list that starts with the block added last.
 *
 * `takeAny` finds blocks without a search, through a list of the buckets that may have some.
 */
export class UnmergedBlocks {
  readonly #buckets: (Block | undefined)[] = new Array<Block | undefined>(bucketCount).fill(undefined);
  /** Indexes of all buckets that have blocks, and of some that have none any more. */
  readonly #listed = new Uint16Array(bucketCount);
  #listedCount = 0;
  readonly #isListed = new Uint8Array(bucketCount);

  /** Whether no block was added since `takeAny` last returned undefined. */
  get isUnused(): boolean {
    return this.#listedCount === 0;
  }

  add(block: Block): void {
    const index = bucketOf(block.byteLength);
    const first = this.#buckets[index];
    block.next = first;
    this.#buckets[index] = block;
    if (first !== undefined || this.#isListed[index] !== 0) return;
    this.#isListed[index] = 1;
    this.#listed[this.#listedCount++] = index;
  }

  /**
   * Removes and returns a block of exactly `byteLength` bytes. It may miss one that is behind others of its bucket.
   */
  take(byteLength: number): Block | undefined {
    const index = bucketOf(byteLength);
    const block = this.#buckets[index];
    if (block === undefined) return undefined;
    if (block.byteLength !== byteLength) return takeBehind(block, byteLength);
    this.#buckets[index] = block.next;
    block.next = undefined;
    return block;
  }

  /** Removes and returns any block; undefined if there is none. */
  takeAny(): Block | undefined {
    while (this.#listedCount > 0) {
      const index = this.#listed[this.#listedCount - 1]!;
      const block = this.#buckets[index];
      if (block !== undefined) {
        this.#buckets[index] = block.next;
        block.next = undefined;
        return block;
      }
      this.#isListed[index] = 0;
      this.#listedCount--;
    }
    return undefined;
  }
}

/** Removes and returns a block of exactly `byteLength` bytes from a linked list, but not the first block. */
function takeBehind(first: Block, byteLength: number): Block | undefined {
  let before = first;
  for (let examined = 1; examined < searchLimit && before.next !== undefined; examined++) {
    const block = before.next;
    if (block.byteLength === byteLength) {
      before.next = block.next;
      block.next = undefined;
      return block;
    }
    before = block;
  }
  return undefined;
}

function bucketOf(byteLength: number): number {
  // `| 0` keeps the result an integer for the compiler; without it, JavaScriptCore calculates in floating point.
  const units = byteLength / blockAlignment | 0;
  if (units < exactBuckets) return units;
  // Fibonacci hashing spreads sizes that differ by a power of two.
  return exactBuckets + (Math.imul(units, 0x9e3779b1) >>> (32 - hashBits));
}
