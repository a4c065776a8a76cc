/**
 * Random use of a device's heap, by several threads at once.
 *
 * @module
 */
import type { HeapAllocator } from "../../src/software/memory/heap_allocator.ts";
import { Random } from "../differential/random.ts";

/** What a thread that uses a heap is started with. */
export interface HeapUse {
  readonly memory: WebAssembly.Memory;
  /** The offset of the heap's state. */
  readonly state: number;
  /** The seed of what is random. No two threads have the same. */
  readonly seed: number;
  /** How many blocks the thread allocates, or fails to. */
  readonly allocations: number;
  /** What the threads share, as in `sharedWords`. */
  readonly shared: Int32Array;
}

/** The indices of the words that the threads share. */
export const sharedWords = { ready: 0, begin: 1, done: 2, allocated: 3, refused: 4, broken: 5, count: 6 } as const;

/** The number of blocks of a thread that live at the same time. */
const mostBlocks = 64;
const granuleBytes = 512;

/**
 * Allocates blocks of random sizes, writes a pattern in each and frees them in random order. Counts those that could
 * not be allocated, and those that another thread has written to or that could not be freed.
 */
export function useHeap(
  heap: Pick<HeapAllocator, "allocate" | "free">,
  { memory, seed, allocations, shared }: HeapUse,
): void {
  const bytes = new Uint8Array(memory.buffer);
  const random = new Random(seed);
  const blocks: { begin: number; byteLength: number; byte: number }[] = [];
  const freeOne = (): void => {
    const [block] = blocks.splice(random.below(blocks.length), 1);
    const { begin, byteLength, byte } = block!;
    const isIntact = bytes.subarray(begin, begin + byteLength).every((written) => written === byte);
    if (!isIntact || !heap.free(begin) || heap.free(begin + granuleBytes / 2)) {
      Atomics.add(shared, sharedWords.broken, 1);
    }
  };
  for (let index = 0; index < allocations; index++) {
    if (blocks.length === mostBlocks || blocks.length > 0 && random.percent(40)) freeOne();
    const byteLength = random.percent(70) ? random.below(700) : random.below(random.percent(5) ? 2 ** 21 : 20_000);
    const alignment = random.percent(90) ? 16 : 2 ** random.below(17);
    const begin = heap.allocate(byteLength, alignment);
    if (!begin) {
      Atomics.add(shared, sharedWords.refused, 1);
      continue;
    }
    Atomics.add(shared, sharedWords.allocated, 1);
    if (begin % alignment !== 0) Atomics.add(shared, sharedWords.broken, 1);
    // Only the beginning of a large block has the pattern, so that the threads spend their time in the heap.
    const byte = random.below(256);
    const written = Math.min(byteLength, 2000);
    bytes.fill(byte, begin, begin + written);
    blocks.push({ begin, byteLength: written, byte });
  }
  while (blocks.length > 0) freeOne();
}
