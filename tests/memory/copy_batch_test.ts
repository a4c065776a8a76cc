/**
 * Batches of copies.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import type { Driver } from "../../src/driver.ts";
import { CudaError } from "../../src/support/errors.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { Random } from "../differential/random.ts";
import { adaptedCuda } from "../support/adapted_driver.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { isLong, test } from "../support/test.ts";

/** Any argument that an untyped program could pass. */
// deno-lint-ignore no-explicit-any
type Anything = any;

testOnEachDriver("a batch copies ranges, rows and host memory, with attributes or without", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using all = pool.allocateArray(Uint8Array, 4096, stream);
  using image = pool.allocatePitched(Uint8Array, [16, 4], stream);
  using host = cuda.allocateHost(64);
  all.copyFrom(Uint8Array.from({ length: 4096 }, (_, index) => index));
  image.fill(0);
  const parts = Array.from({ length: 16 }, () => pool.allocate(64, stream));
  stream.copyBatch(parts.map((target, index) => ({ source: all.subarray(64 * index, 64 * (index + 1)), target })));
  stream.copyBatch([
    { source: all.subarray(10, 34), target: image.region([4, 1], [8, 3]), sourceAccessOrder: "any" },
    { source: all.pitched(Uint8Array, [4, 16], { pitch: 64 }), target: host, preferOverlapWithCompute: true },
    { source: all.subarray(0, 0), target: all.subarray(9, 9) },
  ], { sourceAccessOrder: "stream" });
  assertEquals(
    image.region([4, 1], [8, 3]).readSync(stream),
    Uint8Array.from({ length: 24 }, (_, index) => 10 + index),
  );
  assertEquals(new Uint8Array(host.buffer), Uint8Array.from({ length: 64 }, (_, i) => 64 * Math.floor(i / 4) + i % 4));
  for (const [index, part] of parts.entries()) {
    assertEquals((await part.read(Uint8Array, { stream }))[3], 64 * (index % 4) + 3);
    part.free();
  }
  // On a default stream, copies are enqueued one by one.
  all.fill(5, gpu.defaultStream);
  gpu.defaultStream.copyBatch([{ source: all.subarray(0, 64), target: host }]);
  gpu.synchronize();
  assert(new Uint8Array(host.buffer).every((byte) => byte === 5));
  stream.copyBatch([]);
});

testOnEachDriver("a batch in a capture becomes copies without an order among them", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using from = pool.allocateArray(Uint8Array, 64, stream);
  using to = pool.allocateArray(Uint8Array, 64, stream);
  await stream.finished();
  const copies = [0, 1, 2].map((index) => ({
    source: from.subarray(8 * index, 8 * index + 8),
    target: to.subarray(8 * index, 8 * index + 8),
  }));
  using graph = stream.capture(() => {
    from.fill(7, stream);
    stream.copyBatch(copies);
    to.subarray(0, 8).fill(9, stream);
    assertThrows(() => stream.copyBatch(copies, { sourceAccessOrder: "during-call" }), CudaError, "runs later");
  });
  const types = graph.edges.map((edge) => edge.map(({ type }) => type).join(" before "));
  assertEquals(types.sort(), [...Array(3).fill("copy before fill"), ...Array(3).fill("fill before copy")]);
  using exec = graph.instantiate();
  exec.launch(stream);
  assertEquals([...(await to.toTypedArray({ stream })).subarray(0, 24)], [...Array(8).fill(9), ...Array(16).fill(7)]);
});

testOnEachDriver("copies of a batch that depend on each other are refused, and others are not", (cuda) => {
  using stream = cuda.device(0).createStream({ nonBlocking: true });
  using pool = cuda.device(0).createPool();
  using buffer = pool.allocate(1024, stream);
  for (let seed = 1; seed <= (isLong ? 10_000 : 200); seed++) {
    const random = new Random(seed);
    const copies = Array.from({ length: 1 + random.below(4) }, () => {
      const length = 1 + random.below(40);
      const [from, to] = [random.below(1000 - length), random.below(1000 - length)];
      return { from, to, length };
    });
    const reads = copies.map(({ from, length }) => [from, from + length] as const);
    const writes = copies.map(({ to, length }) => [to, to + length] as const);
    const isCommon = ([a, b]: readonly [number, number], [c, d]: readonly [number, number]) => a < d && c < b;
    const doDepend = writes.some((write, index) =>
      reads.some((read) => isCommon(write, read)) ||
      writes.some((other, second) => index !== second && isCommon(write, other))
    );
    const copy = () =>
      stream.copyBatch(copies.map(({ from, to, length }) => ({
        source: buffer.subarray(from, from + length),
        target: buffer.subarray(to, to + length),
      })));
    if (doDepend) assertThrows(copy, RangeError, "Cannot copy", `seed ${seed}`);
    else copy();
  }
  stream.synchronize();
});

testOnEachDriver("batches between devices are copied", async (cuda) => {
  const [near, far] = [cuda.device(0), cuda.device(1)];
  using stream = near.createStream();
  using pool = near.createPool(), farPool = far.createPool();
  using source = pool.allocateArray(Int32Array, 8, stream);
  using target = farPool.allocateArray(Int32Array, 8);
  using own = pool.allocateArray(Int32Array, 4, stream);
  far.synchronize();
  source.copyFrom(Int32Array.of(1, 2, 3, 4, 5, 6, 7, 8));
  stream.copyBatch([
    { source: source.subarray(0, 4), target: target.subarray(4, 8) },
    { source: source.subarray(4, 8), target: target.subarray(0, 4) },
    { source: source.subarray(0, 4), target: own },
  ]);
  assertEquals(await target.toTypedArray({ stream }), Int32Array.of(5, 6, 7, 8, 1, 2, 3, 4));
  assertEquals(await own.toTypedArray(), Int32Array.of(1, 2, 3, 4));
}, { devices: 2 });

testOnEachDriver("a batch that cannot be copied is refused before anything is", (cuda) => {
  using stream = cuda.device(0).createStream();
  using pool = cuda.device(0).createPool();
  using array = pool.allocateArray(Float32Array, 64, stream);
  using target = pool.allocateArray(Float32Array, 64, stream);
  using freed = pool.allocate(256, stream);
  freed.free();
  using ended = cuda.allocateHost(256);
  ended[Symbol.dispose]();
  const good = { source: array.subarray(0, 4), target: target.subarray(0, 4) };
  const refused: readonly (readonly [Anything, Anything, typeof Error, string])[] = [
    [undefined, {}, TypeError, "Cannot copy a batch with undefined: give an array"],
    [good, {}, TypeError, "give an array of { source, target }"],
    [[good, [array, target]], {}, TypeError, "with an Array as copy 1"],
    [[good, { source: array }], {}, TypeError, "Cannot use undefined as the target of copy 1"],
    [[{ source: new Float32Array(4), target }], {}, TypeError, "use copyFrom or read for a typed array"],
    [[{ source: array, destination: target }], {}, TypeError, "give target"],
    [[{ source: array, target, byteLength: 4 }], {}, TypeError, "copy a part of the source"],
    [[good, { source: array.subarray(8), target }], {}, RangeError, "Cannot copy 224 bytes to 256 bytes in copy 1"],
    [[{ source: array, target: target.as(Int32Array) }], {}, TypeError, "become other values"],
    [
      [{ source: array.subarray(0, 8), target: array.subarray(4, 12) }],
      {},
      RangeError,
      "the source and the target of copy 0",
    ],
    [[good, good], {}, RangeError, "copy 1 writes what copy 0 writes"],
    [[{ source: target, target: array }, good], {}, RangeError, "copy 1 reads what copy 0 writes"],
    [[good, { source: freed, target }], {}, ReferenceError, "freed"],
    [[good, { source: ended, target }], {}, ReferenceError, "disposed"],
    [[good], { sourceAccessOrder: "stram" }, TypeError, 'did you mean "stream"?'],
    [[good], { sourceAccessOrder: 1 }, TypeError, 'give "stream", "during-call" or "any"'],
    [[good], { preferOverlapWithCompute: 1 }, TypeError, "preferOverlapWithCompute"],
    [[good], { sourceLocation: "device" }, TypeError, "sourceLocation"],
    [[{ ...good, targetLocation: "hosts" }], {}, TypeError, "targetLocation"],
    [[good], { stream }, TypeError, "the batch is copied on the stream whose method is called"],
    [[good], stream, TypeError, "as its options"],
  ];
  target.fill(1);
  array.fill(2);
  for (const [copies, options, type, message] of refused) {
    assertThrows(() => stream.copyBatch(copies, options), type, message);
  }
  assert(target.readSync(Float32Array).every((element) => element === 1));
  const { defaultStream } = cuda.device(0);
  const during = () => defaultStream.copyBatch([good], { sourceAccessOrder: "during-call" });
  assertThrows(during, CudaError, "a default stream copies one by one");
  stream.copyBatch([good], { sourceLocation: cuda.device(0), targetLocation: "host" });
});

test("without CUDA 12.8, each copy of a batch is a call, and a batch is one call with it", () => {
  const driver = new SoftwareDriver({ devices: 1, peers: true });
  const made: string[] = [];
  const noted = (name: "memcpyBatchAsync" | "memcpyAsync" | "memcpy3DAsync") => (...parameters: Anything[]) => {
    made.push(name);
    (driver[name] as Anything)(...parameters);
  };
  const methods: Partial<Driver> = {
    memcpyBatchAsync: noted("memcpyBatchAsync"),
    memcpyAsync: noted("memcpyAsync"),
    memcpy3DAsync: noted("memcpy3DAsync"),
  };
  const copy = (cuda: ReturnType<typeof adaptedCuda>): string[] => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool();
    using from = pool.allocate(64, stream), to = pool.allocate(64, stream);
    made.length = 0;
    const ranges = [0, 8, 16].map((at) => ({ source: from.subarray(at, at + 8), target: to.subarray(at, at + 8) }));
    const column = (buffer: typeof from) => buffer.pitched(Uint8Array, [2, 2], { pitch: 8, byteOffset: 32 });
    stream.copyBatch([...ranges, { source: column(from), target: column(to) }]);
    let message = "";
    try {
      stream.copyBatch(ranges, { sourceAccessOrder: "during-call" });
    } catch (error) {
      message = (error as Error).message;
    }
    stream.synchronize();
    return [...made, message];
  };
  {
    using cuda = adaptedCuda(driver, methods);
    assertEquals(copy(cuda), ["memcpy3DAsync", "memcpyBatchAsync", "memcpyBatchAsync", ""]);
  }
  const older = new SoftwareDriver({ devices: 1, peers: true });
  using cuda = adaptedCuda(older, {
    hasBatchedCopies: false,
    memcpyBatchAsync: () => assert(false),
    memcpyAsync: (...parameters) => {
      made.push("memcpyAsync");
      older.memcpyAsync(...parameters);
    },
  });
  const calls = copy(cuda);
  assertEquals(calls.slice(0, 3), ["memcpyAsync", "memcpyAsync", "memcpyAsync"]);
  assertStringIncludes(calls.at(-1)!, "it needs CUDA 12.8");
});
