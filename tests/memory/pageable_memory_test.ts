import { assert, assertEquals } from "@std/assert";
import type { Driver } from "../../src/driver.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { deviceAttributes } from "../../src/support/device_attributes.ts";
import { haveSameBytes, indexOfOther } from "../support/bytes.ts";
import { driversUnderTest, testOnEachDriver } from "../support/drivers.ts";
import { Gate } from "../support/gate.ts";
import { assertLeavesNothing } from "../support/resources.ts";
import { test } from "../support/test.ts";

const kibibyte = 2 ** 10;
const mebibyte = 2 ** 20;

/** What a driver was called for. */
interface Calls {
  /** The sizes of page-locked memory that was allocated. */
  readonly allocated: number[];
  /** The sources of copies to devices. */
  readonly sources: Uint8Array[];
  /** The names of other calls about copies. */
  readonly others: string[];
  /** Whether the memory of a view was allocated by `hostAlloc`. */
  isPageLocked(view: Uint8Array): boolean;
}

/**
 * Declares a test for devices that read pageable memory themselves, or do not. Which of them a machine has is not known,
 * so the drivers' answer is replaced.
 */
function testWithAttribute(
  name: string,
  pageableMemoryAccess: 0 | 1,
  body: (cuda: Cuda, calls: Calls) => void | Promise<void>,
  { long = false }: { long?: boolean } = {},
): void {
  for (const driver of driversUnderTest) {
    test(`${name} [${driver.name}]`, { skip: driver.skip, long }, () =>
      assertLeavesNothing(async () => {
        const opened = driver.open();
        replaceAttribute(opened, pageableMemoryAccess);
        const calls = observe(opened);
        using cuda = new Cuda(new Session(opened));
        await body(cuda, calls);
      }));
  }
}

function replaceAttribute(driver: Driver, pageableMemoryAccess: number): void {
  const ask = driver.deviceGetAttribute.bind(driver);
  driver.deviceGetAttribute = (device, attribute) =>
    attribute === deviceAttributes.pageableMemoryAccess ? pageableMemoryAccess : ask(device, attribute);
}

function observe(driver: Driver): Calls {
  const buffers = new Set<ArrayBufferLike>();
  const calls = {
    allocated: [] as number[],
    sources: [] as Uint8Array[],
    others: [] as string[],
    isPageLocked: ({ buffer }: Uint8Array) => buffers.has(buffer),
  };
  const { hostAlloc, memcpyHtoDAsync } = driver;
  driver.hostAlloc = (byteLength) => {
    const allocation = hostAlloc.call(driver, byteLength);
    buffers.add(allocation.buffer);
    calls.allocated.push(byteLength);
    return allocation;
  };
  driver.memcpyHtoDAsync = (device, destination, source, stream) => {
    calls.sources.push(source);
    memcpyHtoDAsync.call(driver, device, destination, source, stream);
  };
  for (const name of ["eventRecord", "eventQuery", "eventSynchronize", "streamQuery"] as const) {
    const call = driver[name] as (...args: unknown[]) => unknown;
    driver[name] = (...args: unknown[]) => {
      calls.others.push(name);
      return call.apply(driver, args) as never;
    };
  }
  return calls;
}

function pattern(byteLength: number, factor: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(byteLength);
  for (let index = 0; index < byteLength; index++) bytes[index] = index * factor;
  return bytes;
}

testOnEachDriver("a copy from a typed array neither waits for the stream nor reads the array later", async (cuda) => {
  const gpu = cuda.device(0);
  const sizes = [4, 64 * kibibyte, 64 * kibibyte + 1, mebibyte, 20 * mebibyte + 3];
  for (const nonBlocking of [true, false]) {
    using held = gpu.createStream({ nonBlocking: true });
    using stream = gpu.createStream({ nonBlocking });
    using event = gpu.createEvent();
    using pool = gpu.createPool();
    using gate = new Gate(cuda);
    const buffers = sizes.map((size) => pool.allocate(size, stream));
    stream.synchronize();
    gate.hold(held);
    held.record(event);
    stream.wait(event);
    const sources = sizes.map((size, index) => pattern(size, 2 * index + 1));
    const expected = sources.map((source) => source.slice());
    for (const [index, source] of sources.entries()) {
      buffers[index]!.copyFrom(source);
      source.fill(99);
    }
    assert(!stream.query());
    gate.open();
    for (const [index, buffer] of buffers.entries()) {
      assert(haveSameBytes(await buffer.read(Uint8Array), expected[index]!), `${sizes[index]} bytes arrived changed`);
      buffer.free();
    }
  }
});

testOnEachDriver("a copy on a stream that waits for the default stream does not wait itself", async (cuda) => {
  const gpu = cuda.device(0);
  using held = gpu.createStream({ nonBlocking: true });
  using stream = gpu.createStream();
  using event = gpu.createEvent();
  using pool = gpu.createPool();
  using gate = new Gate(cuda);
  using buffer = pool.allocate(mebibyte, stream);
  stream.synchronize();
  gate.hold(held);
  held.record(event);
  gpu.defaultStream.wait(event);
  buffer.copyFrom(new Uint8Array(mebibyte).fill(3));
  assert(!gpu.defaultStream.query());
  gate.open();
  assertEquals(indexOfOther(await buffer.read(Uint8Array), 3), -1);
});

testWithAttribute("a small copy, and any copy on an idle stream, is one call", 0, async (cuda, calls) => {
  using stream = cuda.device(0).createStream({ nonBlocking: true });
  using pool = cuda.device(0).createPool();
  using buffer = pool.allocate(4 * mebibyte, stream);
  stream.synchronize();
  const [small, large] = [new Uint8Array(64 * kibibyte).fill(1), new Uint8Array(4 * mebibyte).fill(2)];
  buffer.copyFrom(small);
  assertEquals(calls.others, []);
  stream.synchronize();
  buffer.copyFrom(large);
  assertEquals(calls.others.filter((name) => name !== "streamQuery"), []);
  assert(calls.sources.length === 2 && calls.sources[0] === small && calls.sources[1] === large);
  assertEquals(calls.allocated, []);
  assertEquals(indexOfOther(await buffer.read(Uint8Array), 2), -1);
});

testWithAttribute(
  "where devices read pageable memory themselves, copies from it are made from page-locked memory, in pieces",
  1,
  async (cuda, calls) => {
    const gpu = cuda.device(0);
    using pool = gpu.createPool();
    for (const stream of [gpu.createStream(), gpu.defaultStream]) {
      for (const source of [Uint8Array.of(1, 2, 3, 4), pattern(20 * mebibyte + 3, 7)]) {
        using buffer = pool.allocate(source.length, stream);
        calls.sources.length = 0;
        buffer.copyFrom(source);
        assertEquals(calls.sources.length, Math.ceil(source.length / (8 * mebibyte)));
        assert(calls.sources.every((piece) => calls.isPageLocked(piece)));
        assert(haveSameBytes(await buffer.read(Uint8Array), source));
      }
      stream[Symbol.dispose]();
    }
  },
);

testWithAttribute("page-locked memory is always read in place", 1, async (cuda, calls) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using hostPool = cuda.createHostPool();
  using host = cuda.allocateHost(mebibyte);
  using onHost = hostPool.allocate(mebibyte, stream);
  using buffer = pool.allocate(mebibyte, stream);
  await stream.finished();
  calls.others.length = 0;
  const view = new Uint8Array(host.buffer).fill(1);
  const sources = [
    host,
    view,
    view.subarray(5, 500),
    host.buffer,
    onHost.hostView(),
    new Uint8Array(onHost.hostView()),
  ];
  for (const source of sources) buffer.copyFrom(source);
  assertEquals(calls.sources.map(({ buffer }) => buffer), [
    ...new Array<ArrayBuffer>(4).fill(host.buffer),
    ...new Array<ArrayBuffer>(2).fill(onHost.hostView()),
  ]);
  onHost.copyFrom(new Uint8Array(mebibyte));
  assertEquals([calls.allocated.length, calls.others], [1, []]);
  stream.synchronize();
});

testWithAttribute("small copies of a busy stream share buffers", 1, async (cuda, calls) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using gate = new Gate(cuda);
  const count = 1000;
  using buffer = pool.allocate(count * 100, stream);
  stream.synchronize();
  gate.hold(stream);
  const source = new Uint8Array(100);
  for (let index = 0; index < count; index++) {
    buffer.copyFrom(source.fill(index), stream, { byteOffset: index * 100 });
  }
  assertEquals(calls.allocated, [64 * kibibyte, mebibyte]);
  gate.open();
  const expected = Uint8Array.from({ length: count * 100 }, (_, index) => Math.floor(index / 100));
  assert(haveSameBytes(await buffer.read(Uint8Array), expected));
  // Complete copies give their memory back.
  stream.synchronize();
  buffer.copyFrom(source);
  stream.synchronize();
  buffer.copyFrom(source);
  assert(calls.allocated.length <= 3, `${calls.allocated}`);
});

testWithAttribute("a stream that has captured too much waits for itself and for no other", 1, async (cuda, calls) => {
  const gpu = cuda.device(0);
  using held = gpu.createStream({ nonBlocking: true });
  using other = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using gate = new Gate(cuda);
  const byteLength = 256 * mebibyte;
  using large = pool.allocate(byteLength, held);
  using small = pool.allocate(mebibyte, other);
  gpu.synchronize();
  gate.hold(held);
  const source = new Uint8Array(byteLength).fill(1);
  large.copyFrom(source);
  for (const byte of [1, 2]) small.copyFrom(new Uint8Array(mebibyte).fill(byte));
  assertEquals(indexOfOther(await small.read(Uint8Array), 2), -1);
  assert(!held.query());
  gate.open();
  calls.others.length = 0;
  calls.allocated.length = 0;
  large.copyFrom(source.fill(3));
  assertEquals(calls.allocated, []);
  held.synchronize();
  for (let begin = 0; begin < byteLength; begin += 64 * mebibyte) {
    const bytes = large.readSync(Uint8Array, { byteOffset: begin, length: 64 * mebibyte });
    assertEquals(indexOfOther(bytes, 3), -1);
  }
}, { long: true });

testWithAttribute("the buffer and the stream of a copy may be released at once", 1, async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  const bytes = pattern(3 * mebibyte, 5);
  using reader = gpu.createStream({ nonBlocking: true });
  using event = gpu.createEvent();
  using target = pool.allocate(bytes.length, reader);
  await reader.finished();
  {
    using stream = gpu.createStream({ nonBlocking: true });
    using buffer = pool.allocate(bytes.length, stream);
    buffer.copyFrom(bytes);
    buffer.copyTo(target, stream);
    stream.record(event);
  }
  reader.wait(event);
  assert(haveSameBytes(await target.read(Uint8Array), bytes));
});

testOnEachDriver("a Cuda object is disposed while copies from typed arrays are pending", (cuda) => {
  const gpu = cuda.device(0);
  const stream = gpu.createStream({ nonBlocking: true });
  const buffer = gpu.allocate(16 * mebibyte);
  for (let count = 0; count < 8; count++) buffer.copyFrom(new Uint8Array(16 * mebibyte), stream);
  buffer.free();
  buffer.stream.synchronize();
  const again = gpu.createPool().allocate(4 * mebibyte, stream);
  for (let count = 0; count < 8; count++) again.copyFrom(new Uint8Array(4 * mebibyte));
  again.free();
});

testWithAttribute("a read takes page-locked memory of about its size", 0, async (cuda, calls) => {
  using pool = cuda.device(0).createPool();
  using buffer = pool.allocate(20 * mebibyte);
  buffer.fill(1);
  await buffer.read(Uint8Array);
  assertEquals(calls.allocated.map((size) => size / mebibyte), [8, 8, 8]);
  for (let count = 0; count < 3; count++) {
    await buffer.read(Uint8Array, { length: 4 });
    buffer.readSync(Uint8Array, { length: 64 * kibibyte });
  }
  assertEquals(calls.allocated.slice(3), [64 * kibibyte]);
  const readings = Array.from({ length: 5 }, () => buffer.read(Uint8Array, { length: 100 * kibibyte }));
  for (const bytes of await Promise.all(readings)) assertEquals(indexOfOther(bytes, 1), -1);
  assertEquals(calls.allocated.slice(4), new Array(5).fill(mebibyte));
});

testOnEachDriver("views of shared and of resizable memory are copied like others", async (cuda) => {
  using pool = cuda.device(0).createPool();
  using buffer = pool.allocate(100 * kibibyte);
  const byteLength = 100 * kibibyte;
  const memories = [
    new SharedArrayBuffer(byteLength),
    new SharedArrayBuffer(byteLength, { maxByteLength: 2 * byteLength }),
    new ArrayBuffer(byteLength, { maxByteLength: 2 * byteLength }),
  ];
  for (const [index, memory] of memories.entries()) {
    const view = new Uint8Array(memory).fill(index + 1);
    buffer.copyFrom(view);
    view.fill(99);
    assertEquals(indexOfOther(await buffer.read(Uint8Array), index + 1), -1);
  }
});
