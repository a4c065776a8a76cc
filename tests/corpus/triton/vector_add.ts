import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { scratch } from "./scratch.ts";

const length = 1300;
const block = 512;
const floats = (seed: number) => Float32Array.from(randomWords(length, seed), (word) => (word | 0) / 3);

export const program: CorpusProgram = {
  covers: "masked loads and stores, as vectors of one element in inline assembly",
  buffers: () => ({ x: floats(1), y: floats(2), out: new Float32Array(length) }),
  launches: [{
    kernel: "vector_add",
    grid: Math.ceil(length / block),
    arguments: ["x", "y", "out", length, ...scratch],
  }],
  expected: ({ x, y }) => ({
    out: Float32Array.from(x as Float32Array, (value, index) => value + (y as Float32Array)[index]!),
  }),
};
