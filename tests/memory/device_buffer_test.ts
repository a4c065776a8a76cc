import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import { runInNewContext } from "node:vm";
import { ptx as saxpyPtx } from "../../kernels/saxpy.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { CudaError } from "../../src/support/errors.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { Gate } from "../support/gate.ts";
import { indexOfOther } from "../support/bytes.ts";

testOnEachDriver("a buffer is written from a typed array, filled and read back", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using buffer = pool.allocate(16, stream);
  const source = Uint8Array.from({ length: 16 }, (_, index) => index);
  buffer.copyFrom(source);
  source.fill(99);
  buffer.fill(255, stream, { byteOffset: 4, byteLength: 2 });
  buffer.copyFrom(Uint16Array.of(0x2211), stream, { byteOffset: 14 });
  const expected = Uint8Array.of(0, 1, 2, 3, 255, 255, 6, 7, 8, 9, 10, 11, 12, 13, 0x11, 0x22);
  assertEquals(await buffer.read(Uint8Array), expected);
  assertEquals(buffer.readSync(Uint8Array), expected);
  assertEquals(await buffer.read(Uint16Array, { byteOffset: 14 }), Uint16Array.of(0x2211));
  assertEquals(await buffer.read(Uint8Array, { byteOffset: 3, length: 2 }), Uint8Array.of(3, 255));
});

testOnEachDriver("copyFrom has copied the bytes of any view when it returns", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using gate = new Gate(cuda);
  const byteLength = 1000;
  const expected = Uint8Array.from({ length: byteLength }, (_, index) => index * 7);
  const views: [string, ArrayBufferView<ArrayBuffer>][] = [
    ["a Buffer", Buffer.alloc(byteLength)],
    ["a Buffer with an offset", Buffer.alloc(byteLength + 9).subarray(5, 5 + byteLength)],
    ["a Uint8Array of a Buffer's memory", new Uint8Array(Buffer.alloc(byteLength + 9).buffer, 3, byteLength)],
    ["a Uint16Array with an offset", new Uint16Array(new ArrayBuffer(byteLength + 8), 2, byteLength / 2)],
    ["a DataView with an offset", new DataView(new ArrayBuffer(byteLength + 8), 7, byteLength)],
  ];
  using buffer = pool.allocate(views.length * byteLength, stream);
  await stream.finished();
  gate.hold(stream);
  for (const [index, [, view]] of views.entries()) {
    const bytes = new Uint8Array(view.buffer, view.byteOffset, byteLength);
    bytes.set(expected);
    buffer.copyFrom(view, stream, { byteOffset: index * byteLength });
    new Uint8Array(view.buffer).fill(99);
  }
  assert(!stream.query());
  gate.open();
  for (const [index, [name]] of views.entries()) {
    const bytes = await buffer.read(Uint8Array, { byteOffset: index * byteLength, length: byteLength });
    assertEquals(bytes, expected, name);
  }
});

testOnEachDriver("an array is read as its own type, and its lengths are in elements", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using array = pool.allocateArray(Float32Array, 8);
  array.copyFrom(Float32Array.from({ length: 8 }, (_, index) => index / 2));
  assertEquals(await array.toTypedArray(), Float32Array.of(0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5));
  const part = array.subarray(2, 4);
  assertEquals(part.length, 2);
  assertEquals(part.address, array.address + 8n);
  assertEquals(await part.toTypedArray(), Float32Array.of(1, 1.5));
  assertThrows(() => part.free(), TypeError, "part of a buffer");
  part[Symbol.dispose]();
  assertEquals((await array.toTypedArray()).length, 8);
  assertThrows(() => array.subarray(3, 9), RangeError, "it has 8");
  assertThrows(() => array.subarray("1" as never), TypeError, "Cannot use a string as the begin");
});

testOnEachDriver("buffers are copied to each other, and to and from page-locked memory", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using host = cuda.allocateHost(4096);
  using first = pool.allocate(4096, stream);
  using second = pool.allocate(4096, stream);
  const view = new Uint32Array(host.buffer);
  view.forEach((_, index) => view[index] = index * 3);
  first.copyFrom(host);
  first.copyTo(second, stream);
  await stream.finished();
  view.fill(0);
  second.copyTo(host, stream);
  await stream.finished();
  assertEquals(view, Uint32Array.from({ length: 1024 }, (_, index) => index * 3));
  host[Symbol.dispose]();
  assertEquals(view.length, 0);
  assertThrows(() => host.buffer, ReferenceError, "disposed");
});

testOnEachDriver("buffers are copied from one device to another", async (cuda) => {
  const [first, second] = [cuda.device(0), cuda.device(1)];
  using firstPool = first.createPool();
  using secondPool = second.createPool();
  using stream = second.createStream();
  using source = firstPool.allocate(1001);
  using target = secondPool.allocate(1001, stream);
  source.fill(5);
  await first.finished();
  source.copyTo(target, stream);
  assertEquals(await target.read(Uint8Array), new Uint8Array(1001).fill(5));
}, { devices: 2 });

testOnEachDriver("ranges past the end are refused, and the error gives the sizes", async (cuda) => {
  using pool = cuda.device(0).createPool();
  using buffer = pool.allocate(10);
  using small = pool.allocate(9);
  assertThrows(() => buffer.copyFrom(new Uint8Array(11)), RangeError, "it has 10 bytes");
  assertThrows(() => buffer.copyFrom(new Uint8Array(1), undefined, { byteOffset: 10 }), RangeError, "10 to 11");
  assertThrows(() => buffer.copyTo(small), RangeError, "the target");
  assertThrows(() => buffer.copyTo(new Uint8Array(4096) as never), TypeError, "use read for a typed array");
  assertThrows(() => buffer.fill(0, undefined, { byteOffset: -1 }), RangeError, "byteOffset");
  assertThrows(() => buffer.fill(256), RangeError, "256");
  assertThrows(() => buffer.subarray(4, 11), RangeError);
  await assertRejects(() => buffer.read(Uint32Array), RangeError, "give a length");
  await assertRejects(() => buffer.read(Uint8Array, { length: 11 }), RangeError);
});

/** Any argument that an untyped program could pass. */
// deno-lint-ignore no-explicit-any
type Anything = any;

testOnEachDriver(
  "errors for invalid sources, targets, types, lengths and options name the invalid value",
  async (cuda) => {
    const gpu = cuda.device(0);
    const stream = gpu.defaultStream;
    using pool = gpu.createPool();
    using owned = pool.allocate(1024);
    const [buffer, pools] = [owned, pool] as Anything[];
    const bytes = new Uint8Array(1);
    const refusals: [call: () => unknown, error: new () => Error, message: string][] = [
      [() => buffer.copyFrom([1, 2, 3]), TypeError, "Cannot copy from an Array: give a typed array"],
      [() => buffer.copyFrom("abc"), TypeError, "Cannot copy from a string"],
      [() => buffer.copyFrom(null), TypeError, "Cannot copy from null"],
      [() => buffer.copyFrom(bytes, stream, 8), TypeError, "Cannot copy to a buffer with 8 as its options"],
      [() => buffer.copyFrom(bytes, stream, { byteOffset: 4n }), TypeError, "Cannot use a bigint as a byteOffset"],
      [() => buffer.copyTo(undefined), TypeError, "Cannot copy to undefined: give a HostBuffer or a DeviceBuffer"],
      [() => buffer.fill("1"), TypeError, "Cannot use a string as a byte to fill with"],
      [() => buffer.fill(1, stream, { byteOffset: 2000 }), RangeError, "Cannot start at byte 2000 of the buffer"],
      [() => buffer.fill(1, stream, { byteLength: -1 }), RangeError, "Cannot use -1 as the byteLength to fill"],
      [() => (gpu as Anything).allocate(16, stream), TypeError, "call a pool's allocate"],
      [() => buffer.subarray(10, 5), RangeError, "Cannot view bytes 10 to 5 of the buffer"],
      [() => buffer.subarray(-4), RangeError, "Cannot use -4 as a byteBegin"],
      [() => buffer.subarray(0, -4), RangeError, "Cannot use -4 as a byteEnd"],
      [() => buffer.readSync(), TypeError, "Cannot use undefined as the type of elements"],
      [() => buffer.readSync(Array), TypeError, "Cannot use the function Array as the type of elements"],
      [() => buffer.readSync(DataView), TypeError, "Cannot use the function DataView as the type of elements"],
      [() => buffer.readSync(Uint8Array, null), TypeError, "Cannot read a buffer with null as its options"],
      [() => buffer.readSync(Uint8Array, { length: 1.5 }), RangeError, "Cannot read 1.5 elements"],
      [() => buffer.readSync(Uint8Array, { length: "3" }), TypeError, "Cannot use a string as a read's length"],
      [() => pools.allocateArray(16, Float32Array), TypeError, "Cannot use 16 as the type of elements"],
      [() => pools.allocateArray(Array, 16), TypeError, "Cannot use the function Array as the type of elements"],
      [() => pools.allocateArray(Float32Array, "16"), TypeError, "Cannot use a string as the length of an array"],
    ];
    for (const [call, error, message] of refusals) assertThrows(call, error, message);
    await assertRejects(() => buffer.read(), TypeError, "Cannot use undefined as the type of elements");
    owned.fill(-0, stream, { byteOffset: -0, byteLength: 1 });
    assertEquals(owned.readSync(Uint8Array, { stream, length: 1 }), new Uint8Array(1));
  },
);

testOnEachDriver(
  "every method with a stream refuses values that are not streams of the same Cuda object",
  async (cuda, driver) => {
    using another = new Cuda(new Session(driver.open()));
    using pool = cuda.device(0).createPool();
    using host = cuda.allocateHost(16);
    using foreign = another.device(0).allocate(16);
    using buffer = pool.allocate(16);
    const streams: [stream: Anything, message: string][] = [
      [5, "Cannot use 5 as a stream"],
      [null, "Cannot use null as a stream"],
      [another.device(0).defaultStream, "Cannot use a stream of another Cuda object"],
    ];
    for (const [stream, message] of streams) {
      const uses = [
        () => buffer.copyFrom(new Uint8Array(1), stream),
        () => buffer.copyTo(host, stream),
        () => buffer.fill(1, stream),
        () => buffer.readSync(Uint8Array, { stream }),
        () => buffer.free(stream),
        () => buffer.stream = stream,
      ];
      for (const use of uses) assertThrows(use, TypeError, message);
      await assertRejects(() => buffer.read(Uint8Array, { stream }), TypeError, message);
    }
    assert(buffer.stream === cuda.device(0).defaultStream);
    assertThrows(() => buffer.copyFrom(foreign), TypeError, "a buffer of another Cuda object");
    assertThrows(() => buffer.copyTo(foreign), TypeError, "a buffer of another Cuda object");
  },
);

testOnEachDriver("a part has the device and the stream of the whole, on any device", (cuda) => {
  const [gpu, other] = [cuda.device(0), cuda.device(1)];
  using hostPool = cuda.createHostPool({ numaNode: 0 });
  using stream = other.createStream();
  using ofNoPool = gpu.allocate(64);
  using onHost = hostPool.allocateArray(Float32Array, 16, gpu.defaultStream);
  gpu.synchronize();
  for (const buffer of [ofNoPool, onHost]) {
    buffer.stream = stream;
    const part = buffer.subarray(0, 8).subarray(4);
    assert(part.device === gpu && part.stream === stream);
    buffer.stream = gpu.defaultStream;
  }
}, { devices: 2 });

testOnEachDriver("a long read does not block the event loop and is correct to the last byte", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  const byteLength = 100 * 2 ** 20 + 3;
  using buffer = pool.allocate(byteLength, stream);
  buffer.fill(1);
  buffer.fill(2, stream, { byteOffset: byteLength - 1 });
  await stream.finished();
  let turns = 0;
  const timer = setInterval(() => turns++, 0);
  const bytes = await buffer.read(Uint8Array);
  clearInterval(timer);
  assertEquals(bytes.length, byteLength);
  assertEquals(bytes.at(-1), 2);
  assertEquals(indexOfOther(bytes, 1), byteLength - 1);
  assert(turns > 0, "The event loop did not turn while 100 MiB were read");
}, { long: true });

testOnEachDriver("a buffer that is freed during a read stays allocated until the read ends", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  const byteLength = 100 * 2 ** 20;
  const buffer = pool.allocate(byteLength, stream);
  buffer.fill(3);
  const reading = buffer.read(Uint8Array);
  buffer.free();
  using other = pool.allocate(byteLength, stream);
  other.fill(4);
  const bytes = await reading;
  assertEquals(indexOfOther(bytes, 3), -1);
  other.free();
  await stream.finished();
  gpu.synchronize();
  assertEquals(pool.usage().used, 0);
});

testOnEachDriver("a free is ordered after a read on another stream", async (cuda) => {
  const gpu = cuda.device(0);
  using reader = gpu.createStream({ nonBlocking: true });
  using owner = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  const byteLength = 20 * 2 ** 20;
  for (let round = 0; round < 8; round++) {
    const buffer = pool.allocate(byteLength, owner);
    buffer.fill(3);
    await owner.finished();
    const reading = buffer.read(Uint8Array, { stream: reader });
    buffer.free();
    using other = pool.allocate(byteLength, owner);
    other.fill(4);
    assertEquals(indexOfOther(await reading, 3), -1, `round ${round}`);
  }
});

testOnEachDriver("a read outlives the stream on which its buffer is freed", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  const read = () => {
    using stream = gpu.createStream();
    using buffer = pool.allocate(100 * 2 ** 20, stream);
    buffer.fill(5);
    return buffer.read(Uint8Array, { stream: gpu.defaultStream });
  };
  assertEquals(indexOfOther(await read(), 5), -1);
  gpu.synchronize();
  assertEquals(pool.usage().used, 0);
});

testOnEachDriver("an aborted read rejects with the signal's reason and leaves nothing behind", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using buffer = pool.allocate(70 * 2 ** 20, stream);
  const reason = new Error("changed my mind");
  const aborted = AbortSignal.abort(reason);
  assertEquals(await assertRejects(() => buffer.read(Uint8Array, { signal: aborted })), reason);
  const controller = new AbortController();
  const reading = buffer.read(Uint8Array, { signal: controller.signal });
  controller.abort(reason);
  assertEquals(await assertRejects(() => reading), reason);
  await stream.finished();
});

testOnEachDriver("a buffer whose stream was disposed is freed, and is used on another stream", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  const [stream, another] = [gpu.createStream(), gpu.createStream()];
  const buffer = pool.allocate(64, stream);
  stream[Symbol.dispose]();
  const refusal =
    /stream of device 0: it was disposed; pass another stream, or, if a buffer still has it, set the buffer's stream property to another$/;
  const uses = [() => buffer.fill(1), () => buffer.readSync(Uint8Array), () => buffer.free(stream)];
  for (const use of uses) assertMatch(assertThrows(use, ReferenceError).message, refusal);
  assertMatch((await assertRejects(() => buffer.read(Uint8Array), ReferenceError)).message, refusal);
  buffer.fill(1, gpu.defaultStream);
  {
    using other = pool.allocate(64, another);
    another[Symbol.dispose]();
    assert(other.stream.disposed);
  }
  buffer.free();
  gpu.synchronize();
  assertEquals(pool.usage().used, 0);
});

testOnEachDriver("copies to and from the host run on streams of any device", async (cuda) => {
  const [gpu, other] = [cuda.device(0), cuda.device(1)];
  using pool = gpu.createPool();
  using stream = other.createStream();
  using buffer = pool.allocate(1000);
  gpu.synchronize();
  buffer.copyFrom(new Uint8Array(1000).fill(4), stream);
  assertEquals(await buffer.read(Uint8Array, { stream }), new Uint8Array(1000).fill(4));
  using pinned = cuda.allocateHost(1000);
  buffer.copyTo(pinned, stream);
  stream.synchronize();
  assertEquals(new Uint8Array(pinned.buffer)[999], 4);
}, { devices: 2 });

testOnEachDriver("buffers and images from another realm are accepted", async (cuda) => {
  const { data, image } = runInNewContext(
    `({
    data: new Uint8Array([1, 2, 3, 4]).buffer,
    image: Uint8Array.from(ptx, (character) => character.charCodeAt(0)),
  })`,
    { ptx: saxpyPtx },
  ) as { data: ArrayBuffer; image: Uint8Array };
  using pool = cuda.device(0).createPool();
  using buffer = pool.allocate(4);
  buffer.copyFrom(data);
  assertEquals(await buffer.read(Uint8Array), new Uint8Array([1, 2, 3, 4]));
  using module = cuda.device(0).loadModule(image);
  assertEquals(module.kernelNames, ["saxpy"]);
});

testOnEachDriver("work on another device's stream either runs or says which access it needs", async (cuda) => {
  const [gpu, peer] = [cuda.device(0), cuda.device(1)];
  using pool = gpu.createPool();
  using stream = gpu.createStream();
  using peerStream = peer.createStream();
  using buffer = pool.allocate(4, stream);
  using pinned = cuda.allocateHost(4);
  await stream.finished();
  buffer.copyFrom(Uint8Array.of(1, 2, 3, 4), peerStream);
  buffer.copyTo(pinned, peerStream);
  await peerStream.finished();
  assertEquals(new Uint8Array(pinned.buffer), Uint8Array.of(1, 2, 3, 4));
  const hint = "setAccess for device 1, or use a stream of device 0";
  assertThrows(() => buffer.fill(5, peerStream), CudaError, hint);
  assertThrows(() => buffer.copyFrom(Uint8Array.of(5, 5, 5, 5), peer.defaultStream), CudaError, hint);
  assertThrows(() => buffer.copyTo(pinned, peer.defaultStream), CudaError, hint);
  pool.setAccess(peer, "read-write");
  buffer.fill(5, peerStream);
  buffer.copyTo(pinned, peer.defaultStream);
  await peer.finished();
  assertEquals(new Uint8Array(pinned.buffer), new Uint8Array(4).fill(5));
}, { devices: 2 });
