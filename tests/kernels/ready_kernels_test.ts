import { assertEquals, assertThrows } from "@std/assert";
import { ptx as blurPtx } from "../../kernels/blur.ts";
import { ptx as histogramPtx } from "../../kernels/histogram.ts";
import { ptx as mandelbrotPtx } from "../../kernels/mandelbrot.ts";
import { ptx as matrixMultiplyPtx } from "../../kernels/matrix_multiply.ts";
import { ptx as reducePtx } from "../../kernels/reduce.ts";
import { ptx as scanPtx } from "../../kernels/scan.ts";
import { ptx as transposePtx } from "../../kernels/transpose.ts";
import { open } from "../../mod.ts";
import { randomBytes, randomWords } from "../corpus/nvcc/contents.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { someOf, test } from "../support/test.ts";
import { GuardedArrays } from "./guarded_arrays.ts";
import * as references from "./references.ts";

/** Numbers with long mantissas, so that adding them in another order gives another sum. */
function floats(length: number, seed?: number): Float32Array {
  return Float32Array.from(randomWords(length, seed), (word) => (word - 2 ** 31) / 2 ** 28);
}

/** The bits of floats, with one pattern for all NaNs. */
function bitsOf(numbers: Float32Array): Uint32Array {
  const bits = new Uint32Array(numbers.slice().buffer);
  return bits.map((word, index) => Number.isNaN(numbers[index]!) ? 0x7fffffff : word);
}

/** Returns all pairs of elements. */
function pairs<A, B>(first: readonly A[], second: readonly B[]): [A, B][] {
  return first.flatMap((a) => second.map((b): [A, B] => [a, b]));
}

const lengths = [0, 1, 2, 31, 33, 255, 256, 1000, 4099, 40_000];
/** Blocks of one thread, of parts of warps, of whole warps and of the largest size. */
const shapes: readonly references.Shape[] = [
  { grid: 1, block: 256 },
  { grid: 7, block: 96 },
  { grid: 3, block: 1 },
  { grid: 64, block: 128 },
  { grid: 2, block: 1024 },
  { grid: 5, block: 100 },
  { grid: 4, block: 33 },
];
// A step that divides neither number of cases leaves some of every kind.
const casesOfOneDimension = someOf(pairs(lengths, shapes), 3);

testOnEachDriver("reduce adds in the documented order, and finds the extremes", async (cuda) => {
  using arrays = new GuardedArrays(cuda);
  const launch = arrays.kernels(reducePtx);
  const special = floats(300);
  special.set([-0, NaN, 1e-45, -1e-45, 3e38], 40);
  const inputs = casesOfOneDimension.map(([length, shape], index) => ({ numbers: floats(length, index + 1), shape }));
  for (const shape of shapes.slice(0, 2)) {
    inputs.push({ numbers: special, shape }, { numbers: Float32Array.of(-0, -0), shape });
    inputs.push({ numbers: Float32Array.of(0, -0, 0), shape }, { numbers: Float32Array.of(NaN, NaN), shape });
    inputs.push({ numbers: Float32Array.of(Infinity, 1, -Infinity), shape });
  }
  for (const { numbers, shape } of inputs) {
    const input = arrays.of(numbers);
    for (const name of Object.keys(references.operations)) {
      const partial = arrays.empty(Float32Array, shape.grid);
      const result = arrays.empty(Float32Array, 1);
      launch(name, shape, input, numbers.length, partial);
      launch(name, { grid: 1, block: 64 }, partial, shape.grid, result);
      const expected = references.reduce(numbers, shape, name);
      const what = `${name} of ${numbers.length} by ${shape.grid} x ${shape.block}`;
      assertEquals(bitsOf(await arrays.contents(partial)), bitsOf(expected), what);
      const last = references.reduce(expected, { grid: 1, block: 64 }, name);
      assertEquals(bitsOf(await arrays.contents(result)), bitsOf(last), `the second launch of ${what}`);
    }
  }
});

testOnEachDriver("scan computes running totals, in one launch or three, in place or not", async (cuda) => {
  using arrays = new GuardedArrays(cuda);
  const launch = arrays.kernels(scanPtx);
  for (const [index, [length, shape]] of casesOfOneDimension.entries()) {
    const numbers = randomWords(length, index + 1);
    const what = `${length} by ${shape.grid} x ${shape.block}`;
    for (const inclusive of [true, false]) {
      const expected = references.scan(numbers, { inclusive });
      const name = inclusive ? "scan_inclusive" : "scan_exclusive";
      const [input, output] = [arrays.of(numbers), arrays.empty(Uint32Array, length)];
      const totals = arrays.empty(Uint32Array, shape.grid);
      launch("scan_totals", shape, input, length, totals);
      launch("scan_exclusive", { ...shape, grid: 1 }, totals, shape.grid, totals, 0n);
      launch(name, shape, input, length, output, totals);
      assertEquals(await arrays.contents(output), expected, `${name} of ${what}`);
      launch(name, { ...shape, grid: 1 }, input, length, input, 0n);
      assertEquals(await arrays.contents(input), expected, `${name} of ${what}, in place`);
    }
  }
});

testOnEachDriver("histogram adds the number of every byte to its bin", async (cuda) => {
  using arrays = new GuardedArrays(cuda);
  const launch = arrays.kernels(histogramPtx);
  for (const [index, [length, shape]] of casesOfOneDimension.entries()) {
    const isOneValue = index % 4 === 0;
    const random = new Uint8Array(randomBytes(40_000, index + 1));
    const bytes = isOneValue ? new Uint8Array(length).fill(index) : random.slice(0, length);
    const bins = arrays.of(new Uint32Array(256).fill(1000));
    launch("histogram", shape, arrays.of(bytes), length, bins);
    const expected = references.histogram(bytes).map((count) => count + 1000);
    assertEquals(await arrays.contents(bins), expected, `${length} by ${shape.grid} x ${shape.block}`);
  }
});

const blocksOfTwoDimensions: readonly [number, number][] = [[32, 8], [16, 16], [7, 5], [1, 1], [64, 4], [32, 32]];
const gridsOfTwoDimensions: readonly [number, number][] = [[4, 4], [1, 1], [2, 3], [9, 1]];
const sizes: readonly [number, number][] = [[0, 5], [5, 0], [1, 1], [32, 32], [33, 31], [1, 200], [200, 1], [65, 97]];
const casesOfTwoDimensions = someOf(pairs(sizes, pairs(gridsOfTwoDimensions, blocksOfTwoDimensions)), 11);

testOnEachDriver("transpose moves every bit", async (cuda) => {
  using arrays = new GuardedArrays(cuda);
  const launch = arrays.kernels(transposePtx);
  for (const [index, [[rows, columns], [grid, block]]] of casesOfTwoDimensions.entries()) {
    // Words, so that the NaNs among the floats are moved as they are too.
    const words = randomWords(rows * columns, index + 1);
    const output = arrays.empty(Uint32Array, words.length);
    launch("transpose", { grid, block }, arrays.of(words), output, rows, columns);
    const expected = references.transpose(words, { rows, columns });
    assertEquals(await arrays.contents(output), expected, `${rows} x ${columns}, grid ${grid}, block ${block}`);
  }
});

testOnEachDriver("matrix_multiply adds in the documented order at any size", async (cuda) => {
  using arrays = new GuardedArrays(cuda);
  const launch = arrays.kernels(matrixMultiplyPtx);
  const sizes = [[1, 1, 1], [16, 16, 16], [17, 15, 33], [5, 40, 0], [0, 3, 4], [3, 0, 4], [50, 70, 31], [1, 33, 100]];
  for (const [index, [[m, n, k], grid]] of someOf(pairs(sizes, gridsOfTwoDimensions), 3).entries()) {
    const [a, b] = [floats(m! * k!, index + 1), floats(k! * n!, index + 101)];
    const output = arrays.empty(Float32Array, m! * n!);
    launch("matrix_multiply", { grid, block: [16, 16] }, arrays.of(a), arrays.of(b), output, m!, n!, k!);
    const expected = references.multiply(a, b, { m: m!, n: n!, k: k! });
    assertEquals(bitsOf(await arrays.contents(output)), bitsOf(expected), `${m} x ${n} x ${k}, grid ${grid}`);
  }
});

// On a GPU, the trap would take the context from all other tests.
test("matrix_multiply traps in blocks of another size", () => {
  using cuda = open({ driver: "software" });
  const gpu = cuda.device(0);
  using module = gpu.loadModule(matrixMultiplyPtx);
  module.kernel("matrix_multiply").launch({ grid: 1, block: [32, 8] }, 0n, 0n, 0n, 0, 0, 0);
  assertThrows(() => gpu.synchronize(), Error, "matrix_multiply");
});

testOnEachDriver("blur weighs pixels in the documented order, up to every border", async (cuda) => {
  using arrays = new GuardedArrays(cuda);
  const launch = arrays.kernels(blurPtx);
  const filters = [
    Float32Array.of(1),
    // Many sums lie halfway between two integers.
    Float32Array.of(0.25, 0.5, 0.25),
    new Float32Array(7).fill(1 / 7),
    // Sharpens: the sums leave the range of a byte.
    Float32Array.of(-1, 3, -1),
    // Wider than the images.
    Float32Array.from({ length: 401 }, (_, index) => Math.exp(-(((index - 200) / 60) ** 2)) / 106),
  ];
  for (const [index, [[height, width], [grid, block]]] of casesOfTwoDimensions.entries()) {
    const weights = filters[index % filters.length]!;
    const pixels = new Uint8Array(randomBytes(width * height * 4, index + 1));
    const rest = [width, height, arrays.of(weights), (weights.length - 1) / 2] as const;
    const [input, rows, columns] = [arrays.of(pixels), ...[0, 0].map(() => arrays.empty(Uint8Array, pixels.length))];
    launch("blur_rows", { grid, block }, input!, rows!, ...rest);
    launch("blur_columns", { grid, block }, rows!, columns!, ...rest);
    const what = `${width} x ${height}, radius ${rest[3]}, grid ${grid}, block ${block}`;
    const expected = references.blur({ pixels, width, height }, weights, "rows");
    assertEquals(await arrays.contents(rows!), expected, what);
    const blurred = references.blur({ pixels: expected, width, height }, weights, "columns");
    assertEquals(await arrays.contents(columns!), blurred, what);
  }
});

testOnEachDriver("mandelbrot counts the iterations of every pixel", async (cuda) => {
  using arrays = new GuardedArrays(cuda);
  const launch = arrays.kernels(mandelbrotPtx);
  for (const [index, [[height, width], [grid, block]]] of casesOfTwoDimensions.entries()) {
    const [left, top, step, limit] = index % 2 === 0 ? [-2, -1.5, 0.03, 200] : [-0.75, 0.1, 0.001, 60];
    const region = { width, height, left: left!, top: top!, step: step!, limit: limit! };
    const output = arrays.empty(Uint32Array, width * height);
    launch("mandelbrot", { grid, block }, output, width, height, left!, top!, step!, limit!);
    const expected = references.mandelbrot(region);
    assertEquals(await arrays.contents(output), expected, `${width} x ${height}, grid ${grid}, block ${block}`);
  }
});
