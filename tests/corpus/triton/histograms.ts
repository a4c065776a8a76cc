import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { scratch } from "./scratch.ts";

const [length, block, bins] = [1400, 512, 64];
const grid = Math.ceil(length / block);

export const program: CorpusProgram = {
  covers: "histograms in shared memory, votes, atomics with masks",
  buffers: () => ({
    x: Int32Array.from(randomWords(length, 71), (word) => (word % bins) & (word >>> 9)),
    counts: new Int32Array(bins).fill(5),
    partial: new Int32Array(grid * bins),
  }),
  launches: [{ kernel: "histograms", grid, arguments: ["x", "counts", "partial", length, ...scratch] }],
  expected({ x }) {
    const [counts, partial] = [new Int32Array(bins).fill(5), new Int32Array(grid * bins)];
    (x as Int32Array).forEach((value, index) => {
      counts[value]!++;
      partial[Math.floor(index / block) * bins + value]!++;
    });
    return { counts, partial };
  },
};
