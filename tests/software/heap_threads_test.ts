import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { Worker } from "node:worker_threads";
import { heapLimitBytes } from "../../src/software/memory/device_heap.ts";
import { HeapAllocator } from "../../src/software/memory/heap_allocator.ts";
import { LinearMemory } from "../../src/software/memory/linear_memory.ts";
import { type HeapUse, sharedWords, useHeap } from "../support/heap_use.ts";
import { Random } from "../differential/random.ts";
import { isLong, test } from "../support/test.ts";

const threadCount = 4;
const allocations = isLong ? 20_000 : 2_000;
/** Milliseconds after which threads are taken to hang. */
const patience = 60_000;

/** A heap, and what is disposed with it. */
function openHeap() {
  const linearMemory = new LinearMemory();
  linearMemory.ensureBoundsTable(0);
  const heap = linearMemory.heapAt(linearMemory.boundsTableOf(0));
  return { linearMemory, heap, [Symbol.dispose]: () => linearMemory.close() };
}

/** Starts a thread. Returns a promise for its end. */
function startThread(workerData: HeapUse): Promise<void> {
  const worker = new Worker(new URL("../children/software/heap_thread.ts", import.meta.url), { workerData });
  return new Promise((resolve, reject) => {
    worker.on("error", reject);
    worker.on("exit", () => resolve());
  });
}

/** Waits until a counter is at least `count`. Blocks the thread if it is told to. */
async function countsTo(words: Int32Array, index: number, { count, blocks }: { count: number; blocks: boolean }) {
  const end = performance.now() + patience;
  for (let value = Atomics.load(words, index); value < count; value = Atomics.load(words, index)) {
    assert(performance.now() < end, `${value} of ${count} threads`);
    if (blocks) Atomics.wait(words, index, value, patience);
    else await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

test("threads allocate from one heap and free at the same time, while the main thread is busy", async () => {
  using opened = openHeap();
  const { heap, linearMemory: { memory } } = opened;
  using prepared = heap.prepare()!;
  const { state } = prepared;
  const shared = new Int32Array(new SharedArrayBuffer(4 * sharedWords.count));
  const ends = Array.from(
    { length: threadCount },
    (_, seed) => startThread({ memory, state, seed, allocations, shared }),
  );
  await Promise.race([Promise.all(ends), countsTo(shared, sharedWords.ready, { count: threadCount, blocks: false })]);
  Atomics.store(shared, sharedWords.begin, 1);
  Atomics.notify(shared, sharedWords.begin);
  useHeap(heap, { memory, state, seed: threadCount, allocations, shared });
  await countsTo(shared, sharedWords.done, { count: threadCount, blocks: true });
  assertEquals(shared[sharedWords.broken], 0);
  assertEquals(shared[sharedWords.allocated]! + shared[sharedWords.refused]!, (threadCount + 1) * allocations);
  assert(shared[sharedWords.allocated]! > allocations);
  await Promise.all(ends);

  assertEquals([...heap.blocks()], []);
  const allocator = new HeapAllocator(memory, state);
  const whole = allocator.allocate(heapLimitBytes)!;
  assert(whole > 0);
  assertEquals(allocator.allocate(1), undefined);
  assertEquals(heap.free(whole), true);
});

test("a prepared heap has room for the smallest blocks until the limit is reached", () => {
  using opened = openHeap();
  const { heap, linearMemory } = opened;
  using prepared = heap.prepare()!;
  const allocator = new HeapAllocator(linearMemory.memory, prepared.state);
  let count = 0;
  while (allocator.allocate(16)) count++;
  assertEquals(count, heapLimitBytes / 16);
  assertEquals(allocator.allocate(0), undefined);
});

test("memory that a heap has prepared counts as free, and is released when other memory is full", () => {
  using opened = openHeap();
  const { heap, linearMemory } = opened;
  const before = linearMemory.freeBytes;
  const prepared = heap.prepare()!;
  const block = heap.allocate(100)!;
  assert(before - linearMemory.freeBytes < 2 ** 24, "most of what is prepared counts as free");
  const most = linearMemory.freeBytes - 2 ** 24;
  // Another launch may be about to allocate.
  assertEquals(reservedAtOnce(linearMemory, most), false);
  prepared[Symbol.dispose]();
  assertEquals(reservedAtOnce(linearMemory, most), true);
  assertEquals(heap.byteLengthAt(block), 100);
  assertNotEquals(heap.allocate(heapLimitBytes / 2), undefined);
  assertEquals(heap.free(block), true);
  linearMemory.close();
  linearMemory.ensureBoundsTable(0);
  assertEquals(linearMemory.freeBytes, before);
});

/** Whether parts of linear memory with a total size can be reserved. Releases them. */
function reservedAtOnce(linearMemory: LinearMemory, total: number): boolean {
  const parts: { offset: number; byteLength: number }[] = [];
  let left = total;
  for (let byteLength = 2 ** 31; byteLength >= 2 ** 16; byteLength /= 2) {
    while (left >= byteLength) {
      const offset = linearMemory.reserve(byteLength);
      if (offset === undefined) break;
      parts.push({ offset, byteLength });
      left -= byteLength;
    }
  }
  for (const { offset, byteLength } of parts) linearMemory.release(offset, byteLength);
  return left < 2 ** 16;
}

test("what was freed is merged, and blocks of any size and alignment fit again", () => {
  using opened = openHeap();
  const { heap, linearMemory } = opened;
  using prepared = heap.prepare()!;
  const allocator = new HeapAllocator(linearMemory.memory, prepared.state);
  const free = allocator.freeBytes;
  const random = new Random(1);
  for (let round = 0; round < 3; round++) {
    const blocks = new Map<number, number>();
    for (let byteLength = random.below(4000);; byteLength = random.below(4000)) {
      const alignment = 2 ** random.below(17);
      const begin = allocator.allocate(byteLength, alignment);
      if (!begin) break;
      assertEquals(begin % alignment, 0);
      blocks.set(begin, byteLength);
    }
    assertEquals([...allocator.blocks()], sorted(blocks));
    for (const [begin, byteLength] of blocks) {
      assertEquals(allocator.byteLengthAt(begin), byteLength);
      assertEquals(allocator.free(begin), true);
      assertEquals(allocator.free(begin), false);
    }
    assertEquals(allocator.freeBytes, free);
    const whole = allocator.allocate(heapLimitBytes, 65536)!;
    assert(whole > 0 && whole % 65536 === 0);
    assertEquals(allocator.free(whole), true);
  }
});

function sorted(blocks: ReadonlyMap<number, number>): { begin: number; byteLength: number }[] {
  return [...blocks].map(([begin, byteLength]) => ({ begin, byteLength })).sort((a, b) => a.begin - b.begin);
}

test("a freed block whose size no list is exact for is reused when nothing else is free", () => {
  using opened = openHeap();
  const { heap, linearMemory } = opened;
  using prepared = heap.prepare()!;
  const allocator = new HeapAllocator(linearMemory.memory, prepared.state);
  prepared[Symbol.dispose]();
  const block = allocator.allocate(1_000_001)!;
  // The rest of the prepared memory is released, so that only the freed block is left.
  assertNotEquals(allocator.allocate(1), 0);
  heap.releaseUnused();
  while (allocator.allocate(1));
  allocator.free(block);
  assertEquals(allocator.allocate(1_000_001), block);
});
