/**
 * Tests an allocator when driver calls fail, when work never completes, and over many operations.
 *
 * @module
 */
import { assert, assertEquals, AssertionError, assertStrictEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import type { SlabBlock } from "../../../src/memory/caching/block.ts";
import { blockAlignment, SizeClasses } from "../../../src/memory/caching/allocator_options.ts";
import { UnmergedBlocks } from "../../../src/memory/caching/free_list.ts";
import { Cuda, sessionOf } from "../../../src/objects/cuda.ts";
import { CudaError, cudaErrorNumbers } from "../../../src/support/errors.ts";
import type { CudaStream } from "../../../src/objects/streams/cuda_stream.ts";
import type { DeviceBuffer } from "../../../src/memory/device_buffer.ts";
import type { Driver } from "../../../src/driver.ts";
import { Session } from "../../../src/session.ts";
import { FakeDriver } from "./caching_fake_driver.ts";
import { observed } from "./caching_observed_driver.ts";
import { StreamOrder } from "./caching_stream_order.ts";
import { countCalls } from "../../sharing/channel/channel_peers.ts";
import { testOnEachDriver } from "../../support/drivers.ts";
import { Gate } from "../../support/gate.ts";

type DriverCall = keyof Driver & keyof FakeDriver;

const mebibytes = 2 ** 20;
const slabByteLength = 2 * mebibytes;
const usualSlabByteLength = 32 * mebibytes;

/** Declares a test on a fake driver, which runs no work by itself. Fails if a resource is left at the end. */
function testOnFakeDriver(
  name: string,
  body: (cuda: Cuda, more: { fake: FakeDriver; order: StreamOrder }) => void,
  { devices = 1 }: { devices?: number } = {},
): void {
  test(`${name} [fake]`, () => {
    const fake = new FakeDriver(devices);
    const order = new StreamOrder();
    {
      using cuda = new Cuda(new Session(observed(fake.driver, { order, model: undefined, events: new Map() })));
      body(cuda, { fake, order });
      // Streams that were disposed before their work was done have left events behind it.
      fake.finish();
      sessionOf(cuda).releaseCompleted();
      assertEquals(fake.left, { streams: 0, events: 0, pools: 0, hostAllocations: 0 });
    }
    assert(fake.isClosed);
  });
}

/** Replaces a method of an object until the result is disposed. */
function replace<T extends object>(target: T, name: keyof T, method: (...given: never[]) => unknown): Disposable {
  const before = Object.getOwnPropertyDescriptor(target, name);
  Object.defineProperty(target, name, { value: method, configurable: true, writable: true });
  return {
    [Symbol.dispose]() {
      if (before === undefined) delete target[name];
      else Object.defineProperty(target, name, before);
    },
  };
}

/** Makes only the next call of a driver's method fail. */
function failNext(fake: FakeDriver, call: DriverCall): void {
  const replaced = replace(fake, call, () => {
    replaced[Symbol.dispose]();
    throw new CudaError(cudaErrorNumbers.cudaErrorUnknown, call);
  });
}

/** Makes calls for a device fail from now on, as after its context is lost. */
function lose(fake: FakeDriver, device: number): void {
  const calls: DriverCall[] = ["streamQuery", "streamWaitEvent", "eventCreateWithFlags", "eventRecord", "freeAsync"];
  for (const call of calls) {
    const method = fake[call] as (...given: unknown[]) => unknown;
    replace(fake, call, (...given: unknown[]) => {
      if (given[0] === device) throw new CudaError(cudaErrorNumbers.cudaErrorIllegalAddress, call);
      return method.apply(fake, given);
    });
  }
}

/** Makes every wait of the host fail, unless the awaited work is done. */
function forbidWaits(driver: Driver): Disposable {
  const refuse = (): never => {
    throw new AssertionError("The host waits");
  };
  const { streamSynchronize } = driver;
  using stack = new DisposableStack();
  stack.use(replace(driver, "deviceSynchronize", refuse));
  stack.use(replace(driver, "eventSynchronize", refuse));
  stack.use(replace(driver, "streamSynchronize", (device: number, stream: bigint) => {
    if (!driver.streamQuery(device, stream)) refuse();
    streamSynchronize.call(driver, device, stream);
  }));
  return stack.move();
}

/** Returns an allocation, or undefined if there is too little memory. */
function tryToAllocate(allocate: () => DeviceBuffer): DeviceBuffer | undefined {
  try {
    return allocate();
  } catch (error) {
    if (error instanceof CudaError && error.code === "cudaErrorMemoryAllocation") return undefined;
    throw error;
  }
}

testOnEachDriver("the host does not wait for slabs behind the work of a destroyed stream", (_, { open }) => {
  const driver = open();
  using cuda = new Cuda(new Session(driver));
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ maxSize: 2 * usualSlabByteLength });
  using allocator = pool.createCachingAllocator({ slabByteLength: usualSlabByteLength });
  using atRest = gpu.createStream({ nonBlocking: true });
  using other = gpu.createStream({ nonBlocking: true });
  using behind = gpu.createEvent();
  using gate = new Gate(cuda);
  {
    using gone = gpu.createStream({ nonBlocking: true });
    const buffers = [1, 2].map(() => allocator.allocate(usualSlabByteLength, atRest));
    gpu.synchronize();
    gate.hold(gone);
    gone.record(behind);
    for (const buffer of buffers) buffer.free(gone);
  }
  assert(atRest.query());
  {
    using _forbidden = forbidWaits(driver);
    using _buffer = tryToAllocate(() => allocator.allocate(1.5 * usualSlabByteLength, other));
  }
  assert(!behind.query(), "the work is still unfinished");
  gate.open();
});

testOnEachDriver("the host does not wait for a default stream that keeps an idle stream busy", (_, { open }) => {
  const driver = open();
  using cuda = new Cuda(new Session(driver));
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ maxSize: 2 * usualSlabByteLength });
  using allocator = pool.createCachingAllocator({ slabByteLength: usualSlabByteLength });
  using blocking = gpu.createStream();
  using other = gpu.createStream({ nonBlocking: true });
  using behind = gpu.createEvent();
  using gate = new Gate(cuda);
  for (const buffer of [1, 2].map(() => allocator.allocate(usualSlabByteLength, blocking))) buffer.free();
  gpu.synchronize();
  gate.hold(gpu.defaultStream);
  gpu.defaultStream.record(behind);
  assert(blocking.query());
  {
    using _forbidden = forbidWaits(driver);
    using _buffer = tryToAllocate(() => allocator.allocate(1.5 * usualSlabByteLength, other));
  }
  assert(!behind.query(), "the work is still unfinished");
  gate.open();
});

for (const call of ["eventCreateWithFlags", "eventRecord"] as const) {
  for (const isDisposedFirst of [true, false]) {
    const when = isDisposedFirst ? "after it" : "before it";
    testOnFakeDriver(
      `a stream whose end cannot be recorded stays until it can: ${call}, with its memory requested ${when}`,
      (cuda, { fake, order }) => {
        const gpu = cuda.device(0);
        using pool = gpu.createPool();
        using allocator = pool.createCachingAllocator({ slabByteLength, maxSize: slabByteLength });
        using stream = gpu.createStream();
        using other = gpu.createStream();
        const freed = allocator.allocate(slabByteLength, stream);
        const { address } = freed;
        freed.fill(1);
        freed.free();
        const point = order.now(order.stream(0, stream.unsafeHandle));
        for (let attempt = 0; attempt < 2; attempt++) {
          failNext(fake, call);
          assertThrows(() => stream[Symbol.dispose](), CudaError, call);
          assertEquals([stream.disposed, fake.left.streams], [false, 2]);
        }
        {
          using own = allocator.allocate(slabByteLength, stream);
          assertEquals(own.address, address);
        }
        if (isDisposedFirst) {
          stream[Symbol.dispose]();
          assertEquals([stream.disposed, fake.left.streams], [true, 1]);
        }
        {
          using taken = allocator.allocate(slabByteLength, other);
          assertEquals(taken.address, address);
          assert(
            order.isBefore(point, order.stream(0, other.unsafeHandle)),
            "the allocation is ordered behind the stream's work",
          );
        }
        stream[Symbol.dispose]();
        assertEquals([stream.disposed, fake.left.streams], [true, 1]);
        allocator.trimTo(0);
        assertEquals([allocator.usage().slabs, pool.usage().used], [0, 0]);
      },
    );
  }
}

testOnFakeDriver("a stream for each task leaves no resources behind", (cuda, { fake }) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using allocator = pool.createCachingAllocator();
  const runTask = () => {
    using stream = gpu.createStream();
    using _buffer = allocator.allocate(256, stream);
  };
  for (let task = 0; task < 500; task++) {
    runTask();
    fake.finish();
    assert(fake.left.events <= 2, `${fake.left.events} events after ${task + 1} tasks`);
  }
  assertEquals(allocator.usage().slabs, 1);
  for (let task = 0; task < 100; task++) runTask();
  assert(fake.left.events <= 201, `${fake.left.events} events for 100 streams whose work is not done`);
  fake.finish();
  for (let task = 0; task < 100; task++) {
    runTask();
    fake.finish();
  }
  assert(fake.left.events <= 2, `${fake.left.events} events once what was behind has been done`);
});

testOnFakeDriver("a last buffer whose slab cannot be freed at first is freed once", (cuda, { fake }) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using stream = gpu.createStream();
  const allocator = pool.createCachingAllocator({ slabByteLength });
  const warnings: string[] = [];
  using _recorded = replace(console, "warn", (message: string) => warnings.push(message));
  const [buffer, last] = [allocator.allocate(1000, stream), allocator.allocate(1000, stream)];
  allocator[Symbol.dispose]();
  assertEquals(warnings.length, 1);
  buffer.free();
  for (let attempt = 0; attempt < 2; attempt++) {
    failNext(fake, "freeAsync");
    assertThrows(() => last.free(), CudaError, "freeAsync");
    const { used, buffers, slabs } = allocator.usage();
    assertEquals({ used, buffers, slabs }, { used: 0, buffers: 0, slabs: 1 });
  }
  last.free();
  const { used, buffers, slabs, reserved } = allocator.usage();
  assertEquals({ used, buffers, slabs, reserved }, { used: 0, buffers: 0, slabs: 0, reserved: 0 });
  assertEquals(pool.usage().used, 0);
  assertThrows(() => last.free(), ReferenceError, "it was freed");
});

testOnFakeDriver("an allocator that could not free all slabs can be disposed again", (cuda, { fake }) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using stream = gpu.createStream();
  const allocator = pool.createCachingAllocator({ slabByteLength });
  for (const buffer of [1, 2, 3].map(() => allocator.allocate(slabByteLength, stream))) buffer.free();
  failNext(fake, "freeAsync");
  assertThrows(() => allocator[Symbol.dispose](), CudaError, "freeAsync");
  assertEquals([allocator.usage().slabs, pool.usage().used], [3, 3 * slabByteLength]);
  allocator[Symbol.dispose]();
  assertEquals([allocator.usage().slabs, pool.usage().used], [0, 0]);
});

testOnFakeDriver(
  "an allocator whose disposal fails does not stop its pool from disposing the others",
  (cuda, { fake }) => {
    const gpu = cuda.device(0);
    const pool = gpu.createPool();
    using stream = gpu.createStream();
    const allocators = [1, 2, 3].map(() => pool.createCachingAllocator({ slabByteLength }));
    for (const allocator of allocators) allocator.allocate(slabByteLength, stream).free();
    failNext(fake, "freeAsync");
    assertThrows(() => pool[Symbol.dispose](), CudaError, "freeAsync");
    assertEquals(allocators.map((allocator) => allocator.usage().slabs), [1, 0, 0]);
    for (const allocator of allocators) {
      assertThrows(() => allocator.allocate(1, stream), ReferenceError, "it was disposed");
    }
    assertEquals(fake.left.pools, 1);
    allocators[0]![Symbol.dispose]();
    assertEquals(fake.left.pools, 0);
  },
);

testOnFakeDriver("a lost device does not block the memory of another device", (cuda, { fake }) => {
  using pool = cuda.device(0).createPool();
  using allocator = pool.createCachingAllocator({ slabByteLength });
  using near = cuda.device(0).createStream();
  using _onNear = allocator.allocate(slabByteLength, near);
  {
    using far = cuda.device(1).createStream();
    allocator.allocate(slabByteLength, far).free();
    lose(fake, 1);
    using _buffer = allocator.allocate(mebibytes, near);
  }
  using _buffer = allocator.allocate(slabByteLength, near);
}, { devices: 2 });

testOnFakeDriver("growing buffers reserve at most four times the bytes in use", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using stream = gpu.createStream();
  const sizes = Array.from({ length: 101 }, (_, index) => (33 + index) * mebibytes);
  const assertBounded = (grow: (allocate: (size: number) => DeviceBuffer) => void) => {
    using allocator = pool.createCachingAllocator();
    grow((size) => allocator.allocate(size, stream));
    const { reservedHigh, usedHigh } = allocator.usage();
    assert(reservedHigh <= 4 * usedHigh + usualSlabByteLength, `${reservedHigh} bytes for ${usedHigh}`);
  };
  assertBounded((allocate) => {
    for (const size of sizes) allocate(size).free();
  });
  assertBounded((allocate) => {
    let last: DeviceBuffer | undefined;
    for (const size of sizes) {
      const next = allocate(size);
      last?.free();
      last = next;
    }
    last!.free();
  });
});

testOnFakeDriver("peak use before a trim does not count afterwards", (cuda, { fake }) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using allocator = pool.createCachingAllocator();
  using stream = gpu.createStream();
  using other = gpu.createStream();
  const buffers = Array.from({ length: 32 }, () => allocator.allocate(usualSlabByteLength, stream));
  for (const buffer of buffers) buffer.free();
  fake.finish();
  allocator.trimTo(0);
  allocator.resetHigh();
  for (let step = 0; step < 1000; step++) {
    allocator.allocate(mebibytes, stream).free(other);
    fake.finish();
  }
  const { reservedHigh } = allocator.usage();
  assert(reservedHigh <= usualSlabByteLength, `${reservedHigh} bytes for a mebibyte at a time`);
});

testOnFakeDriver("a pool without free memory is not asked for every allocation", (cuda, { fake }) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ maxSize: 64 * mebibytes });
  using allocator = pool.createCachingAllocator();
  using stack = new DisposableStack();
  const streams = Array.from({ length: 64 }, () => stack.use(gpu.createStream()));
  const streamOf = (step: number): CudaStream => streams[step % streams.length]!;
  const allocate = (step: number): DeviceBuffer => allocator.allocate(mebibytes / 4, streamOf(step));
  const buffers = Array.from({ length: 240 }, (_, step) => allocate(step));
  const steps = 1000;
  using counted = countCalls(fake);
  for (let step = 0; step < steps; step++) {
    buffers.shift()!.free(streamOf(step * 7 + 3));
    buffers.push(allocate(step));
  }
  const { mallocFromPoolAsync = 0 } = counted.calls;
  assert(mallocFromPoolAsync <= steps / 10, `the pool was asked ${mallocFromPoolAsync} times`);
  for (const buffer of buffers) buffer.free();
});

testOnFakeDriver("a pool that regained memory is asked before an allocation fails", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ maxSize: 2 * slabByteLength });
  using allocator = pool.createCachingAllocator({ slabByteLength });
  using stream = gpu.createStream();
  using _own = allocator.allocate(slabByteLength, stream);
  {
    using _foreign = pool.allocate(slabByteLength, stream);
    for (let attempt = 0; attempt < 3; attempt++) {
      assertStrictEquals(tryToAllocate(() => allocator.allocate(slabByteLength, stream)), undefined);
    }
  }
  using buffer = allocator.allocate(slabByteLength, stream);
  assertEquals(buffer.byteLength, slabByteLength);
});

testOnFakeDriver("streams with small allocations get small slabs", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using allocator = pool.createCachingAllocator();
  using stack = new DisposableStack();
  const count = 100;
  for (let index = 0; index < count; index++) {
    const stream = stack.use(gpu.createStream());
    stack.use(allocator.allocate(256, stream));
  }
  assertEquals(allocator.usage().reserved, count * 2 * mebibytes);
});

/** The part of a free block that searches use. It reports each read of its size. */
function countedBlock(byteLength: number, onRead: () => void): SlabBlock {
  const block: Pick<SlabBlock, "byteLength" | "sizeClass" | "next" | "previous"> = {
    get byteLength() {
      onRead();
      return byteLength;
    },
    sizeClass: 0,
    next: undefined,
    previous: undefined,
  };
  return block as SlabBlock;
}

test("the search for a free block reads few of many blocks of similar size", () => {
  let reads = 0;
  const onRead = () => reads++;
  const classes = new SizeClasses();
  // One class has blocks of 32 and 33 units, another has 36 and 37.
  const [smaller, small, large] = [32, 33, 36].map((units) => units * blockAlignment);
  const count = 5000;
  const find = (byteLength: number): { found: number | undefined; reads: number } => {
    reads = 0;
    const block = classes.bestFit(byteLength);
    return { reads, found: block?.byteLength };
  };
  const only = countedBlock(small!, onRead);
  classes.add(only);
  for (let index = 0; index < count; index++) classes.add(countedBlock(smaller!, onRead));
  assertEquals(find(small!).found, small, "the only one that is large enough is found, however long that takes");
  for (let index = 0; index < count; index++) classes.add(countedBlock(large!, onRead));
  for (const byteLength of [small!, small! + blockAlignment]) {
    const { found, reads } = find(byteLength);
    assert(found! >= byteLength);
    assert(reads < 300, `${reads} reads`);
  }
});

test("unmerged blocks are found by size, and all of them are taken", () => {
  const unmerged = new UnmergedBlocks();
  let reads = 0;
  const added = new Set<SlabBlock>();
  const add = (units: number) => {
    const block = countedBlock(units * blockAlignment, () => reads++);
    unmerged.add(block);
    added.add(block);
    return block;
  };
  assert(unmerged.isUnused);
  assertEquals(unmerged.takeAny(), undefined);
  // More sizes than buckets.
  const count = 5000;
  for (let units = 1; units <= count; units++) for (const _ of [1, 2]) add(units);
  for (const units of [1, 2, 1023, 1024, count, 2 ** 20, 2 ** 31 - 1]) {
    const last = add(units);
    assertStrictEquals(unmerged.take(units * blockAlignment), last, "the block added last is taken first");
    added.delete(last);
  }
  let found = 0;
  for (let units = 1; units <= count; units++) {
    const block = unmerged.take(units * blockAlignment);
    if (block === undefined) continue;
    found++;
    assertEquals(block.byteLength, units * blockAlignment);
    assert(added.delete(block), "a block is taken once");
  }
  assert(found > count / 2, `${found} found`);
  assertEquals([2 ** 20, 2 ** 31 - 1, 2 ** 40].map((units) => unmerged.take(units * blockAlignment)), [
    undefined,
    undefined,
    undefined,
  ]);
  assert(!unmerged.isUnused);
  for (let block = unmerged.takeAny(); block !== undefined; block = unmerged.takeAny()) {
    assert(added.delete(block), "a block is taken once");
    assertEquals(block.next, undefined);
  }
  assertEquals(added.size, 0);
  assert(unmerged.isUnused);

  for (let block = 0; block < count; block++) add(2000);
  reads = 0;
  assertEquals(unmerged.take(count * blockAlignment), undefined);
  for (let units = count; units < 2 * count; units++) unmerged.take(units * blockAlignment);
  assert(reads < 20 * count, `${reads} reads`);
});
