import { assert, assertEquals, assertThrows } from "@std/assert";
import type { Cuda, CudaDevice, CudaStream, MemoryLocation, MemoryPool } from "../../mod.ts";
import { CudaError } from "../../src/support/errors.ts";
import { testOnEachDriver } from "../support/drivers.ts";

/** Runs a test on each driver that finds pools by location. */
function testByLocation(
  name: string,
  body: (cuda: Cuda, gpu: CudaDevice, stream: CudaStream) => void | Promise<void>,
): void {
  testOnEachDriver(name, async (cuda) => {
    if (cuda.driverVersion < 13000) return;
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    await body(cuda, gpu, stream);
  });
}

testByLocation("each location has a default pool, which is current until another one is", (cuda, gpu) => {
  const places: readonly MemoryLocation[] = [gpu, "host", { numaNode: 0 }];
  for (const location of places) {
    for (const type of ["pinned", "managed"] as const) {
      const pool = cuda.getDefaultPool(location, { type });
      assert(cuda.getDefaultPool(location, { type }) === pool);
      assert(cuda.getCurrentPool(location, { type }) === pool);
      assertEquals([pool.isManaged, pool.location], [type === "managed", location]);
      assert(pool.device === (location === gpu && type === "pinned" ? gpu : undefined));
      pool[Symbol.dispose]();
      assert(cuda.getDefaultPool(location, { type }) === pool);
    }
  }
  assert(cuda.getDefaultPool(gpu) === gpu.defaultPool && cuda.getCurrentPool(gpu) === gpu.currentPool);
  const nowhere = cuda.getDefaultPool(undefined, { type: "managed" });
  assertEquals([nowhere.isManaged, nowhere.location], [true, undefined]);
});

testByLocation(
  "the memory of default pools of the host and of managed memory is the host's",
  async (cuda, gpu, stream) => {
    const pools = [
      cuda.getDefaultPool("host"),
      cuda.getDefaultPool({ numaNode: 0 }),
      cuda.getDefaultPool(undefined, { type: "managed" }),
      cuda.getDefaultPool(gpu, { type: "managed" }),
    ];
    for (const pool of pools) {
      using buffer = pool.allocate(1000, { stream });
      await stream.finished();
      new Uint8Array(buffer.hostView()).fill(6);
      assertEquals((await buffer.read(Uint8Array, { stream }))[999], 6);
    }
    assertThrows(() => pools[0]!.exportHandle(), TypeError, "default pools cannot be exported");
    assertThrows(() => pools[2]!.exportHandle(), TypeError, "no other process can map managed memory");
  },
);

testByLocation("a pool is made current for its location and kind, until it is disposed", (cuda, gpu, stream) => {
  const own: readonly [MemoryLocation | undefined, "pinned" | "managed", () => MemoryPool][] = [
    [gpu, "pinned", () => gpu.createPool()],
    ["host", "pinned", () => cuda.createHostPool()],
    [{ numaNode: 0 }, "pinned", () => cuda.createHostPool({ numaNode: 0 })],
    [undefined, "managed", () => cuda.createManagedPool()],
    [gpu, "managed", () => cuda.createManagedPool({ preferredLocation: gpu })],
    ["host", "managed", () => cuda.createManagedPool({ preferredLocation: "host" })],
  ];
  for (const [location, type, create] of own) {
    const before = cuda.getCurrentPool(location, { type });
    {
      using pool = create();
      assertEquals(pool.location, location);
      cuda.setCurrentPool(pool.location, pool);
      assert(cuda.getCurrentPool(location, { type }) === pool);
      assert(cuda.getDefaultPool(location, { type }) === before, `${type} ${JSON.stringify(location)}`);
    }
    const name = `${type} ${JSON.stringify(location)}`;
    assert(cuda.getCurrentPool(location, { type }) === before, name);
    // A pool that still has a buffer is not current any more either.
    const kept = create();
    cuda.setCurrentPool(location, kept);
    const buffer = kept.allocate(64, { stream });
    const warn = console.warn;
    console.warn = () => {};
    try {
      kept[Symbol.dispose]();
    } finally {
      console.warn = warn;
    }
    assert(cuda.getCurrentPool(location, { type }) === before);
    buffer.free();
    assertThrows(() => cuda.setCurrentPool(location, kept), ReferenceError, "it was disposed");
    cuda.setCurrentPool(location, before);
  }
});

testByLocation("pools of other locations, and what is not a location, are refused", (cuda, gpu) => {
  using onHost = cuda.createHostPool();
  using onDevice = gpu.createPool();
  using managed = cuda.createManagedPool({ preferredLocation: gpu });
  const set = (location: unknown, pool: unknown) => cuda.setCurrentPool(location as never, pool as never);
  assertThrows(() => set("host", onDevice), RangeError, "the pool is of device 0");
  assertThrows(() => set({ numaNode: 0 }, onHost), RangeError, "the pool is of the host");
  assertThrows(() => set(undefined, managed), RangeError, "the pool is of device 0");
  assertThrows(() => set(gpu, onHost), RangeError, "in host memory the current pool of device 0");
  assertThrows(() => gpu.currentPool = managed, RangeError, "of managed memory the current pool of device 0");
  assertThrows(() => set("host", gpu), TypeError, "give a MemoryPool of the location");
  assertThrows(() => set("host", undefined), TypeError, "undefined");
  const get = (location: unknown, kind?: unknown) => cuda.getDefaultPool(location as never, kind as never);
  assertThrows(() => get("host-numa-current"), TypeError, 'give a CudaDevice, "host" or { numaNode: 0 }');
  assertThrows(() => get("hots"), TypeError, 'did you mean "host"?');
  assertThrows(() => get(undefined), TypeError, 'only pools of the type "managed"');
  assertThrows(() => get(0), TypeError, "with the location 0");
  assertThrows(() => get("host", "managed"), TypeError, '{ type: "managed" }');
  assertThrows(() => get("host", { type: "mangaed" }), TypeError, 'did you mean "managed"?');
  assertThrows(() => get("host", { kind: "managed" }), TypeError, "type");
  assertThrows(() => get({ numaNode: 1.5 }), RangeError, "nodes are whole numbers");
  assertThrows(() => get({ numaNode: 4000 }), CudaError, "the machine may have no such node");
});

testByLocation("the host's access to pools is asked for, and set where CUDA allows it", (cuda, gpu) => {
  using onHost = cuda.createHostPool({ numaNode: 0 });
  using onDevice = gpu.createPool();
  assertEquals([onHost.getAccess("host"), onHost.getAccess({ numaNode: 0 })], ["read-write", "read-write"]);
  assertEquals([onDevice.getAccess("host"), onDevice.getAccess(gpu)], ["none", "read-write"]);
  const refused = assertThrows(() => onDevice.setAccess("host", "read-write"), CudaError, "createManagedPool");
  assert(refused.message.startsWith('Cannot set access to "read-write" for the host'));
  assertThrows(() => onHost.setAccess("host", "none"), CudaError, "always read-write");
  assertThrows(() => onDevice.getAccess("cpu" as never), TypeError, "Cannot use a string as a device");
  assertThrows(() => onDevice.setAccess("host", "all" as never), TypeError, '"none", "read" or "read-write"');
});

testByLocation("pools have the location that they were created for", (cuda, gpu) => {
  using onDevice = gpu.createPool();
  using onHost = cuda.createHostPool();
  using onNode = cuda.createHostPool({ numaNode: 0 });
  assertEquals([onDevice, onHost, onNode].map(({ location }) => location), [gpu, "host", { numaNode: 0 }]);
  assert(gpu.defaultPool.location === gpu);
  assertThrows(() => (onDevice as { location: unknown }).location = "host", TypeError, "a pool keeps its location");
});
