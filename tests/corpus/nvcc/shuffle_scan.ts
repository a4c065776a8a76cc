import type { CorpusProgram } from "../corpus_program.ts";

const size = 256;
const blocks = 2;
const input: BigUint64Array = BigUint64Array.from(
  { length: size * blocks },
  (_, i) => BigInt(i + 1) * 0x9e3779b97f4a7c15n,
);

/** Prefix sums of each block. */
export const program: CorpusProgram = {
  covers: "shfl.sync up of 64-bit words in a loop, with a barrier between warps",
  buffers: () => ({ input, out: new BigUint64Array(size * blocks) }),
  launches: [{ kernel: "shuffle_scan", grid: blocks, block: size, arguments: ["input", "out"] }],
  expected() {
    let sum = 0n;
    return { out: input.map((word, i) => sum = BigInt.asUintN(64, (i % size === 0 ? 0n : sum) + word)) };
  },
};
