import { assert, assertEquals, assertThrows } from "@std/assert";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { boundsTable } from "../../src/software/abi/addresses.ts";
import type { CudaDevice } from "../../src/objects/cuda_device.ts";
import type { CudaStream } from "../../src/objects/streams/cuda_stream.ts";
import { memHandleType, streamFlags } from "../../src/driver.ts";
import { CudaError } from "../../src/support/errors.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { nextTurn } from "../../src/support/waiting/waiting.ts";
import { Gate } from "../support/gate.ts";
import { readBytes } from "../support/software_calls.ts";
import { testSoftware } from "../support/software_devices.ts";

const notShared = shimRefusal();

/** Queues work that keeps a stream busy for several time slices. */
function keepBusy(gpu: CudaDevice, stream: CudaStream): void {
  const ballast = gpu.createPool().allocate(64 * 2 ** 20, stream);
  ballast.fill(1);
  ballast.free();
}

const mebibyte = 2 ** 20;
/** A size that leaves no other memory in what a pool reports as reserved. */
const wholeUnit = 32 * mebibyte;
/** Bytes of a device's bounds table, which is created on first use and kept. */
const limitsOfOneDevice = boundsTable.byteLength;

testSoftware("each reuse policy lets another stream reuse memory, and no policy does not", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using other = gpu.createStream({ nonBlocking: true });
  using event = gpu.createEvent();
  using busy = gpu.createPool();
  using ballast = busy.allocate(64 * 2 ** 20, stream);
  for (
    const policy of ["followEventDependencies", "allowOpportunistic", "allowInternalDependencies", "none"] as const
  ) {
    using pool = gpu.createPool({ releaseThreshold: Infinity, maxSize: wholeUnit });
    const { reuse } = pool;
    reuse.followEventDependencies = policy === "followEventDependencies";
    reuse.allowOpportunistic = policy === "allowOpportunistic";
    reuse.allowInternalDependencies = policy === "allowInternalDependencies";
    const first = pool.allocate(wholeUnit, stream);
    const { address } = first;
    ballast.fill(1, stream);
    first.free();
    using sentinel = cuda.allocateHost(1);
    ballast.subarray(0, 1).copyTo(sentinel, stream);
    if (policy === "followEventDependencies") {
      stream.record(event);
      other.wait(event);
    }
    // The work is done, but no synchronization has seen it: only opportunistic reuse finds that out.
    if (policy === "allowOpportunistic") {
      while (new Uint8Array(sentinel.buffer)[0] === 0) await nextTurn();
    }
    if (policy === "none") {
      const error = assertThrows(() => pool.allocate(wholeUnit, other), CudaError);
      assertEquals(error.code, "cudaErrorMemoryAllocation");
    } else {
      using second = pool.allocate(wholeUnit, other);
      assertEquals(second.address, address, policy);
    }
    gpu.synchronize();
    using third = pool.allocate(wholeUnit, stream);
    assertEquals(third.address, address, "After a synchronization any stream may have the memory");
  }
});

testSoftware(
  "a full pool serves a large buffer from freed pieces of several units, and waits for their streams",
  async (cuda) => {
    const gpu = cuda.device(0);
    using gate = new Gate(cuda);
    using stream = gpu.createStream({ nonBlocking: true });
    using other = gpu.createStream({ nonBlocking: true });
    const freeAfterwards = new Set<number>();
    for (const handleType of ["none", notShared === undefined ? "posix-fd" : "none"] as const) {
      using pool = gpu.createPool({ handleType, maxSize: 3 * wholeUnit, releaseThreshold: Infinity });
      using kept = pool.allocate(wholeUnit / 4, stream);
      kept.fill(7, stream);
      const pieces = Array.from({ length: 5 }, (_, index) => pool.allocate(wholeUnit / 2, index < 3 ? stream : other));
      for (const piece of pieces) piece.fill(1, piece.stream);
      gpu.synchronize();
      for (const held of [stream, other]) gate.hold(held);
      for (const piece of pieces) piece.fill(2, piece.stream);
      for (const piece of pieces) piece.free(piece.stream);
      const whole = pool.allocate(2 * wholeUnit, stream);
      whole.fill(3, stream);
      assertEquals(pool.usage().reserved, 3 * wholeUnit);
      assertThrows(() => pool.allocate(wholeUnit, other), CudaError);
      assertEquals(stream.query(), false);
      gate.open();
      assertEquals(await whole.subarray(2 * wholeUnit - 1, 2 * wholeUnit).read(Uint8Array), new Uint8Array([3]));
      assertEquals((await kept.read(Uint8Array)).every((byte) => byte === 7), true);
      whole.free(stream);
      gpu.synchronize();
      kept.free(stream);
      gpu.synchronize();
      pool.trimTo(0);
      assertEquals(pool.usage().reserved, 0);
      freeAfterwards.add(gpu.memoryInfo().free);
    }
    assertEquals(freeAfterwards.size, 1, "replaced units were released");
  },
  { long: true },
);

testSoftware("a pool that is disposed right after it replaced units releases them", (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  // Creates the device's bounds table.
  using _first = gpu.defaultPool.allocate(1);
  const { free } = gpu.memoryInfo();
  const pool = gpu.createPool({ maxSize: 2 * wholeUnit });
  const pieces = Array.from({ length: 4 }, () => pool.allocate(wholeUnit / 2, stream));
  for (const piece of pieces) piece.fill(1, stream);
  for (const piece of pieces) piece.free(stream);
  pool.allocate(2 * wholeUnit, stream).free(stream);
  pool[Symbol.dispose]();
  assertEquals(gpu.memoryInfo().free, free);
});

testSoftware("a pool first reserves what it needs, in units of 2 MiB, and reports whole steps of 32 MiB", (cuda) => {
  const gpu = cuda.device(0);
  // Creates the device's bounds table.
  using _first = gpu.defaultPool.allocate(1);
  const { free } = gpu.memoryInfo();
  const taken = () => free - gpu.memoryInfo().free;
  using pool = gpu.createPool();
  using small = pool.allocate(256);
  assertEquals([taken(), pool.usage().reserved], [2 * mebibyte, wholeUnit]);
  using larger = pool.allocate(5 * mebibyte);
  assertEquals([taken(), pool.usage().reserved], [wholeUnit, wholeUnit]);
  using largest = pool.allocate(33 * mebibyte);
  assertEquals([taken(), pool.usage().reserved], [3 * wholeUnit, 3 * wholeUnit]);
  for (const buffer of [small, larger, largest]) buffer.free();
  gpu.synchronize();
  assertEquals([taken(), pool.usage().reserved], [0, 0]);
});

testSoftware("500 small pools leave most of the device's memory to others", (cuda) => {
  const gpu = cuda.device(0);
  const pools = Array.from({ length: 500 }, () => gpu.createPool());
  const buffers = pools.map((pool) => pool.allocate(256));
  using pool = gpu.createPool();
  using large = pool.allocate(2 ** 31);
  large.fill(1, undefined, { byteLength: 1 });
  for (const buffer of buffers) buffer.free();
  gpu.synchronize();
  for (const pool of pools) pool[Symbol.dispose]();
});

testSoftware("a limited pool replaces pieces of 2 MiB, although no work has run that used them", (cuda) => {
  const gpu = cuda.device(0);
  const streams = [1, 2].map(() => gpu.createStream({ nonBlocking: true }));
  using pool = gpu.createPool({ maxSize: 2 * wholeUnit });
  // Every other piece stays in use.
  const pieces = Array.from({ length: 32 }, (_, index) => pool.allocate(2 * mebibyte, streams[index & 1]!));
  for (const [index, piece] of pieces.entries()) if (index % 2 === 1) piece.free();
  // More than 4 GiB are replaced in all, so that work must run.
  for (let count = 0; count < 200; count++) {
    pool.allocate(30 * mebibyte + count % 2, streams[0]).free(streams[count & 1]);
  }
  assertEquals(pool.usage().reserved, 2 * wholeUnit);
  for (const [index, piece] of pieces.entries()) if (index % 2 === 0) piece.free();
  gpu.synchronize();
  assertEquals(pool.usage().reserved, 0);
  for (const stream of streams) stream[Symbol.dispose]();
});

testSoftware("a pool's maxSize is in whole units", (cuda) => {
  using pool = cuda.device(0).createPool({ maxSize: wholeUnit + 1 });
  using _first = pool.allocate(wholeUnit - 1);
  using _second = pool.allocate(wholeUnit);
  assertEquals(assertThrows(() => pool.allocate(1), CudaError).code, "cudaErrorMemoryAllocation");
});

testSoftware("a pool releases the free units between, before and after those in use", (cuda, driver) => {
  const gpu = cuda.device(0);
  const { free } = gpu.memoryInfo();
  const kept = [1, 4, 5];
  {
    using pool = gpu.createPool({ releaseThreshold: Infinity });
    pool.allocate(8 * wholeUnit).free();
    gpu.synchronize();
    const buffers = Array.from({ length: 8 }, () => pool.allocate(wholeUnit));
    assertEquals(pool.usage().reserved, 8 * wholeUnit);
    for (const [index, buffer] of buffers.entries()) buffer.fill(index);
    for (const [index, buffer] of buffers.entries()) if (!kept.includes(index)) buffer.free();
    gpu.synchronize();
    pool.trimTo(0);
    assertEquals(pool.usage().reserved, kept.length * wholeUnit);
    using between = gpu.createPool();
    const others = Array.from({ length: 5 }, () => between.allocate(wholeUnit));
    for (const other of others) {
      other.fill(0xff);
      other.free();
    }
    for (const index of kept) {
      const { address } = buffers[index]!;
      const ends = [address, address + BigInt(wholeUnit - 1)].map((end) => readBytes(driver, end, 1)[0]);
      assertEquals(ends, [index, index]);
      buffers[index]!.free();
    }
  }
  gpu.synchronize();
  assertEquals(gpu.memoryInfo().free, free - limitsOfOneDevice);
});

testSoftware("a pool keeps partly used units, and as much as the release threshold allows", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ releaseThreshold: 3.5 * wholeUnit });
  using _first = pool.allocate(wholeUnit / 2);
  const rest = pool.allocate(wholeUnit / 2);
  const large = pool.allocate(5 * wholeUnit);
  rest.free();
  large.free();
  gpu.synchronize();
  assertEquals(pool.usage().reserved, 3 * wholeUnit);
  pool.trimTo(wholeUnit + 1);
  assertEquals(pool.usage().reserved, 2 * wholeUnit);
  pool.trimTo(0);
  assertEquals(pool.usage().reserved, wholeUnit);
});

testSoftware(
  "closing a driver releases the memory in use by its pools, and pending frees of its streams",
  (cuda) => {
    const gpu = cuda.device(0);
    const { free } = gpu.memoryInfo();
    const other = new SoftwareDriver({ devices: 1, peers: true });
    const pool = other.deviceGetDefaultMemPool(0);
    const stream = other.streamCreateWithPriority(0, streamFlags.default, 0);
    const addresses = Array.from({ length: 5 }, () => other.mallocFromPoolAsync(0, wholeUnit - 1000, pool, stream));
    for (const index of [0, 3]) other.freeAsync(0, addresses[index]!, stream);
    assertEquals(gpu.memoryInfo().free, free - 5 * wholeUnit - limitsOfOneDevice);
    other.close();
    assertEquals(gpu.memoryInfo().free, free);
  },
);

testSoftware("a pool counts the requested bytes, and nothing for an allocation of 0 bytes", (cuda, driver) => {
  using pool = cuda.device(0).createPool();
  using _buffer = pool.allocate(513);
  assertEquals(driver.mallocFromPoolAsync(0, 0, pool.unsafeHandle, 0n), 0n);
  driver.freeAsync(0, 0n, 0n);
  assertEquals(pool.usage().used, 513);
});

testSoftware("all linear memory is returned", (cuda) => {
  const gpu = cuda.device(0);
  gpu.loadModule(fillPtx).kernel("fill").launch({ grid: 1, block: 1 }, 0n, 0, 0);
  gpu.synchronize();
  const { free } = gpu.memoryInfo();
  for (let round = 0; round < 3; round++) {
    using pool = gpu.createPool({ handleType: "posix-fd" });
    using handle = pool.exportHandle();
    using imported = gpu.importPool(handle);
    using buffer = pool.allocate(100 * 2 ** 20);
    using _mapped = imported.importPointer(buffer.exportPointer(), 1);
    assert(gpu.memoryInfo().free < free);
    gpu.synchronize();
  }
  gpu.synchronize();
  assertEquals(gpu.memoryInfo().free, free);
}, { skip: notShared });

testSoftware("a pool grows rather than let an allocation wait for another stream", (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using other = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool({ releaseThreshold: Infinity });
  const first = pool.allocate(wholeUnit, stream);
  const { address } = first;
  keepBusy(gpu, stream);
  first.free();
  using second = pool.allocate(wholeUnit, other);
  assert(second.address !== address);
  other.synchronize();
  assertEquals(stream.query(), false);
});

testSoftware("reuse ordered by a default stream needs no event", (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool({ releaseThreshold: Infinity });
  const first = pool.allocate(wholeUnit, stream);
  const { address } = first;
  first.free();
  using second = pool.allocate(wholeUnit);
  assertEquals(second.address, address);
});

testSoftware("free memory in pieces too small is released for a larger allocation", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ releaseThreshold: Infinity, maxSize: 2 * wholeUnit });
  const pieces = [pool.allocate(wholeUnit), pool.allocate(wholeUnit)];
  for (const piece of pieces) piece.free();
  gpu.synchronize();
  using large = pool.allocate(2 * wholeUnit);
  assertEquals(pool.usage().reserved, large.byteLength);
});

testSoftware("each allocation of reused memory has its own size, even before the stream reaches it", (cuda) => {
  const gpu = cuda.device(0);
  const stream = gpu.createStream();
  const pool = gpu.createPool();
  const fill = gpu.loadModule(fillPtx).kernel("fill");
  const first = pool.allocate(1000, stream);
  const { address } = first;
  fill.launch({ grid: 1, block: 32, stream }, first, 1000, 0);
  first.free();
  const second = pool.allocate(10, stream);
  assertEquals(second.address, address);
  stream.synchronize();
  fill.launch({ grid: 1, block: 32, stream }, second, 10, 0);
  stream.synchronize();
  fill.launch({ grid: 1, block: 32, stream }, second, 11, 0);
  assertEquals(assertThrows(() => stream.synchronize(), CudaError).code, "cudaErrorIllegalAddress");
});

testSoftware(
  "setting access applies to allocations that streams still use, not to those that the host made in their place",
  (cuda) => {
    const [gpu, peer] = [cuda.device(0), cuda.device(1)];
    using stream = gpu.createStream();
    using event = peer.createEvent();
    const pool = gpu.createPool();
    const fill = peer.loadModule(fillPtx).kernel("fill");
    const first = pool.allocate(1000, stream);
    stream.synchronize();
    using gate = new Gate(cuda);
    // The first launch runs only when the device has access.
    using held = gpu.createStream({ nonBlocking: true });
    using opened = gpu.createEvent();
    gate.hold(held);
    held.record(opened);
    peer.defaultStream.wait(opened);
    fill.launch({ grid: 1, block: 1 }, first, 1000, 0);
    peer.defaultStream.record(event);
    stream.wait(event);
    first.free();
    const second = pool.allocate(10, stream);
    pool.setAccess(peer, "read-write");
    gate.open();
    stream.synchronize();
    fill.launch({ grid: 1, block: 1 }, second, 10, 0);
    peer.synchronize();
    fill.launch({ grid: 1, block: 1 }, second.address, 1000, 0);
    assertEquals(assertThrows(() => peer.synchronize(), CudaError).code, "cudaErrorIllegalAddress");
  },
);

testSoftware("memory left by an earlier driver is not accessible", (cuda) => {
  {
    const gpu = cuda.device(0);
    using pool = gpu.createPool();
    using buffer = pool.allocate(2 * wholeUnit);
    buffer.fill(0xff);
    gpu.synchronize();
  }
  cuda.device(0).synchronize();
  const peer = cuda.device(1);
  peer.loadModule(fillPtx).kernel("fill").launch({ grid: 1, block: 1 }, 0x7a00_c000_0000n, 4, 0);
  assertEquals(assertThrows(() => peer.synchronize(), CudaError).code, "cudaErrorIllegalAddress");
});

testSoftware("a pool returns its memory to the system", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  const first = pool.allocate(4096);
  const { address } = first;
  first.fill(7);
  first.free();
  gpu.synchronize();
  assertEquals(pool.usage().reserved, 0);
  using second = pool.allocate(4096);
  assertEquals(second.address, address);
  assertEquals(second.readSync(Uint8Array), new Uint8Array(4096));
}, { skip: notShared });

testSoftware("work with an imported buffer completes after its free and its pool's destruction", (cuda, driver) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using buffer = pool.allocate(5000);
  buffer.fill(1);
  using handle = pool.exportHandle();
  gpu.synchronize();
  const { free } = gpu.memoryInfo();
  {
    using imported = gpu.importPool(handle);
    using mapped = imported.importPointer(buffer.exportPointer(), 5000);
    mapped.stream = stream;
    mapped.fill(2);
  }
  stream.synchronize();
  assertEquals(readBytes(driver, buffer.address, 5000), new Uint8Array(5000).fill(2));
  gpu.synchronize();
  assertEquals(gpu.memoryInfo().free, free);
}, { skip: notShared });

testSoftware("a pool exports no pointers until its handle was exported", (cuda, driver) => {
  using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
  using buffer = pool.allocate(64);
  const error = assertThrows(() => driver.memPoolExportPointer(buffer.address), CudaError);
  assertEquals(error.code, "cudaErrorInvalidValue");
  pool.exportHandle()[Symbol.dispose]();
  assertEquals(driver.memPoolExportPointer(buffer.address).length, 64);
  using later = pool.allocate(64);
  assertEquals(driver.memPoolExportPointer(later.address).length, 64);
}, { skip: notShared });

testSoftware("a pool imported again is the same pool until its last import is destroyed", (cuda, driver) => {
  const { posixFileDescriptor } = memHandleType;
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using buffer = pool.allocate(64);
  buffer.fill(5);
  gpu.synchronize();
  using handle = pool.exportHandle();
  using another = pool.exportHandle();
  const first = driver.memPoolImportFromShareableHandle(0, handle.fd, posixFileDescriptor);
  assertEquals(driver.memPoolImportFromShareableHandle(0, another.fd, posixFileDescriptor), first);
  const address = driver.memPoolImportPointer(0, first, driver.memPoolExportPointer(buffer.address));
  assertEquals(assertThrows(() => driver.memPoolDestroy(first), CudaError).code, "cudaErrorInvalidValue");
  const bytes = new Uint8Array(64);
  driver.memcpyDtoHAsync(0, bytes, address, 0n);
  assertEquals(bytes, new Uint8Array(64).fill(5));
  driver.freeAsync(0, address, 0n);
  driver.memPoolDestroy(first);
  driver.memPoolDestroy(first);
  assertThrows(() => driver.memPoolDestroy(first), CudaError, "cudaErrorInvalidValue");
  const again = driver.memPoolImportFromShareableHandle(0, handle.fd, posixFileDescriptor);
  assert(again !== first);
  driver.memPoolDestroy(again);
}, { skip: notShared });
