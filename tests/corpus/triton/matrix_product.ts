import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { scratch, upTo } from "./scratch.ts";

const [M, N, K] = [20, 37, 45];
/** Small whole numbers, of which every sum of products is exact. */
const floats = (length: number, seed: number) => Float32Array.from(randomWords(length, seed), (word) => word % 33 - 16);

export const program: CorpusProgram = {
  covers: "layouts changed through shared memory, ldmatrix, a loop over tiles with masks at both edges",
  buffers: () => ({ a: floats(M * K, 31), b: floats(K * N, 32), c: new Float32Array(M * N) }),
  launches: [{
    kernel: "matrix_product",
    grid: [Math.ceil(M / 16), Math.ceil(N / 16), 1],
    arguments: ["a", "b", "c", M, N, K, ...scratch],
  }],
  expected: ({ a, b }) => ({
    c: Float32Array.from(upTo(M * N, (at) => {
      const [row, column] = [Math.floor(at / N), at % N];
      return upTo(K, (k) => Number(a![row * K + k]) * Number(b![k * N + column])).reduce((x, y) => x + y, 0);
    })),
  }),
};
