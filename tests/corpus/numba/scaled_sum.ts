import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { array, upTo } from "./array_arguments.ts";

const [length, rows, columns] = [150, 3, 7];
const factor = 0.5;

export const program: CorpusProgram = {
  covers: "arrays with strides, negative indices, floor division, a loop over the grid",
  buffers: () => ({
    out: new Float32Array(length),
    // Small whole numbers, of which every product and sum is exact.
    x: Float32Array.from(randomWords(length, 1), (word) => word % 128 - 64),
    matrix: Float64Array.from(randomWords(rows * columns, 2), (word) => word % 64 - 32),
    counts: new Int32Array(length),
  }),
  launches: [{
    kernel: "scaled_sum",
    grid: 2,
    block: 32,
    arguments: [
      ...array("out", 4, length),
      factor,
      ...array("x", 4, length),
      ...array("matrix", 8, rows, columns),
      ...array("counts", 4, length),
    ],
  }],
  expected: ({ x, matrix }) => ({
    out: Float32Array.from(upTo(length, (i) => {
      const products = upTo(rows, (row) => {
        return Number(matrix![row * columns + i % columns]) * Number(matrix![(rows - 1 - row) * columns]);
      });
      return factor * Number(x![i]) + products.reduce((a, b) => a + b);
    })),
    counts: Int32Array.from(upTo(length, (i) => Math.floor((i - 7) / 3) * 100 + ((i - 7) % 3 + 3) % 3)),
  }),
};
