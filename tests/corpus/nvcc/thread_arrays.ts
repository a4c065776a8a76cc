import type { CorpusProgram } from "../corpus_program.ts";
import { randomBytes, randomWords } from "./contents.ts";

const columns = 48;
const threads = 32;
const steps = 12;

export const program: CorpusProgram = {
  covers: "one- and two-dimensional local arrays of threads: sorting, counting and traversal",
  buffers: () => ({
    numbers: new Int32Array(randomBytes(64 * columns, 3)),
    sorted: new Int32Array(16 * columns),
    words: randomWords(threads, 4),
    digits: new Uint8Array(10 * threads),
    path: new Int32Array(randomBytes(4 * steps, 5)),
    // Multiples of 1/4 with small magnitudes: every sum is exact, in any order and whether fused or not.
    sums: new Float64Array(threads),
  }),
  launches: [
    { kernel: "sort_columns", grid: 3, block: 16, arguments: ["numbers", "sorted", columns] },
    { kernel: "count_digits", grid: 1, block: threads, arguments: ["words", "digits"] },
    { kernel: "walk_matrix", grid: 1, block: threads, arguments: ["path", "sums", steps] },
  ],
  expected({ numbers, words, path }) {
    const source = numbers as Int32Array;
    const sorted = source.slice();
    for (let column = 0; column < columns; column++) {
      const values = source.filter((_, index) => index % columns === column).sort();
      values.forEach((value, row) => sorted[row * columns + column] = value);
    }
    return {
      sorted,
      digits: Uint8Array.from({ length: 10 * threads }, (_, index) => {
        const text = String(words![Math.floor(index / 10)]);
        return text.split(String(index % 10)).length - 1;
      }),
      sums: Float64Array.from({ length: threads }, (_, thread) => {
        const matrix = Array.from({ length: 16 }, (_, index) => index / 4 + thread);
        let at = thread % 16;
        for (const step of path as Int32Array) {
          const next = (at + [1, 4, 5, 7][step & 3]!) % 16;
          matrix[next % 4 * 4 + Math.floor(next / 4)]! += matrix[at]!;
          at = next;
        }
        return matrix.reduce((sum, value, index) => sum + value * (index + 1), 0);
      }),
    };
  },
};
