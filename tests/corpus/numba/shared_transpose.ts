import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { array, upTo } from "./array_arguments.ts";

const [rows, columns] = [30, 45];
const grid = [Math.ceil(rows / 16), Math.ceil(columns / 16), 1] as const;

export const program: CorpusProgram = {
  covers: "shared arrays of two dimensions, and dynamic shared memory, with barriers in a loop",
  buffers: () => ({
    x: Int32Array.from(randomWords(rows * columns, 3)),
    out: new Int32Array(rows * columns),
    sums: new Float32Array(grid[0] * grid[1]),
    values: Float32Array.from(randomWords(256, 4), (word) => word % 1000),
  }),
  launches: [{
    kernel: "shared_transpose",
    grid,
    block: [16, 16, 1],
    sharedMemoryBytes: 1024,
    arguments: [
      ...array("out", 4, columns, rows),
      ...array("x", 4, rows, columns),
      ...array("sums", 4, grid[0] * grid[1]),
      ...array("values", 4, 256),
    ],
  }],
  expected: ({ x, values }) => ({
    out: Int32Array.from(upTo(rows * columns, (at) => Number(x![at % rows * columns + Math.floor(at / rows)]))),
    sums: new Float32Array(grid[0] * grid[1]).fill(Array.from(values as Float32Array).reduce((a, b) => a + b)),
  }),
};
