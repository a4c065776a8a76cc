/** Tensor maps, and the copies of boxes that kernels make with them. */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import { open } from "../../mod.ts";
import type { CudaDevice } from "../../src/objects/cuda_device.ts";
import { TensorMap, type TensorMapOptions } from "../../src/objects/kernels/tensor_map.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { adaptedCuda } from "../support/adapted_driver.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { test } from "../support/test.ts";
import { type BoxCopy, elementsOf, loadedBox, sharedBytes, storedBox, tensorKernels } from "./tensor_maps.ts";

/** Bytes that differ from each other and from what elements outside of a tensor are. */
function pattern(byteLength: number, seed = 1): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length: byteLength }, (_, index) => (index * 7 + (index >> 8) * 13 + seed) % 251 + 1);
}

/** A tensor, a box of it, and the coordinates of the box. The last dimension varies fastest, as in the options. */
interface Case extends Pick<TensorMapOptions, "dtype" | "swizzle" | "elementStrides" | "fill"> {
  readonly shape: number[];
  readonly box: number[];
  readonly at: readonly number[];
  /** The bytes of a row beyond its elements. */
  readonly padding?: number;
}

const cases: readonly Case[] = [
  { shape: [100], box: [32], at: [8], dtype: "uint32" },
  { shape: [100], box: [32], at: [-8], dtype: "uint32" },
  { shape: [96], box: [64], at: [48], dtype: "uint8" },
  { shape: [20, 24], box: [4, 8], at: [3, 4], dtype: "float32" },
  { shape: [20, 24], box: [8, 16], at: [16, 12], dtype: "uint32" },
  { shape: [20, 24], box: [8, 16], at: [-3, -4], dtype: "uint32", padding: 32 },
  { shape: [64, 64], box: [32, 64], at: [1, 8], dtype: "uint16", swizzle: "128B" },
  { shape: [64, 32], box: [64, 32], at: [0, 0], dtype: "uint16", swizzle: "64B" },
  { shape: [64, 32], box: [16, 16], at: [50, 16], dtype: "uint16", swizzle: "32B" },
  { shape: [40, 16], box: [24, 16], at: [-2, 0], dtype: "uint64", swizzle: "128B" },
  { shape: [30, 40], box: [10, 16], at: [3, 0], dtype: "uint16", elementStrides: [3, 1] },
  { shape: [5, 6, 16], box: [2, 3, 8], at: [1, 2, 4], dtype: "int32" },
  { shape: [5, 6, 16], box: [3, 4, 8], at: [4, -2, 12], dtype: "int32" },
  { shape: [3, 4, 5, 16], box: [2, 2, 3, 16], at: [2, 1, 3, 0], dtype: "float16", swizzle: "32B" },
  { shape: [2, 3, 4, 5, 8], box: [2, 2, 2, 2, 8], at: [1, -1, 3, 4, 0], dtype: "bfloat16" },
];

/** Returns the case in CUDA's order of dimensions, the bytes of its tensor, and its options. */
function describe({ shape, box, at, padding = 0, ...options }: Case) {
  const elementBytes =
    ({ uint8: 1, uint16: 2, float16: 2, bfloat16: 2, uint64: 8 } as const)[options.dtype as "uint8"] ?? 4;
  const reversed = shape.toReversed();
  const strides: number[] = [];
  for (
    let stride = reversed[0]! * elementBytes + padding, index = 1;
    index < shape.length;
    stride *= reversed[index++]!
  ) {
    strides.push(stride);
  }
  const copy: BoxCopy = {
    elementBytes,
    shape: reversed,
    strides,
    box: box.toReversed(),
    elementStrides: options.elementStrides?.toReversed(),
    swizzle: Number.parseInt(options.swizzle ?? "0"),
    at: at.toReversed(),
  };
  const byteLength = shape.length === 1 ? shape[0]! * elementBytes : strides.at(-1)! * shape[0]!;
  return { copy, byteLength, options: { ...options, shape, box, strides: strides.toReversed() } };
}

function kernelsOf(gpu: CudaDevice) {
  return gpu.loadModule(tensorKernels);
}

testOnEachDriver("kernels load boxes of tensors of every dimension into shared memory", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using module = kernelsOf(gpu);
  using out = pool.allocate(sharedBytes);
  for (const each of cases) {
    const { copy, byteLength, options } = describe(each);
    const bytes = pattern(byteLength);
    using memory = pool.allocate(byteLength);
    memory.copyFrom(bytes);
    const map = gpu.createTensorMap(memory, options);
    const copied = elementsOf(copy).length * copy.elementBytes;
    module.kernel(`load${each.shape.length}`).launch({ grid: 1, block: 1 }, map, out, copied, ...copy.at);
    const expected = loadedBox(bytes, copy, new Array(copy.elementBytes).fill(0));
    assertEquals((await out.read(Uint8Array)).toHex(), expected.toHex(), JSON.stringify(each));
  }
});

testOnEachDriver("kernels load and store slices of interleaved channels", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using module = kernelsOf(gpu);
  using shared = pool.allocate(sharedBytes);
  // The sizes of the images are in CUDA's order: columns, rows, slices, images.
  const [columns, rows, slices, images] = [12, 5, 3, 2] as const;
  for (
    const { interleave, swizzle, at: [x, y, slice, image] } of [
      { interleave: "16B", at: [3, 1, 2, 0] },
      { interleave: "32B", at: [-2, 3, 1, 1] },
      { interleave: "16B", swizzle: "32B", at: [0, 0, 0, 0] },
      { interleave: "32B", swizzle: "128B", at: [5, -1, 0, 0] },
    ] as const
  ) {
    const bytes = interleave === "16B" ? 16 : 32;
    const tensor = pattern(columns * rows * slices * images * bytes);
    using memory = pool.allocate(tensor.length);
    memory.copyFrom(tensor);
    const shape = [images, slices, rows, columns];
    const map = gpu.createTensorMap(memory, {
      dtype: "float16",
      shape,
      box: [2, 2, 3, 8],
      interleave,
      ...swizzle === undefined ? {} : { swizzle },
    });
    const loaded = new Uint8Array(sharedBytes).fill(0xcc), stored = tensor.slice();
    const source = pattern(sharedBytes, 7);
    const mask = swizzle === undefined ? 0 : Number.parseInt(swizzle) / 16 - 1;
    let at = 0;
    for (let n = image; n < image + 2; n++) {
      for (let row = y; row < y + 3; row++) {
        for (let column = x; column < x + 8; column++) {
          const isInside = n < images && row >= 0 && row < rows && column >= 0 && column < columns;
          const begin = (((n * slices + slice) * rows + row) * columns + column) * bytes;
          for (let piece = 0; piece < bytes; piece += 16, at += 16) {
            const place = at ^ (at >> 7 & mask) << 4;
            loaded.set(isInside ? tensor.subarray(begin + piece, begin + piece + 16) : new Uint8Array(16), place);
            if (isInside) stored.set(source.subarray(place, place + 16), begin + piece);
          }
        }
      }
    }
    module.kernel("load4").launch({ grid: 1, block: 1 }, map, shared, at, x, y, slice, image);
    assertEquals((await shared.read(Uint8Array)).toHex(), loaded.toHex(), `load ${interleave} ${swizzle}`);
    if (x < 0 || y < 0) continue;
    shared.copyFrom(source);
    module.kernel("store4").launch({ grid: 1, block: 1 }, map, shared, x, y, slice, image);
    assertEquals((await memory.read(Uint8Array)).toHex(), stored.toHex(), `store ${interleave} ${swizzle}`);
  }
});

testOnEachDriver("kernels load pixels of interleaved channels, in the mode im2col", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using module = kernelsOf(gpu);
  using out = pool.allocate(sharedBytes);
  const [columns, rows, slices, images] = [5, 4, 2, 3] as const;
  using memory = pool.allocateArray(Uint16Array, { shape: [images, slices, rows, columns, 8] });
  memory.copyFrom(Uint16Array.from({ length: columns * rows * slices * images * 8 }, (_, index) => index + 1));
  const map = gpu.createTensorMap(memory, {
    shape: [images, slices, rows, columns],
    interleave: "16B",
    im2col: { lowerCorner: [-1, -1], upperCorner: [-1, -1], channels: 8, pixels: 30 },
  });
  const [x, y, slice, image, right, down] = [2, 1, 1, 0, 2, 1];
  module.kernel("pixels4").launch({ grid: 1, block: 1 }, map, out, 30 * 16, x, y, slice, image, right, down);
  const expected: number[] = [];
  // The bounding box begins a pixel before the image, and ends a pixel before its last.
  let [column, row, n] = [x, y, image];
  for (let pixel = 0; pixel < 30; pixel++) {
    const [atColumn, atRow] = [column + right, row + down];
    const isInside = atColumn >= 0 && atColumn < columns && atRow >= 0 && atRow < rows && n < images;
    const begin = (((n * slices + slice) * rows + atRow) * columns + atColumn) * 8 + 1;
    for (let channel = 0; channel < 8; channel++) expected.push(isInside ? begin + channel : 0);
    if (++column < columns - 1) continue;
    column = -1;
    if (++row < rows - 1) continue;
    row = -1;
    n++;
  }
  assertEquals(Array.from(await out.read(Uint16Array, { length: 240 })), expected);
});

testOnEachDriver("a dimension of one element may have the stride 0", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using module = kernelsOf(gpu);
  using out = pool.allocate(sharedBytes);
  const bytes = pattern(20 * 96);
  using memory = pool.allocate(bytes.length);
  memory.copyFrom(bytes);
  const strides = [0, 0, 96];
  const map = gpu.createTensorMap(memory, { dtype: "uint32", shape: [1, 1, 20, 24], box: [1, 1, 8, 16], strides });
  const copy: BoxCopy = { elementBytes: 4, shape: [24, 20], strides: [96], box: [16, 8], at: [4, 3] };
  module.kernel("load4").launch({ grid: 1, block: 1 }, map, out, 8 * 16 * 4, ...copy.at, 0, 0);
  assertEquals((await out.read(Uint8Array)).toHex(), loadedBox(bytes, copy, [0, 0, 0, 0]).toHex());
});

testOnEachDriver("kernels store boxes of shared memory in tensors of every dimension", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using module = kernelsOf(gpu);
  using source = pool.allocate(sharedBytes);
  const shared = pattern(sharedBytes, 99);
  source.copyFrom(shared);
  for (const each of cases) {
    const { copy, byteLength, options } = describe(each);
    const bytes = pattern(byteLength);
    using memory = pool.allocate(byteLength);
    memory.copyFrom(bytes);
    const map = gpu.createTensorMap(memory, options);
    // A GPU stores no box that begins before the tensor.
    if (copy.at.some((coordinate) => coordinate < 0)) continue;
    module.kernel(`store${each.shape.length}`).launch({ grid: 1, block: 1 }, map, source, ...copy.at);
    const expected = storedBox(bytes, shared, copy);
    assertEquals((await memory.read(Uint8Array)).toHex(), expected.toHex(), JSON.stringify(each));
  }
});

/** The types and operations of reductions, and the new value of an element. */
const reducers: Readonly<Record<string, (old: bigint, added: bigint, bits: number) => bigint>> = {
  add: (old, added) => old + added,
  min: (old, added) => old < added ? old : added,
  max: (old, added) => old > added ? old : added,
  inc: (old, added) => old >= added ? 0n : old + 1n,
  dec: (old, added) => old === 0n || old > added ? added : old - 1n,
  and: (old, added) => old & added,
  or: (old, added) => old | added,
  xor: (old, added) => old ^ added,
};

testOnEachDriver("kernels reduce boxes of shared memory into tensors", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using module = kernelsOf(gpu);
  using source = pool.allocate(sharedBytes);
  const shared = new DataView(pattern(sharedBytes, 5).buffer);
  for (let at = 0; at < sharedBytes; at += 16) shared.setBigUint64(at, BigInt(at % 5));
  source.copyFrom(shared);
  const integers = {
    int32: [Int32Array, 32],
    uint32: [Uint32Array, 32],
    int64: [BigInt64Array, 64],
    uint64: [BigUint64Array, 64],
  } as const;
  for (const [dtype, [type, bits]] of Object.entries(integers)) {
    for (const [operation, reduce] of Object.entries(reducers)) {
      if (dtype !== "uint32" && (operation === "inc" || operation === "dec")) continue;
      if (dtype === "int64" && !["min", "max"].includes(operation)) continue;
      const size = bits / 8;
      const shape = [6, 64 / size], box = [4, 32 / size], at = [32 / size + 16 / size, 3];
      const old = pattern(6 * 64, 77);
      using memory = pool.allocate(old.length);
      memory.copyFrom(old);
      const map = gpu.createTensorMap(memory, { shape, box, dtype: dtype as "uint32" });
      module.kernel(`reduce_${operation}`).launch({ grid: 1, block: 1 }, map, source, ...at);
      const expected = new type(old.buffer);
      const given = new type(shared.buffer);
      const asType = (value: bigint) =>
        dtype.startsWith("u") ? BigInt.asUintN(bits, value) : BigInt.asIntN(bits, value);
      for (let row = 0; row < box[0]!; row++) {
        for (let column = 0; column < box[1]!; column++) {
          const [x, y] = [at[0]! + column, at[1]! + row];
          if (x >= shape[1]! || y >= shape[0]!) continue;
          const index = y * shape[1]! + x;
          const value = asType(reduce(BigInt(expected[index]!), BigInt(given[row * box[1]! + column]!), bits));
          (expected as unknown as unknown[])[index] = bits === 64 ? value : Number(value);
        }
      }
      assertEquals((await memory.read(Uint8Array)).toHex(), old.toHex(), `${operation} of ${dtype}`);
    }
  }
});

testOnEachDriver("kernels add floats of shared memory to tensors", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using module = kernelsOf(gpu);
  using source = pool.allocate(sharedBytes);
  for (
    const [dtype, type, names] of [
      ["float16", Float16Array, ["add", "min", "max"]],
      ["float32", Float32Array, ["add"]],
      ["float64", Float64Array, ["add"]],
    ] as const
  ) {
    const arrayOf = (numbers: readonly number[]) => new (type as typeof Float32Array)(numbers);
    const numbers = (numberAt: (index: number) => number) => Array.from({ length: 64 }, (_, index) => numberAt(index));
    for (const name of names) {
      const old = arrayOf(numbers((index) => index / 3 - 10));
      const added = arrayOf(numbers((index) => 7 - index * index / 5));
      source.copyFrom(added);
      using memory = pool.allocateArray(type as typeof Float32Array, { shape: [4, 16] });
      memory.copyFrom(old);
      const map = gpu.createTensorMap(memory, { box: [4, 16] });
      module.kernel(`reduce_${name}`).launch({ grid: 1, block: 1 }, map, source, 0, 0);
      const reduce = { add: (x: number, y: number) => x + y, min: Math.min, max: Math.max }[name];
      assertEquals(
        Array.from(await memory.toTypedArray()),
        Array.from(arrayOf(numbers((index) => reduce(old[index]!, added[index]!)))),
        `${name} of ${dtype}`,
      );
    }
  }
});

testOnEachDriver("kernels load pixels of a column, in the mode im2col", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using module = kernelsOf(gpu);
  using out = pool.allocate(sharedBytes);
  for (
    const { shape, lower, upper, channels, pixels, at, offsets, elementStrides } of [
      { shape: [3, 7, 16], lower: [-1], upper: [-1], channels: 8, pixels: 12, at: [8, 2, 0], offsets: [2] },
      {
        shape: [2, 6, 5, 8],
        lower: [-1, -1],
        upper: [-1, -1],
        channels: 8,
        pixels: 25,
        at: [0, -1, -1, 0],
        offsets: [1, 2],
      },
      {
        shape: [2, 8, 9, 16],
        lower: [0, 0],
        upper: [-2, -2],
        channels: 8,
        pixels: 10,
        at: [8, 0, 2, 1],
        offsets: [2, 0],
        elementStrides: [1, 2, 2, 1],
      },
      {
        shape: [2, 3, 4, 5, 8],
        lower: [0, -1, -1],
        upper: [0, -1, -1],
        channels: 8,
        pixels: 40,
        at: [0, -1, 0, 1, 0],
        offsets: [1, 1, 0],
      },
    ] as {
      shape: number[];
      lower: number[];
      upper: number[];
      channels: number;
      pixels: number;
      /** Coordinates and offsets in CUDA's order. */
      at: number[];
      offsets: number[];
      elementStrides?: number[];
    }[]
  ) {
    const length = shape.reduce((product, size) => product * size, 1);
    using array = pool.allocateArray(Uint16Array, { shape });
    const elements = Uint16Array.from({ length }, (_, index) => index + 1);
    array.copyFrom(elements);
    const im2col = { lowerCorner: lower, upperCorner: upper, channels, pixels };
    const map = gpu.createTensorMap(array, { im2col, ...elementStrides === undefined ? {} : { elementStrides } });
    const rank = shape.length;
    module.kernel(`pixels${rank}`).launch({ grid: 1, block: 1 }, map, out, pixels * channels * 2, ...at, ...offsets);
    // Dimension 0 is that of the channels, and the last one that of the images.
    const sizes = shape.toReversed(), strides = elementStrides?.toReversed() ?? shape.map(() => 1);
    const [lowest, highest] = [lower.toReversed(), upper.toReversed()];
    const expected: number[] = [];
    const base = at.slice(1);
    for (let pixel = 0; pixel < pixels; pixel++) {
      const coordinates = base.map((coordinate, index) => coordinate + (offsets[index] ?? 0));
      const isInside = coordinates.every((coordinate, index) => coordinate >= 0 && coordinate < sizes[index + 1]!);
      let row = 0;
      for (let index = rank - 1; index > 0; index--) row = row * sizes[index]! + coordinates[index - 1]!;
      for (let channel = 0; channel < channels; channel++) {
        const c = at[0]! + channel;
        expected.push(isInside && c < sizes[0]! ? elements[row * sizes[0]! + c]! : 0);
      }
      for (let index = 0; index < base.length; index++) {
        base[index]! += strides[index + 1]!;
        if (index === base.length - 1 || base[index]! <= sizes[index + 1]! - 1 + highest[index]!) break;
        base[index] = lowest[index]!;
      }
    }
    const loaded = await out.read(Uint16Array, { length: expected.length });
    assertEquals(Array.from(loaded), expected, JSON.stringify({ shape, at }));
  }
});

testOnEachDriver("a tensor map takes the shape, the dtype and the pitch of its memory", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using module = kernelsOf(gpu);
  using out = pool.allocate(sharedBytes);
  using rows = pool.allocatePitched(Uint32Array, [40, 10]);
  const numbers = Uint32Array.from({ length: 400 }, (_, index) => index + 1);
  rows.copyFrom(numbers);
  const map = gpu.createTensorMap(rows, { box: [2, 4] });
  assertEquals([map.dtype, map.shape], ["uint32", [10, 40]]);
  module.kernel("load2").launch({ grid: 1, block: 1 }, map, out, 32, 36, 9);
  assertEquals(Array.from(await out.read(Uint32Array, { length: 8 })), [397, 398, 399, 400, 0, 0, 0, 0]);
  using array = pool.allocateArray(Uint16Array, { shape: [16, 8], dtype: "bfloat16" });
  array.copyFrom(Uint16Array.from({ length: 128 }, (_, index) => index));
  const other = gpu.createTensorMap(array, { box: [1, 8], fill: "nan" });
  assertEquals([other.dtype, other.shape, other.bytes.length], ["bfloat16", [16, 8], 128]);
  module.kernel("load2").launch({ grid: 1, block: 1 }, other, out, 16, 0, 15);
  assertEquals(Array.from(await out.read(Uint16Array, { length: 8 })), [120, 121, 122, 123, 124, 125, 126, 127]);
});

testOnEachDriver("loads round tfloat32, and fill with the NaN that stands for elements outside", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using module = kernelsOf(gpu);
  using out = pool.allocate(sharedBytes);
  const loaded = async (dtype: TensorMapOptions["dtype"], bits: readonly number[]) => {
    using memory = pool.allocate(64);
    memory.copyFrom(Uint32Array.from({ length: 16 }, (_, index) => bits[index] ?? 0));
    const map = gpu.createTensorMap(memory, { shape: [1, 8], box: [1, 16], dtype: dtype!, fill: "nan" });
    module.kernel("load2").launch({ grid: 1, block: 1 }, map, out, 64, 0, 0);
    return Array.from(await out.read(Uint32Array, { length: 9 }));
  };
  const bits = [0x3f80_0fff, 0x3f80_1000, 0x3f80_1001, 0x3f80_3000, 0x7f80_0001, 0x007f_ffff, 1, 0x7f7f_f000];
  const filled = 0x7ff7_7ff7;
  assertEquals(await loaded("float32", bits), [...bits, filled]);
  assertEquals(
    await loaded("tfloat32", bits),
    [0x3f80_0000, 0x3f80_0000, 0x3f80_2000, 0x3f80_4000, 0x7fff_e000, 0x0080_0000, 0, 0x7f80_0000, filled],
  );
});

testOnEachDriver("a product with an element outside of a tensor counts as 0", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using out = pool.allocate(32);
  const outside = 0x7ff7;
  for (const [type, one, five, minusFive] of [["f16", 0x3c00, 0x4500, 0xc500], ["bf16", 0x3f80, 0x40a0, 0xc0a0]]) {
    // a * b + c. Only the factors are compared with the NaN.
    const cases = [
      { a: one, b: five, c: 0, product: five },
      { a: outside, b: five, c: five, product: 0 },
      { a: five, b: outside, c: minusFive, product: 0 },
      { a: 0x8000 | outside, b: five, c: five, product: 0 },
      { a: one, b: five, c: outside, product: 0x7fff },
      { a: 0x7fff, b: five, c: 0, product: 0x7fff },
      { a: one, b: minusFive, c: 0, product: minusFive, relu: 0 },
    ];
    const lines = cases.flatMap(({ a, b, c }, index) => [
      `mov.b16 %h1, ${a}; mov.b16 %h2, ${b}; mov.b16 %h3, ${c};`,
      `fma.rn.oob.${type} %h4, %h1, %h2, %h3; st.global.b16 [%rd1+${4 * index}], %h4;`,
      `fma.rn.oob.relu.${type} %h4, %h1, %h2, %h3; st.global.b16 [%rd1+${4 * index + 2}], %h4;`,
    ]);
    const pair = (value: unknown) => `mov.b32 %r1, ${Number(value) << 16 | outside};`;
    using module = gpu.loadModule(`.version 8.1
.target sm_90
.address_size 64
.visible .entry test(.param .u64 out) {
  .reg .b16 %h<6>; .reg .b32 %r<6>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  ${lines.join("\n  ")}
  ${pair(one)} mov.b32 %r2, ${Number(five) << 16 | Number(five)}; mov.b32 %r3, 0;
  fma.rn.oob.${type}x2 %r4, %r1, %r2, %r3; st.global.b32 [%rd1+28], %r4;
  ret;
}`);
    module.kernel("test").launch({ grid: 1, block: 1 }, out);
    assertEquals(Array.from(await out.read(Uint16Array)), [
      ...cases.flatMap(({ product, relu = product }) => [product, relu].map(Number)),
      0,
      Number(five),
    ]);
  }
});

test("a box that is stored does not begin before the tensor", async () => {
  using cuda = open({ driver: "software" });
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using memory = pool.allocate(128);
  using module = kernelsOf(gpu);
  using source = pool.allocate(sharedBytes);
  source.fill(0);
  const map = gpu.createTensorMap(memory, { shape: [32], box: [8], dtype: "uint32" });
  module.kernel("store1").launch({ grid: 1, block: 1 }, map, source, -4);
  await assertRejects(() => memory.read(Uint8Array), Error, "stores a box at the negative coordinates -4");
});

test("a box begins at a multiple of 16 bytes", async () => {
  using cuda = open({ driver: "software" });
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using memory = pool.allocate(128);
  using module = kernelsOf(gpu);
  using out = pool.allocate(sharedBytes);
  const map = gpu.createTensorMap(memory, { shape: [32], box: [4], dtype: "uint32" });
  module.kernel("load1").launch({ grid: 1, block: 1 }, map, out, 16, 3);
  await assertRejects(() => out.read(Uint8Array), Error, "begins at byte 12 of its rows");
});

testOnEachDriver("a tensor map can be read from global memory", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using array = pool.allocateArray(Uint32Array, { shape: [8, 8] });
  array.copyFrom(Uint32Array.from({ length: 64 }, (_, index) => index));
  using memory = pool.allocate(128);
  memory.copyFrom(gpu.createTensorMap(array, { box: [1, 4] }).bytes);
  using out = pool.allocate(16);
  using module = gpu.loadModule(`.version 8.0
.target sm_90
.address_size 64
.visible .entry test(.param .u64 map, .param .u64 out) {
  .reg .pred %p<2>; .reg .b64 %rd<4>; .reg .b32 %r<4>;
  .shared .align 128 .b8 sm[16]; .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [map]; ld.param.u64 %rd2, [out]; mov.u32 %r1, 4; mov.u32 %r2, 3;
  mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
  prefetch.tensormap [%rd1];
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
  cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {%r1, %r2}];
  cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [sm], [%rd1, {%r1, %r2}], [bar];
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;
  @!%p1 bra WAIT;
  cp.async.bulk.global.shared::cta.bulk_group [%rd2], [sm], 16;
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
  ret;
}`.replace(".version 8.0", ".version 8.6"));
  module.kernel("test").launch({ grid: 1, block: 1 }, memory, out);
  assertEquals(Array.from(await out.read(Uint32Array)), [28, 29, 30, 31]);
});

testOnEachDriver("a kernel makes a tensor map of zeros", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using tensor = pool.allocate(4096);
  const bytes = pattern(4096);
  tensor.copyFrom(bytes);
  using made = pool.allocate(128);
  using out = pool.allocate(256);
  using module = gpu.loadModule(mapOfZeros);
  const copy = { elementBytes: 2, shape: [24, 30], strides: [64], box: [16, 8], swizzle: 32, at: [16, 25] };
  const [columns, rows] = copy.shape as [number, number], [x, y] = copy.at as [number, number];
  module.kernel("test").launch({ grid: 1, block: 32 }, tensor, made, out, rows, columns, copy.strides[0]!, x, y);
  assertEquals(await out.read(Uint8Array), loadedBox(bytes, copy, [0, 0]).slice(0, 256));
});

/**
 * A kernel whose last lane makes a tensor map of 16-bit elements and the box 8x16 in shared memory, and whose first lane
 * loads a box with it.
 */
const mapOfZeros = `.version 8.3
.target sm_90a
.address_size 64
.visible .entry test(.param .u64 tensor, .param .u64 made, .param .u64 out, .param .u32 rows, .param .u32 columns,
    .param .u64 stride, .param .u32 x, .param .u32 y) {
  .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<6>;
  .shared .align 128 .b8 map[128]; .shared .align 256 .b8 sm[256]; .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [tensor]; ld.param.u64 %rd2, [made]; ld.param.u64 %rd3, [out]; ld.param.u64 %rd4, [stride];
  ld.param.u32 %r1, [rows]; ld.param.u32 %r2, [columns]; ld.param.u32 %r3, [x]; ld.param.u32 %r4, [y];
  mov.u32 %r5, %tid.x; setp.eq.u32 %p1, %r5, 31;
  shl.b32 %r6, %r5, 2; mov.u32 %r7, map; add.u32 %r7, %r7, %r6; st.shared.u32 [%r7], 0;
  bar.warp.sync -1;
  @%p1 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [map], %rd1;
  @%p1 tensormap.replace.tile.rank.shared::cta.b1024.b32 [map], 1;
  @%p1 tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [map], 0, 16;
  @%p1 tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [map], 1, 8;
  @%p1 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [map], 0, %r2;
  @%p1 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [map], 1, %r1;
  @%p1 tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [map], 0, %rd4;
  @%p1 tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [map], 0, 1;
  @%p1 tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [map], 1, 1;
  @%p1 tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [map], 1;
  @%p1 tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [map], 0;
  @%p1 tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [map], 1;
  @%p1 tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [map], 0;
  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd2], [map], 128;
  fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;
  setp.ne.u32 %p2, %r5, 0;
  @%p2 bra DONE;
  mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%rd2, {%r3, %r4}], [bar];
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
  @!%p2 bra WAIT;
  cp.async.bulk.global.shared::cta.bulk_group [%rd3], [sm], 256;
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
DONE:
  ret;
}
`;

testOnEachDriver("a persistent kernel with specialized warps multiplies matrices through a pipeline", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using module = gpu.loadModule(readFileSync(new URL("warp_specialized.ptx", import.meta.url), "utf8"));
  const [rows, columns, depth] = [70, 40, 136];
  using a = pool.allocateArray(Float32Array, { shape: [rows, depth] });
  using b = pool.allocateArray(Float32Array, { shape: [columns, depth] });
  using c = pool.allocateArray(Float32Array, { shape: [rows, columns] });
  const [first, second] = [Float32Array, Float32Array].map((type, index) =>
    type.from({ length: [rows, columns][index]! * depth }, (_, at) => at * (7 + index) % 13 - 6)
  ) as [Float32Array<ArrayBuffer>, Float32Array<ArrayBuffer>];
  a.copyFrom(first);
  b.copyFrom(second);
  c.fill(-1);
  const box = [32, 32];
  const maps = [a, b].map((array) => gpu.createTensorMap(array, { box, swizzle: "128B" }));
  // Two blocks share nine tiles, of which those at the borders are not whole.
  module.kernel("multiply").launch(
    { grid: 2, block: 256, sharedMemoryBytes: 7 * 32 * 32 * 4 + 2048 },
    ...maps,
    gpu.createTensorMap(c, { box }),
    rows,
    columns,
    depth,
  );
  const expected = Float32Array.from({ length: rows * columns }, (_, index) => {
    const [row, column] = [Math.floor(index / columns), index % columns];
    let sum = 0;
    for (let k = 0; k < depth; k++) sum += first[row * depth + k]! * second[column * depth + k]!;
    return sum;
  });
  assertEquals(await c.toTypedArray(), expected);
});

testOnEachDriver("what is wrong with a tensor map is said", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using array = pool.allocateArray(Float32Array, { shape: [16, 20] });
  const refusal = (options: unknown, memory: unknown = array) =>
    assertThrows(() => gpu.createTensorMap(memory as typeof array, options as TensorMapOptions)).message;
  for (
    const [options, message] of [
      [{}, "give either the size of the box, as in { box: [64, 64] }, or im2col"],
      [{ box: [4] }, "Cannot use [4] as a tensor map's box: give an array of 2 numbers"],
      [{ box: [4, 257] }, "the box has 257, and whole numbers from 1 to 256 are possible"],
      [{ box: [4, 5] }, "a row of the box has 20 bytes, which is not a multiple of 16"],
      [{ box: [4, 16], swizzle: "32B" }, 'a row of the box has 64 bytes, and the swizzle "32B" allows at most 32'],
      [{ box: [4, 4], swizzle: "96B" }, 'Cannot use "96B" as a tensor map\'s swizzle: give one of "none", "32B"'],
      [{ box: [4, 4], dtype: "float23" }, "as a tensor map's dtype"],
      [
        { box: [4, 4], shape: [17, 20] },
        "the tensor has 1360 bytes from its first element on, and the memory has 1280",
      ],
      [{ box: [4, 4], shape: [16, 5], dtype: "uint16" }, "which is not a multiple of 16"],
      [{ box: [4, 4], fill: "nan", dtype: "uint32" }, "elements of type uint32 cannot be NaN"],
      [{ box: [1, 1, 1, 1, 1, 4], shape: [1, 1, 1, 1, 1, 4] }, "the shape has 6 dimensions, and 1 to 5 are possible"],
      [{ box: [1, 1, 8], interleave: "16B" }, "give { shape } of slices of 16 bytes"],
      [{ box: [1, 4], shape: [2, 4], interleave: "16B" }, "the shape has 2 dimensions, and 3 to 5 are possible"],
      [{ box: [1, 1, 5], shape: [2, 4, 10], interleave: "16B" }, "a row of the box has 20 bytes"],
      [
        { box: [1, 1, 4], shape: [2, 2, 4], interleave: "32B", strides: [128, 48] },
        "48 bytes apart, which is not a multiple of 32",
      ],
      [{ box: [1, 1, 4], shape: [3, 4, 8], interleave: "16B" }, "the tensor has 1536 bytes from its first element on"],
      [{ bocks: [4, 4] }, 'the option "bocks"'],
    ] as const
  ) assertEquals(refusal(options).includes(message), true, `${refusal(options)}: ${message}`);
  assertEquals(refusal({ box: [4] }, new Float32Array(4)).includes("of a Float32Array: give a DeviceBuffer"), true);
  assertThrows(
    () => new TensorMap(undefined as never, undefined as never),
    TypeError,
    "use CudaDevice.createTensorMap",
  );
  const map = gpu.createTensorMap(array, { box: [4, 4] });
  array.free();
  assertThrows(() => map.bytes, ReferenceError, "freed");
});

test("a parameter with a large alignment is passed at the offset that the driver gives", () => {
  const passed: Uint8Array[] = [];
  using cuda = adaptedCuda(new SoftwareDriver({ devices: 1, peers: true }), {
    // In code for compute capability 9.0, parameters begin at the address 528 of the constant bank.
    funcGetParamInfo:
      () => [{ offset: 0, byteLength: 4 }, { offset: 48, byteLength: 64 }, { offset: 112, byteLength: 4 }],
    launchKernel: ({ parameters: { buffer, byteOffset, byteLength } }) =>
      void passed.push(new Uint8Array(buffer, byteOffset, byteLength).slice()),
  });
  using module = cuda.device(0).loadModule(`
    .version 8.0
    .target sm_90
    .address_size 64
    .visible .entry empty(.param .u32 a, .param .align 64 .b8 b[64], .param .u32 c) { ret; }
    .visible .entry small(.param .u32 a, .param .align 16 .b8 b[64], .param .u32 c) { ret; }`);
  for (const name of ["empty", "small"]) {
    module.kernel(name).launch({ grid: 1, block: 1 }, 0x01010101, new Uint8Array(64).fill(2), 0x03030303);
  }
  assertEquals(
    passed.map((bytes) => [bytes.length, bytes.indexOf(2), bytes.lastIndexOf(2), bytes.indexOf(3)]),
    [[116, 48, 111, 112], [84, 16, 79, 80]],
  );
});
