/**
 * The workloads of the software device's benchmark: each is computed by a kernel and by a loop in C.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { ptx as mandelbrotPtx } from "../../kernels/mandelbrot.ts";
import { ptx as saxpyPtx } from "../../kernels/saxpy.ts";
import { multiplyKernel } from "../../tests/compiler/tensor_cores/kernels.ts";
import type { CLoops } from "./c_loops.ts";
import type { Arrays, KernelWorkload } from "./prepared_workload.ts";

/** A kernel, its launch, and a loop that computes the same. */
export interface Workload<A extends Arrays = Arrays> extends KernelWorkload<A> {
  /**
   * The smallest acceptable quotient of C's time and the device's; undefined if the row only serves as a comparison.
   */
  readonly goal: number | undefined;
  loop(loops: CLoops, arrays: A): void;
}

const count = 2 ** 24;

/** All workloads, in the order of the table. */
export const workloads: readonly Workload[] = [
  saxpy("saxpy", { goal: 0.5, grid: count / 256 }),
  saxpy("saxpy, elements a grid apart", { goal: undefined, grid: 64 }),
  fill("fill", { goal: 0.5, grid: count / 256 }),
  fill("fill, elements a grid apart", { goal: undefined, grid: 64 }),
  matrixMultiply("matrix multiply, tile 16", { file: "matrix_multiply", tile: 16, loop: "matrix_multiply_16" }),
  matrixMultiply("matrix multiply, tile 32", { file: "matrix_multiply", tile: 32, loop: "matrix_multiply_32" }),
  matrixMultiply("matrix multiply, tile 32, fused", {
    file: "matrix_multiply_fused",
    tile: 32,
    loop: "matrix_multiply_32_fused",
  }),
  multiplyHalves(),
  blockReduction("block reduction", { blocks: 256 }),
  mandelbrot(),
  xorshift(),
  sha256(),
];

/** Returns the PTX of every measured kernel. */
export function measuredPtx(): readonly string[] {
  return [...new Set(workloads.map(({ ptx }) => ptx))];
}

/** Checks a workload against the types of its own arrays, and then erases those types. */
function eraseArrayTypes<A extends Arrays>(workload: Workload<A>): Workload {
  return workload as unknown as Workload;
}

function readPtx(name: string): string {
  return readFileSync(new URL(`${name}.ptx`, import.meta.url), "utf8");
}

/** Returns numbers with long mantissas, so that adding them in another order gives another sum. */
export function floats(length: number): Float32Array<ArrayBuffer> {
  return new Float32Array(length).map((_, index) => Math.sin(index));
}

/** Adds 2.5 times an array of 16 M floats to another. */
export function saxpy(name: string, { goal, grid }: { goal: number | undefined; grid: number }): Workload {
  return eraseArrayTypes({
    name,
    goal,
    ptx: saxpyPtx,
    kernel: "saxpy",
    launch: { grid, block: 256 },
    arrays: () => ({ x: floats(count), y: floats(count) }),
    arguments: [count, 2.5, "x", "y"],
    loop: ({ saxpy }, { x, y }) => saxpy(count, 2.5, x, y),
  });
}

function fill(name: string, { goal, grid }: { goal: number | undefined; grid: number }): Workload {
  const pattern = 0x12345678;
  return eraseArrayTypes({
    name,
    goal,
    ptx: fillPtx,
    kernel: "fill",
    launch: { grid, block: 256 },
    arrays: () => ({ out: new Uint32Array(count) }),
    arguments: ["out", count * 4, pattern],
    loop: ({ fill }, { out }) => fill(out, BigInt(out.byteLength), pattern),
  });
}

/** Multiplies two square matrices through tiles in shared memory. */
export function matrixMultiply(
  name: string,
  { file, tile, loop, size = 512 }: {
    file: string;
    tile: number;
    loop: keyof CLoops & `matrix_multiply${string}`;
    size?: number;
  },
): Workload {
  return eraseArrayTypes({
    name,
    goal: 0.3,
    ptx: readPtx(file),
    kernel: `matrix_multiply_${tile}`,
    launch: { grid: [size / tile, size / tile], block: [tile, tile] },
    arrays: () => ({ a: floats(size * size), b: floats(size * size), c: new Float32Array(size * size) }),
    arguments: ["a", "b", "c", size],
    loop: ({ [loop]: multiply }, { a, b, c }) => multiply(a, b, c, size),
  });
}

/** Multiplies two square matrices of f16 by tensor cores. The elements are integers, so that all sums are exact. */
export function multiplyHalves({ size = 512 }: { size?: number } = {}): Workload {
  const integers = [0x0000, 0x3c00, 0x4000, 0x4200, 0x4400, 0xbc00, 0xc000, 0xc200];
  const halves = (seed: number) =>
    new Uint32Array(size * size / 2).map((_, index) => {
      const bits = Math.imul(index + seed, 2654435761) >>> 16;
      return integers[bits & 7]! | integers[bits >> 3 & 7]! << 16;
    });
  return eraseArrayTypes({
    name: "matrix multiply, tensor cores",
    goal: 0.3,
    ptx: multiplyKernel("f16"),
    kernel: "multiply",
    launch: { grid: [size / 64, size / 64], block: 128 },
    arrays: () => ({ c: new Float32Array(size * size), a: halves(1), b: halves(2) }),
    arguments: ["c", "a", "b", size, 2 * size],
    loop: ({ matrix_multiply_half: multiply }, { c, a, b }) => multiply(c, a, b, size),
  });
}

function blockReduction(name: string, { blocks }: { blocks: number }): Workload {
  const blockSize = 256;
  return eraseArrayTypes({
    name,
    goal: 0.3,
    ptx: readPtx("block_reduction"),
    kernel: "block_reduction",
    launch: { grid: blocks, block: blockSize },
    arrays: () => ({ numbers: floats(count), sums: new Float32Array(blocks) }),
    arguments: ["numbers", "sums", count],
    loop: ({ block_reduction }, { numbers, sums }) => block_reduction(numbers, sums, count, blocks, blockSize),
  });
}

/** Counts the iterations of 1024 x 1024 points, at most 256. */
export function mandelbrot(): Workload {
  const [width, height, limit] = [1024, 1024, 256];
  const [left, top, step] = [-2, -1.5, 3 / 1024];
  return eraseArrayTypes({
    name: "Mandelbrot",
    goal: 0.5,
    ptx: mandelbrotPtx,
    kernel: "mandelbrot",
    launch: { grid: [width / 16, height / 16], block: [16, 16] },
    arrays: () => ({ out: new Uint32Array(width * height) }),
    arguments: ["out", width, height, left, top, step, limit],
    loop: ({ mandelbrot }, { out }) => mandelbrot(out, width, height, left, top, step, limit),
  });
}

/** Adds up the numbers of each of many pseudorandom generators. */
export function xorshift(
  { generators = 65536, numbers = 512 }: { generators?: number; numbers?: number } = {},
): Workload {
  return eraseArrayTypes({
    name: "xorshift",
    goal: 0.5,
    ptx: readPtx("xorshift"),
    kernel: "xorshift",
    launch: { grid: generators / 256, block: 256 },
    arrays: () => ({ sums: new Uint32Array(generators) }),
    arguments: ["sums", generators, numbers],
    loop: ({ xorshift }, { sums }) => xorshift(sums, generators, numbers),
  });
}

/** Hashes messages of 64 bytes. */
export function sha256({ messageCount = 65536 }: { messageCount?: number } = {}): Workload {
  return eraseArrayTypes({
    name: "SHA-256",
    goal: 0.5,
    ptx: readPtx("sha256"),
    kernel: "sha256",
    launch: { grid: messageCount / 256, block: 256 },
    arrays: () => ({
      messages: new Uint32Array(messageCount * 16).map((_, index) => Math.imul(index, 2654435761)),
      digests: new Uint32Array(messageCount * 8),
    }),
    arguments: ["messages", "digests", messageCount],
    loop: ({ sha256 }, { messages, digests }) => sha256(messages, digests, messageCount),
  });
}
