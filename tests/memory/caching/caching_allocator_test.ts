import { assert, assertEquals, AssertionError, assertMatch, assertNotEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { inspect } from "node:util";
import { ptx } from "../../../kernels/fill.ts";
import type { CachingAllocatorOptions } from "../../../src/memory/caching/allocator_options.ts";
import type { CachingAllocator } from "../../../src/memory/caching/caching_allocator.ts";
import { Cuda } from "../../../src/objects/cuda.ts";
import type { CudaStream } from "../../../src/objects/streams/cuda_stream.ts";
import { allocationOf } from "../../../src/memory/device_buffer.ts";
import { CudaError } from "../../../src/support/errors.ts";
import type { MemoryPool } from "../../../src/memory/pools/memory_pool.ts";
import { Session } from "../../../src/session.ts";
import { SoftwareDriver } from "../../../src/software/software_driver.ts";
import { countCalls } from "../../sharing/channel/channel_peers.ts";
import { testOnEachDriver } from "../../support/drivers.ts";
import { Gate } from "../../support/gate.ts";
import { recordWarnings } from "../../support/warnings.ts";

const kibibytes = 2 ** 10;
const mebibytes = 2 ** 20;
/** Slabs that one buffer of 1 or 2 MiB mostly or completely fills. */
const slabByteLength = 2 * mebibytes;
/** A kernel whose trap loses the device for its process. */
const trapPtx = ".version 7.0\n.target sm_60\n.address_size 64\n.visible .entry trap() {\n  trap;\n}\n";
/** More bytes than any device has. */
const tooMuch = 2 ** 38;

function uniform(byte: number, length: number): Uint8Array {
  return new Uint8Array(length).fill(byte);
}

/** Compares without `assertEquals`, which is slow on large arrays. */
function assertUniform(bytes: Uint8Array, byte: number): void {
  for (let index = 0; index < bytes.length; index++) {
    if (bytes[index] !== byte) throw new AssertionError(`Byte ${index} is ${bytes[index]}, and not ${byte}`);
  }
}

/**
 * Queries several times: each query makes a software device run some work, beginning with work that waits for nothing.
 */
function assertWaits(stream: CudaStream): void {
  for (let query = 0; query < 3; query++) assertEquals(stream.query(), false, "the stream waits for another");
}

function create(pool: MemoryPool, options: CachingAllocatorOptions = {}): CachingAllocator {
  return pool.createCachingAllocator({ slabByteLength, ...options });
}

testOnEachDriver("an allocator's buffers do not overlap and keep their contents", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using allocator = create(pool);
  using module = gpu.loadModule(ptx);
  using before = allocator.allocate(1000, stream);
  using written = allocator.allocate(1000, stream);
  using after = allocator.allocate(1000, stream);
  using array = allocator.allocateArray(Float32Array, 100, stream);
  assert(allocator.pool === pool && allocator.device === gpu);
  assert(written.pool === pool && written.device === gpu && written.stream === stream);
  assertEquals([written.byteLength, array.length, array.byteLength], [1000, 100, 400]);
  assertEquals(new Set([before, written, after, array].map(({ address }) => address % 256n)), new Set([0n]));
  for (const each of [before, after]) each.fill(7);
  module.kernel("fill").launch({ grid: 2, block: 64, stream }, written, 1000, 0x03030303);
  written.subarray(10, 20).fill(4);
  assertEquals(await before.read(Uint8Array), uniform(7, 1000));
  assertEquals(await after.read(Uint8Array), uniform(7, 1000));
  assertEquals((await written.read(Uint8Array)).slice(8, 22), Uint8Array.of(3, 3, ...uniform(4, 10), 3, 3));
  array.copyFrom(Float32Array.from({ length: 100 }, (_, index) => index / 2));
  array.copyTo(after);
  assertEquals((await after.read(Float32Array, { length: 100 }))[99], 49.5);
  assertEquals(await array.subarray(2, 4).toTypedArray(), Float32Array.of(1, 1.5));
  assertEquals(await before.read(Uint8Array), uniform(7, 1000));
  assertEquals(allocator.usage().slabs, 1);
});

testOnEachDriver("a stream immediately reuses the memory that it freed, without a driver call", (_, { open }) => {
  const driver = open();
  using cuda = new Cuda(new Session(driver));
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using allocator = create(pool);
  using gate = new Gate(cuda);
  const addresses = (sizes: readonly number[]) =>
    sizes.map((size) => {
      using buffer = allocator.allocate(size, stream);
      return buffer.address;
    });
  const sizes = [1, 256, 1000, 300 * kibibytes, mebibytes];
  const first = addresses(sizes);
  gate.hold(stream);
  using counted = countCalls(driver);
  for (let round = 0; round < 10; round++) {
    assertEquals(addresses(sizes), first);
    using one = allocator.allocate(1000, stream);
    using other = allocator.allocate(1000, stream);
    assertNotEquals(one.address, other.address);
  }
  assertEquals(counted.calls, {});
  gate.open();
});

testOnEachDriver("another stream reuses memory only when the work with it is done", (cuda) => {
  const gpu = cuda.device(0);
  using first = gpu.createStream({ nonBlocking: true });
  using second = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using allocator = create(pool);
  using gate = new Gate(cuda);
  const freed = allocator.allocate(slabByteLength, first);
  const { address } = freed;
  gate.hold(first);
  freed.fill(1);
  freed.free();
  using meanwhile = allocator.allocate(slabByteLength, second);
  assertNotEquals(meanwhile.address, address);
  assertEquals(allocator.usage().slabs, 2);
  gate.open();
  first.synchronize();
  using next = allocator.allocate(slabByteLength, second);
  assertEquals(next.address, address);
  assertEquals(allocator.usage().slabs, 2);
});

testOnEachDriver("memory freed on a stream that is always busy is reused once earlier work is done", (cuda) => {
  const gpu = cuda.device(0);
  using busy = gpu.createStream({ nonBlocking: true });
  using other = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using allocator = create(pool);
  using gate = new Gate(cuda);
  const buffers = [1, 2, 3].map(() => allocator.allocate(slabByteLength, busy));
  const addresses = buffers.map((buffer) => buffer.address);
  gate.hold(busy);
  buffers[0]!.free();
  // This allocation polls for finished work, and finds none yet.
  using first = allocator.allocate(slabByteLength, other);
  assert(!addresses.includes(first.address));
  gate.open();
  busy.synchronize();
  gate.hold(busy);
  buffers[1]!.free();
  using second = allocator.allocate(slabByteLength, other);
  assertEquals(second.address, addresses[0]);
  using third = allocator.allocate(slabByteLength, other);
  assert(!addresses.includes(third.address), "the memory freed behind unfinished work is not reused");
  gate.open();
  buffers[2]!.free();
});

testOnEachDriver("at its maxSize, an allocator makes streams wait for memory, but not the host", async (cuda) => {
  const gpu = cuda.device(0);
  using first = gpu.createStream({ nonBlocking: true });
  using second = gpu.createStream({ nonBlocking: true });
  using third = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using allocator = create(pool, { maxSize: slabByteLength });
  using gate = new Gate(cuda);
  const freed = allocator.allocate(slabByteLength, first);
  const { address } = freed;
  gate.hold(first);
  freed.fill(1);
  freed.free();
  const next = allocator.allocate(slabByteLength, second);
  assertEquals(next.address, address);
  next.fill(2);
  assertWaits(second);
  gate.open();
  gpu.synchronize();
  assertUniform(await next.read(Uint8Array), 2);
  next.free();

  // Together, the memory of two streams suffices.
  using halves = new DisposableStack();
  for (const [index, stream] of [first, second].entries()) {
    const half = halves.use(allocator.allocate(slabByteLength / 2, stream));
    gate.hold(stream);
    half.fill(3 + index);
  }
  halves.dispose();
  const whole = allocator.allocate(slabByteLength, third);
  whole.fill(5);
  assertEquals(whole.address, address);
  assertWaits(third);
  gate.open();
  gpu.synchronize();
  assertUniform(await whole.read(Uint8Array), 5);
  whole.free();
  assertEquals(allocator.usage().reservedHigh, slabByteLength);
});

testOnEachDriver("an allocator grows by slabs, and by more for a larger buffer", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using allocator = create(pool, { slabByteLength: 4 * mebibytes });
  const reserved = () => [allocator.usage().slabs, allocator.usage().reserved / mebibytes];
  assertEquals(reserved(), [0, 0]);
  using stack = new DisposableStack();
  const allocate = (byteLength: number) => stack.use(allocator.allocate(byteLength));
  const [first, second] = [allocate(mebibytes), allocate(3 * mebibytes)];
  assertEquals(second.address - first.address, BigInt(mebibytes));
  assertEquals(reserved(), [1, 4]);
  allocate(1);
  assertEquals(reserved(), [2, 8]);
  allocate(5 * mebibytes);
  assertEquals(reserved(), [3, 14]);
  allocate(mebibytes);
  assertEquals(reserved(), [3, 14], "the rest of a slab is used");
  assertEquals(pool.usage().used, 14 * mebibytes);
  using usual = pool.createCachingAllocator();
  const sizes: number[] = [];
  for (let count = 0; count < 64; count++) {
    stack.use(usual.allocate(mebibytes));
    const byteLength = usual.usage().reserved - sizes.reduce((sum, size) => sum + size, 0);
    if (byteLength > 0) sizes.push(byteLength);
  }
  assertEquals(sizes.map((size) => size / mebibytes), [2, 6, 18, 32, 32]);
});

testOnEachDriver("a slab is smaller if there is no room for a whole one", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using allocator = create(pool, { maxSize: 3 * mebibytes + 100 });
  using first = allocator.allocate(2 * mebibytes);
  using second = allocator.allocate(mebibytes);
  assertEquals(allocator.usage().reserved, 3 * mebibytes);
  assertThrows(() => allocator.allocate(1), CudaError, "its maxSize is 3145828 bytes");
  first.free();
  using third = allocator.allocate(2 * mebibytes);
  assertNotEquals(third.address, second.address);
});

testOnEachDriver(
  "with too little memory, an allocator throws and stays usable",
  async (cuda) => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream({ nonBlocking: true });
    using pool = gpu.createPool();
    using unlimited = create(pool);
    using allocator = create(pool, { maxSize: 2 * slabByteLength });
    using kept = allocator.allocate(1000, stream);
    kept.fill(6);
    const error = assertThrows(() => allocator.allocate(2 * slabByteLength, stream), CudaError);
    assertEquals([error.code, error.call], ["cudaErrorMemoryAllocation", "cudaMallocFromPoolAsync"]);
    assertMatch(
      error.message,
      /^Cannot allocate 4194304 bytes from the allocator on device 0: .*its maxSize is 4194304 bytes; it holds 2097152 bytes, of which 1024 are in use: 1 buffer, 1024 bytes; free memory or ask for less$/,
    );
    for (let round = 0; round < 3; round++) {
      using first = allocator.allocate(slabByteLength, stream);
      using rest = allocator.allocate(slabByteLength - kibibytes, stream);
      assertThrows(() => allocator.allocate(257, stream), CudaError, "of which 4194304 are in use");
      assertEquals(allocator.usage().used, 2 * slabByteLength);
      first.free();
      rest.free();
    }
    assertEquals(await kept.read(Uint8Array), uniform(6, 1000));
    kept.free();
    // The only slab is freed to make room for another.
    allocator.allocate(2 * slabByteLength, stream).free();
    assertEquals([allocator.usage().slabs, allocator.usage().reserved], [1, 2 * slabByteLength]);

    using other = unlimited.allocate(100, stream);
    const refused = assertThrows(() => unlimited.allocate(tooMuch, stream), CudaError);
    assertEquals(refused.code, "cudaErrorMemoryAllocation");
    assertMatch(refused.message, /bytes from the allocator on device 0: .*; it holds 2097152 bytes, of which 256 are/);
    other.fill(1);
    assertEquals(await other.read(Uint8Array), uniform(1, 100));
  },
);

testOnEachDriver("an allocator does not grow beyond its pool's maxSize", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ maxSize: 64 * mebibytes });
  using allocator = pool.createCachingAllocator({ slabByteLength: 128 * mebibytes });
  using buffer = allocator.allocate(40 * mebibytes);
  assertEquals(allocator.usage().reserved, 40 * mebibytes);
  assertThrows(() => allocator.allocate(40 * mebibytes), CudaError, "cudaErrorMemoryAllocation");
  buffer.free();
  allocator.trimTo(0);
  gpu.synchronize();
  allocator.allocate(50 * mebibytes).free();
  assertEquals(allocator.usage().reserved, 50 * mebibytes);
});

testOnEachDriver("usage() reports how much memory an allocator holds, and its fragmentation", (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using allocator = create(pool);
  const nothing = { reserved: 0, used: 0, buffers: 0, slabs: 0, largestFree: 0, fragmentation: 0 };
  assertEquals(allocator.usage(), { ...nothing, reservedHigh: 0, usedHigh: 0 });
  using stack = new DisposableStack();
  const quarters = [1, 2, 3, 4].map(() => stack.use(allocator.allocate(slabByteLength / 4 - 100, stream)));
  const full = { reserved: slabByteLength, used: slabByteLength, buffers: 4, slabs: 1, largestFree: 0 };
  const high = { reservedHigh: slabByteLength, usedHigh: slabByteLength };
  assertEquals(allocator.usage(), { ...full, ...high, fragmentation: 0 });
  quarters[0]!.free();
  quarters[2]!.free();
  const [half, quarter] = [slabByteLength / 2, slabByteLength / 4];
  assertEquals(allocator.usage(), {
    ...full,
    ...high,
    used: half,
    buffers: 2,
    largestFree: quarter,
    fragmentation: 0.5,
  });
  allocator.resetHigh();
  assertEquals(allocator.usage().usedHigh, half);
  quarters[1]!.free();
  assertEquals([allocator.usage().largestFree, allocator.usage().fragmentation], [3 * quarter, 0]);
  quarters[3]!.free();
  allocator.trimTo(0);
  assertEquals(allocator.usage(), { ...nothing, reservedHigh: slabByteLength, usedHigh: half });
  allocator.resetHigh();
  assertEquals(allocator.usage(), { ...nothing, reservedHigh: 0, usedHigh: 0 });
});

testOnEachDriver("trimTo returns free slabs to the pool", (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool({ releaseThreshold: Infinity });
  using allocator = create(pool);
  const slabs = [1, 2, 3].map(() => allocator.allocate(slabByteLength - 512, stream));
  using kept = allocator.allocate(512, stream);
  slabs[0]!.free();
  slabs[1]!.free();
  allocator.trimTo(3 * slabByteLength);
  assertEquals(allocator.usage().slabs, 3);
  allocator.trimTo(2 * slabByteLength + 1);
  assertEquals(allocator.usage().slabs, 2);
  allocator.trimTo(0);
  assertEquals(allocator.usage().reserved, slabByteLength, "a slab with a buffer stays");
  assert(pool.usage().reserved >= slabByteLength);
  stream.synchronize();
  assertEquals(pool.usage().used, slabByteLength);

  slabs[2]!.free();
  kept.free();
  allocator.trimTo(0);
  gpu.synchronize();
  pool.trimTo(0);
  assertEquals([allocator.usage().slabs, pool.usage().reserved], [0, 0]);
  for (const wrong of [-1, 1.5, NaN]) assertThrows(() => allocator.trimTo(wrong), RangeError, "the bytes to keep");
});

testOnEachDriver("a slab is freed behind the work of every stream that used a part of it", async (cuda) => {
  const gpu = cuda.device(0);
  using first = gpu.createStream({ nonBlocking: true });
  using second = gpu.createStream({ nonBlocking: true });
  const byteLength = 32 * mebibytes;
  using pool = gpu.createPool({ maxSize: byteLength });
  using allocator = pool.createCachingAllocator({ slabByteLength: byteLength });
  using gate = new Gate(cuda);
  using otherGate = new Gate(cuda);
  const parts = [first, second].map((stream) => allocator.allocate(byteLength / 2, stream));
  assertEquals(allocator.usage().slabs, 1);
  using held = gpu.createEvent();
  gate.hold(first);
  first.record(held);
  otherGate.hold(second);
  for (const part of parts) part.fill(1, part.stream, { byteLength: 1000 });
  for (const part of parts) part.free();
  allocator.trimTo(0);
  assertEquals(allocator.usage().slabs, 0);
  // There is no other memory, so this allocation reuses the slab.
  using next = pool.allocate(byteLength, first);
  for (const byteOffset of [0, byteLength / 2]) next.fill(2, first, { byteOffset, byteLength: 1000 });
  gate.open();
  held.synchronize();
  assertWaits(first);
  otherGate.open();
  gpu.synchronize();
  for (const byteOffset of [0, byteLength / 2]) {
    assertUniform(await next.read(Uint8Array, { byteOffset, length: 1000 }), 2);
  }
});

testOnEachDriver(
  "memory freed on a stream can be reused after the stream is destroyed, behind its work",
  async (cuda) => {
    const gpu = cuda.device(0);
    using other = gpu.createStream({ nonBlocking: true });
    using pool = gpu.createPool();
    using allocator = create(pool, { maxSize: slabByteLength });
    using gate = new Gate(cuda);
    const gone = gpu.createStream({ nonBlocking: true });
    const freed = allocator.allocate(slabByteLength, gone);
    const { address } = freed;
    gate.hold(gone);
    freed.fill(1);
    freed.free();
    gone[Symbol.dispose]();
    const next = allocator.allocate(slabByteLength, other);
    assertEquals(next.address, address);
    next.fill(2);
    assertWaits(other);
    gate.open();
    gpu.synchronize();
    assertUniform(await next.read(Uint8Array), 2);
    next.free();

    // Short-lived streams leave no resources behind.
    for (let round = 0; round < 20; round++) {
      using stream = gpu.createStream();
      using buffer = allocator.allocate(slabByteLength, stream);
      buffer.fill(round);
      assertEquals(buffer.readSync(Uint8Array, { length: 1 })[0], round);
    }
    assertEquals(allocator.usage().slabs, 1);
    const late = gpu.createStream();
    const unfreed = allocator.allocate(100, late);
    // Nothing else comes between the allocation and the free on another stream.
    late.synchronize();
    late[Symbol.dispose]();
    assertThrows(() => unfreed.free(late), ReferenceError, "the stream of device 0: it was disposed");
    assertThrows(() => allocator.allocate(1, late), ReferenceError, "it was disposed");
    assertEquals(allocator.usage().buffers, 1);
    unfreed.free(other);
    assertEquals(allocator.usage().buffers, 0);
  },
);

testOnEachDriver("memory freed on another stream belongs to that stream", async (cuda) => {
  const gpu = cuda.device(0);
  using allocating = gpu.createStream({ nonBlocking: true });
  using freeing = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using allocator = create(pool);
  using gate = new Gate(cuda);
  const buffer = allocator.allocate(slabByteLength, allocating);
  const { address } = buffer;
  buffer.fill(1);
  await allocating.finished();
  gate.hold(freeing);
  buffer.fill(2, freeing);
  buffer.free(freeing);
  using meanwhile = allocator.allocate(slabByteLength, allocating);
  assertNotEquals(meanwhile.address, address);
  using next = allocator.allocate(slabByteLength, freeing);
  assertEquals(next.address, address);
  gate.open();
});

testOnEachDriver("kept memory is not reused, but its neighbours are", (cuda) => {
  using recorded = recordWarnings();
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  const allocator = create(pool, { maxSize: slabByteLength });
  const [kept, neighbour] = [allocator.allocate(mebibytes, stream), allocator.allocate(mebibytes, stream)];
  const { address } = kept;
  let notified = 0;
  const letGo = allocationOf(kept).keep(() => notified++);
  kept.free();
  assertEquals(notified, 1);
  assertThrows(() => kept.address, ReferenceError, "it was freed");
  assertMatch(inspect(kept), /freed, still kept }$/);
  neighbour.free();
  using again = allocator.allocate(mebibytes, stream);
  assertNotEquals(again.address, address);
  assertThrows(() => allocator.allocate(mebibytes, stream), CudaError, "maxSize");
  allocator.trimTo(0);
  assertEquals(allocator.usage().slabs, 1);
  letGo();
  letGo();
  using next = allocator.allocate(mebibytes, stream);
  assertEquals(next.address, address);
  again.free();
  const letGoNext = allocationOf(next).keep(() => {});
  next.free();
  allocator[Symbol.dispose]();
  assertEquals(recorded.warnings, [], "freed buffers are not leaked");
  stream.synchronize();
  assert(pool.usage().used >= slabByteLength);
  letGoNext();
  stream.synchronize();
  assertEquals(pool.usage().used, 0);
});

testOnEachDriver("memory freed during a read is reused only after the read", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using reader = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using allocator = create(pool, { maxSize: 34 * mebibytes });
  using gate = new Gate(cuda);
  for (const byteLength of [mebibytes, 33 * mebibytes]) {
    const buffer = allocator.allocate(byteLength, stream);
    const { address } = buffer;
    buffer.fill(3);
    await stream.finished();
    gate.hold(reader);
    const reading = buffer.read(Uint8Array, { stream: reader });
    buffer.free();
    // The longer buffer leaves a remainder to give to the reader's stream, which is kept until the read is done.
    const isKept = byteLength > 32 * mebibytes;
    if (!isKept) {
      using next = allocator.allocate(byteLength, stream);
      assert(next.address !== address);
      next.fill(4);
      await stream.finished();
    }
    assertEquals(allocator.usage().buffers, isKept ? 1 : 0);
    gate.open();
    assertUniform(await reading, 3);
    assertEquals(allocator.usage().buffers, 0);
  }
});

testOnEachDriver("streams of two devices reuse each other's memory", async (cuda) => {
  const [first, second] = [cuda.device(0), cuda.device(1)];
  using near = first.createStream({ nonBlocking: true });
  using far = second.createStream({ nonBlocking: true });
  using pool = first.createPool();
  pool.setAccess(second, "read-write");
  using module = second.loadModule(ptx);
  using allocator = create(pool, { maxSize: slabByteLength });
  using gate = new Gate(cuda);
  let address: bigint | undefined;
  for (let round = 0; round < 3; round++) {
    using onNear = allocator.allocate(slabByteLength, near);
    gate.hold(near);
    onNear.fill(1);
    onNear.free();
    using onFar = allocator.allocate(slabByteLength, far);
    assertEquals(onFar.address, address ??= onFar.address);
    assert(onFar.device === first);
    module.kernel("fill").launch({ grid: 64, block: 64, stream: far }, onFar, slabByteLength, 0x02020202);
    assertWaits(far);
    gate.open();
    first.synchronize();
    assertUniform(await onFar.read(Uint8Array), 2);
    onFar.free(round === 1 ? near : far);
  }
  assertEquals(allocator.usage().slabs, 1);
}, { devices: 2 });

testOnEachDriver(
  "the host sees the memory of a host pool's allocator, and its views end with their buffers",
  async (cuda) => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream({ nonBlocking: true });
    using pool = cuda.createHostPool({ numaNode: 0 });
    using allocator = create(pool);
    assertEquals(allocator.device, undefined);
    assertThrows(() => allocator.allocate(100), TypeError, "without a stream: give one");
    using neighbour = allocator.allocate(1000, stream);
    using array = allocator.allocateArray(Uint32Array, 250, stream);
    neighbour.copyFrom(uniform(9, 1000));
    array.copyFrom(new Uint32Array(250).fill(5));
    stream.synchronize();
    const view = new Uint32Array(array.hostView());
    assertEquals([view.length, view[0], view[249]], [250, 5, 5]);
    view.fill(6);
    const part = new Uint8Array(array.subarray(249).hostView());
    assertEquals([...part], [6, 0, 0, 0]);
    assertEquals(await array.toTypedArray(), new Uint32Array(250).fill(6));
    assertEquals(new Uint8Array(neighbour.hostView()), uniform(9, 1000));
    const { address } = array;
    array.free();
    assertEquals([view.length, part.length], [0, 0]);
    using next = allocator.allocate(1000, stream);
    assertEquals(next.address, address);
    assertEquals(new Uint32Array(next.hostView())[0], 6);
    assertThrows(() => allocator.allocate(tooMuch, stream), CudaError, "from the allocator in host memory");
    assertEquals(inspect(allocator), "CachingAllocator { host, 2 buffers, 2048 of 2097152 bytes in use }");
  },
);

testOnEachDriver(
  "disposing an allocator reports leaked buffers, which can still be freed later",
  async (cuda) => {
    using recorded = recordWarnings();
    const gpu = cuda.device(0);
    using stream = gpu.createStream({ nonBlocking: true });
    using pool = gpu.createPool();
    const allocator = create(pool);
    const leaked = [1000, 24].map((byteLength) => allocator.allocate(byteLength, stream));
    using _ofItsOwn = allocator.allocate(slabByteLength, stream);
    leaked[0]!.fill(5);
    _ofItsOwn.free();
    allocator[Symbol.dispose]();
    allocator[Symbol.dispose]();
    assertEquals(recorded.warnings, [
      "poolpass: 2 buffers were not freed before the allocator on device 0 was disposed, 1280 bytes",
    ]);
    stream.synchronize();
    assertEquals(pool.usage().used, slabByteLength, "the slab without buffers was freed");
    assertEquals(await leaked[0]!.read(Uint8Array), uniform(5, 1000));
    leaked[0]!.free();
    stream.synchronize();
    assertEquals(pool.usage().used, slabByteLength);
    leaked[1]!.free();
    stream.synchronize();
    assertEquals(pool.usage().used, 0);
    assertEquals(recorded.warnings.length, 1);
    for (
      const use of [() => allocator.allocate(1), () => allocator.trimTo(0), () => allocator.allocateArray(Int8Array, 1)]
    ) {
      assertThrows(use, ReferenceError, "Cannot use the allocator on device 0: it was disposed");
    }
    assertEquals(inspect(allocator), "CachingAllocator { device 0, disposed }");
  },
  { makesMistakes: true },
);

testOnEachDriver("a pool can be disposed before its allocators, and both before their buffers", async (cuda) => {
  using recorded = recordWarnings();
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  {
    const pool = gpu.createPool();
    using allocator = create(pool);
    allocator.allocate(1000, stream).free();
    pool[Symbol.dispose]();
    assertThrows(() => allocator.allocate(1, stream), ReferenceError, "the allocator on device 0: it was disposed");
    assertEquals(recorded.warnings, []);
    assertThrows(() => create(pool), ReferenceError, "the pool on device 0: it was disposed");
  }
  const pool = gpu.createPool();
  const [one, other] = [create(pool), create(pool)];
  using buffer = one.allocate(1000, stream);
  using array = other.allocateArray(Int32Array, 10, stream);
  buffer.fill(8);
  array.fill(1);
  pool[Symbol.dispose]();
  assertEquals(recorded.warnings.map((warning) => warning.replace(/.*poolpass: /, "")), [
    "1 buffer was not freed before the allocator on device 0 was disposed, 1024 bytes",
    "1 buffer was not freed before the allocator on device 0 was disposed, 256 bytes",
  ]);
  assertEquals(await buffer.read(Uint8Array), uniform(8, 1000));
  buffer.free();
  assertEquals((await array.toTypedArray())[9], 1);
}, { makesMistakes: true });

testOnEachDriver("an allocator can be disposed after its Cuda object", (_, { open }) => {
  using recorded = recordWarnings();
  const cuda = new Cuda(new Session(open()));
  const gpu = cuda.device(0);
  const stream = gpu.createStream();
  const pool = gpu.createPool();
  const allocator = create(pool);
  const [freed, unfreed] = [allocator.allocate(1000, stream), allocator.allocate(1000, stream)];
  freed.free();
  cuda[Symbol.dispose]();
  assertThrows(() => allocator.allocate(1, stream), ReferenceError, "the Cuda object was disposed");
  assertThrows(() => allocator.trimTo(0), ReferenceError, "the Cuda object was disposed");
  assertThrows(() => unfreed.free(), ReferenceError, "the Cuda object was disposed");
  unfreed[Symbol.dispose]();
  allocator[Symbol.dispose]();
  pool[Symbol.dispose]();
  stream[Symbol.dispose]();
  assertEquals(recorded.warnings, [
    "poolpass: 1 buffer (1024 bytes) not freed before the Cuda object was disposed",
  ]);
});

testOnEachDriver("an allocator can use a default pool, and returns its memory", (cuda) => {
  const gpu = cuda.device(0);
  const { defaultPool } = gpu;
  const { used } = defaultPool.usage();
  {
    using allocator = create(defaultPool);
    using buffer = allocator.allocate(1000);
    assert(buffer.pool === defaultPool && buffer.stream === gpu.defaultStream);
    defaultPool[Symbol.dispose]();
    allocator.allocate(1).free();
    assertEquals(defaultPool.usage().used, used + slabByteLength);
  }
  gpu.synchronize();
  assertEquals(defaultPool.usage().used, used);
});

testOnEachDriver("invalid sizes and options are refused before the driver is called", (_, { open }) => {
  const driver = open();
  using cuda = new Cuda(new Session(driver));
  using pool = cuda.device(0).createPool();
  using allocator = create(pool);
  {
    using counted = countCalls(driver);
    for (const size of [0, -1, 1.5, NaN, Infinity, 2 ** 60]) {
      assertThrows(() => allocator.allocate(size), RangeError, `Cannot use ${size} as an allocation's size`);
      assertThrows(() => create(pool, { slabByteLength: size }), RangeError);
    }
    assertThrows(
      () => allocator.allocate("4" as unknown as number),
      TypeError,
      "a string as an allocation's size: it must be a number of bytes, such as 1024",
    );
    assertThrows(() => allocator.allocateArray(Float32Array, 0.5), RangeError);
    for (const maxSize of [-1, 1.5, NaN, Infinity]) {
      assertThrows(() => create(pool, { maxSize }), RangeError, "as an allocator's maxSize: it must be a whole number");
    }
    assertThrows(() => create(pool, { maxSize: "4" as unknown as number }), TypeError, "an allocator's maxSize");
    assertThrows(() => create(pool, { slabByteLength: 0 }), RangeError, "as an allocator's slabByteLength");
    assertThrows(
      () => create(pool, { slabByteLength: 2 ** 40 }),
      RangeError,
      "Cannot use slabs of 1099511627776 bytes",
    );
    assertEquals(counted.calls, {});
  }
  assertEquals(allocator.usage().buffers, 0);
  const buffer = allocator.allocate(100);
  buffer.free();
  assertThrows(() => buffer.free(), ReferenceError, "Cannot free the buffer of 100 bytes: it was freed");
  assertThrows(() => buffer.fill(1), ReferenceError, "it was freed");
  buffer[Symbol.dispose]();
  assertEquals([allocator.usage().buffers, allocator.usage().used], [0, 0]);
  using again = allocator.allocate(100);
  using other = allocator.allocate(100);
  assertNotEquals(again.address, other.address);
});

testOnEachDriver(
  "values that are not streams or buffers of an allocator's Cuda object are refused",
  (cuda, { open }) => {
    using other = new Cuda(new Session(open()));
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using foreign = other.device(0).createStream();
    using pool = gpu.createPool();
    using allocator = create(pool);
    for (const wrong of [stream.device, 5] as never[]) {
      assertThrows(
        () => allocator.allocate(16, wrong),
        TypeError,
        " as a stream: give a CudaStream from CudaDevice.createStream",
      );
      assertThrows(() => allocator.allocateArray(Uint8Array, 16, wrong), TypeError, " as a stream: ");
      assertThrows(() => allocator.slabOf(wrong), TypeError, "Cannot find the slab of ");
    }
    assertThrows(() => allocator.allocate(16, foreign), TypeError, "Cannot use a stream of another Cuda object");
    assertEquals(allocator.usage().slabs, 0);
  },
);

testOnEachDriver("in debug mode, an allocator reports where leaked buffers were allocated", (_, { open }) => {
  using recorded = recordWarnings();
  using cuda = new Cuda(new Session(open(), { debug: true }));
  using pool = cuda.device(0).createPool();
  const allocator = create(pool);
  allocator.allocate(500).free();
  const leaked = allocator.allocate(1000);
  const kept = allocator.allocate(300);
  const letGo = allocationOf(kept).keep(() => {});
  kept.free();
  allocator[Symbol.dispose]();
  assertEquals(recorded.warnings.length, 1);
  const [head, origin, ...frames] = recorded.warnings[0]!.split("\n");
  assertMatch(head!, /^poolpass: 1 buffer was not freed before the allocator on device 0 was disposed, 1024 bytes$/);
  assertEquals(origin, "1000 bytes allocated");
  assertMatch(frames.join("\n"), /caching_allocator_test\.ts/);
  assert(!frames.some((frame) => frame.includes("bytes allocated")), "the other buffers were freed");
  leaked.free();
  letGo();
});

testOnEachDriver("an allocator prints its device, buffers and bytes in use", (cuda) => {
  using pool = cuda.device(0).createPool();
  using allocator = create(pool);
  assertEquals(inspect(allocator), "CachingAllocator { device 0, 0 buffers, 0 of 0 bytes in use }");
  using buffer = allocator.allocate(1000);
  assertEquals(inspect(allocator), "CachingAllocator { device 0, 1 buffer, 1024 of 2097152 bytes in use }");
  assertMatch(inspect(buffer), /^DeviceBuffer { device 0, 1000 bytes, 0x[0-9a-f]+ }$/);
});

testOnEachDriver(
  "slabOf returns a buffer's slab and offset, and the slab can be neither freed nor disposed",
  (cuda) => {
    const gpu = cuda.device(0);
    using pool = gpu.createPool({ handleType: "posix-fd" });
    using handle = pool.exportHandle();
    using allocator = create(pool);
    using other = create(pool);
    using first = allocator.allocate(1000);
    using second = allocator.allocateArray(Uint32Array, 250);
    using foreign = other.allocate(1000);
    using plain = pool.allocate(1000);
    const { slab, byteOffset } = allocator.slabOf(second);
    assertEquals([slab.byteLength, byteOffset], [slabByteLength, Number(second.address - slab.address)]);
    assertEquals(allocator.slabOf(second.subarray(10)).byteOffset, byteOffset + 40);
    assert(allocator.slabOf(first).slab === slab && other.slabOf(foreign).slab !== slab);
    assertEquals(slab.exportPointer().length, 64);
    for (const wrong of [foreign, plain]) {
      assertThrows(() => allocator.slabOf(wrong), TypeError, "it was not allocated from this allocator");
    }
    const advice =
      "offer it with an Exporter, or export the slab that its allocator's slabOf returns, and send the offset";
    assertThrows(() => second.exportPointer(), TypeError, advice);
    assertThrows(() => second.subarray(1).exportPointer(), TypeError, advice);
    assertThrows(() => first.exportHandle(), TypeError, "only memory from CudaDevice.allocate has one");
    assertThrows(
      () => slab.free(),
      TypeError,
      "Cannot free the buffer: it is a slab of an allocator; dispose the allocator instead",
    );
    slab[Symbol.dispose]();
    using imported = gpu.importPool(handle);
    using mapped = imported.importPointer(slab.exportPointer(), slab.byteLength);
    second.fill(0x07070707);
    assertEquals(mapped.readSync(Uint8Array, { byteOffset, length: 1000 }), uniform(7, 1000));
  },
);

// Only on the software device: on a GPU, the trap would lose the context for all tests of the process.
test("a driver error is reported once, as an error of the allocator [software]", () => {
  using cuda = new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: true })));
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using allocator = create(pool);
  using stream = gpu.createStream({ nonBlocking: true });
  using module = gpu.loadModule(trapPtx);
  module.kernel("trap").launch({ grid: 1, block: 1, stream });
  assertThrows(() => stream.synchronize(), CudaError);
  const { message } = assertThrows(() => allocator.allocate(1000, stream), CudaError);
  assertMatch(
    message,
    /^Cannot allocate 1024 bytes from the allocator on device 0: (cudaMallocFromPoolAsync failed: |kernel trap, )/,
  );
});

// Only on the software device, for the same reason.
test("an allocator whose device is lost is disposed without another error [software]", () => {
  using recorded = recordWarnings();
  for (const disposedFirst of ["stream", "allocator", "pool", "nothing"]) {
    using cuda = new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: true })));
    const gpu = cuda.device(0);
    using pool = gpu.createPool();
    using allocator = create(pool);
    using other = gpu.createStream({ nonBlocking: true });
    using stream = gpu.createStream({ nonBlocking: true });
    using buffer = allocator.allocate(1000, stream);
    using late = allocator.allocate(1000, stream);
    using module = gpu.loadModule(trapPtx);
    allocator.allocate(500, stream).free();
    module.kernel("trap").launch({ grid: 1, block: 1, stream });
    const error = assertThrows(() => stream.synchronize(), CudaError);
    assertEquals(error.code, "cudaErrorLaunchFailure");
    buffer.free();
    if (disposedFirst === "stream") stream[Symbol.dispose]();
    if (disposedFirst === "allocator") allocator[Symbol.dispose]();
    if (disposedFirst === "pool") pool[Symbol.dispose]();
    if (disposedFirst === "stream") late.free(other);
  }
  assertEquals(recorded.warnings.length, 2, "one warning for each allocator or pool disposed before its buffers");
});
