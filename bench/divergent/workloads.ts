/**
 * The workloads of the benchmark of divergent kernels: each is computed by a kernel and by a loop in JavaScript.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { ptx as mandelbrotPtx } from "../../kernels/mandelbrot.ts";
import type { LaunchOptions } from "../../mod.ts";
import type { Arrays, KernelWorkload } from "../software/prepared_workload.ts";
import * as loops from "./loops.ts";

/** A kernel, its launch, and a loop that computes the same. */
export interface DivergentWorkload<A extends Arrays = Arrays> extends KernelWorkload<A> {
  loop(arrays: A): void;
}

const ptx = readFileSync(new URL("kernels.ptx", import.meta.url), "utf8");
const plane: loops.Plane = { width: 1920, height: 1088, left: -2.3, top: -1.2, step: 2.4 / 1088, limit: 256 };
const { width, height, left, top, step, limit } = plane;
const block = 256;

/** A launch with one thread for each of some items. */
function threads(count: number): LaunchOptions {
  return { grid: Math.ceil(count / block), block };
}

function workload<A extends Arrays>(
  kernel: string,
  workload: Omit<DivergentWorkload<A>, "ptx" | "kernel">,
): DivergentWorkload {
  return { ptx: kernel === "mandelbrot" ? mandelbrotPtx : ptx, kernel, ...workload } as unknown as DivergentWorkload;
}

function words(length: number, of: (index: number) => number): Uint32Array<ArrayBuffer> {
  return new Uint32Array(length).map((_, index) => of(index));
}

function floats(length: number, of: (index: number) => number): Float32Array<ArrayBuffer> {
  return new Float32Array(length).map((_, index) => of(index));
}

/** Numbers from 0 to 1. */
function fraction(index: number): number {
  return loops.scramble(index) / 2 ** 32;
}

/** All workloads, in the order of the table. */
export const workloads: readonly DivergentWorkload[] = [
  workload("mandelbrot", {
    name: "Mandelbrot, floats",
    launch: { grid: [width / 16, height / 16], block: [16, 16] },
    arrays: () => ({ out: new Uint32Array(width * height) }),
    arguments: ["out", width, height, left, top, step, limit],
    loop: ({ out }) => loops.mandelbrot(out, plane),
  }),
  workload("mandelbrot_doubles", {
    name: "Mandelbrot, doubles",
    launch: { grid: [width / 16, height / 16], block: [16, 16] },
    arrays: () => ({ out: new Uint32Array(width * height) }),
    arguments: ["out", width, height, left, top, step, limit],
    loop: ({ out }) => loops.mandelbrotDoubles(out, plane),
  }),
  workload("collatz", {
    name: "Collatz steps",
    launch: threads(2 ** 19),
    // The numbers of these sequences have at most 32 bits.
    arrays: () => ({
      starts: words(2 ** 19, (index) => 1 + loops.scramble(index) % 100000),
      out: new Uint32Array(2 ** 19),
    }),
    arguments: ["starts", "out", 2 ** 19],
    loop: ({ starts, out }) => loops.collatz(starts, out),
  }),
  workload("binary_search", {
    name: "binary search",
    launch: threads(2 ** 20),
    arrays: () => ({
      sorted: words(2 ** 14, loops.scramble).sort(),
      keys: words(2 ** 20, (index) => loops.scramble(index + 2 ** 14)),
      out: new Uint32Array(2 ** 20),
    }),
    arguments: ["sorted", 2 ** 14, "keys", "out", 2 ** 20],
    loop: ({ sorted, keys, out }) => loops.binarySearch(sorted, keys, out),
  }),
  workload("common_divisor", {
    name: "greatest common divisor",
    launch: threads(2 ** 19),
    arrays: () => ({
      first: words(2 ** 19, loops.scramble),
      second: words(2 ** 19, (index) => loops.scramble(index + 2 ** 19)),
      out: new Uint32Array(2 ** 19),
    }),
    arguments: ["first", "second", "out", 2 ** 19],
    loop: ({ first, second, out }) => loops.commonDivisor(first, second, out),
  }),
  workload("newton", {
    name: "Newton's iteration",
    launch: threads(2 ** 20),
    arrays: () => ({
      numbers: floats(2 ** 20, (index) => 1e-3 + 1e6 * fraction(index) ** 4),
      out: new Float32Array(2 ** 20),
    }),
    arguments: ["numbers", "out", 2 ** 20],
    loop: ({ numbers, out }) => loops.newton(numbers, out),
  }),
  workload("match_text", {
    name: "string matching",
    launch: threads(2 ** 22),
    arrays: () => ({
      text: new Uint8Array(2 ** 22).map((_, index) => 97 + loops.scramble(index) % 2),
      pattern: new Uint8Array(16).map((_, index) => 97 + loops.scramble(index + 7) % 2),
      out: new Uint8Array(2 ** 22),
    }),
    arguments: ["text", 2 ** 22, "pattern", 16, "out"],
    loop: ({ text, pattern, out }) => loops.matchText(text, pattern, out),
  }),
  workload("trace_spheres", {
    name: "rays and spheres",
    launch: threads(2 ** 17),
    arrays: () => ({
      directions: directions(2 ** 17),
      spheres: floats(64 * 4, (index) => index % 4 === 3 ? 4 * fraction(index) : 40 * fraction(index) - 20),
      out: new Float32Array(2 ** 17),
    }),
    arguments: ["directions", "spheres", 64, "out", 2 ** 17],
    loop: ({ directions, spheres, out }) => loops.traceSpheres(directions, spheres, out),
  }),
  workload("queens", {
    name: "queens",
    launch: threads(12 * 12),
    arrays: () => ({ out: new Uint32Array(12 * 12) }),
    arguments: ["out", 12],
    loop: ({ out }) => loops.queens(out, 12),
  }),
  workload("sparse_product", {
    name: "sparse matrix product",
    launch: threads(2 ** 17),
    arrays: () => {
      const begins = new Uint32Array(2 ** 17 + 1);
      for (let row = 0; row < 2 ** 17; row++) begins[row + 1] = begins[row]! + loops.scramble(row) % 64;
      const count = begins.at(-1)!;
      return {
        begins,
        columns: words(count, (index) => loops.scramble(index) % 2 ** 14),
        values: floats(count, fraction),
        x: floats(2 ** 14, fraction),
        out: new Float32Array(2 ** 17),
      };
    },
    arguments: ["begins", "columns", "values", "x", "out", 2 ** 17],
    loop: ({ begins, columns, values, x, out }) => loops.sparseProduct({ begins, columns, values }, x, out),
  }),
];

/** Directions of the rays, of length 1 or nearly so. */
function directions(count: number): Float32Array<ArrayBuffer> {
  const result = new Float32Array(3 * count);
  for (let ray = 0; ray < count; ray++) {
    const across = [2 * fraction(3 * ray) - 1, 2 * fraction(3 * ray + 1) - 1, 2 * fraction(3 * ray + 2) - 1];
    const length = Math.hypot(...across) || 1;
    across.forEach((part, axis) => result[3 * ray + axis] = part / length);
  }
  return result;
}
