/** Launches in clusters, cooperative and dependent launches, and launches with a priority. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { type Driver, functionAttribute } from "../../src/driver.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import type { CudaDevice } from "../../src/objects/cuda_device.ts";
import type { LaunchOptions } from "../../src/objects/kernels/launch_options.ts";
import { Session } from "../../src/session.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { CudaError, cudaErrorNumbers } from "../../src/support/errors.ts";
import { type DeviceAttributeName, deviceAttributes } from "../../src/support/device_attributes.ts";
import { countCalls } from "../sharing/channel/channel_peers.ts";
import { adaptedDriver } from "../support/adapted_driver.ts";
import { driversUnderTest, testOnEachDriver } from "../support/drivers.ts";
import { Gate } from "../support/gate.ts";
import { assertLeavesNothing } from "../support/resources.ts";
import { test } from "../support/test.ts";
import { clustersPtx, dependentPtx, gridBarrierPtx } from "./launch_kernels.ts";

/** Declares a test for each driver. It is skipped where the device has not what the test needs. */
function testOnDevicesWith(needed: DeviceAttributeName, name: string, body: (gpu: CudaDevice) => Promise<void>): void {
  for (const driver of driversUnderTest) {
    const run = async () => {
      using cuda = new Cuda(new Session(driver.open()));
      await body(cuda.device(0));
    };
    const skip = driver.skip || !has(driver.open(), needed) && `the device's attribute ${needed} is 0`;
    test(`${name} [${driver.name}]`, { skip }, () => assertLeavesNothing(run));
  }
}

function has(driver: Driver, name: DeviceAttributeName): boolean {
  const value = driver.deviceGetAttribute(0, deviceAttributes[name]);
  driver.close();
  return value !== 0;
}

/** What the blocks of a grid store that is launched in clusters: the number of the next block of the cluster. */
function neighborsIn([width, height]: readonly [number, number], [x, y]: readonly [number, number]): Uint32Array {
  return Uint32Array.from({ length: width * height }, (_, block) => {
    const [column, row] = [block % width, Math.floor(block / width)];
    const next = (column % x + (row % y) * x + 1) % (x * y);
    const [left, top] = [column - column % x, row - row % y];
    return left + next % x + (top + Math.floor(next / x)) * width;
  });
}

testOnDevicesWith("clusterLaunch", "blocks of a cluster read each other's shared memory", async (gpu) => {
  using pool = gpu.createPool();
  using module = gpu.loadModule(clustersPtx);
  const kernel = module.kernel("neighbors");
  const [width, height] = [8, 4];
  using stored = pool.allocateArray(Uint32Array, width * height);
  for (const [x, y] of [[1, 1], [2, 1], [2, 4], [8, 1], [4, 2]] as const) {
    kernel.launch({ grid: [width, height], block: 32, cluster: [x, y] }, stored);
    assertEquals(await stored.toTypedArray(), neighborsIn([width, height], [x, y]), `${x} x ${y}`);
  }
  // Without the option, each block is a cluster of its own.
  kernel.launch({ grid: [width, height], block: 32 }, stored);
  assertEquals(await stored.toTypedArray(), neighborsIn([width, height], [1, 1]));
});

testOnDevicesWith(
  "clusterLaunch",
  "a kernel opts in to clusters of more than 8 blocks if the device has them",
  async (gpu) => {
    using pool = gpu.createPool();
    using module = gpu.loadModule(clustersPtx);
    const kernel = module.kernel("neighbors");
    assert(kernel.maxActiveClusters({ block: 32, cluster: 8 }) > 0);
    using stored = pool.allocateArray(Uint32Array, 32);
    // An H100 has clusters of 16 blocks, unless it is a partition with too few multiprocessors.
    if (kernel.maxActiveClusters({ block: 32, cluster: 16 }) > 0) {
      kernel.launch({ grid: 32, block: 32, cluster: 16 }, stored);
      assertEquals(await stored.toTypedArray(), neighborsIn([32, 1], [16, 1]));
    }
    assertThrows(
      () => kernel.launch({ grid: 64, block: 32, cluster: 64 }, stored),
      CudaError,
      "in clusters of 64 blocks",
    );
    kernel.launch({ grid: 32, block: 32, cluster: 2 }, stored);
    assertEquals(await stored.toTypedArray(), neighborsIn([32, 1], [2, 1]));
  },
);

testOnDevicesWith("clusterLaunch", "a kernel with a cluster of its own is launched without the option", async (gpu) => {
  using pool = gpu.createPool();
  using module = gpu.loadModule(clustersPtx);
  const kernel = module.kernel("pairs");
  using stored = pool.allocateArray(Uint32Array, 8);
  kernel.launch({ grid: 8, block: 32 }, stored);
  assertEquals(await stored.toTypedArray(), neighborsIn([8, 1], [2, 1]));
  kernel.launch({ grid: 8, block: 32, cluster: 2 }, stored);
  assertEquals(await stored.toTypedArray(), neighborsIn([8, 1], [2, 1]));
  assertThrows(() => kernel.launch({ grid: 8, block: 32, cluster: 4 }, stored), CudaError, "in clusters of 4 blocks");
});

testOnDevicesWith("cooperativeLaunch", "the blocks of a cooperative launch wait for each other", async (gpu) => {
  using pool = gpu.createPool();
  using module = gpu.loadModule(gridBarrierPtx);
  const kernel = module.kernel("meet");
  const block = 64;
  const grid = kernel.maxActiveBlocksPerMultiprocessor(block) * gpu.attribute("multiProcessorCount");
  using arrived = pool.allocateArray(Uint32Array, 1);
  using first = pool.allocateArray(Uint32Array, grid);
  using second = pool.allocateArray(Uint32Array, grid);
  arrived.fill(0);
  kernel.launch({ grid, block, cooperative: true }, arrived, first, second);
  assertEquals(await second.toTypedArray(), Uint32Array.from({ length: grid }, (_, index) => (index + 1) % grid + 1));
  const error = assertThrows(
    () => kernel.launch({ grid: grid + 1, block, cooperative: true }, arrived, first, second),
    CudaError,
    `at most ${grid} such blocks run at once`,
  ) as CudaError;
  assertEquals(error.code, "cudaErrorCooperativeLaunchTooLarge");
});

testOnEachDriver("a dependent launch sees what the kernel in front of it has written", async (cuda, { name }) => {
  const gpu = cuda.device(0);
  // Without clusters, a GPU is older than dependent launches.
  if (name !== "software" && gpu.attribute("clusterLaunch") === 0) return;
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using module = gpu.loadModule(dependentPtx);
  const [produce, consume] = [module.kernel("produce"), module.kernel("consume")];
  using produced = pool.allocateArray(Uint32Array, 2, stream);
  using started = pool.allocateArray(Uint32Array, 1, stream);
  using consumed = pool.allocateArray(Uint32Array, 1, stream);
  let early = 0;
  for (const programmaticStreamSerialization of [false, true, true, true, true, true]) {
    started.fill(0);
    produced.fill(0);
    const shape = { grid: 1, block: 1, stream };
    produce.launch(shape, produced, started, 10_000);
    consume.launch({ ...shape, programmaticStreamSerialization }, produced, started, consumed);
    const [value, seen] = await produced.toTypedArray();
    assertEquals([value, ...await consumed.toTypedArray()], [42, 43]);
    if (!programmaticStreamSerialization) assertEquals(seen, 0);
    early += seen!;
  }
  // CUDA promises nothing, but a GPU with nothing else to do starts the second kernel early.
  assertEquals(early > 0, name !== "software");
});

testOnEachDriver("a launch has any priority of the device's range", async (cuda) => {
  const gpu = cuda.device(0);
  const { least, greatest } = gpu.streamPriorityRange();
  using pool = gpu.createPool();
  using module = gpu.loadModule(fillPtx);
  const fill = module.kernel("fill");
  using buffer = pool.allocate(64);
  for (let priority = least; priority >= greatest; priority--) {
    fill.launch({ grid: 1, block: 32, priority }, buffer, 64, 0x01010101 * (1 - priority));
    assertEquals(await buffer.read(Uint8Array), new Uint8Array(64).fill(1 - priority));
  }
  for (const priority of [greatest - 1, least + 1]) {
    assertThrows(
      () => fill.launch({ grid: 1, block: 32, priority }, buffer, 64, 0),
      RangeError,
      `Cannot use ${priority} as a launch's priority: it must be from ${greatest}`,
    );
  }
  assertThrows(
    () => fill.launch({ grid: 1, block: 32, priority: 0n as never }, buffer, 64, 0),
    TypeError,
    "Cannot use a bigint as a launch's priority",
  );
});

testOnEachDriver("only a launch that asks for something is extended, and its buffers are tracked", (_, { open }) => {
  const driver = open();
  using cuda = new Cuda(new Session(driver));
  const gpu = cuda.device(0);
  using own = gpu.createStream();
  using other = gpu.createStream();
  using pool = gpu.createPool();
  using module = gpu.loadModule(fillPtx);
  const fill = module.kernel("fill");
  // A free does not wait for a launch that is over.
  using gate = new Gate(cuda);
  gate.hold(other);
  using allocated = gpu.createEvent();
  const callsOf = (options: Partial<LaunchOptions>) => {
    const buffer = pool.allocate(64, own);
    own.record(allocated);
    other.wait(allocated);
    using counter = countCalls(driver);
    fill.launch({ grid: 1, block: 32, stream: other, ...options }, buffer, 64, 1);
    buffer.free();
    const { launchKernel = 0, launchKernelEx = 0, streamWaitEvent = 0 } = counter.calls;
    return [launchKernel, launchKernelEx, streamWaitEvent > 0];
  };
  // The free waits for the stream of the launch.
  assertEquals(callsOf({}), [1, 0, true]);
  const nothing = { cooperative: false, programmaticStreamSerialization: false };
  assertEquals(callsOf(nothing), [1, 0, true]);
  assertEquals(callsOf({ ...nothing, priority: 0 }), [0, 1, true]);
  // What one launch asked for is gone in the next.
  assertEquals(callsOf(nothing), [1, 0, true]);
  gate.open();
  gpu.synchronize();
});

/** A software device that takes every launch, as a GPU with clusters does, and the calls that its driver gets. */
function withClusters(methods: Partial<Driver> = {}): { driver: Driver; calls: unknown[] } {
  const software = new SoftwareDriver({ devices: 1, peers: false });
  const calls: unknown[] = [];
  const driver = adaptedDriver(software, {
    deviceGetAttribute(device, attribute) {
      return attribute === deviceAttributes.clusterLaunch ? 1 : software.deviceGetAttribute(device, attribute);
    },
    funcSetAttribute: (_, attribute, value) => void calls.push([attribute, value]),
    launchKernelEx: (_, { clusterDim, ...others }) => void calls.push({ clusterDim: clusterDim?.slice(), ...others }),
    ...methods,
  });
  return { driver, calls };
}

test("a kernel opts in to large clusters once, and to nothing for others", () => {
  const { driver, calls } = withClusters();
  using cuda = new Cuda(new Session(driver));
  using module = cuda.device(0).loadModule(fillPtx);
  const fill = module.kernel("fill");
  const others = { cooperative: false, programmaticStreamSerialization: false, priority: undefined };
  fill.launch({ grid: [4, 2, 2], block: 1, cluster: [2, 2, 2] }, 0n, 0, 0);
  assertEquals(calls.splice(0), [{ clusterDim: [2, 2, 2], ...others }]);
  const optIn = [functionAttribute.nonPortableClusterSizeAllowed, 1];
  fill.launch({ grid: [4, 4, 1], block: 1, cluster: [4, 4] }, 0n, 0, 0);
  assertEquals(calls.splice(0), [optIn, { clusterDim: [4, 4, 1], ...others }]);
  fill.launch({ grid: 32, block: 1, cluster: 16, cooperative: true, priority: -1 }, 0n, 0, 0);
  assertEquals(calls.splice(0), [{ ...others, clusterDim: [16, 1, 1], cooperative: true, priority: -1 }]);
  assertThrows(
    () => fill.launch({ grid: [8, 6], block: 1, cluster: [2, 4] }, 0n, 0, 0),
    RangeError,
    "Cannot launch fill with a grid of 8 x 6 blocks in clusters of 2 x 4: the 6 blocks in y must be a multiple of the " +
      "cluster's 4, such as 8",
  );
  assertEquals(calls, []);
  // deno-lint-ignore no-explicit-any
  const launch = (options: any) => () => fill.launch({ block: 1, cluster: [1, 2], ...options }, 0n, 0, 0);
  assertThrows(launch({}), TypeError, "with undefined as its grid");
  assertThrows(launch({ grid: null }), TypeError, "with null as its grid");
  assertThrows(launch({ grid: "4" }), TypeError, "with a string as its grid");
  assertThrows(launch({ grid: { x: 4, y: 2 } }), TypeError, "with an Object as its grid");
  assertEquals(calls, []);
});

test("the error of a cooperative launch that is too large says how many blocks fit", () => {
  const { driver } = withClusters({
    launchKernelEx() {
      throw new CudaError(cudaErrorNumbers.cudaErrorCooperativeLaunchTooLarge, "cuLaunchKernelEx");
    },
  });
  using cuda = new Cuda(new Session(driver));
  using module = cuda.device(0).loadModule(fillPtx);
  assertThrows(
    () => module.kernel("fill").launch({ grid: 100, block: [512, 2], cooperative: true }, 0n, 0, 0),
    CudaError,
    "Cannot launch fill with a grid of 100 blocks of 512 x 2 threads, all at once: cuLaunchKernelEx failed: " +
      "cudaErrorCooperativeLaunchTooLarge (720); at most 8 such blocks run at once, 2 on each of 4 multiprocessors",
  );
});
