import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { ptx } from "../../kernels/fill.ts";
import { CudaError } from "../../src/support/errors.ts";
import { testOnEachDriver } from "../support/drivers.ts";

testOnEachDriver(
  "the host reads and writes a host pool's memory in place, and kernels with access do too",
  async (cuda) => {
    const gpu = cuda.device(0);
    for (const options of [{}, { numaNode: 0 }]) {
      using stream = gpu.createStream();
      using pool = cuda.createHostPool(options);
      assertEquals([pool.device, pool.handleType, pool.getAccess(gpu)], [undefined, "none", "none"]);
      using array = pool.allocateArray(Uint32Array, 1000, stream);
      assert(array.device === gpu && array.stream === stream);
      const view = new Uint32Array(array.hostView());
      assertEquals(view.length, 1000);
      view.fill(3);
      assertEquals(await array.toTypedArray(), new Uint32Array(1000).fill(3));
      pool.setAccess(gpu, "read-write");
      assertEquals(pool.getAccess(gpu), "read-write");
      array.fill(0x01020304);
      assertEquals(await array.toTypedArray(), new Uint32Array(1000).fill(0x01020304));
      array.as(BigUint64Array).fill(0x0000000700000006n);
      assertEquals((await array.toTypedArray()).subarray(0, 3), Uint32Array.of(6, 7, 6));
      array.fill(3);
      using module = gpu.loadModule(ptx);
      module.kernel("fill").launch({ grid: 4, block: 64, stream }, array.subarray(500), 2000, 9);
      stream.synchronize();
      assertEquals([view[499], view[500], view[999]], [3, 9, 9]);
      assert(array.hostView() === array.hostView());
      const part = new Uint32Array(array.subarray(499, 501).hostView());
      assertEquals([...part], [3, 9]);
      array.free();
      assertEquals([view.length, part.length], [0, 0]);
      assertThrows(() => array.hostView(), ReferenceError, "it was freed");
    }
  },
);

testOnEachDriver("a host pool takes the properties of pools, and names those that it cannot have", (cuda) => {
  const gpu = cuda.device(0);
  using pool = cuda.createHostPool({ numaNode: 0, releaseThreshold: Infinity, maxSize: 2 ** 26 });
  assertEquals(pool.releaseThreshold, Infinity);
  assertThrows(() => pool.allocate(100), TypeError, "without a stream");
  assertThrows(() => pool.allocate(2 ** 27, gpu.defaultStream), CudaError, "cudaErrorMemoryAllocation");
  assertThrows(() => cuda.createHostPool({ numaNode: -1 }), RangeError, "nodes are whole numbers from 0");
  assertThrows(() => cuda.createHostPool({ numaNode: 2 ** 32 }), RangeError, "on NUMA node 4294967296");
  assertThrows(() => cuda.createHostPool({ numaNode: "0" as never }), TypeError, "Cannot use a string as a NUMA node");
  assertThrows(() => cuda.createHostPool({ numaNode: 4000 }), CudaError, "on NUMA node 4000");
  const error = assertThrows(() => cuda.createHostPool({ handleType: "posix-fd" }), CudaError);
  assertStringIncludes(error.message, "name a NUMA node: { numaNode: 0 }");
  assertThrows(() => gpu.currentPool = pool, RangeError, "in host memory the current pool of device 0");
  using devicePool = gpu.createPool();
  using buffer = devicePool.allocate(100);
  const unseen = assertThrows(() => buffer.hostView(), CudaError);
  assertStringIncludes(unseen.message, "memory of a pool from Cuda.createHostPool, can be viewed in place");
});

testOnEachDriver("a host pool's buffers are copied to and from every source and target", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using hostPool = cuda.createHostPool({ numaNode: 0 });
  using devicePool = gpu.createPool();
  const bytes = Uint8Array.from({ length: 1000 }, (_, index) => index);
  using onHost = hostPool.allocate(1000, stream);
  using onDevice = devicePool.allocate(1000, stream);
  using again = hostPool.allocate(1000, stream);
  using ofNoPool = gpu.allocate(1000);
  using pinned = cuda.allocateHost(1000);
  onHost.copyFrom(bytes);
  onHost.copyTo(onDevice);
  onDevice.copyTo(again);
  ofNoPool.copyFrom(again, stream);
  stream.synchronize();
  new Uint8Array(again.hostView()).fill(0);
  again.copyFrom(ofNoPool, stream);
  again.copyTo(pinned);
  stream.synchronize();
  assertEquals(new Uint8Array(pinned.buffer), bytes);
  assertEquals(new Uint8Array(again.hostView()), bytes);
  onHost.copyFrom(pinned);
  assertEquals(await onHost.read(Uint8Array), bytes);
});

testOnEachDriver("a host pool's buffers are copied on streams of both devices", (cuda) => {
  const [first, second] = [cuda.device(0), cuda.device(1)];
  using stream = second.createStream();
  using allocating = first.createStream();
  using hostPool = cuda.createHostPool({ numaNode: 0 });
  hostPool.setAccess([first, second], "read-write");
  using devicePool = second.createPool();
  using onHost = hostPool.allocate(100, allocating);
  using onDevice = devicePool.allocate(100, stream);
  allocating.synchronize();
  new Uint8Array(onHost.hostView()).fill(5);
  onHost.copyTo(onDevice, stream);
  stream.synchronize();
  new Uint8Array(onHost.hostView()).fill(0);
  onHost.copyFrom(onDevice, stream);
  stream.synchronize();
  assertEquals(new Uint8Array(onHost.hostView()), new Uint8Array(100).fill(5));
}, { devices: 2 });

testOnEachDriver("a host pool is shared like any other pool, through any device", async (cuda) => {
  const gpu = cuda.device(0);
  const through = cuda.device(cuda.devices.length - 1);
  using stream = gpu.createStream();
  using pool = cuda.createHostPool({ numaNode: 0, handleType: "posix-fd" });
  using handle = pool.exportHandle();
  using buffer = pool.allocate(100_000, stream);
  new Uint8Array(buffer.hostView()).fill(6);
  await stream.finished();
  using imported = through.importPool(handle);
  assertEquals(imported.getAccess(through), "none");
  using again = gpu.importPool(handle);
  using mapped = imported.importPointer(buffer.exportPointer(), 100_000);
  assert(mapped.device === through);
  const view = new Uint8Array(mapped.hostView());
  assertEquals([view.length, view[0], view[99_999]], [100_000, 6, 6]);
  again.setAccess([...new Set([gpu, through])], "read-write");
  mapped.fill(8, through.defaultStream);
  through.synchronize();
  assertEquals(new Uint8Array(buffer.hostView())[50_000], 8);
  assertThrows(() => imported.importPointer(buffer.exportPointer(), 200_000), Error, "has allocated 100000");
  mapped.free();
  assertEquals(view.length, 0);
});

testOnEachDriver("views of host memory become empty when the driver closes", (cuda, driver) => {
  // If a driver is closed with buffers allocated, their views become empty and do not refer to freed memory.
  void driver;
  const gpu = cuda.device(0);
  const pool = cuda.createHostPool({ numaNode: 0 });
  const buffer = pool.allocate(100, gpu.defaultStream);
  const view = new Uint8Array(buffer.hostView());
  assertEquals(view.length, 100);
  cuda[Symbol.dispose]();
  assertEquals(view.length, 0);
  buffer[Symbol.dispose]();
  pool[Symbol.dispose]();
}, { makesMistakes: true });
