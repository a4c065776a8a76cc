import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const block = 128;
const blocks = 2;
const warp = 32;

const ballot = (lanes: readonly number[], holds: (value: number) => boolean) =>
  lanes.reduce((bits, value, lane) => holds(value) ? (bits | 1 << lane) >>> 0 : bits, 0);

function sumsOf(values: readonly number[], thread: number): number[] {
  const wrapped = Array.from(
    { length: block / warp },
    (_, index) => values.slice(index * warp, (index + 1) * warp).reduce((sum, value) => sum + value | 0, 0),
  );
  const shared = wrapped.reduce((sum, value) => sum + value, 0);
  return [
    values[thread % 4 * warp + Math.floor(thread / 4)]!,
    values[block - 1 - thread]! & 0xff,
    Number(BigInt.asIntN(32, BigInt(shared) * 3n)),
  ];
}

function warpOf(values: readonly number[], thread: number): number[] {
  const lane = thread % warp;
  const lanes = values.slice(thread - lane, thread - lane + warp);
  const value = values[thread]!;
  const uniform = [0, 0xffff_ffff].includes(ballot(lanes, (other) => (other & 4) !== 0));
  return [
    ballot(lanes, (other) => (other & 1) !== 0),
    (lanes.some((other) => other % 64 === 0) ? 1 : 0) | (lanes.every((other) => other > -2147483647) ? 2 : 0) |
    (uniform ? 4 : 0),
    ballot(lanes, (other) => (other >>> 0) % 5 === (value >>> 0) % 5),
    (lanes[lane ^ 5]! ^ lanes[lane < 3 ? lane : lane - 3]!) >>> 0,
    values.filter((other) => (other & 2) !== 0).length,
    (values.every((other) => other !== 5) ? 1 : 0) + (values[5]! & 1 ? 2 : 0),
  ];
}

function perThread(input: Int32Array, row: (values: readonly number[], thread: number) => number[]): number[] {
  return Array.from({ length: blocks }, (_, index) => [...input.subarray(index * block, (index + 1) * block)])
    .flatMap((values) => values.flatMap((_, thread) => row(values, thread)));
}

/** Clang's shared variables and its builtins for warps and blocks. */
export const program: CorpusProgram = {
  covers: "shared arrays and structs, bar.sync, bar.red, shfl.sync, vote.sync, match.sync, bar.warp.sync",
  buffers: () => ({
    input: new Int32Array(randomWords(block * blocks)),
    sums: new Int32Array(block * blocks * 3),
    warps: new Uint32Array(block * blocks * 6),
  }),
  launches: [{ kernel: "shared_memory", grid: blocks, block, arguments: ["input", "sums", "warps"] }],
  expected: ({ input }) => ({
    sums: Int32Array.from(perThread(input as Int32Array, sumsOf)),
    warps: Uint32Array.from(perThread(input as Int32Array, warpOf)),
  }),
};
