import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { scratch, upTo } from "./scratch.ts";

const [rows, columns] = [4, 32];
const size = rows * columns;

export const program: CorpusProgram = {
  covers: "bitonic sorting networks by shuffles, with many predicates",
  buffers: () => ({
    x: Int32Array.from(randomWords(size, 61), (word) => (word | 0) >> 20),
    floats: Float32Array.from(randomWords(size, 62), (word) => (word | 0) / 9),
    out: new Int32Array(3 * size + rows * 8),
    sorted: new Float32Array(size),
  }),
  launches: [{ kernel: "sorting", grid: 1, arguments: ["x", "floats", "out", "sorted", ...scratch] }],
  expected({ x, floats }) {
    const rowsOf = (all: Int32Array | Float32Array) =>
      upTo(rows, (row) => Array.from(all.subarray(row * columns, (row + 1) * columns)));
    const values = rowsOf(x as Int32Array);
    const ascending = values.map((row) => row.toSorted((a, b) => a - b));
    const descending = ascending.map((row) => row.toReversed());
    return {
      out: Int32Array.from([
        ...ascending.flat(),
        ...descending.flat(),
        ...values.flatMap((row) => row.toReversed()),
        ...descending.flatMap((row) => row.slice(0, 8)),
      ]),
      sorted: Float32Array.from(rowsOf(floats as Float32Array).flatMap((row) => row.sort((a, b) => a - b))),
    };
  },
};
