/**
 * Times the same calls at three heights: the native functions themselves, the methods of the driver, and the public
 * objects. A program of its own, which `overhead.ts` starts in each runtime. Prints one line of JSON.
 *
 *     overhead_layers.ts JOB ROUNDS OPERATIONS LIBRARIES
 *
 * JOB: `times`; `garbage` for the bytes that each operation leaves on the heap, which is right only while nothing is
 * collected; or `pairs` for nothing but so many allocations that are freed. LIBRARIES: `both`; `frequent` for both with
 * libcuda serving the frequent calls; or `libcuda` to do without libcudart.
 *
 * @module
 */
import process from "node:process";
import { CudaDriver } from "../ffi/cuda_driver.ts";
import { loadCudaLibraries } from "../ffi/cuda_libraries.ts";
import { addressOf } from "../ffi/host.ts";
import { Cuda } from "../src/cuda.ts";
import { Session } from "../src/session.ts";

/** How high above the native function a call is made. */
export type Layer = "raw" | "driver" | "objects";

/** Nanoseconds for each operation: of each work, at each height, in each round. */
export type OverheadTimes = Record<string, Record<Layer, number[]>>;

/** Bytes for each operation of the public objects. */
export type OverheadGarbage = Record<string, number>;

/** Does so many operations, one after the other. */
type Loop = (operations: number) => void;
type Work = Readonly<Record<Layer, Loop>>;

/** Engines make code fast once it has run for a while. */
const warmUpRounds = 5;
const byteLength = 2 ** 20;

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
const librariesName = rest[2];
const libraryOptions = librariesName === "libcuda"
  ? { cudart: null }
  : librariesName === "frequent"
  ? { frequentCalls: "libcuda" } as const
  : {};

const libraries = loadCudaLibraries(libraryOptions);
const driver = new CudaDriver(libraryOptions);
using cuda = new Cuda(new Session(driver));
const gpu = cuda.device(0);
using stream = gpu.createStream({ nonBlocking: true });
using other = gpu.createStream({ nonBlocking: true });
using event = gpu.createEvent();
using pool = gpu.createPool({ handleType: "posix-fd", releaseThreshold: Infinity });
using buffer = pool.allocate(byteLength, stream);
using four = pool.allocate(4, stream);
using hostBuffer = cuda.allocateHost(4);

if (job === "pairs") allocateAndFree().objects(operations);
else measureAll();

function measureAll(): void {
  using module = gpu.loadModule(ptx);
  using poolHandle = pool.exportHandle();
  using imported = gpu.importPool(poolHandle);
  const exportData = buffer.exportPointer();
  const kernels = { none: module.kernel("none"), three: module.kernel("three"), twelve: module.kernel("twelve") };

  const launches = (layers: Pick<Work, "objects"> & { byteLength: number; handle: bigint }): Work => {
    const parameters = driver.createKernelParameters(layers.byteLength);
    const extra = (parameters as unknown as { extra: Uint8Array }).extra;
    const { handle } = layers;
    const streamHandle = stream.unsafeHandle;
    return {
      raw(count) {
        for (let done = 0; done < count; done++) {
          libraries.driver.cuLaunchKernel(handle, 1, 1, 1, 32, 1, 1, 0, streamHandle, 0n, extra);
        }
      },
      driver(count) {
        for (let done = 0; done < count; done++) {
          driver.launchKernel(0, handle, 1, 1, 1, 32, 1, 1, 0, streamHandle, parameters);
        }
      },
      objects: layers.objects,
    };
  };
  const moduleHandle = driver.moduleLoadData(0, ptx);
  const functionNamed = (name: string) => driver.moduleGetFunction(moduleHandle, name);

  const works: Record<string, Work> = {
    "allocate and free": allocateAndFree(),
    "record an event": recordEvent(),
    "wait for an event": waitForEvent(),
    "ask for an event": queryEvent(),
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
    "import and free": importAndFree(),
    "copy 4 bytes": copyFourBytes(),
    "copy 4 bytes to the host": copyFourBytesToHost(),
  };
  console.log(JSON.stringify(job === "garbage" ? garbageOf(works) : timesOf(works)));
  driver.moduleUnload(0, moduleHandle);

  function importAndFree(): Work {
    const { memPoolImportPointer, freeAsync } = libraries.frequent;
    const { out, handleOut } = outParameter();
    const poolHandle = imported.unsafeHandle;
    const streamHandle = stream.unsafeHandle;
    return {
      raw(count) {
        for (let done = 0; done < count; done++) {
          memPoolImportPointer(out, poolHandle, exportData);
          freeAsync(handleOut[0]!, streamHandle);
        }
      },
      driver(count) {
        for (let done = 0; done < count; done++) {
          driver.freeAsync(0, driver.memPoolImportPointer(0, poolHandle, exportData), streamHandle);
        }
      },
      objects(count) {
        for (let done = 0; done < count; done++) imported.importPointer(exportData, byteLength).free(stream);
      },
    };
  }
}

function timesOf(works: Readonly<Record<string, Work>>): OverheadTimes {
  const times: OverheadTimes = {};
  for (const name of Object.keys(works)) times[name] = { raw: [], driver: [], objects: [] };
  for (let round = -warmUpRounds; round < rounds; round++) {
    for (const [name, work] of Object.entries(works)) {
      for (const layer of ["raw", "driver", "objects"] as const) {
        const elapsed = nanosecondsOf(work[layer]);
        if (round >= 0) times[name]![layer].push(elapsed);
      }
    }
  }
  return times;
}

function garbageOf(works: Readonly<Record<string, Work>>): OverheadGarbage {
  for (let round = 0; round < warmUpRounds; round++) {
    for (const { objects } of Object.values(works)) objects(operations);
  }
  return Object.fromEntries(
    Object.entries(works).map(([name, { objects }]) => {
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
  // A stream takes only so much before it lets the host wait.
  stream.synchronize();
  other.synchronize();
  return elapsed * 1e6 / operations;
}

function outParameter(): { out: bigint; handleOut: BigUint64Array } {
  const handleOut = new BigUint64Array(1);
  return { out: addressOf(handleOut), handleOut };
}

function allocateAndFree(): Work {
  const { mallocFromPoolAsync, freeAsync } = libraries.frequent;
  const { out, handleOut } = outParameter();
  const poolHandle = pool.unsafeHandle;
  const streamHandle = stream.unsafeHandle;
  return {
    raw(count) {
      for (let done = 0; done < count; done++) {
        mallocFromPoolAsync(out, 1048576n, poolHandle, streamHandle);
        freeAsync(handleOut[0]!, streamHandle);
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

function recordEvent(): Work {
  const { eventRecord } = libraries.frequent;
  const eventHandle = event.unsafeHandle;
  const streamHandle = stream.unsafeHandle;
  return {
    raw(count) {
      for (let done = 0; done < count; done++) eventRecord(eventHandle, streamHandle);
    },
    driver(count) {
      for (let done = 0; done < count; done++) driver.eventRecord(0, eventHandle, streamHandle);
    },
    objects(count) {
      for (let done = 0; done < count; done++) stream.record(event);
    },
  };
}

function waitForEvent(): Work {
  const { streamWaitEvent } = libraries.frequent;
  const eventHandle = event.unsafeHandle;
  const streamHandle = other.unsafeHandle;
  return {
    raw(count) {
      for (let done = 0; done < count; done++) streamWaitEvent(streamHandle, eventHandle, 0);
    },
    driver(count) {
      for (let done = 0; done < count; done++) driver.streamWaitEvent(0, streamHandle, eventHandle);
    },
    objects(count) {
      for (let done = 0; done < count; done++) other.wait(event);
    },
  };
}

function queryEvent(): Work {
  const { eventQuery } = libraries.frequent;
  const eventHandle = event.unsafeHandle;
  return {
    raw(count) {
      for (let done = 0; done < count; done++) eventQuery(eventHandle);
    },
    driver(count) {
      for (let done = 0; done < count; done++) driver.eventQuery(eventHandle);
    },
    objects(count) {
      for (let done = 0; done < count; done++) event.query();
    },
  };
}

function copyFourBytes(): Work {
  const { memcpyHtoDAsync } = libraries.frequent;
  const source = new Uint8Array(new Float32Array([2.5]).buffer);
  const { address } = buffer;
  const streamHandle = stream.unsafeHandle;
  return {
    raw(count) {
      for (let done = 0; done < count; done++) memcpyHtoDAsync(address, source, 4n, streamHandle);
    },
    driver(count) {
      for (let done = 0; done < count; done++) driver.memcpyHtoDAsync(0, address, source, streamHandle);
    },
    objects(count) {
      for (let done = 0; done < count; done++) buffer.copyFrom(source);
    },
  };
}

function copyFourBytesToHost(): Work {
  const { memcpyDtoHAsync } = libraries.frequent;
  const target = new Uint8Array(hostBuffer.buffer);
  const { address } = four;
  const streamHandle = stream.unsafeHandle;
  return {
    raw(count) {
      for (let done = 0; done < count; done++) memcpyDtoHAsync(target, address, 4n, streamHandle);
    },
    driver(count) {
      for (let done = 0; done < count; done++) driver.memcpyDtoHAsync(0, target, address, streamHandle);
    },
    objects(count) {
      for (let done = 0; done < count; done++) four.copyTo(hostBuffer);
    },
  };
}
