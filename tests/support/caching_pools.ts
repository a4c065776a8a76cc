/**
 * A mode of the tests in which every `MemoryPool` allocates from its own caching allocator: `deno task test:caching` loads
 * this module before the tests, and before the scripts that they start as processes.
 *
 * The few tests that cannot pass in this mode are skipped by name. By their folders are skipped the examples of the
 * documentation, which show what pools do, the tests of accesses beside a buffer, where the rest of its slab is, and what
 * asks nothing of a pool: the compiler, orders of memory, products of matrices, the sanitizer's checks of kernels, tables
 * of C symbols, the bytes of messages, the command line, packages. The others show that the properties of a pool's buffers
 * hold for an allocator's buffers too.
 *
 * @module
 */
import { existsSync } from "node:fs";
import process from "node:process";
import type { CachingAllocator } from "../../src/memory/caching/caching_allocator.ts";
import { allocationOf, DeviceBuffer } from "../../src/memory/device_buffer.ts";
import { MemoryPool } from "../../src/memory/pools/memory_pool.ts";
import { preloadInChildren } from "./preload_in_children.ts";

interface DenoTestOptions {
  readonly name: string;
  readonly ignore?: boolean;
  readonly fn?: () => void;
}

interface DenoNamespace {
  test: (options: DenoTestOptions, ...more: unknown[]) => unknown;
  readonly mainModule: string;
}

const named = "errors and warnings name the allocator";
const exact = "exportPointer exports the whole slab";
const ofDevice = "it tests how a software device treats a pool's own allocations";
const later = "an allocator frees a slab when it is trimmed, after the wait";
const rounded = "an allocator rounds sizes up to a multiple of 256 bytes";
const keeps = "an allocator keeps the slab";
const waits = "a stream that takes another's free block waits for that stream";
const several = "it exports several buffers of one slab with exportPointer";
const captures = "an allocator hands out no memory in a capture";
const frames = "functions of this mode call the library";
/** By file, the tests that cannot pass if an allocator owns the memory, and the reasons. */
const skipped: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "conformance/conformance_test.ts": {
    "conformance: more bytes of a pointer imported than its exporter has allocated": exact,
  },
  "examples/example_programs_test.ts": {
    "graph_memory uses scratch memory, and results that outlive launches": captures,
    "release_threshold prints how much a pool keeps, plain and shareable": "slabs stay allocated",
    "reuse_policies prints results for each policy alone, for no policies, and for reuse that needs none":
      "an allocator has its own reuse policy",
  },
  "memory/export_data_test.ts": Object.fromEntries(
    [
      "what a driver would believe of forged export data is refused before it sees them",
      "refused imports are counted by their codes, and those that succeed are not",
      "export data have no bytes that the driver did not write, and are imported",
      "with another layout the stated size decides, and nothing is changed",
      "an import whose data are understood makes one call",
      "an allocation that no process could import is not exported",
    ].map((name) => [name, exact]),
  ),
  "memory/host_pool_test.ts": {
    "a host pool is shared like any other pool, through any device": exact,
  },
  "memory/imported_memory_pool_test.ts": {
    "a part of a buffer cannot be exported, but the whole can": "the error for a part of a slab gives other advice",
    "a thousand buffers can be mapped at once and freed in a different order": several,
  },
  "memory/allocation_test.ts": {
    "a pool reports kept memory only if it was never freed": named,
    "kept memory is freed on the stream that was passed to free": "the driver is asked to free slabs alone",
    "disposing a Cuda object also frees kept memory": rounded,
  },
  "memory/cross_stream_use_test.ts": {
    "a program that uses one stream, or orders its streams, makes no further calls":
      "the driver is asked for slabs alone",
  },
  "memory/managed_test.ts": { "managed memory is neither moved nor discarded in a capture": captures },
  "memory/memory_samples_test.ts": {
    "streamOrderedAllocation: sums in memory of each step, and with a threshold for the pool": "slabs stay allocated",
    "graphMemoryFootprint: graphs on one stream share memory, which is returned": captures,
    "graphMemoryFootprint: an allocation behind a free has the same address": captures,
  },
  "memory/memory_ipc/counterparts_processes_test.ts": {
    "20 buffers of 3 pools are sent in turn to 2 processes that have imported the pools, and 7 to one process": several,
    "20 buffers of one pool are sent in turn to 2 processes that have imported the pools, and 7 to one process":
      several,
  },
  "memory/memory_pool_test.ts": {
    "a pool keeps as much as its release threshold, and trimTo releases the rest": "slabs stay allocated",
    "a pool reports leaked buffers": named,
    ...Object.fromEntries(
      [
        "stream.finished()",
        "stream.finished() twice",
        "concurrent stream.finished()",
        "stream.query()",
        "event.finished()",
        "finished() of an event that is disposed then",
        "finished() of many events that are disposed then",
        "event.query()",
        "device.finished()",
        "read()",
      ].map((wait) => [`after await ${wait}, memory freed before counts as free`, later]),
    ),
    "gpu.finished() counts for streams that were disposed before it": later,
    "gpu.finished() counts for streams that were disposed before it, before CUDA 12.5": later,
    "a query of a stream that is disposed then counts": later,
    "the error for an allocation larger than the device names the size and the pool": named,
  },
  "memory/out_of_memory_test.ts": {
    "disposing a pool, its stream or its Cuda object ends allocateAsync": named,
    "an out-of-memory error of a pool lists the largest holders": named,
    "an error for too little memory says what the device's other pools have reserved":
      "an allocator's unused memory is released before that",
    "allocateAsync waits for a stream to execute a free, if no policy lets another stream reuse it":
      "an allocator has its own reuse policy",
    "memory that caching allocators keep unused is released to the pool when it is needed": named,
  },
  "mistakes/mistakes_test.ts": {
    "each mistake has the message that messages.md shows": named,
  },
  "notebook/displays_test.ts": {
    "pools, allocators, modules and the Cuda object show their fields": "the usage that a pool displays is its slabs'",
  },
  "objects/debug_traces_test.ts": { "the call stacks of POOLPASS_DEBUG=1 begin with the program's line": frames },
  "objects/disposal_test.ts": {
    "disposing a Cuda object reports memory that was not freed": rounded,
    "nothing is left after a Cuda object, in any order of disposal": exact,
  },
  "objects/first_frame_test.ts": Object.fromEntries(
    [
      "the stack of an error begins with the program's line, whatever call throws it",
      "an error that a call throws at once and nobody catches is printed with the program's line",
      "an error that a call throws outside of functions and nobody catches is printed with the program's line",
      "with POOLPASS_DEBUG=1, the stack of an error has the library's frames, too",
    ].map((name) => [name, frames]),
  ),
  "objects/graphs/captures_test.ts": Object.fromEntries(
    [
      "memory that a graph allocates and frees lives within a launch",
      "memory that a graph does not free exists after a launch",
      "memory that can be shared cannot be a graph's",
    ].map((name) => [name, captures]),
  ),
  "objects/graphs/conditional_graphs_test.ts": Object.fromEntries(
    [
      "a capture into a graph that is dropped leaves the graph as it was",
      "conditions, bodies and captures into graphs are refused where they do not belong",
    ].map((name) => [name, captures]),
  ),
  "objects/graphs/graphs_test.ts": Object.fromEntries(
    [
      "a copy of a graph outlives the graph",
      "a device says how much memory graphs have reserved, and gives it back",
    ].map((name) => [name, captures]),
  ),
  "objects/graphs/node_notes_test.ts": { "every node of a capture is noted with what it runs, once": captures },
  "objects/printing_test.ts": {
    "JSON has the properties of objects, addresses as hexadecimal strings, devices as ordinals":
      "the usage in a pool's JSON is that of its slabs",
    ...Object.fromEntries(
      [
        "these tests print an object of every public class, before and after disposal",
        "console.log prints the state of every object",
        "objects print the same inside others, at any depth and in color",
        "template strings have what is printed, and JSON has plain data, in every state",
      ].map((name) => [name, captures]),
    ),
  },
  "objects/stream_test.ts": {
    "an aborted wait for the device names what was awaited": named,
  },
  "sharing/sharing_abuse_test.ts": {
    "false data of memory are reported when it is mapped": exact,
  },
  "sharing/sharing_bursts_test.ts": {
    "freeing a buffer withdraws all its offers, in whatever order others ended": "each allocation takes 256 bytes",
  },
  "sharing/sharing_fuzz_test.ts": { "invalid streams from seed 1 on cause only typed errors": exact },
  "sharing/sharing_isolation_test.ts": {
    "a pool's descriptor reaches all of the pool, outlives its maker, and can be handed on": several,
  },
  "sharing/sharing_process_faults_test.ts": {
    "an exporter sends a wrong size, and the pointer of another pool": several,
  },
  "software/fault_messages_test.ts": {
    "a fault says where the buffer was allocated and freed if call sites are recorded":
      "the rest of the slab lies past a buffer",
    "the error of a fault lists the arguments of the launch": "the rest of the slab lies past a buffer",
  },
  "software/software_driver_test.ts": {
    "freed memory is inaccessible": "freed memory stays mapped in the allocator",
    "accessing the first byte past a buffer is an illegal address, and all devices are lost":
      "the rest of the slab lies past a buffer",
  },
  "software/workers_test.ts": {
    "a buffer that was freed in a stream is no memory for what follows there, also while this thread is busy":
      "freed memory stays mapped in the allocator",
  },
  "software/lease_test.ts": {
    "memory that its exporter frees keeps its contents until its importer unmaps it": ofDevice,
  },
  "software/pool_test.ts": {
    "a pool counts the requested bytes, and nothing for an allocation of 0 bytes": ofDevice,
    "a pool releases the free units between, before and after those in use": ofDevice,
    "a pool returns its memory to the system": "slabs stay allocated",
    "a pool exports no pointers until its handle was exported": several,
    "a pool keeps partly used units, and as much as the release threshold allows": ofDevice,
    "a pool first reserves what it needs, in units of 2 MiB, and reports whole steps of 32 MiB": ofDevice,
    "a limited pool replaces pieces of 2 MiB, although no work has run that used them": ofDevice,
    "setting access applies to allocations that streams still use, not to those that the host made in their place":
      ofDevice,
    "a full pool serves a large buffer from freed pieces of several units, and waits for their streams": ofDevice,
    "each reuse policy lets another stream reuse memory, and no policy does not":
      "an allocator has its own reuse policy",
    "each allocation of reused memory has its own size, even before the stream reaches it": ofDevice,
  },
  "sanitizer/leak_test.ts": {
    "memory that is not freed before the Cuda object is disposed is reported": "the call site is in this file",
  },
  "sanitizer/processes_test.ts": {
    "memory is freed when another process's kernel is known to be done": keeps,
  },
  "sanitizer/random_processes_test.ts": {
    "random programs of 2 processes are reported where nothing orders them": keeps,
    "random programs of 3 processes are reported where nothing orders them": keeps,
  },
  "sanitizer/stream_order_test.ts": {
    "memory is not used after its free, and the report comes with the device's own error": keeps,
  },
  "sanitizer/yardsticks/cusan_test.ts": {
    "cuSan's 03_cuda_to_mpi, 05_cuda_to_mpi_stream, 29_tsan_cuda_to_mpi: told as there": waits,
    "cuSan's 15_cuda_memset_sync: the default stream waits for blocking streams: told as there": waits,
    "cuSan's 23_cuda_default_stream_post_sync_nonblocking: another one does not: told as there": waits,
  },
  "sanitizer/yardsticks/graph_programs_test.ts": Object.fromEntries(
    [
      "the sanitizer and memory of the graph that is freed behind its use on another branch: nothing",
      "the sanitizer and memory of the graph that outlives its launch and is used on another stream that waits: nothing",
      "the sanitizer and memory of the graph that outlives its launch and is used on another stream that does not " +
      "wait: use-before-allocation",
      "the sanitizer and memory that each launch allocates anew: nothing",
    ].map((name) => [name, captures]),
  ),
};

const { Deno: deno } = globalThis as unknown as { Deno: DenoNamespace };
const allocators = new WeakMap<MemoryPool, CachingAllocator>();

allocateByAllocators();
preloadInChildren(import.meta.filename!);
skipTests();

function allocateByAllocators(): void {
  const { usage, resetHigh, trimTo } = MemoryPool.prototype;
  const { exportPointer } = DeviceBuffer.prototype;
  MemoryPool.prototype.allocate = function (...args) {
    return allocatorOf(this).allocate(...args);
  };
  // An overloaded method cannot be assigned a function of its parameters' union.
  MemoryPool.prototype.allocateArray = function (this: MemoryPool, ...args: never[]) {
    return (allocatorOf(this).allocateArray as (...args: never[]) => never).call(allocatorOf(this), ...args);
  };
  MemoryPool.prototype.allocateAsync = function (...args) {
    return allocatorOf(this).allocateAsync(...args);
  };
  MemoryPool.prototype.usage = function () {
    const ofPool = usage.call(this);
    const { used, usedHigh } = allocators.get(this)?.usage() ?? ofPool;
    return { ...ofPool, used, usedHigh };
  };
  MemoryPool.prototype.resetHigh = function () {
    resetHigh.call(this);
    allocators.get(this)?.resetHigh();
  };
  MemoryPool.prototype.trimTo = function (byteLength) {
    void this.unsafeHandle;
    allocators.get(this)?.trimTo(byteLength);
    trimTo.call(this, byteLength);
  };
  // The slab's pointer maps a buffer at the start of the slab.
  DeviceBuffer.prototype.exportPointer = function () {
    void this.address;
    const { owner: { part }, byteLength } = allocationOf(this);
    const isBegin = part?.byteOffset === 0 && byteLength === this.byteLength;
    return exportPointer.call(isBegin ? part.slab : this);
  };
}

function allocatorOf(pool: MemoryPool): CachingAllocator {
  // For a disposed pool, the error must come from the pool, not from its allocator.
  void pool.unsafeHandle;
  let allocator = allocators.get(pool);
  if (allocator === undefined) {
    allocator = pool.createCachingAllocator();
    allocators.set(pool, allocator);
  }
  return allocator;
}

function skipTests(): void {
  const { test } = deno;
  const reasons = new Map(Object.entries(skipped[deno.mainModule.replace(/.*\/tests\//, "")] ?? {}));
  const unseen = new Set(reasons.keys());
  deno.test = Object.assign((options: DenoTestOptions, ...more: unknown[]) => {
    const name = options.name.replace(/ \[[^\]]*\]$/, "");
    const reason = reasons.get(name);
    unseen.delete(name);
    if (reason === undefined) return test(options, ...more);
    return test({ ...options, name: `${options.name}: ${reason}`, ignore: true }, ...more);
  }, test);
  if (reasons.size === 0) return;
  test({
    name: "the skipped tests exist",
    fn() {
      const gone = Object.keys(skipped).filter((file) => !existsSync(new URL(`../${file}`, import.meta.url)));
      if (gone.length > 0) throw new Error(`There is no file ${gone.join(", ")}`);
      // Without POOLPASS_LONG=1 some are skipped for their length already, and have other names.
      if (process.env.POOLPASS_LONG === "1" && unseen.size > 0) {
        throw new Error(`There is no test with the name ${[...unseen].join(", ")}`);
      }
    },
  });
}
