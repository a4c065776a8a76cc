/**
 * Times the same calls at three layers: the native functions themselves, the methods of the driver, and the public
 * objects. `main.ts` starts this program in each runtime. Prints one line of JSON.
 *
 *     layers.ts JOB ROUNDS OPERATIONS [FILE [kernels]]
 *
 * JOB is one of:
 *
 * - `times`: the time of each call. With FILE, the public objects record a trace in it; with `kernels`, also when
 *   kernels and copies run.
 * - `garbage`: the bytes that each call leaves on the heap. The result is valid only if nothing is collected meanwhile.
 * - `pairs`: only allocates and frees, OPERATIONS times.
 *
 * libcudart is not loaded, because none of these calls uses it.
 *
 * @module
 */
import process from "node:process";
import { CudaDriver } from "../../ffi/cuda_driver.ts";
import { loadCudaLibraries } from "../../ffi/cuda_libraries.ts";
import { addressOf } from "../../ffi/native/host.ts";
import type { Driver } from "../../src/driver.ts";
import type { CachingAllocator } from "../../src/memory/caching/caching_allocator.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import type { DeviceBuffer } from "../../src/memory/device_buffer.ts";
import type { MemoryPool } from "../../src/memory/pools/memory_pool.ts";
import { Session } from "../../src/session.ts";
import { defaultTraceEvents, openTrace } from "../../src/trace/open_trace.ts";
import { tracedDriver } from "../../src/trace/traced_driver.ts";
import { WorkTimes } from "../../src/trace/work_times.ts";
import { allocationTrace, xorshift } from "../cuda/allocation_trace.ts";

/** The layer at which a call is made. */
export type Layer = "raw" | "driver" | "objects";

/** Nanoseconds per call, for each kind of call, layer and round. */
export type OverheadTimes = Record<string, Record<Layer, number[]>>;

/** Bytes of garbage per call, for each kind of call through the public objects. */
export type OverheadGarbage = Record<string, number>;

/** Makes a number of calls, one after the other. */
type Loop = (operations: number) => void;
type Operation = Readonly<Record<Layer, Loop>>;

/** Engines optimize code only after it has run for a while. */
const warmUpRounds = 5;
const byteLength = 2 ** 20;
const smallByteLength = 2 ** 16;
/** The time at which a buffer of this size is allocated is recorded, for messages of a lack of memory. */
const largeByteLength = 2 ** 26;
/** Random sizes that an allocator gets are below this. */
const randomByteLength = 2 ** 25;
/** Sizes from 256 bytes to below 32 MiB. */
const trace = allocationTrace({ steps: 4096, slots: 64, streams: 2, leastByteLength: 256, octaves: 17 });

const parametersOf = (name: string, types: readonly string[]): string =>
  types.map((type, index) => `.param .${type} ${name}_${index}`).join(", ");
const threeTypes = ["u64", "f32", "u32"];
const twelveTypes = [...threeTypes, ...threeTypes, ...threeTypes, ...threeTypes];
const ptx = `.version 7.0
.target sm_60
.address_size 64
.visible .entry none() { ret; }
.visible .entry three(${parametersOf("three", threeTypes)}) { ret; }
.visible .entry twelve(${parametersOf("twelve", twelveTypes)}) { ret; }
`;

const [job, ...rest] = process.argv.slice(2) as [string, ...string[]];
const [rounds, operations] = rest.map(Number) as [number, number];
const [, , file, timed] = rest;

const { driver: native } = loadCudaLibraries({ cudart: null });
const driver = new CudaDriver({ cudart: null });
using cuda = new Cuda(new Session(file === undefined ? driver : recordedDriver(file)));
const gpu = cuda.device(0);
using stream = gpu.createStream({ nonBlocking: true });
using other = gpu.createStream({ nonBlocking: true });
using event = gpu.createEvent();
using pool = gpu.createPool({ handleType: "posix-fd", releaseThreshold: Infinity });
using buffer = pool.allocate(byteLength, stream);
using four = pool.allocate(4, stream);
const smallBuffers = Array.from({ length: 1000 }, () => pool.allocate(smallByteLength, stream));
using hostBuffer = cuda.allocateHost(4);
using oneSizeAllocator = pool.createCachingAllocator();
using randomSizesAllocator = pool.createCachingAllocator();
using traceAllocator = pool.createCachingAllocator();
const traceBuffers: (DeviceBuffer | undefined)[] = [];

if (job === "pairs") allocateAndFree(byteLength).objects(operations);
else measureAll();
for (const each of [...smallBuffers, ...traceBuffers]) each?.free();

function measureAll(): void {
  using module = gpu.loadModule(ptx);
  using poolHandle = pool.exportHandle();
  using imported = gpu.importPool(poolHandle);
  const exportData = buffer.exportPointer();
  using _mapped = imported.importPointer(exportData, byteLength);
  const manyExportData = smallBuffers.map((each) => each.exportPointer());
  const kernels = { none: module.kernel("none"), three: module.kernel("three"), twelve: module.kernel("twelve") };

  const launches = (layers: Pick<Operation, "objects"> & { byteLength: number; handle: bigint }): Operation => {
    const { handle } = layers;
    const streamHandle = stream.unsafeHandle;
    const launch = driver.createKernelLaunch(0, handle, layers.byteLength);
    Object.assign(launch, { blockX: 32, stream: streamHandle });
    const extra = (launch as unknown as { extra: Uint8Array }).extra;
    return {
      raw(count) {
        for (let done = 0; done < count; done++) {
          native.cuLaunchKernel(handle, 1, 1, 1, 32, 1, 1, 0, streamHandle, 0n, extra);
        }
      },
      driver(count) {
        for (let done = 0; done < count; done++) {
          driver.launchKernel(launch);
        }
      },
      objects: layers.objects,
    };
  };
  const moduleHandle = driver.moduleLoadData(0, ptx);
  const functionNamed = (name: string) => driver.moduleGetFunction(moduleHandle, name);

  /**
   * Allocates on one stream, launches on another and frees on the first. The other layers do not order the free after
   * the launch.
   */
  const useOnSecondStream = (source: MemoryPool | CachingAllocator): Operation => {
    const { out, handleOut } = outParameters();
    const handle = functionNamed("three");
    const poolHandle = pool.unsafeHandle;
    const [own, second] = [stream.unsafeHandle, other.unsafeHandle];
    const launch = driver.createKernelLaunch(0, handle, 16);
    Object.assign(launch, { blockX: 32, stream: second });
    const extra = (launch as unknown as { extra: Uint8Array }).extra;
    return {
      raw(count) {
        for (let done = 0; done < count; done++) {
          native.cuMemAllocFromPoolAsync(out, 1048576n, poolHandle, own);
          native.cuLaunchKernel(handle, 1, 1, 1, 32, 1, 1, 0, second, 0n, extra);
          native.cuMemFreeAsync(handleOut[0]!, own);
        }
      },
      driver(count) {
        for (let done = 0; done < count; done++) {
          const address = driver.mallocFromPoolAsync(0, byteLength, poolHandle, own);
          driver.launchKernel(launch);
          driver.freeAsync(0, address, own);
        }
      },
      objects(count) {
        for (let done = 0; done < count; done++) {
          const allocated = source.allocate(byteLength, stream);
          kernels.three.launch({ grid: 1, block: 32, stream: other }, allocated, 2.5, done);
          allocated.free();
        }
      },
    };
  };

  const cases: Record<string, Operation> = {
    "allocate and free": allocateAndFree(byteLength),
    "allocate and free, 64 MiB": allocateAndFree(largeByteLength),
    "allocator, one size": allocateCached(oneSizeAllocator, [byteLength]),
    "allocator, 64 random sizes": allocateCached(randomSizesAllocator, randomSizes(64)),
    "allocator, random lifetimes": playTrace(),
    "record an event": recordEvent(),
    "wait for an event": waitForEvent(),
    "query an event": queryEvent(),
    "launch, 0 arguments": launches({
      byteLength: 0,
      handle: functionNamed("none"),
      objects(count) {
        for (let done = 0; done < count; done++) kernels.none.launch({ grid: 1, block: 32, stream });
      },
    }),
    "launch, 3 arguments": launches({
      byteLength: 16,
      handle: functionNamed("three"),
      objects(count) {
        for (let done = 0; done < count; done++) {
          kernels.three.launch({ grid: 1, block: 32, stream }, buffer, 2.5, done);
        }
      },
    }),
    "launch, 12 arguments": launches({
      byteLength: 64,
      handle: functionNamed("twelve"),
      objects(count) {
        for (let done = 0; done < count; done++) {
          // deno-fmt-ignore
          kernels.twelve.launch(
            { grid: 1, block: 32, stream },
            buffer, 2.5, done, buffer, 3.5, done, buffer, 4.5, done, buffer, 5.5, done,
          );
        }
      },
    }),
    "allocate, launch on a second stream, free": useOnSecondStream(pool),
    "allocator, launch on a second stream": useOnSecondStream(oneSizeAllocator),
    "import and free": importAndFree(1),
    "import many and free": importAndFree(Math.min(smallBuffers.length, operations)),
    "import again and free": importAgainAndFree(),
    "copy 4 bytes": copyFrom(4),
    "copy 4 KiB": copyFrom(4096),
    "copy 4 bytes to the host": copyFourBytesToHost(),
  };
  console.log(JSON.stringify(job === "garbage" ? garbageOf(cases) : timesOf(cases)));
  driver.moduleUnload(0, moduleHandle);

  /**
   * Imports and frees `together` buffers at a time.
   */
  function importAndFree(together: number): Operation {
    const { out, handleOut } = outParameters();
    const poolHandle = imported.unsafeHandle;
    const streamHandle = stream.unsafeHandle;
    const data = manyExportData.slice(0, together);
    const addresses: bigint[] = new Array(together).fill(0n);
    const buffers: DeviceBuffer[] = new Array(together).fill(buffer);
    return {
      raw(count) {
        for (let done = 0; done < count; done += together) {
          for (let index = 0; index < together; index++) {
            native.cuMemPoolImportPointer(out, poolHandle, data[index]!);
            addresses[index] = handleOut[0]!;
          }
          for (const address of addresses) native.cuMemFreeAsync(address, streamHandle);
        }
      },
      driver(count) {
        for (let done = 0; done < count; done += together) {
          for (let index = 0; index < together; index++) {
            addresses[index] = driver.memPoolImportPointer(0, poolHandle, data[index]!);
          }
          for (const address of addresses) driver.freeAsync(0, address, streamHandle);
        }
      },
      objects(count) {
        for (let done = 0; done < count; done += together) {
          for (let index = 0; index < together; index++) {
            buffers[index] = imported.importPointer(data[index]!, smallByteLength);
          }
          for (const each of buffers) each.free(stream);
        }
      },
    };
  }

  /** Imports memory that is already mapped: the free then only records an event on its stream. */
  function importAgainAndFree(): Operation {
    const addresses = [0n];
    const { out, handleOut } = outParameters();
    const poolHandle = imported.unsafeHandle;
    const [eventHandle, streamHandle] = [event.unsafeHandle, stream.unsafeHandle];
    return {
      raw(count) {
        for (let done = 0; done < count; done++) {
          native.cuMemPoolImportPointer(out, poolHandle, exportData);
          addresses[0] = handleOut[0]!;
          native.cuEventRecord(eventHandle, streamHandle);
        }
      },
      driver(count) {
        for (let done = 0; done < count; done++) {
          addresses[0] = driver.memPoolImportPointer(0, poolHandle, exportData);
          driver.eventRecord(0, eventHandle, streamHandle);
        }
      },
      objects(count) {
        for (let done = 0; done < count; done++) imported.importPointer(exportData, byteLength).free(stream);
      },
    };
  }
}

function recordedDriver(file: string): Driver {
  const recorder = openTrace(file, defaultTraceEvents, "cuda");
  return tracedDriver(driver, recorder, timed === "kernels" ? new WorkTimes(driver, recorder) : undefined);
}

function timesOf(cases: Readonly<Record<string, Operation>>): OverheadTimes {
  const times: OverheadTimes = {};
  for (const name of Object.keys(cases)) times[name] = { raw: [], driver: [], objects: [] };
  for (let round = -warmUpRounds; round < rounds; round++) {
    for (const [name, work] of Object.entries(cases)) {
      for (const layer of ["raw", "driver", "objects"] as const) {
        const elapsed = nanosecondsOf(work[layer]);
        if (round >= 0) times[name]![layer].push(elapsed);
      }
    }
  }
  return times;
}

function garbageOf(cases: Readonly<Record<string, Operation>>): OverheadGarbage {
  for (let round = 0; round < warmUpRounds; round++) {
    for (const { objects } of Object.values(cases)) objects(operations);
  }
  return Object.fromEntries(
    Object.entries(cases).map(([name, { objects }]) => {
      const before = process.memoryUsage().heapUsed;
      objects(operations);
      return [name, (process.memoryUsage().heapUsed - before) / operations];
    }),
  );
}

function nanosecondsOf(loop: Loop): number {
  const start = performance.now();
  loop(operations);
  const elapsed = performance.now() - start;
  // A stream that is full would block the host.
  stream.synchronize();
  other.synchronize();
  return elapsed * 1e6 / operations;
}

function outParameters(): { out: bigint; secondOut: bigint; handleOut: BigUint64Array } {
  const handleOut = new BigUint64Array(2);
  const out = addressOf(handleOut);
  return { out, secondOut: out + 8n, handleOut };
}

function allocateAndFree(byteLength: number): Operation {
  const { out, handleOut } = outParameters();
  const poolHandle = pool.unsafeHandle;
  const streamHandle = stream.unsafeHandle;
  const size = BigInt(byteLength);
  return {
    raw(count) {
      for (let done = 0; done < count; done++) {
        native.cuMemAllocFromPoolAsync(out, size, poolHandle, streamHandle);
        native.cuMemFreeAsync(handleOut[0]!, streamHandle);
      }
    },
    driver(count) {
      for (let done = 0; done < count; done++) {
        driver.freeAsync(0, driver.mallocFromPoolAsync(0, byteLength, poolHandle, streamHandle), streamHandle);
      }
    },
    objects(count) {
      for (let done = 0; done < count; done++) pool.allocate(byteLength, stream).free();
    },
  };
}

/**
 * Allocates from an allocator and frees at once, in a random order of the sizes. The other layers allocate from the
 * pool, for comparison.
 */
function allocateCached(allocator: CachingAllocator, sizes: readonly number[]): Operation {
  const random = xorshift();
  const order = Array.from({ length: 2 ** 16 }, () => sizes[random() % sizes.length]!);
  let next = 0;
  return {
    ...allocateAndFree(byteLength),
    objects(count) {
      for (let done = 0; done < count; done++) {
        allocator.allocate(order[next]!, stream).free();
        next = (next + 1) % order.length;
      }
    },
  };
}

function randomSizes(count: number): number[] {
  const random = xorshift();
  return Array.from({ length: count }, () => 1 + random() % (randomByteLength - 1));
}

/**
 * Frees the buffer in a random slot and allocates another of a random size on one of two streams. The other layers
 * allocate one size from the pool, for comparison.
 */
function playTrace(): Operation {
  const streams = [stream, other];
  let step = 0;
  return {
    ...allocateAndFree(byteLength),
    objects(count) {
      for (let done = 0; done < count; done++) {
        const slot = trace.slots[step]!;
        traceBuffers[slot]?.free();
        traceBuffers[slot] = traceAllocator.allocate(trace.byteLengths[step]!, streams[trace.streams[step]!]!);
        step = (step + 1) % trace.slots.length;
      }
    },
  };
}

function recordEvent(): Operation {
  const eventHandle = event.unsafeHandle;
  const streamHandle = stream.unsafeHandle;
  return {
    raw(count) {
      for (let done = 0; done < count; done++) native.cuEventRecord(eventHandle, streamHandle);
    },
    driver(count) {
      for (let done = 0; done < count; done++) driver.eventRecord(0, eventHandle, streamHandle);
    },
    objects(count) {
      for (let done = 0; done < count; done++) stream.record(event);
    },
  };
}

function waitForEvent(): Operation {
  const eventHandle = event.unsafeHandle;
  const streamHandle = other.unsafeHandle;
  return {
    raw(count) {
      for (let done = 0; done < count; done++) native.cuStreamWaitEvent(streamHandle, eventHandle, 0);
    },
    driver(count) {
      for (let done = 0; done < count; done++) driver.streamWaitEvent(0, streamHandle, eventHandle);
    },
    objects(count) {
      for (let done = 0; done < count; done++) other.wait(event);
    },
  };
}

function queryEvent(): Operation {
  const eventHandle = event.unsafeHandle;
  return {
    raw(count) {
      for (let done = 0; done < count; done++) native.cuEventQuery(eventHandle);
    },
    driver(count) {
      for (let done = 0; done < count; done++) driver.eventQuery(eventHandle);
    },
    objects(count) {
      for (let done = 0; done < count; done++) event.query();
    },
  };
}

function copyFrom(byteLength: number): Operation {
  const source = new Uint8Array(byteLength).fill(1);
  const byteCount = BigInt(byteLength);
  const { address } = buffer;
  const streamHandle = stream.unsafeHandle;
  return {
    raw(count) {
      for (let done = 0; done < count; done++) native.cuMemcpyHtoDAsync_v2(address, source, byteCount, streamHandle);
    },
    driver(count) {
      for (let done = 0; done < count; done++) driver.memcpyHtoDAsync(0, address, source, streamHandle);
    },
    objects(count) {
      for (let done = 0; done < count; done++) buffer.copyFrom(source);
    },
  };
}

function copyFourBytesToHost(): Operation {
  const target = new Uint8Array(hostBuffer.buffer);
  const { address } = four;
  const streamHandle = stream.unsafeHandle;
  return {
    raw(count) {
      for (let done = 0; done < count; done++) native.cuMemcpyDtoHAsync_v2(target, address, 4n, streamHandle);
    },
    driver(count) {
      for (let done = 0; done < count; done++) driver.memcpyDtoHAsync(0, target, address, streamHandle);
    },
    objects(count) {
      for (let done = 0; done < count; done++) four.copyTo(hostBuffer);
    },
  };
}
