/**
 * Rows of elements at equal distances: their views, copies, fills and reads.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import { inspect } from "node:util";
import { ptx } from "../../kernels/saxpy.ts";
import type { DeviceArray } from "../../src/memory/device_array.ts";
import type { DeviceBuffer } from "../../src/memory/device_buffer.ts";
import { CudaError } from "../../src/support/errors.ts";
import type { PitchedArray } from "../../src/memory/pitched_array.ts";
import type { HostBuffer } from "../../src/memory/transfers/host_buffer.ts";
import {
  doOverlap,
  offsetOf,
  type RowsDistances,
  rowsPartsOf,
  type RowsShape,
  simplifiedRows,
} from "../../src/memory/transfers/rows.ts";
import type { TypedArray, TypedArrayConstructor } from "../../src/support/validation.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { Random } from "../differential/random.ts";
import { isLong, test } from "../support/test.ts";

/** Any argument that an untyped program could pass. */
// deno-lint-ignore no-explicit-any
type Anything = any;

/** Yields the offset of each byte of each element of rows, in order. */
function* byteOffsets({ width, height, depth, pitch, slicePitch, byteOffset, type }: PitchedArray<TypedArray>) {
  for (let z = 0; z < depth; z++) {
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width * type.BYTES_PER_ELEMENT; x++) yield byteOffset + z * slicePitch + y * pitch + x;
    }
  }
}

const types = [Uint8Array, Int16Array, Uint32Array, Float32Array, Float64Array, BigUint64Array] as const;
const memoryLength = 1024;

/** Memory, and what is expected in it. */
interface Memory {
  readonly buffer: DeviceBuffer | HostBuffer;
  readonly bytes: Uint8Array;
}

/** Returns random rows in memory. */
function randomRows(
  { buffer }: Memory,
  type: TypedArrayConstructor<TypedArray>,
  [width, height, depth]: readonly [number, number, number],
  random: Random,
): PitchedArray<TypedArray> | undefined {
  const unit = type.BYTES_PER_ELEMENT;
  const pitch = unit * (width + random.below(3));
  const slicePitch = pitch * (height + random.below(3));
  const span = depth * slicePitch;
  if (span > memoryLength) return undefined;
  const byteOffset = unit * random.below((memoryLength - span) / unit + 1);
  return buffer.pitched(type, [width, height, depth], { pitch, slicePitch, byteOffset });
}

testOnEachDriver("random copies, fills and reads of rows do what plain JavaScript does", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using first = pool.allocate(memoryLength, stream);
  using second = pool.allocate(memoryLength, stream);
  using host = cuda.allocateHost(memoryLength);
  const memories: Memory[] = [first, second, host].map((buffer) => ({ buffer, bytes: new Uint8Array(memoryLength) }));
  for (let seed = 1; seed <= (isLong ? 10_000 : 100); seed++) {
    const random = new Random(seed);
    for (const { buffer, bytes } of memories) {
      for (let index = 0; index < memoryLength; index++) bytes[index] = random.below(256);
      buffer.pitched(Uint8Array, [memoryLength]).copyFrom(bytes, stream);
    }
    for (let step = 0; step < 4; step++) {
      const type = types[random.below(types.length)] as TypedArrayConstructor<TypedArray>;
      const size = [1 + random.below(6), 1 + random.below(5), 1 + random.below(4)] as const;
      const [from, to] = [memories[random.below(3)]!, memories[random.below(3)]!];
      const source = randomRows(from, type, size, random), target = randomRows(to, type, size, random);
      if (source === undefined || target === undefined) continue;
      const sources = [...byteOffsets(source)], targets = [...byteOffsets(target)];
      switch (random.below(5)) {
        case 0: {
          const copied = sources.map((offset) => from.bytes[offset]!);
          const doesOverlap = from === to && sources.some((offset) => targets.includes(offset));
          const copy = () =>
            random.below(2) === 0 ? target.copyFrom(source, stream) : source.copyTo(target, { stream });
          if (doesOverlap) assertThrows(copy, RangeError, "copy rows to themselves");
          else {
            copy();
            targets.forEach((offset, index) => to.bytes[offset] = copied[index]!);
          }
          break;
        }
        case 1: {
          const value: Anything = type === BigUint64Array ? 0x0123456789abcdefn : 100 + random.below(100);
          target.fill(value, stream);
          const element = new Uint8Array((new type(new ArrayBuffer(8), 0, 1) as Float32Array).fill(value).buffer);
          targets.forEach((offset, index) => to.bytes[offset] = element[index % type.BYTES_PER_ELEMENT]!);
          break;
        }
        case 2: {
          const bytes = Uint8Array.from(targets, () => random.below(256));
          target.copyFrom(new type(bytes.buffer), stream);
          targets.forEach((offset, index) => to.bytes[offset] = bytes[index]!);
          bytes.fill(0);
          break;
        }
        case 3: {
          const data = from.bytes.slice();
          const { pitch, slicePitch, byteOffset } = source;
          target.copyFrom({ data: new type(data.buffer), pitch, slicePitch, byteOffset }, stream);
          targets.forEach((offset, index) => to.bytes[offset] = data[sources[index]!]!);
          break;
        }
        default: {
          const read = random.below(2) === 0 ? source.readSync(stream) : await source.read({ stream });
          assertEquals([...new Uint8Array(read.buffer)], sources.map((offset) => from.bytes[offset]), `seed ${seed}`);
        }
      }
    }
    for (const { buffer, bytes } of memories) {
      assertEquals(buffer.pitched(Uint8Array, [memoryLength]).readSync(stream), bytes, `seed ${seed}`);
    }
  }
});

testOnEachDriver("a region of an image and a column of a matrix are copied and filled", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using image = pool.allocatePitched(Uint8Array, [300, 200], stream);
  assertEquals([image.pitch % 512, image.pitch >= 300, image.slicePitch], [0, true, image.pitch * 200]);
  image.copyFrom(new Uint8Array(300 * 200).fill(128));
  const window = image.region([100, 50], [64, 32]);
  window.fill(255);
  using tile = pool.allocateArray(Uint8Array, 64 * 32, stream);
  window.copyTo(tile.pitched(Uint8Array, [64, 32]));
  assert((await tile.toTypedArray()).every((byte) => byte === 255));
  const all = await image.read();
  assertEquals(all.filter((byte) => byte === 255).length, 64 * 32);
  assertEquals([all[300 * 50 + 99], all[300 * 50 + 100], all[300 * 81 + 163], all[300 * 81 + 164]], [
    128,
    255,
    255,
    128,
  ]);
  using matrix = pool.allocateArray(Float32Array, 64 * 64, stream);
  matrix.fill(0);
  const column = matrix.pitched(Float32Array, [1, 64], { pitch: 4 * 64, byteOffset: 4 * 7 });
  column.fill(1.5);
  assertEquals(await column.read(), new Float32Array(64).fill(1.5));
  const next = matrix.pitched(Float32Array, [1, 64], { pitch: 4 * 64, byteOffset: 4 * 8 });
  next.copyFrom(column);
  const values = await matrix.toTypedArray();
  assertEquals(values.map((value, index) => value === 0 ? -1 : index % 64).filter((index) => index >= 0).length, 128);
  assertEquals(column.region([0, 63], [1]).readSync(), Float32Array.of(1.5));
});

testOnEachDriver("volumes are copied, filled and read, slice by slice", async (cuda) => {
  using stream = cuda.device(0).createStream();
  using pool = cuda.device(0).createPool();
  using volume = pool.allocatePitched(BigUint64Array, [9, 5, 4], stream);
  volume.fill(0xfedcba9876543210n);
  volume.region([2, 1, 1], [3, 2, 2]).fill(7n);
  const elements = await volume.read();
  assertEquals(elements.length, 9 * 5 * 4);
  assertEquals(elements.filter((element) => element === 7n).length, 3 * 2 * 2);
  assert(elements.every((element) => element === 7n || element === 0xfedcba9876543210n));
  using flat = pool.allocateArray(BigUint64Array, 12, stream);
  flat.pitched(BigUint64Array, [3, 2, 2]).copyFrom(volume.region([2, 1, 1], [3, 2, 2]));
  assertEquals(await flat.toTypedArray(), new BigUint64Array(12).fill(7n));
});

testOnEachDriver("rows are copied between devices", async (cuda) => {
  const [near, far] = [cuda.device(0), cuda.device(1)];
  using stream = near.createStream();
  using pool = near.createPool(), farPool = far.createPool();
  using source = pool.allocatePitched(Int32Array, [7, 5], stream);
  using target = farPool.allocatePitched(Int32Array, [9, 8]);
  far.synchronize();
  const elements = Int32Array.from({ length: 35 }, (_, index) => index);
  source.copyFrom(elements);
  target.region([1, 2], [7, 5]).copyFrom(source, stream);
  assertEquals(await target.region([1, 2], [7, 5]).read(stream), elements);
  source.fill(0);
  source.copyFrom(target.region([1, 2], [7, 5]), stream);
  assertEquals(await source.read(), elements);
}, { devices: 2 });

testOnEachDriver("rows of more than 8 MiB are copied and read in pieces", async (cuda) => {
  using stream = cuda.device(0).createStream();
  using pool = cuda.device(0).createPool();
  for (const [width, height, depth] of [[9 * 2 ** 20 + 1, 2, 1], [1000, 5000, 2]] as const) {
    using rows = pool.allocatePitched(Uint8Array, [width + 1, height, depth], stream);
    const part = rows.region([1], [width, height, depth]);
    const bytes = new Uint8Array(width * height * depth);
    for (let index = 0; index < bytes.length; index += 4093) bytes[index] = 1 + index % 251;
    part.copyFrom(bytes);
    const read = await part.read();
    assert(Buffer.compare(read, bytes) === 0);
  }
});

testOnEachDriver("a kernel gets rows as a pointer to the first element, and a free waits for it", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using module = gpu.loadModule(ptx);
  const saxpy = module.kernel("saxpy");
  using x = pool.allocatePitched(Float32Array, [64, 2], stream);
  using host = cuda.allocateHost(4 * 64);
  x.fill(1);
  const row = x.region([0, 1], [64]);
  saxpy.launch({ grid: 1, block: 64, stream }, 64, 2, row, x);
  assertEquals([...new Set(await x.read())].sort(), [1, 3]);
  const own = pool.allocatePitched(Float32Array, [64], gpu.defaultStream);
  own.fill(5);
  gpu.synchronize();
  saxpy.launch({ grid: 1, block: 64, stream }, 64, 2, own, host.pitched(Float32Array, [64]));
  own[Symbol.dispose]();
  await stream.finished();
  assertThrows(() => saxpy.launch({ grid: 1, block: 64, stream }, 64, 2, own, x), ReferenceError, "it was freed");
  assertEquals(new Float32Array(host.buffer)[63], 10);
});

testOnEachDriver("a capture records copies and fills of rows, and each launch does them", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using image = pool.allocatePitched(Uint8Array, [16, 8], stream);
  using part = pool.allocateArray(Uint8Array, 16, stream);
  using host = cuda.allocateHost(64);
  const bytes = new Uint8Array(16).fill(3);
  image.fill(0);
  await stream.finished();
  using graph = stream.capture(() => {
    image.region([4, 2], [4, 4]).copyFrom(bytes, stream);
    image.region([8, 2], [2, 2]).fill(4, stream);
    image.region([4, 2], [4, 4]).copyTo(part.pitched(Uint8Array, [4, 4]), stream);
    image.region([4, 2], [6, 2]).copyTo(host.pitched(Uint8Array, [6, 2], { pitch: 10 }), stream);
    assertThrows(() => image.readSync(stream), Error, "captured");
  });
  bytes.fill(9);
  assertEquals(graph.nodes.map(({ type }) => type), ["copy", "fill", "copy", "copy"]);
  using exec = graph.instantiate();
  for (let launch = 0; launch < 2; launch++) {
    exec.launch(stream);
    assertEquals(await part.toTypedArray({ stream }), new Uint8Array(16).fill(3));
    assertEquals([...new Uint8Array(host.buffer, 10, 6)], [3, 3, 3, 3, 4, 4]);
    image.fill(0, stream);
  }
});

testOnEachDriver("nodes copy and fill rows", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using image = pool.allocatePitched(Uint8Array, [16, 8], stream);
  using tile = pool.allocateArray(Uint8Array, 16, stream);
  using host = cuda.allocateHost(64);
  image.fill(0);
  await stream.finished();
  const data = Uint8Array.from({ length: 16 }, (_, index) => index);
  using graph = gpu.createGraph();
  const region = image.region([3, 2], [4, 4]);
  const copied = graph.addCopy(data, region);
  data.fill(99);
  const filled = graph.addFill(image.region([3, 3], [2, 3]), 50, { dependencies: [copied] });
  const rows = tile.pitched(Uint8Array, [4, 4]);
  const out = graph.addCopy(region, rows, { dependencies: [filled] });
  graph.addCopy(rows, host.pitched(Uint8Array, [4, 4], { pitch: 8 }), { dependencies: [out] });
  assertEquals(graph.nodes.map(({ type }) => type), ["copy", "fill", "copy", "copy"]);
  const volume = image.buffer.pitched(Uint8Array, [2, 2, 2], { pitch: 8, slicePitch: 24 });
  const wide = image.buffer.pitched(Float64Array, [1, 2]);
  const refused: readonly (readonly [() => unknown, typeof Error, string])[] = [
    [() => graph.addFill(volume, 1), TypeError, "the rows have three dimensions; capture the fill"],
    [() => graph.addFill(wide, 0.1), TypeError, "the halves of the element differ"],
    [() => graph.addCopy(region, tile as Anything), TypeError, "give its rows"],
    [() => graph.addCopy(region, image.region([0, 0], [4, 3])), RangeError, "Cannot copy 4 x 4 elements to 4 x 3"],
    [() => graph.addCopy(region, image.region([4, 3], [4, 4])), RangeError, "Cannot copy rows to themselves"],
    [() => graph.addCopy(new Uint8Array(15), region), RangeError, "Cannot copy 15 elements to 4 x 4 elements"],
    [() => graph.addCopy(image.region([0, 0], [0, 4]), image.region([8, 0], [0, 4])), RangeError, "0 bytes"],
  ];
  for (const [call, type, message] of refused) assertThrows(call, type, message);
  assertEquals(graph.nodes.length, 4);
  using exec = graph.instantiate();
  exec.launch(stream);
  const expected = [0, 1, 2, 3, 50, 50, 6, 7, 50, 50, 10, 11, 50, 50, 14, 15];
  assertEquals([...await tile.toTypedArray({ stream })], expected);
  assertEquals([...host.pitched(Uint8Array, [4, 4], { pitch: 8 }).readSync(stream)], expected);
  assertThrows(() => exec.setParameters(out, { source: tile }), CudaError, "CUDA changes no copy of rows");
});

testOnEachDriver(
  "an argument of a graph that a copy of rows uses cannot be changed, and nothing else changes",
  async (cuda) => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream({ nonBlocking: true });
    using pool = gpu.createPool();
    const [x, y] = [0, 1].map(() => pool.allocateArray(Uint8Array, 64, stream)) as [
      DeviceArray<Uint8Array>,
      DeviceArray<Uint8Array>,
    ];
    using _x = x, _y = y;
    using to = pool.allocateArray(Uint8Array, 8, stream);
    x.fill(1);
    y.fill(2);
    to.fill(0);
    await stream.finished();
    const capture = (withRows: boolean) =>
      stream.capture(() => {
        to.subarray(0, 4).copyFrom(x.subarray(0, 4), stream);
        if (withRows) {
          to.subarray(4).pitched(Uint8Array, [2, 2]).copyFrom(x.pitched(Uint8Array, [2, 2], { pitch: 8 }), stream);
        } else x.pitched(Uint8Array, [4, 2], { pitch: 32 }).fill(3, stream);
      }, { arguments: { x } });
    using graph = capture(true);
    using exec = graph.instantiate();
    assertThrows(() => exec.update({ x: y }), CudaError, "a copy of rows uses it");
    exec.launch(stream);
    assertEquals([...await to.toTypedArray({ stream })], Array(8).fill(1));
    // CUDA changes the address of fills of rows.
    using filling = capture(false);
    using other = filling.instantiate();
    other.update({ x: y });
    other.launch(stream);
    assertEquals([...(await y.toTypedArray({ stream })).subarray(31, 37)], [2, 3, 3, 3, 3, 2]);
    assertEquals([...(await to.toTypedArray({ stream })).subarray(0, 4)], Array(4).fill(2));
  },
);

testOnEachDriver("what cannot be rows, or be copied to them, is refused with the numbers", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  const buffer = pool.allocate(4096, stream);
  using _ = buffer;
  using host = cuda.allocateHost(4096);
  const view = (size: Anything, options?: Anything, type: Anything = Float32Array) => () =>
    buffer.pitched(type, size, options);
  const refused: readonly (readonly [() => unknown, typeof RangeError | typeof TypeError, string])[] = [
    [view([64, 17]), RangeError, "Cannot view 64 x 17 Float32Array elements from byte 0 on: they end at byte 4352"],
    [view([1, 9], { pitch: 512 }), RangeError, "with a pitch of 512 bytes from byte 0 on: they end at byte 4100"],
    [view([4], { byteOffset: 4084 }), RangeError, "they end at byte 4100, and the memory has 4096 bytes"],
    [view([2 ** 32, 2 ** 20]), RangeError, "the memory has 4096 bytes"],
    [view([2 ** 53]), RangeError, "Cannot use 9007199254740992 in the size of rows"],
    [view([-1, 4]), RangeError, "Cannot use -1 in the size of rows: it must be a whole number, at least 0"],
    [view([1.5]), RangeError, "Cannot use 1.5 in the size of rows"],
    [view([NaN]), RangeError, "Cannot use NaN in the size of rows"],
    [view([]), RangeError, "Cannot use 0 numbers as the size of rows"],
    [view([1, 1, 1, 1]), RangeError, "Cannot use 4 numbers as the size of rows"],
    [view(64), TypeError, "Cannot use 64 as the size of rows: give an array, such as [64, 480]"],
    [view(["4"]), TypeError, "Cannot use a string as a number in the size of rows"],
    [view([4n]), TypeError, "Cannot use a bigint as a number in the size of rows"],
    [
      view([8, 2], { pitch: 28 }),
      RangeError,
      "Cannot use a pitch of 28 bytes: a row of 8 Float32Array elements has 32",
    ],
    [view([8, 2], { pitch: 34 }), RangeError, "Cannot use 34 as a pitch: it must be a multiple of 4 bytes"],
    [view([8, 2], { pitch: -32 }), RangeError, "Cannot use -32 as a pitch"],
    [view([8, 2, 2], { slicePitch: 32 }), RangeError, "Cannot use a slicePitch of 32 bytes: 2 rows with a pitch of 32"],
    [view([8, 2, 2], { slicePitch: 80 }), RangeError, "Cannot use 80 as a slicePitch: it must be a multiple of 32"],
    [view([8], { byteOffset: -4 }), RangeError, "Cannot use -4 as a byteOffset"],
    [view([8], { byteOffset: 2 }), RangeError, "the address of the first one must be a multiple of 4"],
    [view([8], { offset: 4 }), TypeError, 'the option "offset": there is no such option; give byteOffset'],
    [view([8], { stride: 32 }), TypeError, "give pitch, the number of bytes from row to row"],
    [view([8], {}, "Float32Array"), TypeError, "its constructor"],
    [() => pool.allocatePitched(Float32Array, [0, 4], stream), RangeError, "Cannot allocate 0 x 4 elements"],
    [() => pool.allocatePitched(Float32Array, [2 ** 40, 2 ** 12], stream), RangeError, "there are too many"],
    [() => pool.allocatePitched(Float32Array, [4], { strean: stream } as Anything), TypeError, '"strean"'],
  ];
  for (const [call, type, message] of refused) {
    assertThrows(call, type as typeof Error, message.includes("its constructor") ? "Float32Array" : message);
  }
  const rows = buffer.pitched(Float32Array, [8, 4], { pitch: 64 });
  const other = buffer.pitched(Float32Array, [8, 4], { pitch: 64, byteOffset: 1024 });
  const hostRows = host.pitched(Float32Array, [8, 4]);
  const wrong: readonly (readonly [() => unknown, typeof RangeError | typeof TypeError, string])[] = [
    [() => rows.copyFrom(new Float32Array(31)), RangeError, "Cannot copy 31 elements to 8 x 4 elements: give 32"],
    [() => rows.copyFrom(other.region([0, 0], [4, 4])), RangeError, "Cannot copy 4 x 4 elements to 8 x 4 elements"],
    [() => rows.copyFrom(new Int32Array(32) as Anything), TypeError, "its bytes would become other values"],
    [() => rows.copyFrom(buffer.pitched(Int32Array, [8, 4]) as Anything), TypeError, "its bytes would become other"],
    [() => rows.copyFrom(buffer as Anything), TypeError, "give its rows, as in buffer.pitched(Float32Array, [8, 4])"],
    [() => rows.copyFrom(host as Anything), TypeError, "give its rows"],
    [() => rows.copyFrom([1, 2] as Anything), TypeError, "Cannot copy rows from an Array"],
    [() => rows.copyFrom(undefined as Anything), TypeError, "Cannot copy rows from undefined"],
    [() => rows.copyFrom({ data: new Float32Array(32), pitch: 16 }), RangeError, "Cannot use a pitch of 16 bytes"],
    [
      () => rows.copyFrom({ data: new Float32Array(32), pitch: 64 }),
      RangeError,
      "they end at byte 224, and the memory has 128",
    ],
    [() => rows.copyFrom({ data: new Float32Array(32), stride: 64 } as Anything), TypeError, '"stride"'],
    [() => rows.copyTo(new Float32Array(32) as Anything), TypeError, "use read for a typed array"],
    [() => rows.copyTo(buffer as Anything), TypeError, "give its rows"],
    [() => rows.copyFrom(rows), RangeError, "Cannot copy rows to themselves"],
    [() => rows.copyFrom(buffer.pitched(Float32Array, [8, 4], { byteOffset: 200 })), RangeError, "to themselves"],
    [() => hostRows.copyFrom(host.pitched(Float32Array, [8, 4], { byteOffset: 64 }), stream), RangeError, "themselves"],
    [() => hostRows.copyFrom(host.pitched(Float32Array, [8, 4], { byteOffset: 512 })), TypeError, "without a stream"],
    [() => hostRows.fill(1), TypeError, "Cannot fill rows of elements without a stream"],
    [() => rows.fill("1" as Anything), TypeError, "give a number"],
    [() => rows.fill(1, { byteOffset: 4 } as Anything), TypeError, '"byteOffset"'],
    [() => rows.fill(1, 7 as Anything), TypeError, "Cannot use 7 as a stream"],
    [() => rows.region([0, 1], [8, 4]), RangeError, "Cannot view 8 x 4 elements from (0, 1, 0) on: there are 8 x 4"],
    [() => rows.region([-1], [1]), RangeError, "Cannot use -1 in the origin of a region"],
    [() => rows.region(0 as Anything, [1]), TypeError, "Cannot use 0 as the origin of a region"],
    [() => (rows as Anything).length, TypeError, "it has gaps"],
    [() => (rows as Anything)[0], TypeError, "by its index"],
    [() => structuredClone(rows), Error, "PitchedArray"],
  ];
  for (const [call, type, message] of wrong) assertThrows(call, type as typeof Error, message);
  // Rows side by side have no bytes in common.
  rows.fill(1);
  buffer.pitched(Float32Array, [8, 4], { pitch: 64, byteOffset: 32 }).copyFrom(rows);
  // Nothing is copied or filled where there is nothing.
  const none = buffer.pitched(Float32Array, [0, 4], { pitch: 64 });
  none.fill(1);
  none.copyFrom(new Float32Array(0));
  assertEquals((await none.read()).length, 0);
  assertEquals(none.readSync().length, 0);
  await assertRejects(() => rows.read({ signal: AbortSignal.abort() }), DOMException, "the read of 8 x 4 elements");
  await assertRejects(() => rows.read({ sync: true } as Anything), TypeError, '"sync"');
  assertMatch(inspect(rows), /^PitchedArray \{ device 0, Float32Array 8 x 4, pitch 64, 0x[0-9a-f]+ \}$/);
  assertMatch(inspect(hostRows), /^PitchedArray \{ host, Float32Array 8 x 4, pitch 32, page-locked \}$/);
  buffer.free();
  for (const call of [() => rows.fill(1), () => rows.address, () => other.copyFrom(hostRows), () => rows.readSync()]) {
    assertThrows(call, ReferenceError, "freed");
  }
  assertMatch(inspect(rows), /freed/);
  host[Symbol.dispose]();
  assertThrows(() => hostRows.fill(1, stream), ReferenceError, "disposed");
  assertThrows(() => hostRows.copyFrom(new Float32Array(32), stream), ReferenceError, "disposed");
});

testOnEachDriver("an array keeps what it shows when another one is disposed, and frees its own memory once", (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  const image = pool.allocatePitched(Uint8Array, [10, 10], stream);
  const region = image.region([1, 1], [2, 2]);
  region[Symbol.dispose]();
  image.fill(1);
  image[Symbol.dispose]();
  image[Symbol.dispose]();
  assertThrows(() => region.fill(1), ReferenceError, "freed");
  assertEquals(pool.usage().used, 0);
});

test("whether rows overlap, their shortest description and their parts are as plain loops say", () => {
  for (let seed = 1; seed <= (isLong ? 100_000 : 3000); seed++) {
    const random = new Random(seed);
    const size: RowsShape = { width: 1 + random.below(4), height: 1 + random.below(4), depth: 1 + random.below(3) };
    const distances = (): RowsDistances => {
      const pitch = size.width + random.below(3);
      return { pitch, slicePitch: pitch * (size.height + random.below(3)) };
    };
    const first = distances(), second = random.below(2) === 0 ? first : distances();
    const bytesOf = (size: RowsShape, of: RowsDistances) => {
      const bytes: number[] = [];
      for (let z = 0; z < size.depth; z++) {
        for (let y = 0; y < size.height; y++) {
          for (let x = 0; x < size.width; x++) bytes.push(offsetOf({ x, y, z }, of));
        }
      }
      return bytes;
    };
    const distance = random.below(60) - 30;
    const own = bytesOf(size, first), other = bytesOf(size, second).map((byte) => byte + distance);
    assertEquals(doOverlap(size, first, second, distance), own.some((byte) => other.includes(byte)), `seed ${seed}`);
    const { size: simple, ends } = simplifiedRows(size, [first, second] as const);
    assertEquals(doOverlap(simple, ends[0], ends[1], distance), own.some((byte) => other.includes(byte)));
    assertEquals([bytesOf(simple, ends[0]), bytesOf(simple, ends[1])], [own, bytesOf(size, second)], `seed ${seed}`);
    const maximum = 1 + random.below(20);
    const parts = [...rowsPartsOf(size, maximum)];
    assert(parts.every(({ width, height, depth }) => width * height * depth <= maximum));
    assertEquals(parts.flatMap((part) => bytesOf(part, first).map((byte) => byte + offsetOf(part, first))), own);
  }
});
