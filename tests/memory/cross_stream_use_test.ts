/**
 * Memory that several streams use: a free waits for all of them, on no stream of the program's.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { ptx } from "../../kernels/fill.ts";
import { allocationOf, type DeviceBuffer } from "../../src/memory/device_buffer.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import type { CudaKernel } from "../../src/objects/kernels/cuda_kernel.ts";
import type { CudaStream } from "../../src/objects/streams/cuda_stream.ts";
import { Session } from "../../src/session.ts";
import { countCalls } from "../sharing/channel/channel_peers.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { Gate } from "../support/gate.ts";

const byteLength = 2 ** 20;

/** What a test allocates from, and the two streams that use the memory. */
interface Fixture {
  readonly cuda: Cuda;
  readonly own: CudaStream;
  readonly other: CudaStream;
  readonly gate: Gate;
  readonly fill: CudaKernel;
  allocate(stream: CudaStream): DeviceBuffer;
}

/** Runs a body with a pool, and with a caching allocator that has memory left for one more buffer. */
function testWithBothAllocators(name: string, body: (fixture: Fixture) => Promise<void>): void {
  for (const isCached of [false, true]) {
    testOnEachDriver(`${name}, ${isCached ? "from a caching allocator" : "from a pool"}`, async (cuda) => {
      const gpu = cuda.device(0);
      using own = gpu.createStream({ nonBlocking: true });
      using other = gpu.createStream({ nonBlocking: true });
      using pool = gpu.createPool({ releaseThreshold: Infinity });
      // A stream then waits for no other to get memory from the pool.
      pool.reuse.allowInternalDependencies = false;
      using allocator = pool.createCachingAllocator({ slabByteLength: 4 * byteLength });
      using module = gpu.loadModule(ptx);
      const fill = module.kernel("fill");
      const allocate = (stream: CudaStream) => (isCached ? allocator : pool).allocate(byteLength, stream);
      using gate = new Gate(cuda);
      await body({ cuda, own, other, gate, fill, allocate });
      gate.open();
      gpu.synchronize();
    });
  }
}

/** Allocates and overwrites memory on a stream until it has had all memory that is free. */
async function overwrite({ allocate }: Fixture, stream: CudaStream): Promise<void> {
  const buffers = Array.from({ length: 6 }, () => allocate(stream));
  for (const buffer of buffers) buffer.fill(9);
  // Resolves although the gate holds the other stream.
  await stream.finished();
  for (const buffer of buffers) buffer.free();
}

/** Writes to the memory that is free on the own stream, and checks that the other stream does not, once the gate opens. */
async function assertNotOverwritten({ own, other, gate, allocate }: Fixture): Promise<void> {
  const next = Array.from({ length: 6 }, () => allocate(own));
  for (const each of next) each.fill(9);
  await own.finished();
  gate.open();
  await other.finished();
  for (const each of next) {
    assert((await each.read(Uint8Array)).every((byte) => byte === 9));
    each.free();
  }
}

testWithBothAllocators("a copy to host memory on another stream is complete before a reuse", async (fixture) => {
  const { cuda, own, other, gate, allocate } = fixture;
  using pinned = cuda.allocateHost(byteLength);
  const buffer = allocate(own);
  buffer.fill(7);
  await own.finished();
  gate.hold(other);
  buffer.copyTo(pinned, other);
  buffer.free();
  await overwrite(fixture, own);
  gate.open();
  await other.finished();
  assert(new Uint8Array(pinned.buffer).every((byte) => byte === 7));
});

testWithBothAllocators("a kernel on another stream writes before a reuse", async (fixture) => {
  const { own, other, gate, fill, allocate } = fixture;
  const buffer = allocate(own);
  await own.finished();
  gate.hold(other);
  fill.launch({ grid: 64, block: 64, stream: other }, buffer, byteLength, 0x07070707);
  buffer.free();
  await assertNotOverwritten(fixture);
});

testWithBothAllocators("copies between buffers and fills on another stream come before a reuse", async (fixture) => {
  const { own, other, gate, allocate } = fixture;
  const from = allocate(own);
  const to = allocate(other);
  const filled = allocate(own);
  const written = [allocate(own), allocate(own)];
  from.fill(7);
  await own.finished();
  gate.hold(other);
  to.copyFrom(from, other);
  filled.subarray(0, 100).fill(1, other);
  written[0]!.copyFrom(new Uint8Array(100), other);
  written[1]!.copyFrom(new Uint8Array(100_000), other);
  for (const buffer of written) {
    assert(allocationOf(buffer).releaseStream(own) !== own);
    buffer.free();
  }
  from.free();
  filled.free();
  await overwrite(fixture, own);
  gate.open();
  assert((await to.read(Uint8Array, { stream: other })).every((byte) => byte === 7));
  to.free();
});

testWithBothAllocators("a view whose stream is another one marks the whole buffer", async (fixture) => {
  const { cuda, own, other, gate, allocate } = fixture;
  using pinned = cuda.allocateHost(100);
  const buffer = allocate(own);
  buffer.fill(7);
  await own.finished();
  gate.hold(other);
  const view = buffer.subarray(byteLength - 100);
  view.stream = other;
  view.copyTo(pinned);
  buffer.free();
  await overwrite(fixture, own);
  gate.open();
  await other.finished();
  assertEquals(new Uint8Array(pinned.buffer), new Uint8Array(100).fill(7));
});

testWithBothAllocators("usedOn covers work that the library cannot see", async (fixture) => {
  const { own, other, gate, fill, allocate } = fixture;
  const buffer = allocate(own);
  const { address } = buffer;
  await own.finished();
  gate.hold(other);
  buffer.usedOn(other);
  fill.launch({ grid: 64, block: 64, stream: other }, address, byteLength, 0x07070707);
  buffer.free();
  await assertNotOverwritten(fixture);
  assertThrows(() => buffer.usedOn(other), ReferenceError, "it was freed");
});

testWithBothAllocators("the other stream may be disposed before the free", async (fixture) => {
  const { cuda, own, gate, allocate } = fixture;
  using pinned = cuda.allocateHost(byteLength);
  const buffer = allocate(own);
  buffer.fill(7);
  await own.finished();
  {
    using other = own.device.createStream({ nonBlocking: true });
    gate.hold(other);
    buffer.copyTo(pinned, other);
  }
  buffer.free();
  await overwrite(fixture, own);
  gate.open();
  await own.device.finished();
  assert(new Uint8Array(pinned.buffer).every((byte) => byte === 7));
});

testWithBothAllocators("memory comes back when the other stream is done", async (fixture) => {
  const { own, other, gate, allocate } = fixture;
  const addresses = new Set<bigint>();
  using allocated = own.device.createEvent();
  for (let round = 0; round < 20; round++) {
    const buffer = allocate(own);
    addresses.add(buffer.address);
    own.record(allocated);
    other.wait(allocated);
    gate.hold(other);
    buffer.fill(round, other);
    buffer.free();
    gate.open();
    await other.finished();
  }
  assert(addresses.size <= 4, `${addresses.size} addresses were used for one buffer at a time`);
});

testWithBothAllocators("a free waits for nothing if an event has ordered the streams", async (fixture) => {
  const { own, other, gate, allocate } = fixture;
  using event = own.device.createEvent();
  const buffer = allocate(own);
  buffer.fill(1);
  await own.finished();
  gate.hold(other);
  buffer.fill(2, other);
  other.record(event);
  own.wait(event);
  assertEquals(allocationOf(buffer).releaseStream(own), own);
  // Work after the event is not covered by it.
  buffer.fill(3, other);
  assert(allocationOf(buffer).releaseStream(own) !== own);
  gate.open();
  await other.finished();
  assertEquals(allocationOf(buffer).releaseStream(own), own);
  buffer.free();
});

testWithBothAllocators(
  "an event that others may have recorded orders nothing",
  async ({ own, other, gate, allocate }) => {
    using event = own.device.createEvent();
    const buffer = allocate(own);
    await own.finished();
    gate.hold(other);
    buffer.fill(2, other);
    other.record(event);
    void event.unsafeHandle;
    own.wait(event);
    assert(allocationOf(buffer).releaseStream(own) !== own);
    gate.open();
    await other.finished();
    buffer.free();
  },
);

testOnEachDriver("a program that uses one stream, or orders its streams, makes no further calls", (_, { open }) => {
  const driver = open();
  using cuda = new Cuda(new Session(driver));
  const gpu = cuda.device(0);
  using own = gpu.createStream();
  using other = gpu.createStream();
  using event = gpu.createEvent();
  using pool = gpu.createPool();
  using module = gpu.loadModule(ptx);
  const fill = module.kernel("fill");
  const launch = (stream: CudaStream, buffer: DeviceBuffer) =>
    fill.launch({ grid: 1, block: 32, stream }, buffer, 64, 1);
  const callsOf = (body: () => void) => {
    using counter = countCalls(driver);
    body();
    return counter.calls;
  };
  assertEquals(
    callsOf(() => {
      const buffer = pool.allocate(64, own);
      launch(own, buffer);
      buffer.free();
    }),
    { mallocFromPoolAsync: 1, launchKernel: 1, freeAsync: 1 },
  );
  assertEquals(
    callsOf(() => {
      const buffer = pool.allocate(64, own);
      own.record(event);
      other.wait(event);
      launch(other, buffer);
      other.record(event);
      own.wait(event);
      buffer.free();
    }),
    { mallocFromPoolAsync: 1, eventRecord: 2, streamWaitEvent: 2, launchKernel: 1, freeAsync: 1 },
  );
  gpu.synchronize();
});

testOnEachDriver("streams and events that frees need do not pile up", async (_, { open }) => {
  const driver = open();
  using cuda = new Cuda(new Session(driver));
  const gpu = cuda.device(0);
  using own = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using gate = new Gate(cuda);
  using counter = countCalls(driver);
  for (let round = 0; round < 40; round++) {
    using other = gpu.createStream({ nonBlocking: true });
    const buffer = pool.allocate(64, own);
    await own.finished();
    gate.hold(other);
    buffer.fill(1, other);
    buffer.free();
    gate.open();
    await other.finished();
  }
  const { streamCreateWithPriority = 0, streamDestroy = 0, eventCreateWithFlags = 0, eventDestroy = 0 } = counter.calls;
  const streams = streamCreateWithPriority - streamDestroy;
  const events = eventCreateWithFlags - eventDestroy;
  assert(streams <= 4 && events <= 8, `${streams} streams and ${events} events are left`);
  gpu.synchronize();
});

testWithBothAllocators("a use that the library sees does not replace what usedOn declared", async (fixture) => {
  const { own, other, gate, fill, allocate } = fixture;
  const buffer = allocate(own);
  const { address } = buffer;
  await own.finished();
  gate.hold(other);
  buffer.usedOn(other);
  buffer.subarray(0, 4).fill(1, other);
  using event = own.device.createEvent();
  other.record(event);
  fill.launch({ grid: 64, block: 64, stream: other }, address, byteLength, 0x07070707);
  // It comes after the fill, but not after the kernel.
  own.wait(event);
  assert(allocationOf(buffer).releaseStream(own) !== own);
  gate.open();
  await other.finished();
  buffer.free();
});

testOnEachDriver(
  "a buffer that many streams have used one after another is freed without asking each of them",
  async (_, {
    open,
  }) => {
    const driver = open();
    using cuda = new Cuda(new Session(driver));
    const gpu = cuda.device(0);
    using own = gpu.createStream({ nonBlocking: true });
    using pool = gpu.createPool();
    const buffer = pool.allocate(64, own);
    for (let task = 0; task < 500; task++) {
      using stream = gpu.createStream({ nonBlocking: true });
      buffer.fill(task % 256, stream);
      await stream.finished();
    }
    using counter = countCalls(driver);
    buffer.free();
    const calls = Object.values(counter.calls).reduce((sum, count) => sum + count, 0);
    assert(calls < 100, `the free made ${calls} calls`);
  },
);

testOnEachDriver("memory used on a disposed stream that hangs does not hold up other memory", async (cuda) => {
  const gpu = cuda.device(0);
  using own = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using allocator = pool.createCachingAllocator({ slabByteLength: byteLength, maxSize: 2 * byteLength });
  using gate = new Gate(cuda);
  const [hanging, done] = [allocator.allocate(byteLength, own), allocator.allocate(byteLength, own)];
  const { address } = done;
  await own.finished();
  using end = gpu.createEvent();
  for (const buffer of [hanging, done]) {
    using stream = gpu.createStream({ nonBlocking: true });
    if (buffer === hanging) gate.hold(stream);
    for (let count = 0; count < 10; count++) buffer.fill(count, stream);
    stream.record(end);
  }
  hanging.free();
  done.free();
  await end.finished();
  using next = allocator.allocate(byteLength, own);
  assertEquals(next.address, address);
  next.fill(2);
  await own.finished();
  gate.open();
});
