/** Streams that other code owns. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { streamFlags } from "../../src/driver.ts";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { CudaError } from "../../src/support/errors.ts";
import { Session } from "../../src/session.ts";
import { driversUnderTest, testOnEachDriver } from "../support/drivers.ts";
import { test } from "../support/test.ts";
import { warningsOf } from "../support/warnings.ts";

const byteLength = 2 ** 20;

for (const { name, skip, open } of driversUnderTest) {
  test(`a stream of other code is used and outlives its object [${name}]`, { skip }, async () => {
    const driver = open();
    const handle = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
    const theirs = driver.eventCreateWithFlags(0, 2);
    const warnings = await warningsOf(async () => {
      // The Cuda object closes its own driver only.
      const session = new Session(driver);
      const cuda = new Cuda(session);
      const gpu = cuda.device(0);
      using pool = gpu.createPool();
      using module = gpu.loadModule(fillPtx);
      using own = gpu.createStream({ nonBlocking: true });
      using event = gpu.createEvent();
      const wrapped = gpu.wrapStream(handle);
      assertEquals([wrapped.unsafeHandle, wrapped.device, wrapped.disposed], [handle, gpu, false]);
      assertEquals(String(wrapped), "CudaStream { device 0, wrapped, idle }");
      using buffer = pool.allocate(byteLength, wrapped);
      using copy = pool.allocate(byteLength, own);
      module.kernel("fill").launch({ grid: 16, block: 64, stream: wrapped }, buffer, byteLength, 9);
      wrapped.record(event);
      own.wait(event);
      copy.copyFrom(buffer, own);
      assertEquals(await copy.read(Uint32Array, { length: 1 }), Uint32Array.of(9));
      await wrapped.finished();
      await gpu.finished();
      wrapped.synchronize();
      assert(wrapped.query());
      // A second object of the same stream.
      const again = gpu.wrapStream(handle);
      again.wait(event);
      module.kernel("fill").launch({ grid: 1, block: 1, stream: wrapped }, buffer, byteLength, 8);
      wrapped[Symbol.dispose]();
      wrapped[Symbol.dispose]();
      assert(wrapped.disposed && !again.disposed);
      assertThrows(() => wrapped.query(), ReferenceError, "it was disposed");
      // Its stream was disposed with pending work, after which it is freed.
      buffer.free();
      await gpu.finished();
      driver.eventRecord(0, theirs, handle);
      driver.streamSynchronize(0, handle);
      again[Symbol.dispose]();
      driver.streamDestroy(0, handle);
      driver.eventDestroy(0, theirs);
    });
    assertEquals(warnings, []);
    driver.close();
  });

  test(`a wrapped stream has the priority that CUDA gave it, whatever was asked for [${name}]`, { skip }, () => {
    const driver = open();
    const gpu = new Cuda(new Session(driver)).device(0);
    const { least, greatest } = gpu.streamPriorityRange();
    for (const [asked, given] of [[greatest, greatest], [greatest - 100, greatest], [least + 100, least]] as const) {
      const handle = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, asked);
      const wrapped = gpu.wrapStream(handle);
      assertEquals(wrapped.priority, given);
      wrapped[Symbol.dispose]();
      driver.streamDestroy(0, handle);
    }
    driver.close();
  });
}

testOnEachDriver("a wrapped stream that is left is neither destroyed nor reported", async (_cuda, { open }) => {
  const warnings = await warningsOf(async () => {
    using cuda = new Cuda(new Session(open()));
    const gpu = cuda.device(0);
    const { unsafeHandle } = gpu.createStream();
    await gpu.wrapStream(unsafeHandle).finished();
  });
  assertEquals(warnings, []);
});

testOnEachDriver("the legacy default stream's handles are that stream, and no others are", (cuda) => {
  const gpu = cuda.device(0);
  for (const handle of [0n, 1n]) {
    using wrapped = gpu.wrapStream(handle);
    assert(wrapped === gpu.defaultStream);
  }
  assert(!gpu.defaultStream.disposed);
  assertThrows(() => gpu.wrapStream(2n), RangeError, "it is cudaStreamPerThread");
  for (const handle of [3n, 4095n, -1n, 2n ** 64n]) {
    assertThrows(
      () => gpu.wrapStream(handle),
      RangeError,
      `Cannot wrap the stream ${handle}: no stream has this handle`,
    );
  }
  for (const handle of [undefined, null, 0, "0", {}]) {
    assertThrows(() => gpu.wrapStream(handle as unknown as bigint), TypeError, "as a bigint");
  }
  using stream = gpu.createStream();
  assertThrows(() => gpu.wrapStream(stream as unknown as bigint), TypeError, "it needs no wrapping");
});

testOnEachDriver("a stream of another device is refused, with the device where CUDA can say it", (cuda) => {
  const [gpu, peer] = cuda.devices;
  using stream = peer!.createStream();
  assertThrows(
    () => gpu!.wrapStream(stream.unsafeHandle),
    RangeError,
    cuda.driverVersion >= 12080 ? "it is a stream of device 1; call wrapStream of that device" : "another device",
  );
}, { devices: 2 });

test("the software device knows which handles are streams", () => {
  using cuda = new Cuda(new Session(driversUnderTest[0]!.open()));
  const gpu = cuda.device(0);
  const stream = gpu.createStream();
  const { unsafeHandle } = stream;
  stream[Symbol.dispose]();
  const error = assertThrows(
    () => gpu.wrapStream(unsafeHandle),
    CudaError,
    "it was destroyed, or is no stream's handle",
  );
  assertEquals(error.code, "cudaErrorInvalidResourceHandle");
});

test("a stream that its owner destroys too early is reported once, and its object can be disposed", async () => {
  const warnings = await warningsOf(() => {
    using cuda = new Cuda(new Session(driversUnderTest[0]!.open()));
    const gpu = cuda.device(0);
    const stream = gpu.createStream();
    using module = gpu.loadModule(fillPtx);
    using buffer = gpu.allocate(16);
    const wrapped = gpu.wrapStream(stream.unsafeHandle);
    const left = gpu.wrapStream(stream.unsafeHandle);
    module.kernel("fill").launch({ grid: 1, block: 1, stream: wrapped }, buffer, 16, 1);
    wrapped.synchronize();
    stream[Symbol.dispose]();
    assertThrows(() => left.query(), CudaError, "cudaErrorInvalidResourceHandle");
    module[Symbol.dispose]();
    wrapped[Symbol.dispose]();
    assert(wrapped.disposed);
    return Promise.resolve();
  });
  const warning =
    "poolpass: a stream of device 0 was destroyed by its owner while a CudaStream from wrapStream still " +
    "used it; dispose the CudaStream first";
  assertEquals(warnings, [warning, warning]);
});
