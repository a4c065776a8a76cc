import type { CorpusProgram } from "../corpus_program.ts";

const size = 160;
const blocks = 3;
const input: Int32Array = Int32Array.from({ length: size * blocks }, (_, i) => Math.imul(i + 1, 0x9e3779b1));
const floats: Float32Array = Float32Array.from(input, (word) => word / 1000003);

function sums(): Int32Array {
  const result = new Int32Array(blocks);
  input.forEach((word, i) => result[Math.floor(i / size)]! += word);
  return result;
}

/**
 * Returns the sum by a butterfly over a warp, which is the same in all lanes: values 16 lanes apart are added first.
 */
function floatSum(values: Float32Array): number {
  if (values.length === 1) return values[0]!;
  const half = values.length / 2;
  return floatSum(Float32Array.from({ length: half }, (_, i) => values[i]! + values[i + half]!));
}

const warpAround = (i: number) => i - i % 32;

/** Reductions of warps and blocks. */
export const program: CorpusProgram = {
  covers: "shfl.sync down and bfly in loops, with max, add.rn.f32 and a barrier between warps",
  buffers: () => ({
    input,
    floats,
    sums: new Int32Array(blocks),
    largest: new Int32Array(input.length),
    floatSums: new Float32Array(input.length),
  }),
  launches: [{
    kernel: "shuffle_reduction",
    grid: blocks,
    block: size,
    arguments: ["input", "floats", "sums", "largest", "floatSums"],
  }],
  expected: () => ({
    sums: sums(),
    largest: input.map((_, i) => Math.max(...input.slice(warpAround(i), warpAround(i) + 32))),
    floatSums: floats.map((_, i) => floatSum(floats.slice(warpAround(i), warpAround(i) + 32))),
  }),
};
