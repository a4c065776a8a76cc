import { defaultStream, type Driver, functionAttribute, memHandleType } from "../../../src/driver.ts";
import { deviceAttributes } from "../../../src/support/device_attributes.ts";
import { CudaError } from "../../../src/support/errors.ts";
import { attemptEach } from "../attempts.ts";
import { type Launch, launch, loadKernel } from "../kernels.ts";
import { launchFill, readBytes } from "../launch.ts";
import { prepareLongWork } from "../long_work.ts";
import { allocate, createPool, createShareablePool, onDevice } from "../pools.ts";
import type { Fixture, Situation } from "../situation.ts";

const kibibyte = 2 ** 10;
const { sharedSizeBytes, maxDynamicSharedSizeBytes } = functionAttribute;
/** The bytes of shared memory that the kernel `share` declares. */
const declaredBytes = 16;
/** An address where no device has an allocation. */
const farAddress = 0x0060_0000_0000n;

/** Returns the run function of a row that launches a kernel in several shapes. */
function launchInShapes(shapes: Readonly<Record<string, Launch>>, kernelName = "nothing") {
  return ({ driver }: Fixture) => {
    const kernel = loadKernel(driver, 0, kernelName);
    return attemptEach(
      Object.fromEntries(
        Object.entries(shapes).map(([name, shape]) => [name, () => {
          launch(driver, kernel, shape);
          driver.deviceSynchronize(0);
        }]),
      ),
    );
  };
}

/** Returns `maxSharedMemoryPerBlockOptin` of device 0. */
function maxSharedMemory(driver: Driver): number {
  return driver.deviceGetAttribute(0, deviceAttributes.maxSharedMemoryPerBlockOptin);
}

/** Launches a kernel that should fail. Returns the results of the launch and of two synchronizations after it. */
function launchAndWait(driver: Driver, device: number, start: () => void) {
  return attemptEach({
    launch: start,
    synchronize: () => driver.deviceSynchronize(device),
    "synchronize again": () => driver.deviceSynchronize(device),
  });
}

/** Runs a kernel on device 0 that writes to address 0, and waits until its failure is known. */
function loseContext(driver: Driver): void {
  const kernel = loadKernel(driver, 0, "store");
  launch(driver, kernel, { parameters: [0n, 1] });
  try {
    driver.deviceSynchronize(0);
  } catch (error) {
    if (error instanceof CudaError) return;
    throw error;
  }
}

/** Rows about launches, and about a device on which a kernel failed. */
export const situations: readonly Situation[] = [
  {
    name: "a kernel launched stores a value",
    run({ driver }) {
      const address = driver.malloc(0, 8);
      driver.memsetAsync(0, address, 0, 8, defaultStream);
      launch(driver, loadKernel(driver, 0, "store"), { parameters: [address + 4n, 0x04030201] });
      return readBytes(driver, 0, address, 8);
    },
  },
  {
    name: "launches with no blocks in one of the dimensions",
    run: launchInShapes({ x: { grid: [0, 1, 1] }, y: { grid: [1, 0, 1] }, z: { grid: [1, 1, 0] } }),
  },
  {
    name: "launches with as many blocks in y and z as there can be, and one more",
    run: launchInShapes({
      "65535 in y": { grid: [1, 65535, 1] },
      "65536 in y": { grid: [1, 65536, 1] },
      "65535 in z": { grid: [1, 1, 65535] },
      "65536 in z": { grid: [1, 1, 65536] },
    }),
  },
  {
    name: "launches with as many blocks in x as there can be, and one more",
    run({ driver }) {
      const kernel = loadKernel(driver, 0, "nothing");
      // The launches are not waited for.
      return attemptEach({
        "2 ** 31 - 1": () => launch(driver, kernel, { grid: [2 ** 31 - 1, 1, 1] }),
        "2 ** 31": () => launch(driver, kernel, { grid: [2 ** 31, 1, 1] }),
        "2 ** 32 - 1": () => launch(driver, kernel, { grid: [2 ** 32 - 1, 1, 1] }),
      });
    },
  },
  {
    name: "launches with no threads in one of the dimensions",
    run: launchInShapes({ x: { block: [0, 1, 1] }, y: { block: [1, 0, 1] }, z: { block: [1, 1, 0] } }),
  },
  {
    name: "launches with as many threads in each dimension as there can be, and one more",
    run: launchInShapes({
      "1024 in x": { block: [1024, 1, 1] },
      "1025 in x": { block: [1025, 1, 1] },
      "1024 in y": { block: [1, 1024, 1] },
      "1025 in y": { block: [1, 1025, 1] },
      "64 in z": { block: [1, 1, 64] },
      "65 in z": { block: [1, 1, 65] },
    }),
  },
  {
    name: "launches with as many threads of a block as there can be, and more, by dimensions that there can be",
    run: launchInShapes({ "32 x 32": { block: [32, 32, 1] }, "32 x 33": { block: [32, 33, 1] } }),
  },
  {
    name: "launches with more threads of a block than the kernel's maxntid",
    run: launchInShapes(
      {
        "32": { block: [32, 1, 1] },
        "33": { block: [33, 1, 1] },
        "16 x 2": { block: [16, 2, 1] },
        "1024": { block: [1024, 1, 1] },
      },
      "narrow",
    ),
  },
  {
    name: "launches with as much dynamic shared memory as there can be, and more",
    run: launchInShapes({
      "48 KiB": { sharedMemoryBytes: 48 * kibibyte },
      "48 KiB and a byte": { sharedMemoryBytes: 48 * kibibyte + 1 },
      "1 MiB": { sharedMemoryBytes: 1024 * kibibyte },
    }),
  },
  {
    name: "launches with dynamic shared memory beside the kernel's own",
    run({ driver }) {
      const kernel = loadKernel(driver, 0, "share");
      const address = driver.malloc(0, 4);
      const parameters = [address, 0];
      return attemptEach({
        "48 KiB together": () => launch(driver, kernel, { parameters, sharedMemoryBytes: 48 * kibibyte - 16 }),
        "a byte more": () => launch(driver, kernel, { parameters, sharedMemoryBytes: 48 * kibibyte - 15 }),
        synchronize: () => driver.deviceSynchronize(0),
      });
    },
  },
  {
    name: "launches with fewer and with more parameter bytes than the kernel has",
    run: launchInShapes(
      {
        none: {},
        "one parameter": { parameters: [0n] },
        "a part of the second": { parameters: [0n, 0] },
        all: { parameters: [0n, 0n] },
        "4 bytes more": { parameters: [0n, 0n, 0] },
        "a parameter more": { parameters: [0n, 0n, 0n] },
      },
      "ignore",
    ),
  },
  {
    name: "a kernel without parameters launched with some",
    run: launchInShapes({ "4 bytes": { parameters: [0] }, "8 bytes": { parameters: [0n] } }),
  },
  {
    name: "the null kernel launched",
    run: ({ driver }) => {
      // Creates the device's context.
      driver.deviceSynchronize(0);
      launch(driver, { device: 0, handle: 0n });
    },
  },
  {
    name: "a kernel launched on a stream of another device, and for another device",
    devices: 2,
    run({ driver }) {
      const kernel = loadKernel(driver, 0, "nothing");
      const stream = driver.streamCreateWithPriority(0, 0, 0);
      const peerStream = driver.streamCreateWithPriority(1, 0, 0);
      return attemptEach({
        "the other's stream": () => launch(driver, kernel, { stream: peerStream }),
        "the other current": () => launch(driver, { ...kernel, device: 1 }, { stream }),
        "the other's default stream": () => launch(driver, { ...kernel, device: 1 }),
        "the other current, its stream": () => launch(driver, { ...kernel, device: 1 }, { stream: peerStream }),
      });
    },
  },
  {
    name: "a kernel writes to address 0",
    run({ driver }) {
      const kernel = loadKernel(driver, 0, "store");
      return launchAndWait(driver, 0, () => launch(driver, kernel, { parameters: [0n, 1] }));
    },
  },
  {
    name: "a kernel reads from address 0",
    run({ driver }) {
      const kernel = loadKernel(driver, 0, "copy");
      const address = driver.malloc(0, 4);
      return launchAndWait(driver, 0, () => launch(driver, kernel, { parameters: [address, 0n] }));
    },
  },
  {
    name: "a kernel writes where no allocation is",
    run({ driver }) {
      const kernel = loadKernel(driver, 0, "store");
      return launchAndWait(driver, 0, () => launch(driver, kernel, { parameters: [farAddress, 1] }));
    },
  },
  {
    name: "a kernel writes to an address that is not aligned",
    run({ driver }) {
      const address = driver.malloc(0, 16);
      const kernel = loadKernel(driver, 0, "store");
      return launchAndWait(driver, 0, () => launch(driver, kernel, { parameters: [address + 1n, 1] }));
    },
  },
  {
    name: "a kernel writes where no allocation is, to an address that is not aligned: whether it is told of either",
    run({ driver }) {
      const kernel = loadKernel(driver, 0, "store");
      const { synchronize } = launchAndWait(
        driver,
        0,
        () => launch(driver, kernel, { parameters: [farAddress + 2n, 1] }),
      );
      return ["cudaErrorIllegalAddress", "cudaErrorMisalignedAddress"].includes(String(synchronize));
    },
  },
  {
    name: "a kernel stops at a trap",
    run({ driver }) {
      const kernel = loadKernel(driver, 0, "stop");
      return launchAndWait(driver, 0, () => launch(driver, kernel));
    },
  },
  {
    name: "a kernel writes to its shared memory",
    run({ driver }) {
      const address = driver.malloc(0, 4);
      launch(driver, loadKernel(driver, 0, "share"), { parameters: [address, 12] });
      return readBytes(driver, 0, address, 4);
    },
  },
  {
    name: "a kernel writes 16 MiB past its shared memory",
    run({ driver }) {
      const address = driver.malloc(0, 4);
      const kernel = loadKernel(driver, 0, "share");
      return launchAndWait(driver, 0, () => launch(driver, kernel, { parameters: [address, 2 ** 24] }));
    },
  },
  {
    name: "a kernel writes to page-locked host memory at the address that the allocation gave",
    run({ driver }) {
      const { address, buffer } = driver.hostAlloc(4);
      new Uint8Array(buffer).fill(0);
      const kernel = loadKernel(driver, 0, "store");
      const outcome = launchAndWait(driver, 0, () => launch(driver, kernel, { parameters: [address, 0x04030201] }));
      return { ...outcome, bytes: [...new Uint8Array(buffer)] };
    },
  },
  {
    name: "a kernel of another device writes to cudaMalloc memory before and after peer access is enabled",
    devices: 2,
    run({ driver }) {
      const address = driver.malloc(0, 4);
      driver.deviceEnablePeerAccess(1, 0);
      launch(driver, loadKernel(driver, 1, "store"), { parameters: [address, 0x01010101] });
      driver.deviceSynchronize(1);
      const enabled = readBytes(driver, 0, address, 4);
      driver.deviceDisablePeerAccess(1, 0);
      const kernel = loadKernel(driver, 1, "store");
      return {
        enabled,
        disabled: launchAndWait(driver, 1, () => launch(driver, kernel, { parameters: [address, 2] })),
      };
    },
  },
  {
    name: "after a kernel failed: calls about its device",
    run({ driver }) {
      loseContext(driver);
      return attemptEach({
        driverGetVersion: () => void driver.driverGetVersion(),
        getDeviceCount: () => void driver.getDeviceCount(),
        deviceGetName: () => void driver.deviceGetName(0),
        deviceGetUuid: () => void driver.deviceGetUuid(0),
        deviceGetAttribute: () => void driver.deviceGetAttribute(0, 1),
        memGetInfo: () => void driver.memGetInfo(0),
        deviceSynchronize: () => driver.deviceSynchronize(0),
      });
    },
  },
  {
    name: "after a kernel failed: calls about streams and events",
    run({ driver }) {
      const stream = driver.streamCreateWithPriority(0, 0, 0);
      const [done, unrecorded] = [driver.eventCreateWithFlags(0, 0), driver.eventCreateWithFlags(0, 0)];
      driver.eventRecord(0, done, stream);
      driver.deviceSynchronize(0);
      loseContext(driver);
      return attemptEach({
        streamQuery: () => driver.streamQuery(0, stream),
        streamSynchronize: () => driver.streamSynchronize(0, stream),
        streamWaitEvent: () => driver.streamWaitEvent(0, stream, done),
        eventQuery: () => driver.eventQuery(done),
        "eventQuery of one never recorded": () => driver.eventQuery(unrecorded),
        eventSynchronize: () => driver.eventSynchronize(done),
        eventElapsedTime: () => driver.eventElapsedTime(done, done),
        eventRecord: () => driver.eventRecord(0, done, stream),
        streamCreateWithPriority: () => driver.streamCreateWithPriority(0, 0, 0),
        eventCreateWithFlags: () => driver.eventCreateWithFlags(0, 0),
        eventDestroy: () => driver.eventDestroy(0, done),
        streamDestroy: () => driver.streamDestroy(0, stream),
      });
    },
  },
  {
    name: "after a kernel failed: the priority of a stream",
    run({ driver }) {
      const stream = driver.streamCreateWithPriority(0, 0, 0);
      loseContext(driver);
      return driver.streamGetPriority(0, stream);
    },
  },
  {
    name: "after a kernel failed: calls about memory",
    run({ driver }) {
      const address = driver.malloc(0, 64);
      const host = driver.hostAlloc(64);
      loseContext(driver);
      return attemptEach({
        memGetAddressRange: () => driver.memGetAddressRange(0, address),
        ipcGetMemHandle: () => driver.ipcGetMemHandle(0, address),
        memcpyHtoDAsync: () => driver.memcpyHtoDAsync(0, address, new Uint8Array(4), defaultStream),
        memcpyDtoHAsync: () => driver.memcpyDtoHAsync(0, new Uint8Array(4), address, defaultStream),
        memcpyPeerAsync: () => driver.memcpyPeerAsync(0, address, 0, address + 32n, 0, 4, defaultStream),
        memsetAsync: () => driver.memsetAsync(0, address, 0, 4, defaultStream),
        malloc: () => driver.malloc(0, 4),
        hostAlloc: () => driver.hostAlloc(4),
        free: () => driver.free(0, address),
        "free of nothing": () => driver.free(0, 0n),
        freeHost: () => driver.freeHost(host),
      });
    },
  },
  {
    name: "after a kernel failed: calls about pools",
    run({ driver }) {
      const pool = createShareablePool(driver);
      const address = allocate(driver, pool, 64);
      driver.deviceSynchronize(0);
      loseContext(driver);
      return attemptEach({
        deviceGetDefaultMemPool: () => driver.deviceGetDefaultMemPool(0),
        deviceGetMemPool: () => driver.deviceGetMemPool(0),
        memPoolGetAttribute: () => void driver.memPoolGetAttribute(pool, 4),
        memPoolSetAttribute: () => driver.memPoolSetAttribute(pool, 4, 1n),
        memPoolGetAccess: () => driver.memPoolGetAccess(pool, onDevice(0)),
        memPoolExportToShareableHandle: () =>
          void driver.memPoolExportToShareableHandle(pool, memHandleType.posixFileDescriptor),
        memPoolExportPointer: () => driver.memPoolExportPointer(address),
        memPoolTrimTo: () => driver.memPoolTrimTo(pool, 0n),
        mallocFromPoolAsync: () => allocate(driver, pool, 64),
        freeAsync: () => driver.freeAsync(0, address, defaultStream),
        memPoolCreate: () => createPool(driver),
      });
    },
  },
  {
    name: "after a kernel failed: calls about modules and launches",
    run({ driver }) {
      const kernel = loadKernel(driver, 0, "nothing");
      const image = ".version 7.0\n.target sm_60\n.address_size 64\n.visible .entry other() { ret; }\n";
      const module = driver.moduleLoadData(0, image);
      loseContext(driver);
      return attemptEach({
        launchKernel: () => launch(driver, kernel),
        occupancy: () => void driver.occupancyMaxActiveBlocksPerMultiprocessor(kernel.handle, 32, 0),
        moduleLoadData: () => driver.moduleLoadData(0, image),
        moduleUnload: () => driver.moduleUnload(0, module),
      });
    },
  },
  {
    name: "after a kernel failed: work that was behind it, and an event behind that",
    run({ driver }) {
      const kernel = loadKernel(driver, 0, "store");
      const event = driver.eventCreateWithFlags(0, 0);
      const { keepBusy } = prepareLongWork(driver, 0);
      launch(driver, kernel, { parameters: [0n, 1] });
      keepBusy(defaultStream, 16);
      return attemptEach({
        record: () => driver.eventRecord(0, event, defaultStream),
        synchronize: () => driver.eventSynchronize(event),
        query: () => driver.eventQuery(event),
      });
    },
  },
  {
    name: "after a kernel failed: another device, and memory copied from it",
    devices: 2,
    run({ driver }) {
      const address = driver.malloc(1, 4);
      const stream = driver.streamCreateWithPriority(1, 0, 0);
      const kernel = loadKernel(driver, 1, "store");
      loseContext(driver);
      return attemptEach({
        launchKernel: () => launch(driver, kernel, { stream, parameters: [address, 1] }),
        streamSynchronize: () => driver.streamSynchronize(1, stream),
        memcpyDtoHAsync: () => driver.memcpyDtoHAsync(1, new Uint8Array(4), address, stream),
        malloc: () => driver.malloc(1, 4),
        deviceSynchronize: () => driver.deviceSynchronize(1),
        "deviceSynchronize of the device that failed": () => driver.deviceSynchronize(0),
      });
    },
  },
  {
    name: "a failure known by a query of the stream, without any synchronization",
    async run({ driver }) {
      const stream = driver.streamCreateWithPriority(0, 0, 0);
      const kernel = loadKernel(driver, 0, "store");
      launch(driver, kernel, { stream, parameters: [0n, 1] });
      while (!driver.streamQuery(0, stream)) await new Promise((resolve) => setTimeout(resolve, 1));
    },
  },
  {
    name: "two fills of the same memory on one stream: the later is seen",
    run({ driver }) {
      const address = driver.malloc(0, 64);
      launchFill(driver, 0, { address, byteLength: 64, pattern: 0x01010101 });
      launchFill(driver, 0, { address, byteLength: 64, pattern: 0x02020202, grid: 4, block: 64 });
      return readBytes(driver, 0, address, 64).every((byte) => byte === 2);
    },
  },
  {
    name: "blocks that fit on a multiprocessor, by threads of a block",
    run({ driver }) {
      const { handle } = loadKernel(driver, 0, "nothing");
      const fits = (blockSize: number) => () =>
        driver.occupancyMaxActiveBlocksPerMultiprocessor(handle, blockSize, 0) >= 1;
      return attemptEach({ "1": fits(1), "32": fits(32), "33": fits(33), "1024": fits(1024), "1025": fits(1025) });
    },
  },
  {
    name: "blocks that fit on a multiprocessor, for no threads or fewer",
    run({ driver }) {
      const { handle } = loadKernel(driver, 0, "nothing");
      const fits = (blockSize: number) => () => driver.occupancyMaxActiveBlocksPerMultiprocessor(handle, blockSize, 0);
      return attemptEach({ "0": fits(0), "-1": fits(-1) });
    },
  },
  {
    name: "blocks that fit on a multiprocessor, by shared memory of a block",
    run({ driver }) {
      const { handle } = loadKernel(driver, 0, "nothing");
      const fits = (bytes: number) => () => driver.occupancyMaxActiveBlocksPerMultiprocessor(handle, 32, bytes) >= 1;
      return attemptEach({
        "48 KiB": fits(48 * kibibyte),
        "48 KiB and a byte": fits(48 * kibibyte + 1),
        "1 MiB": fits(1024 * kibibyte),
      });
    },
  },
  {
    name: "blocks that fit on a multiprocessor, of more threads than the kernel's maxntid",
    run({ driver }) {
      const { handle } = loadKernel(driver, 0, "narrow");
      return driver.occupancyMaxActiveBlocksPerMultiprocessor(handle, 64, 0) >= 1;
    },
  },
  {
    name: "blocks of the null kernel that fit on a multiprocessor",
    run({ driver }) {
      driver.deviceSynchronize(0);
      return driver.occupancyMaxActiveBlocksPerMultiprocessor(0n, 32, 0);
    },
  },
  {
    name: "the static shared memory of kernels, and their largest dynamic shared memory by default",
    run({ driver }) {
      const valueOf = (name: string, attribute: number) => () =>
        driver.funcGetAttribute(loadKernel(driver, 0, name).handle, attribute);
      return attemptEach({
        "nothing: static": valueOf("nothing", sharedSizeBytes),
        "nothing: dynamic": valueOf("nothing", maxDynamicSharedSizeBytes),
        "share: static": valueOf("share", sharedSizeBytes),
        "share: dynamic": valueOf("share", maxDynamicSharedSizeBytes),
      });
    },
  },
  {
    name: "the largest dynamic shared memory of a kernel set to what the device allows, and to more",
    run({ driver }) {
      const { handle } = loadKernel(driver, 0, "nothing");
      const maximum = maxSharedMemory(driver);
      const set = (bytes: number) => () => driver.funcSetAttribute(handle, maxDynamicSharedSizeBytes, bytes);
      return attemptEach({
        all: set(maximum),
        "a byte more": set(maximum + 1),
        "is as set first": () => driver.funcGetAttribute(handle, maxDynamicSharedSizeBytes) === maximum,
      });
    },
  },
  {
    name: "the largest dynamic shared memory of a kernel that declares some set to what the device allows, and to more",
    run({ driver }) {
      const { handle } = loadKernel(driver, 0, "share");
      const maximum = maxSharedMemory(driver) - declaredBytes;
      const set = (bytes: number) => () => driver.funcSetAttribute(handle, maxDynamicSharedSizeBytes, bytes);
      return attemptEach({ "all together": set(maximum), "a byte more": set(maximum + 1) });
    },
  },
  {
    name: "the largest dynamic shared memory of a kernel set to less than none",
    run: ({ driver }) =>
      driver.funcSetAttribute(loadKernel(driver, 0, "nothing").handle, maxDynamicSharedSizeBytes, -1),
  },
  {
    name: "the static shared memory of a kernel set",
    run: ({ driver }) => driver.funcSetAttribute(loadKernel(driver, 0, "nothing").handle, sharedSizeBytes, 0),
  },
  {
    name: "attributes of the null kernel",
    run({ driver }) {
      driver.deviceSynchronize(0);
      return attemptEach({
        get: () => driver.funcGetAttribute(0n, maxDynamicSharedSizeBytes),
        set: () => driver.funcSetAttribute(0n, maxDynamicSharedSizeBytes, 1024),
      });
    },
  },
  {
    name: "launches with as much dynamic shared memory as was set, and a byte more",
    run({ driver }) {
      const kernel = loadKernel(driver, 0, "nothing");
      const maximum = maxSharedMemory(driver);
      const set = (bytes: number) => () => driver.funcSetAttribute(kernel.handle, maxDynamicSharedSizeBytes, bytes);
      const start = (sharedMemoryBytes: number) => () => launch(driver, kernel, { sharedMemoryBytes });
      return attemptEach({
        "64 KiB set": set(64 * kibibyte),
        "64 KiB": start(64 * kibibyte),
        "64 KiB and a byte": start(64 * kibibyte + 1),
        "all set": set(maximum),
        all: start(maximum),
        "all and a byte": start(maximum + 1),
        "1 KiB set": set(kibibyte),
        "1 KiB": start(kibibyte),
        "1 KiB and a byte": start(kibibyte + 1),
        synchronize: () => driver.deviceSynchronize(0),
      });
    },
  },
  {
    name: "launches with all shared memory of the device, the kernel's own and dynamic, and a byte more",
    run({ driver }) {
      const kernel = loadKernel(driver, 0, "share");
      const maximum = maxSharedMemory(driver) - declaredBytes;
      const parameters = [driver.malloc(0, 4), 0];
      return attemptEach({
        set: () => driver.funcSetAttribute(kernel.handle, maxDynamicSharedSizeBytes, maximum),
        "all together": () => launch(driver, kernel, { parameters, sharedMemoryBytes: maximum }),
        "a byte more": () => launch(driver, kernel, { parameters, sharedMemoryBytes: maximum + 1 }),
        synchronize: () => driver.deviceSynchronize(0),
      });
    },
  },
  {
    name: "blocks that fit on a multiprocessor, by shared memory of a block, after more was allowed",
    run({ driver }) {
      const { handle } = loadKernel(driver, 0, "nothing");
      const maximum = maxSharedMemory(driver);
      const fits = (bytes: number) => () => driver.occupancyMaxActiveBlocksPerMultiprocessor(handle, 32, bytes) >= 1;
      return attemptEach({
        before: fits(48 * kibibyte + 1),
        set: () => driver.funcSetAttribute(handle, maxDynamicSharedSizeBytes, maximum),
        "48 KiB and a byte": fits(48 * kibibyte + 1),
        all: fits(maximum),
        "all and a byte": fits(maximum + 1),
      });
    },
  },
];
