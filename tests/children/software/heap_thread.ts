/**
 * A thread that allocates from a device's heap and frees what it has allocated, at the same time as other threads.
 *
 * @module
 */
import { workerData } from "node:worker_threads";
import { HeapAllocator } from "../../../src/software/memory/heap_allocator.ts";
import { type HeapUse, sharedWords, useHeap } from "../../support/heap_use.ts";

const use = workerData as HeapUse;
const { memory, state, shared } = use;
const heap = new HeapAllocator(memory, state);
Atomics.add(shared, sharedWords.ready, 1);
Atomics.notify(shared, sharedWords.ready);
Atomics.wait(shared, sharedWords.begin, 0);
useHeap(heap, use);
Atomics.add(shared, sharedWords.done, 1);
Atomics.notify(shared, sharedWords.done);
