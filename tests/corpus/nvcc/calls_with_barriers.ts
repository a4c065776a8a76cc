import type { CorpusProgram } from "../corpus_program.ts";

const size = 128;
const blocks = 3;
const input: Int32Array = Int32Array.from({ length: size * blocks }, (_, i) => Math.imul(i + 1, 0x9e3779b1));

const sumOf = (values: Int32Array): number => values.reduce((sum, value) => sum + value | 0, 0);

const rotated = (values: Int32Array, by: number): Int32Array =>
  values.map((_, thread) => values[(thread & ~31) + (thread + by) % 32]!);

/** Returns the sum of a warp's votes. All lanes of a warp have the same count. */
function voted(warp: Int32Array, depth: number): number {
  const count = warp.filter((value) => value & 1).length;
  return depth === 0 ? count : count + 2 * voted(rotated(warp, depth).map((value) => value + count), depth - 1);
}

function blockOf(values: Int32Array, block: number): Int32Array {
  let sum = sumOf(values);
  for (let round = 0; round < 3; round++) {
    sum = Math.imul(sum, 3) + sumOf(rotated(values, round + 1).map((value) => value ^ round)) | 0;
  }
  if (block === 1) sum ^= (sum & 255) * size;
  return values.map((_, thread) => {
    const first = thread & ~31;
    const half = thread % 32 < 16 ? values[first + 15]! : -values[first + 31]!;
    return sum + voted(values.slice(first, first + 32), 3) + half;
  });
}

/** Functions in which threads wait for each other. */
export const program: CorpusProgram = {
  covers: "bar.sync, shfl.sync and vote.sync inside called functions, recursive ones too",
  buffers: () => ({ input, out: new Int32Array(size * blocks) }),
  launches: [{ kernel: "calls_with_barriers", grid: blocks, block: size, arguments: ["input", "out"] }],
  expected: () => ({
    out: Int32Array.from(
      Array.from(
        { length: blocks },
        (_, block) => [...blockOf(input.slice(block * size, (block + 1) * size), block)],
      ).flat(),
    ),
  }),
};
