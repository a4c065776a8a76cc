/** Buffers of memory that other code owns. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import type { CudaDevice } from "../../src/objects/cuda_device.ts";
import type { DeviceBuffer } from "../../src/memory/device_buffer.ts";
import { CudaError } from "../../src/support/errors.ts";
import { Session } from "../../src/session.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { warningsOf } from "../support/warnings.ts";

const byteLength = 4096;

/** Uses a wrapped buffer in every way, and returns what its first 8 bytes are then. */
async function use(gpu: CudaDevice, wrapped: DeviceBuffer): Promise<number[]> {
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using module = gpu.loadModule(fillPtx);
  using copy = pool.allocate(byteLength, stream);
  wrapped.stream = stream;
  module.kernel("fill").launch({ grid: 4, block: 64, stream }, wrapped, byteLength, 0x01010101);
  copy.copyFrom(wrapped);
  assertEquals(await copy.read(Uint32Array, { length: 2 }), Uint32Array.of(0x01010101, 0x01010101));
  copy.fill(2);
  copy.subarray(0, 16).copyTo(wrapped);
  wrapped.subarray(2, 4).fill(3);
  wrapped.as(Uint16Array).fill(0x0404, stream, { begin: 2, end: 3 });
  wrapped.copyFrom(Uint8Array.of(5), stream, { byteOffset: 7 });
  wrapped.copyFrom(new Uint8Array(2 ** 11), stream, { byteOffset: 2048 });
  assertEquals(wrapped.readSync(Uint8Array, { length: 8 }), await wrapped.read(Uint8Array, { length: 8 }));
  return [...await wrapped.read(Uint8Array, { length: 8 })];
}

testOnEachDriver("memory of each kind can be wrapped, used, and forgotten", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using hostPool = cuda.createHostPool({ numaNode: 0 });
  hostPool.setAccess(gpu, "read-write");
  using host = cuda.allocateHost(2 * byteLength);
  using pooled = pool.allocate(2 * byteLength);
  using unpooled = gpu.allocate(2 * byteLength);
  using inHostPool = hostPool.allocate(2 * byteLength, gpu.defaultStream);
  gpu.synchronize();
  for (const { address } of [host, pooled, unpooled, inHostPool]) {
    // Within the allocation, up to its end.
    const wrapped = gpu.wrap(address + BigInt(byteLength), byteLength);
    assertEquals([wrapped.pool, wrapped.device, wrapped.byteLength], [undefined, gpu, byteLength]);
    assertEquals(wrapped.address, address + BigInt(byteLength));
    assertEquals(await use(gpu, wrapped), [2, 2, 3, 3, 4, 4, 2, 5]);
    for (const fail of [() => wrapped.exportPointer(), () => wrapped.exportHandle(), () => wrapped.hostView()]) {
      assertThrows(fail, TypeError, "it wraps memory that other code");
    }
    // Its stream was disposed.
    wrapped.free();
    assertThrows(() => wrapped.address, ReferenceError, "it was freed");
    assertThrows(() => wrapped.free(), ReferenceError, "it was freed");
    using again = gpu.wrap(address, 2 * byteLength);
    assertEquals(again.readSync(Uint8Array, { byteOffset: byteLength, length: 4 }), Uint8Array.of(2, 2, 3, 3));
  }
  assertEquals(new Uint8Array(host.buffer, byteLength, 4), Uint8Array.of(2, 2, 3, 3));
});

testOnEachDriver("wrapped memory that is forgotten while it is read is read to the end", async (cuda) => {
  const gpu = cuda.device(0);
  using memory = gpu.allocate(byteLength);
  memory.fill(6);
  const wrapped = gpu.wrap(memory.address, byteLength);
  const reading = wrapped.read(Uint8Array);
  wrapped.free();
  assertEquals(await reading, new Uint8Array(byteLength).fill(6));
  await assertRejects(() => wrapped.read(Uint8Array), ReferenceError);
});

testOnEachDriver(
  "wrapped memory is neither freed nor reported when the Cuda object is disposed",
  async (_cuda, { open }) => {
    const warnings = await warningsOf(() => {
      using cuda = new Cuda(new Session(open(), { debug: true }));
      const gpu = cuda.device(0);
      using memory = gpu.allocate(byteLength);
      const forgotten = gpu.wrap(memory.address, byteLength);
      forgotten.fill(1);
      gpu.synchronize();
      return Promise.resolve();
    });
    assertEquals(warnings, []);
  },
);

testOnEachDriver("a copy between buffers that wrap the same memory is refused if its ranges overlap", async (cuda) => {
  const gpu = cuda.device(0);
  using memory = gpu.allocate(byteLength);
  memory.fill(0);
  using wrapped = gpu.wrap(memory.address + 16n, 64);
  using again = gpu.wrap(memory.address, 64);
  wrapped.fill(9);
  const overlapping = [
    () => memory.copyFrom(wrapped, undefined, { byteOffset: 17 }),
    () => memory.copyFrom(wrapped, undefined, { byteOffset: 16 }),
    () => wrapped.copyFrom(again),
    () => again.subarray(0, 32).copyTo(wrapped),
  ];
  for (const copy of overlapping) {
    assertThrows(copy, RangeError, "because the buffers have the same memory");
  }
  memory.copyFrom(wrapped, undefined, { byteOffset: 80 });
  wrapped.subarray(0, 16).copyTo(again);
  assertEquals(await memory.read(Uint8Array, { length: 160 }), new Uint8Array(160).fill(9, 0, 144));
});

testOnEachDriver("addresses that cannot be wrapped", (cuda) => {
  const gpu = cuda.device(0);
  using memory = gpu.allocate(1000);
  const { address } = memory;
  // deno-lint-ignore no-explicit-any
  const wrap = (...args: any[]) => () => gpu.wrap(...args as [bigint, number]);
  assertThrows(wrap(0n, 4), RangeError, "it is the null pointer");
  assertThrows(wrap(-1n, 4), RangeError, "must be from 1 to 2 ** 64 - 1");
  assertThrows(wrap(2n ** 64n, 4), RangeError, "must be from 1 to 2 ** 64 - 1");
  assertThrows(wrap(Number(address), 4), TypeError, "it must be a bigint");
  assertThrows(wrap(memory, 4), TypeError, "Cannot wrap memory at a DeviceBuffer: give its address");
  assertThrows(wrap(new Float32Array(4), 4), TypeError, "allocate a buffer and copyFrom it");
  for (const bytes of [0, -1, 1.5, 2 ** 60]) assertThrows(wrap(address, bytes), RangeError);
  assertThrows(wrap(address), TypeError, "the size of wrapped memory");
  assertThrows(wrap(address, 4, { stream: 0n }), TypeError, "as a stream");
  assertThrows(
    wrap(address, 1001),
    RangeError,
    "the allocation there has 1000 bytes, 1000 of them from this address on",
  );
  assertThrows(wrap(address + 999n, 2), RangeError, "1 of them from this address on");
  for (const unknown of [12345n, address + 2n ** 40n, 2n ** 63n]) {
    const error = assertThrows(wrap(unknown, 4), CudaError, "CUDA knows no memory at this address");
    assertEquals(error.code, "cudaErrorInvalidValue");
  }
  const stream = gpu.createStream();
  stream[Symbol.dispose]();
  assertThrows(wrap(address, 4, { stream }), ReferenceError);
  memory.free();
  assertThrows(wrap(address, 4), CudaError, "CUDA knows no memory at this address");
});

testOnEachDriver("memory of another device cannot be wrapped, page-locked memory on any", (cuda) => {
  const [gpu, peer] = cuda.devices;
  using memory = peer!.allocate(1000);
  const error = assertThrows(() => gpu!.wrap(memory.address, 4), RangeError);
  assert(error.message.endsWith("on device 0: the memory is on device 1; call wrap of that device"), error.message);
  using host = cuda.allocateHost(4);
  for (const device of cuda.devices) {
    using wrapped = device.wrap(host.address, 4);
    wrapped.fill(7);
    device.synchronize();
    assertEquals(new Uint8Array(host.buffer), new Uint8Array(4).fill(7));
    new Uint8Array(host.buffer).fill(0);
  }
}, { devices: 2 });
