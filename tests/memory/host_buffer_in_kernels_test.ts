/** Kernels that read and write page-locked memory in place. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { ptx as saxpyPtx } from "../../kernels/saxpy.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { adaptedCuda } from "../support/adapted_driver.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { test } from "../support/test.ts";

const count = 1000;

testOnEachDriver("a kernel reads and writes page-locked memory in place, which the host sees then", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using module = gpu.loadModule(saxpyPtx);
  const saxpy = module.kernel("saxpy");
  using host = cuda.allocateHost(8 * count);
  const x = new Float32Array(host.buffer, 0, count).map((_, index) => index);
  const y = new Float32Array(host.buffer, 4 * count, count);
  new Float32Array(host.buffer).set(x);
  y.fill(1);
  const part = host.address + BigInt(4 * count);
  saxpy.launch({ grid: 8, block: 128, stream }, count, 2, host, part);
  await stream.finished();
  assertEquals(y, x.map((value) => 2 * value + 1));
  using pool = gpu.createPool();
  using onDevice = pool.allocateArray(Float32Array, count, stream);
  onDevice.fill(0.5);
  saxpy.launch({ grid: 8, block: 128, stream }, count, 1, host, onDevice);
  assertEquals(await onDevice.toTypedArray(), x.map((value) => value + 0.5));
});

testOnEachDriver(
  "page-locked memory that is disposed while a kernel uses it stays until the kernel is done",
  (cuda) => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream({ nonBlocking: true });
    using pool = gpu.createPool();
    using module = gpu.loadModule(fillPtx);
    const fill = module.kernel("fill");
    const byteLength = 4 * 2 ** 20;
    using before = pool.allocate(byteLength, stream);
    const host = cuda.allocateHost(byteLength);
    using copy = pool.allocate(byteLength, stream);
    const { address } = host;
    // One thread, so that the work takes a while on any device.
    fill.launch({ grid: 1, block: 1, stream }, before, byteLength, 1);
    fill.launch({ grid: 64, block: 256, stream }, host, byteLength, 0x01020304);
    copy.copyFrom(host, stream);
    host[Symbol.dispose]();
    host[Symbol.dispose]();
    assertThrows(() => host.address, ReferenceError, "the host buffer: it was disposed");
    assertThrows(() => fill.launch({ grid: 1, block: 1, stream }, host, 4, 1), ReferenceError, "it was disposed");
    const words = copy.readSync(Uint32Array);
    assert(words.every((word) => word === 0x01020304));
    assert(address > 0n);
  },
);

testOnEachDriver("page-locked memory is read and written by kernels of every device", async (cuda) => {
  using host = cuda.allocateHost(4096);
  for (const [ordinal, gpu] of cuda.devices.slice(0, 2).entries()) {
    using stream = gpu.createStream();
    using module = gpu.loadModule(fillPtx);
    module.kernel("fill").launch({ grid: 2, block: 64, stream }, host, 4096, ordinal + 5);
    await stream.finished();
    assertEquals(new Uint32Array(host.buffer), new Uint32Array(1024).fill(ordinal + 5));
  }
}, { devices: 2 });

testOnEachDriver("page-locked memory whose ArrayBuffer is not there has no address", (cuda, { open }) => {
  using session = new Cuda(new Session(open()));
  using other = session.allocateHost(64);
  const gpu = cuda.device(0);
  using module = gpu.loadModule(fillPtx);
  const launch = () => module.kernel("fill").launch({ grid: 1, block: 1 }, other, 64, 1);
  assertThrows(launch, TypeError, "Cannot pass a host buffer of another Cuda object");
  using host = cuda.allocateHost(64);
  assertThrows(
    // @ts-expect-error: a pointer is a buffer
    () => module.kernel("fill").launch({ grid: 1, block: 1 }, new Uint8Array(host.buffer), 64, 1),
    TypeError,
    "it shows page-locked memory: pass the buffer that it is of",
  );
  using ended = new Cuda(new Session(open()));
  const late = ended.allocateHost(64);
  late[Symbol.dispose]();
  ended[Symbol.dispose]();
  assertThrows(() => late.address, ReferenceError, "it was disposed");
});

test("without permission to use FFI, the software device refuses page-locked memory in kernels", () => {
  using cuda = adaptedCuda(new SoftwareDriver({ devices: 1, peers: false }), {
    hostAlloc: (byteLength) => ({ address: 0x100n, buffer: new ArrayBuffer(byteLength) }),
    freeHost() {},
  });
  using host = cuda.allocateHost(64);
  const error = assertThrows(() => host.address);
  assertEquals((error as { code?: string }).code, "cudaErrorNotSupported");
});
