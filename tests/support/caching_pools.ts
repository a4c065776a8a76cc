/**
 * A mode of the tests in which every `MemoryPool` hands out memory of a caching allocator of its own: `deno task
 * test:caching` loads this module before the tests, and before the scripts that they start as processes.
 *
 * Tests that cannot hold in it are left out by name. They are few: it shows that whatever holds of a pool's buffers holds
 * of an allocator's.
 *
 * @module
 */
import { existsSync } from "node:fs";
import process from "node:process";
import type { CachingAllocator } from "../../src/memory/caching/caching_allocator.ts";
import { DeviceBuffer, slabPartOf, wholeOf } from "../../src/memory/device_buffer.ts";
import { MemoryPool } from "../../src/memory/memory_pool.ts";

interface DenoTestOptions {
  readonly name: string;
  readonly ignore?: boolean;
  readonly fn?: () => void;
}

interface DenoNamespace {
  test: (options: DenoTestOptions, ...more: unknown[]) => unknown;
  Command: new (command: string, options?: { readonly args?: readonly string[] }) => object;
  readonly mainModule: string;
}

const named = "it is the allocator that is named";
const exact = "what can be mapped by hand is the whole slab";
const ofDevice = "it is of what a software device does with a pool's own allocations";
const several = "several buffers of a slab are exported by hand";
/** By file, the tests that cannot hold where memory is of an allocator, and why. */
const skipped: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "conformance/conformance_test.ts": {
    "conformance: more bytes of a pointer imported than its exporter has allocated": exact,
  },
  "examples/example_programs_test.ts": {
    "release_threshold shows what a pool keeps, plain and shareable": "slabs stay allocated",
    "reuse_policies shows each policy on, all of them off, and what needs none": "an allocator has its own",
  },
  "memory/host_pool_test.ts": {
    "a host pool is shared like any other, through any device": exact,
  },
  "memory/imported_memory_pool_test.ts": {
    "a part of a buffer is not exported, its whole is": "what to do is another thing for a part of a slab",
    "a thousand buffers are mapped at once, and freed in another order": several,
  },
  "memory/keep_memory_test.ts": {
    "a pool reports what is kept and was never freed, and nothing else": named,
    "kept memory is freed on the stream that was given to free": "the driver is asked to free slabs alone",
  },
  "memory/memory_ipc/counterparts_processes_test.ts": {
    "20 buffers of 3 pools go round 2 processes that have the pools, and 7 go to one": several,
    "20 buffers of one pool go round 2 processes that have the pools, and 7 go to one": several,
  },
  "memory/memory_pool_test.ts": {
    "a pool keeps what its release threshold says, and gives back what it is told to": "slabs stay allocated",
    "a pool reports the buffers that were forgotten": named,
    "an allocation larger than the device says so": named,
  },
  "sharing/sharing_abuse_test.ts": {
    "what is said of memory and is not so is told where it is mapped": exact,
  },
  "sharing/sharing_bursts_test.ts": {
    "a buffer that is freed takes all its offers back, in whatever order others have gone": "it takes 256 bytes",
  },
  "sharing/sharing_process_faults_test.ts": {
    "an exporter lies about a size, and gives the pointer of another pool": several,
  },
  "software/software_driver_test.ts": {
    "memory that was freed cannot be reached any more": "freed memory is the allocator's, and mapped",
    "the first byte past a buffer is an illegal address, and all devices are lost": "past a buffer is the slab",
  },
  "software/lease_test.ts": {
    "memory that its exporter frees stays as it was until its importer has unmapped it": ofDevice,
    "what has no room in the table of leases is not mapped": several,
  },
  "software/pool_test.ts": {
    "a pool counts the bytes that were asked for, and takes none for no bytes": ofDevice,
    "a pool gives back the free units between, before and after those in use": ofDevice,
    "a pool gives its memory back to the system": "slabs stay allocated",
    "a pool gives no pointers before its handle was exported once": several,
    "a pool keeps the units that are partly in use, and what the release threshold has room for": ofDevice,
    "access that is set reaches what streams hold, not what the host has allocated since": ofDevice,
    "each reuse policy lets another stream have memory, and without them it does not": "an allocator has its own",
    "memory that is allocated again before its stream gets there has each allocation's own size": ofDevice,
  },
};

const { Deno: deno } = globalThis as unknown as { Deno: DenoNamespace };
const allocators = new WeakMap<MemoryPool, CachingAllocator>();

allocateByAllocators();
preloadInChildren();
skipTests();

function allocateByAllocators(): void {
  const { usage, resetHigh, trimTo } = MemoryPool.prototype;
  const { exportPointer } = DeviceBuffer.prototype;
  MemoryPool.prototype.allocate = function (...args) {
    return allocatorOf(this).allocate(...args);
  };
  MemoryPool.prototype.allocateArray = function (...args) {
    return allocatorOf(this).allocateArray(...args);
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
  // At the begin of a slab a buffer is mapped by the slab's pointer.
  DeviceBuffer.prototype.exportPointer = function () {
    void this.address;
    const part = slabPartOf(this);
    const isBegin = part?.byteOffset === 0 && wholeOf(this).whole === this;
    return exportPointer.call(isBegin ? part.slab : this);
  };
}

function allocatorOf(pool: MemoryPool): CachingAllocator {
  // Of a pool that was disposed the pool is to tell, not its allocator.
  void pool.unsafeHandle;
  let allocator = allocators.get(pool);
  if (allocator === undefined) {
    allocator = pool.createCachingAllocator();
    allocators.set(pool, allocator);
  }
  return allocator;
}

/** Lets the processes that are started by `Deno.Command` load this module too. */
function preloadInChildren(): void {
  deno.Command = class extends deno.Command {
    constructor(command: string, options: { readonly args?: readonly string[] } = {}) {
      const args = [...options.args ?? []];
      const begin = command === process.execPath ? 0 : args.indexOf(process.execPath) + 1;
      if (args[begin] === "run") args.splice(begin + 1, 0, `--preload=${import.meta.filename}`);
      super(command, { ...options, args });
    }
  };
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
    name: "the tests that are left out are there",
    fn() {
      const gone = Object.keys(skipped).filter((file) => !existsSync(new URL(`../${file}`, import.meta.url)));
      if (gone.length > 0) throw new Error(`There is no file ${gone.join(", ")}`);
      if (unseen.size > 0) throw new Error(`There is none of the name ${[...unseen].join(", ")}`);
    },
  });
}
