import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { ptx } from "../../kernels/fill.ts";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import type { CudaDevice, CudaStream, DeviceBuffer } from "../../mod.ts";
import { intercept } from "../../src/driver_layers.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { deviceAttributes } from "../../src/support/device_attributes.ts";
import { CudaError } from "../../src/support/errors.ts";
import { ManagedBudget } from "../../src/memory/managed/managed_budget.ts";
import { type TestNeeds, testOnEachDriver } from "../support/drivers.ts";
import { test } from "../support/test.ts";

/** Why a driver cannot run tests of pools of managed memory; undefined if it can. */
function refusal(cuda: Cuda): string | undefined {
  const gpu = cuda.device(0);
  if (cuda.driverVersion < 13000) return "pools of managed memory need CUDA 13";
  return gpu.attribute("concurrentManagedAccess") === 1 ? undefined : "the host may not access managed memory";
}

/** Runs a test on each driver that has pools of managed memory. */
function testManaged(
  name: string,
  body: (cuda: Cuda, gpu: CudaDevice, stream: CudaStream) => void | Promise<void>,
  needs: TestNeeds = {},
): void {
  testOnEachDriver(name, async (cuda) => {
    if (refusal(cuda) !== undefined) return;
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    await body(cuda, gpu, stream);
  }, needs);
}

const bytes = (buffer: DeviceBuffer) => new Uint8Array(buffer.hostView());

testManaged("the host and kernels use managed memory of a pool at one address", async (cuda, gpu, stream) => {
  using module = gpu.loadModule(ptx);
  for (const preferredLocation of [undefined, gpu, "host" as const, { numaNode: 0 }]) {
    using pool = cuda.createManagedPool(preferredLocation === undefined ? {} : { preferredLocation });
    assertEquals([pool.isManaged, pool.device, pool.handleType], [true, undefined, "none"]);
    assertEquals(pool.location, preferredLocation);
    assertEquals(pool.releaseThreshold, Infinity);
    using x = pool.allocateArray(Uint32Array, 1000, { stream });
    assert(x.isManaged && x.subarray(3).isManaged && x.device === gpu);
    await stream.finished();
    const view = new Uint32Array(x.hostView());
    view.fill(3);
    assertThrows(() => x[0 as never], TypeError, "it is managed memory; use a typed array over its hostView()");
    module.kernel("fill").launch({ grid: 4, block: 64, stream }, x.subarray(500), 2000, 9);
    await stream.finished();
    assertEquals([view.length, view[499], view[500], view[999]], [1000, 3, 9, 9]);
    assertEquals((await x.toTypedArray()).subarray(499, 501), Uint32Array.of(3, 9));
    x.free();
    assertEquals(view.length, 0);
  }
});

testManaged("the task program of managed memory runs", async (cuda, gpu, stream) => {
  using pool = cuda.createManagedPool({ preferredLocation: gpu });
  using module = gpu.loadModule(ptx);
  for (let task = 0; task < 4; task++) {
    const size = 64 << task % 4;
    using data = pool.allocate(8 * size * size, { stream });
    using result = pool.allocate(8 * size, { stream });
    await stream.finished();
    bytes(data).fill(1);
    data.prefetch(gpu, stream);
    module.kernel("fill").launch({ grid: size / 64, block: 64, stream }, result, 8 * size, task);
    data.discard(stream);
    result.prefetch("host", { stream });
    await stream.finished();
    assertEquals(new Uint32Array(result.hostView())[0], task);
  }
});

testManaged("managed memory is copied to and from every source and target", async (cuda, gpu, stream) => {
  using pool = cuda.createManagedPool();
  using devicePool = gpu.createPool();
  using hostPool = cuda.createHostPool({ numaNode: 0 });
  using other = pool.allocate(1000, stream);
  using onDevice = devicePool.allocate(1000, stream);
  using onHost = hostPool.allocate(1000, stream);
  using pinned = cuda.allocateHost(1000);
  using managed = pool.allocate(1000, stream);
  const data = Uint8Array.from({ length: 1000 }, (_, index) => index);
  managed.copyFrom(data);
  managed.copyTo(onDevice);
  onDevice.copyTo(other);
  other.copyTo(onHost);
  other.fill(0, stream);
  other.copyFrom(onHost, stream);
  other.copyTo(pinned);
  await stream.finished();
  assertEquals(new Uint8Array(pinned.buffer), data);
  // A view of managed memory is memory that copies read in stream order.
  onDevice.fill(0, stream);
  onDevice.copyFrom(bytes(other), stream);
  assertEquals(await onDevice.read(Uint8Array, { stream }), data);
  assertEquals(other.readSync(Uint8Array, { length: 3 }), data.subarray(0, 3));
  assertThrows(() => managed.copyFrom(managed.subarray(1, 11)), RangeError, "overlap");
});

testManaged("allocations of managed memory of every size are aligned and usable", async (cuda, gpu, stream) => {
  using pool = cuda.createManagedPool({ preferredLocation: gpu });
  for (const byteLength of [1, 3, 4, 255, 256, 1000, 4096, 65_537, 2 ** 20]) {
    using ofPool = pool.allocate(byteLength, { stream });
    using alone = gpu.allocateManaged(byteLength);
    for (const buffer of [ofPool, alone]) {
      assertEquals([buffer.byteLength, buffer.address % 256n], [byteLength, 0n]);
      buffer.fill(byteLength % 251, stream);
      await stream.finished();
      assertEquals([bytes(buffer)[0], bytes(buffer).at(-1)], [byteLength % 251, byteLength % 251]);
    }
  }
  assertEquals(pool.usage().used, 0);
  for (const wrong of [0, -1, 1.5]) {
    assertThrows(() => pool.allocate(wrong, { stream }), RangeError);
    assertThrows(() => gpu.allocateManaged(wrong), RangeError);
  }
  assertThrows(() => gpu.allocateManaged("4" as never), TypeError);
});

testManaged("many allocations of managed memory on several streams keep their contents", async (cuda, gpu, stream) => {
  using pool = cuda.createManagedPool();
  using second = gpu.createStream();
  const live: { readonly buffer: DeviceBuffer; readonly value: number }[] = [];
  for (let index = 0; index < 60; index++) {
    const on = index % 2 === 0 ? stream : second;
    const buffer = pool.allocate(1 + index * 97 % 5000, { stream: on });
    buffer.fill(index);
    live.push({ buffer, value: index });
    if (index % 3 === 2) live.splice(index % live.length, 1)[0]!.buffer.free();
  }
  for (const on of [stream, second]) await on.finished();
  for (const { buffer, value } of live) {
    assertEquals([bytes(buffer)[0], bytes(buffer).at(-1)], [value, value]);
    buffer.free();
  }
  assertEquals(pool.usage().used, 0);
});

testManaged("managed memory of no pool is used like that of a pool, and freed", async (_cuda, gpu, stream) => {
  using memory = gpu.allocateManaged(4096);
  assertEquals([memory.isManaged, memory.pool, memory.device], [true, undefined, gpu]);
  bytes(memory).fill(4);
  memory.prefetch(gpu, stream);
  assertEquals((await memory.read(Uint8Array, { stream }))[4095], 4);
  const view = bytes(memory);
  memory.free();
  assertEquals(view.length, 0);
  assertThrows(() => memory.prefetch("host", stream), ReferenceError, "it was freed");
  assertThrows(() => memory.advice.readMostly, ReferenceError, "it was freed");
  assertThrows(() => memory.discard(stream), ReferenceError, "it was freed");
  assertThrows(() => memory.hostView(), ReferenceError, "it was freed");
});

testManaged("a wrapped address of managed memory is managed", (_cuda, gpu) => {
  using memory = gpu.allocateManaged(4096);
  const wrapped = gpu.wrap(memory.address, 4096);
  assert(wrapped.isManaged);
  wrapped.advice.readMostly = true;
  assert(memory.advice.readMostly);
  assertThrows(() => wrapped.hostView(), TypeError, "wraps memory");
});

testManaged("advice about managed memory of no pool is set, and asked for", (_cuda, gpu, stream) => {
  using buffer = gpu.allocateManaged(2 ** 16);
  const { advice } = buffer;
  assertEquals([advice.readMostly, advice.lastPrefetchLocation], [false, undefined]);
  advice.readMostly = true;
  assertEquals([advice.readMostly, buffer.subarray(0, 4096).advice.readMostly], [true, true]);
  advice.readMostly = false;
  assertEquals(advice.readMostly, false);
  for (const location of [gpu, "host" as const]) {
    advice.preferredLocation = location;
    assertEquals(buffer.advice.preferredLocation, location);
  }
  advice.preferredLocation = undefined;
  assertEquals(advice.preferredLocation, undefined);
  advice.accessedBy = ["host", gpu];
  assertEquals(advice.accessedBy, [gpu, "host"]);
  advice.accessedBy = [gpu];
  assertEquals(advice.accessedBy, [gpu]);
  advice.accessedBy = [];
  assertEquals(advice.accessedBy, []);
  for (const location of [gpu, "host" as const, { numaNode: 0 }, "host-numa-current" as const]) {
    buffer.prefetch(location, stream);
    assertEquals(advice.lastPrefetchLocation, location);
  }
  assertStringIncludes(String(advice), "MemoryAdvice { readMostly: false, preferredLocation: none, accessedBy: none");
});

testManaged("memory of a pool has the pool's preferred location, and takes no advice", (cuda, gpu, stream) => {
  for (const preferredLocation of [gpu, "host" as const]) {
    using pool = cuda.createManagedPool({ preferredLocation });
    using buffer = pool.allocate(2 ** 16, { stream });
    stream.synchronize();
    const { advice } = buffer;
    assertEquals([advice.readMostly, advice.preferredLocation], [false, preferredLocation]);
    const set = [
      () => advice.readMostly = true,
      () => advice.preferredLocation = gpu,
      () => advice.accessedBy = [gpu],
    ];
    for (const call of set) {
      const { code, message } = assertThrows(call, CudaError);
      assertEquals(code, "cudaErrorNotSupported");
      assertStringIncludes(message, "CUDA takes no advice about memory of a pool");
    }
    buffer.prefetch(gpu, stream);
    assert(advice.lastPrefetchLocation === gpu);
  }
});

testManaged("the host and all devices always have access to managed memory", (cuda, gpu) => {
  using pool = cuda.createManagedPool();
  assertEquals(
    [pool.getAccess(gpu), pool.getAccess("host"), pool.getAccess({ numaNode: 0 })],
    Array(3).fill("read-write"),
  );
  pool.setAccess(gpu, "read-write");
  pool.setAccess("host", "read-write");
  assertThrows(() => pool.setAccess(gpu, "none"), TypeError, "the host and all devices always access it");
  assertThrows(() => pool.setAccess("host", "none"), TypeError, "the host and all devices always access it");
  assertThrows(() => pool.setAccess(gpu, "all" as never), TypeError, '"none", "read" or "read-write"');
  assertThrows(() => pool.getAccess("cpu" as never), TypeError, "as a device");
});

testManaged("parts of a buffer have advice of their own", (_cuda, gpu, stream) => {
  using memory = gpu.allocateManaged(2 ** 16);
  memory.subarray(0, 8192).advice.readMostly = true;
  assertEquals(
    [memory, memory.subarray(0, 8192), memory.subarray(8192)].map(({ advice }) => advice.readMostly),
    [false, true, false],
  );
  memory.subarray(0, 2 ** 15).prefetch(gpu, stream);
  assertEquals(memory.advice.lastPrefetchLocation, undefined);
  assert(memory.subarray(0, 2 ** 15).advice.lastPrefetchLocation === gpu);
});

testManaged("discarded memory is usable when it has been written again", async (cuda, gpu, stream) => {
  using pool = cuda.createManagedPool();
  using buffer = pool.allocate(2 ** 16, { stream });
  buffer.fill(1);
  buffer.discard(stream);
  buffer.fill(2);
  buffer.discard({ stream, prefetch: gpu });
  buffer.fill(3);
  assertEquals((await buffer.read(Uint8Array, { stream }))[0], 3);
  const { message, code } = assertThrows(() => buffer.discard(gpu.defaultStream), CudaError);
  assertEquals(code, "cudaErrorInvalidValue");
  assertStringIncludes(message, "CUDA discards no memory on a default stream; create a stream");
});

testManaged("what is not managed is neither moved, advised about, nor discarded", (cuda, gpu, stream) => {
  using pool = gpu.createPool();
  using hostPool = cuda.createHostPool({ numaNode: 0 });
  using alone = gpu.allocate(64);
  using onDevice = pool.allocate(64);
  using onHost = hostPool.allocate(64, { stream });
  for (const buffer of [alone, onDevice, onHost]) {
    assertEquals(buffer.isManaged, false);
    assertThrows(() => buffer.prefetch("host", stream), TypeError, "it is not managed memory");
    assertThrows(() => buffer.advice, TypeError, "Cuda.createManagedPool or CudaDevice.allocateManaged");
    assertThrows(() => buffer.discard(stream), TypeError, "it is not managed memory");
  }
  assertThrows(() => alone.hostView(), CudaError, "only managed memory");
  assertEquals([pool.isManaged, hostPool.isManaged], [false, false]);
});

testManaged("wrong places and advice are refused", (cuda, gpu, stream) => {
  using buffer = gpu.allocateManaged(64);
  const { advice } = buffer;
  const prefetch = (location: unknown) => buffer.prefetch(location as never, stream);
  assertThrows(() => prefetch("Host"), TypeError, 'did you mean "host"?');
  assertThrows(() => prefetch("cpu"), TypeError, 'give a CudaDevice, "host", "host-numa-current" or { numaNode: 0 }');
  assertThrows(() => prefetch(0), TypeError, "with the location 0");
  assertThrows(() => prefetch(undefined), TypeError, "with the location undefined");
  assertThrows(() => prefetch(stream), TypeError, "CudaStream");
  assertThrows(() => prefetch({ numaNode: -1 }), RangeError, "nodes are whole numbers");
  assertThrows(() => prefetch({ numaNode: 4000 }), CudaError, "the machine may have no such NUMA node");
  assertThrows(() => buffer.prefetch(gpu, 1 as never), TypeError, "prefetch(location, stream)");
  assertThrows(() => buffer.discard({ prefetched: gpu } as never), TypeError, '"prefetched"');
  assertThrows(() => buffer.discard({ stream, prefetch: "gpu" as never }), TypeError, "Cannot prefetch a discarded");
  assertThrows(() => advice.readMostly = 1 as never, TypeError, "readMostly");
  assertThrows(() => advice.accessedBy = gpu as never, TypeError, "give an array, also for one");
  assertThrows(() => advice.accessedBy = [{ numaNode: 0 }] as never, TypeError, "set accessedBy");
  assertThrows(() => advice.preferredLocation = "device" as never, TypeError, "Cannot prefer memory");
  assertThrows(() => (advice as { readmostly?: boolean }).readmostly = true, TypeError, "readMostly");
  assertThrows(() => (advice as { lastPrefetchLocation: unknown }).lastPrefetchLocation = gpu, TypeError, "prefetch");
  assertThrows(() => (buffer as { advice: unknown }).advice = {}, TypeError, "advice");
  const create = (options: unknown) => cuda.createManagedPool(options as never);
  assertThrows(() => create({ handleType: "posix-fd" }), TypeError, "no other process can map managed memory");
  assertThrows(() => create(gpu), TypeError, "{ preferredLocation: gpu }");
  assertThrows(() => create({ preferredLocation: "host-numa-current" }), TypeError, "host-numa-current");
  assertThrows(() => create({ preferredLocation: { numaNode: 4000 } }), CudaError, "NUMA node 4000");
  assertThrows(() => create({ maxSize: -1 }), RangeError, "maxSize");
  assertThrows(() => create({ maxSize: Infinity }), RangeError, "leave it out");
  assertThrows(() => create({ oversubscribe: 1 }), TypeError, "oversubscribe");
  assertThrows(() => create({ preferedLocation: gpu }), TypeError, "preferredLocation");
});

testManaged("no more managed memory is allocated than fits", (cuda, gpu, stream) => {
  const { total } = gpu.memoryInfo();
  using pool = cuda.createManagedPool({ preferredLocation: gpu });
  const ofPool = assertThrows(() => pool.allocate(2 * total, { stream }), CudaError);
  assertEquals(ofPool.code, "cudaErrorMemoryAllocation");
  const alone = assertThrows(() => gpu.allocateManaged(2 * total), CudaError);
  assertEquals(alone.code, "cudaErrorMemoryAllocation");
  assertStringIncludes(alone.message, `device 0 has ${total} bytes`);
  assertStringIncludes(alone.message, "oversubscribe: true");
  for (const preferredLocation of [gpu, undefined]) {
    const options = { maxSize: 2 * total, ...preferredLocation && { preferredLocation } };
    const refused = assertThrows(() => cuda.createManagedPool(options), RangeError);
    assertStringIncludes(refused.message, "oversubscribe: true, which may be very slow");
  }
  using large = cuda.createManagedPool({ maxSize: 2 * total, oversubscribe: true });
  using fits = large.allocate(64, { stream });
  assert(fits.isManaged);
  using small = cuda.createManagedPool({ maxSize: 2 ** 25 });
  assertEquals(assertThrows(() => small.allocate(2 ** 26, { stream }), CudaError).code, "cudaErrorMemoryAllocation");
  assertEquals(small.usage().used, 0);
});

testManaged(
  "a pool of managed memory that waits for memory says at once what can never fit",
  async (cuda, gpu, stream) => {
    using pool = cuda.createManagedPool({ preferredLocation: gpu });
    const { total } = gpu.memoryInfo();
    await assertRejects(() => pool.allocateAsync(2 * total, { stream }), CudaError, "the device has");
    using buffer = await pool.allocateAsync(64, { stream });
    assert(buffer.isManaged);
  },
);

testManaged("an allocator of managed memory hands out managed memory", async (cuda, gpu, stream) => {
  using pool = cuda.createManagedPool();
  using allocator = pool.createCachingAllocator();
  using buffer = allocator.allocate(1000, stream);
  assert(buffer.isManaged);
  await stream.finished();
  bytes(buffer).fill(5);
  buffer.prefetch(gpu, stream);
  assertEquals((await buffer.read(Uint8Array, { stream }))[999], 5);
});

testManaged("managed memory is not shared with other processes, and errors say so", (cuda, gpu, stream) => {
  using pool = cuda.createManagedPool();
  using ofPool = pool.allocate(64, { stream });
  using alone = gpu.allocateManaged(64);
  assertThrows(() => pool.exportHandle(), TypeError, "no other process can map managed memory");
  for (const buffer of [ofPool, alone]) {
    assertThrows(() => buffer.exportPointer(), TypeError, "Cannot export managed memory");
    assertThrows(() => buffer.exportHandle(), TypeError, "Cannot export managed memory");
  }
});

test(
  "where the host may not access managed memory while kernels run, views are refused",
  { skip: shimRefusal() },
  () => {
    const driver = new SoftwareDriver({ devices: 1, peers: false });
    const { concurrentManagedAccess } = deviceAttributes;
    const layer = intercept(driver, {
      deviceGetAttribute: (device, attribute) =>
        attribute === concurrentManagedAccess ? 0 : driver.deviceGetAttribute(device, attribute),
    });
    using cuda = new Cuda(new Session(layer));
    const gpu = cuda.device(0);
    using buffer = gpu.allocateManaged(64);
    assertThrows(() => buffer.hostView(), TypeError, "while kernels of device 0 run, whatever memory they use");
    buffer.fill(3);
    assertEquals(buffer.readSync(Uint8Array)[63], 3);
  },
);

test("what fits a device is counted by what is free, what is allocated, and what pools keep", () => {
  const megabyte = 2 ** 20;
  let free = 1000 * megabyte, unused = 0;
  const gpu = { ordinal: 0, memoryInfo: () => ({ free, total: 1100 * megabyte }) } as CudaDevice;
  const budget = new ManagedBudget(() => unused);
  const fits = (megabytes: number): boolean => {
    try {
      budget.check(megabytes * megabyte, gpu);
      return true;
    } catch (error) {
      assertEquals((error as CudaError).code, "cudaErrorMemoryAllocation");
      return false;
    }
  };
  assertEquals([fits(1101), fits(1001), fits(1000)], [false, false, true]);
  // 600 are allocated, and have not been on the device: they do not count as used.
  budget.add(600 * megabyte);
  assertEquals([fits(401), fits(400)], [false, true]);
  // Then they have.
  free = 400 * megabyte;
  assertEquals([fits(401), fits(400)], [false, true]);
  // They are freed, and their pool keeps them.
  budget.delete(600 * megabyte);
  unused = 600 * megabyte;
  assertEquals([fits(1001), fits(1000)], [false, true]);
  // The pool has given them back, and other memory has taken their place.
  unused = 0;
  assertEquals([fits(401), fits(400)], [false, true]);
  free = 1000 * megabyte;
  assertEquals([fits(1001), fits(1000)], [false, true]);
});

testManaged(
  "managed memory that is not freed is reported, and what is printed says that it is managed",
  (cuda, gpu) => {
    using pool = cuda.createManagedPool({ preferredLocation: gpu });
    using buffer = pool.allocate(64);
    assertStringIncludes(String(buffer), "DeviceBuffer { managed, 64 bytes, 0x");
    assertStringIncludes(String(pool), "MemoryPool { managed, 1 buffer");
    assertEquals(JSON.parse(JSON.stringify(pool)).isManaged, true);
    assertEquals(JSON.parse(JSON.stringify(buffer)).isManaged, true);
    const without = cuda.createManagedPool();
    try {
      assertThrows(() => without.allocate(64), TypeError, "a pool of managed memory without a stream");
    } finally {
      without[Symbol.dispose]();
    }
    assertThrows(() => without.allocate(64, gpu.defaultStream), ReferenceError, "the pool of managed memory");
  },
);

testManaged("managed memory is neither moved nor discarded in a capture", (cuda, gpu, stream) => {
  using pool = cuda.createManagedPool();
  using buffer = pool.allocate(64, { stream });
  using graph = stream.capture(() => {
    const { code, message } = assertThrows(() => pool.allocate(64, { stream }), CudaError);
    assertEquals(code, "cudaErrorNotSupported");
    assertStringIncludes(message, "allocate it before the capture");
    for (const call of [() => buffer.prefetch(gpu, stream), () => buffer.discard(stream)]) {
      const { code } = assertThrows(call, CudaError);
      assertEquals(code, "cudaErrorStreamCaptureUnsupported");
    }
    buffer.fill(7, stream);
  });
  using exec = graph.instantiate();
  exec.launch(stream);
  stream.synchronize();
  assertEquals(bytes(buffer)[63], 7);
});

testManaged("a device uses managed memory of another one", async (cuda, gpu, stream) => {
  const other = cuda.device(1);
  using pool = cuda.createManagedPool({ preferredLocation: gpu });
  using elsewhere = other.createStream();
  using buffer: DeviceBuffer = pool.allocate(4096, { stream });
  buffer.fill(1);
  elsewhere.wait(stream);
  buffer.fill(2, { stream: elsewhere, byteOffset: 2048 });
  using ofOther = other.allocate(4096);
  ofOther.copyFrom(buffer, elsewhere);
  assertEquals((await ofOther.read(Uint8Array, { stream: elsewhere })).subarray(2047, 2049), Uint8Array.of(1, 2));
  using alone = gpu.allocateManaged(4096);
  alone.advice.accessedBy = cuda.devices.slice(0, 2);
  assertEquals(alone.advice.accessedBy, cuda.devices.slice(0, 2));
  buffer.prefetch(other, elsewhere);
  assert(buffer.advice.lastPrefetchLocation === other);
}, { devices: 2 });
