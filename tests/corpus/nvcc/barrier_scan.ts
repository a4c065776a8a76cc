import type { CorpusProgram } from "../corpus_program.ts";

const size = 100;
const blocks = 4;
const input: Int32Array = Int32Array.from({ length: size * blocks }, (_, i) => Math.imul(i + 3, 0x9e3779b1));

/** Prefix sums of each block. */
export const program: CorpusProgram = {
  covers: "two bar.sync in a loop, around a branch that some threads take",
  buffers: () => ({ input, out: new Int32Array(size * blocks) }),
  launches: [{ kernel: "barrier_scan", grid: blocks, block: size, arguments: ["input", "out"] }],
  expected() {
    let sum = 0;
    return { out: input.map((word, i) => sum = (i % size === 0 ? 0 : sum) + word | 0) };
  },
};
