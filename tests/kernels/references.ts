/**
 * What the kernels in `kernels/` compute, in TypeScript, to the bit.
 *
 * @module
 */

/** A launch of one dimension. */
export interface Shape {
  readonly grid: number;
  readonly block: number;
}

/** Combines two floats to one. */
export type Operation = (a: number, b: number) => number;

/** The operations of reduce.cu: each with the result for no elements. */
export const operations: Readonly<Record<string, { readonly ofNone: number; readonly of: Operation }>> = {
  reduce_sum: { ofNone: 0, of: (a, b) => Math.fround(a + b) },
  reduce_min: { ofNone: Infinity, of: (a, b) => Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.min(a, b) },
  reduce_max: { ofNone: -Infinity, of: (a, b) => Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.max(a, b) },
};

/** Returns one result for each block. */
export function reduce(numbers: Float32Array, { grid, block }: Shape, kernel: string): Float32Array {
  const { ofNone, of } = operations[kernel]!;
  const ofThreads = new Float32Array(grid * block).fill(ofNone);
  numbers.forEach((number, index) => {
    const thread = index % ofThreads.length;
    ofThreads[thread] = of(ofThreads[thread]!, number);
  });
  return Float32Array.from({ length: grid }, (_, index) => {
    return reduceTree([...ofThreads.subarray(index * block, (index + 1) * block)], of);
  });
}

/** Combines the upper half with the lower one, which has a power of two of numbers, until one is left. */
function reduceTree(numbers: readonly number[], of: Operation): number {
  if (numbers.length === 1) return numbers[0]!;
  let width = 1;
  while (width * 2 < numbers.length) width *= 2;
  const lower = numbers.slice(0, width);
  numbers.slice(width).forEach((number, index) => lower[index] = of(lower[index]!, number));
  return reduceTree(lower, of);
}

/** Returns the running totals. */
export function scan(numbers: Uint32Array, { inclusive }: { inclusive: boolean }): Uint32Array {
  let total = 0;
  return numbers.map((number) => {
    const before = total;
    total = (total + number) >>> 0;
    return inclusive ? total : before;
  });
}

/** Counts each value. */
export function histogram(bytes: Uint8Array): Uint32Array {
  const bins = new Uint32Array(256);
  for (const byte of bytes) bins[byte]!++;
  return bins;
}

/** Transposes a matrix, without changing a bit. */
export function transpose(words: Uint32Array, { rows, columns }: { rows: number; columns: number }): Uint32Array {
  return words.map((_, index) => words[(index % rows) * columns + Math.floor(index / rows)]!);
}

/** Multiplies a matrix of m x k floats and one of k x n. */
export function multiply(
  a: Float32Array,
  b: Float32Array,
  { m, n, k }: { m: number; n: number; k: number },
): Float32Array {
  return new Float32Array(m * n).map((_, index) => {
    const [row, column] = [Math.floor(index / n), index % n];
    let sum = 0;
    for (let i = 0; i < k; i++) sum = Math.fround(sum + Math.fround(a[row * k + i]! * b[i * n + column]!));
    return sum;
  });
}

/** An image of RGBA pixels. */
export interface Image {
  readonly pixels: Uint8Array;
  readonly width: number;
  readonly height: number;
}

/** Blurs an image along its rows or its columns. */
export function blur(
  { pixels, width, height }: Image,
  weights: Float32Array,
  direction: "rows" | "columns",
): Uint8Array {
  const radius = (weights.length - 1) / 2;
  const within = (position: number, size: number) => Math.max(0, Math.min(size - 1, position));
  return pixels.map((_, index) => {
    const [row, column] = [Math.floor(index / 4 / width), Math.floor(index / 4) % width];
    let sum = 0;
    weights.forEach((weight, position) => {
      const offset = position - radius;
      const pixel = direction === "rows"
        ? row * width + within(column + offset, width)
        : within(row + offset, height) * width + column;
      sum = Math.fround(sum + Math.fround(weight * pixels[pixel * 4 + index % 4]!));
    });
    return roundedByte(sum);
  });
}

function roundedByte(number: number): number {
  const below = Math.floor(number);
  const isUp = number - below > 0.5 || (number - below === 0.5 && below % 2 === 1);
  return Math.max(0, Math.min(255, isUp ? below + 1 : below));
}

/** A part of the complex plane. */
export interface Region {
  readonly width: number;
  readonly height: number;
  readonly left: number;
  readonly top: number;
  readonly step: number;
  readonly limit: number;
}

/** Returns the iterations at each pixel. */
export function mandelbrot({ width, height, left, top, step, limit }: Region): Uint32Array {
  const { fround } = Math;
  const at = (from: number, index: number) => fround(fround(from) + fround(fround(step) * index));
  return new Uint32Array(width * height).map((_, index) => {
    const [real, imaginary] = [at(left, index % width), at(top, Math.floor(index / width))];
    let [x, y, iterations] = [0, 0, 0];
    while (iterations < limit && fround(fround(x * x) + fround(y * y)) <= 4) {
      const next = fround(fround(fround(x * x) - fround(y * y)) + real);
      y = fround(fround(fround(2 * x) * y) + imaginary);
      x = next;
      iterations++;
    }
    return iterations;
  });
}
