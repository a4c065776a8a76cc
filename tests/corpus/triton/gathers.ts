import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { scratch, upTo } from "./scratch.ts";

const side = 32;
const size = side * side;

export const program: CorpusProgram = {
  covers: "gathers along each axis by shuffles and shared memory, scattered stores",
  buffers: () => ({
    x: Int32Array.from(randomWords(size, 81)),
    // The second half is a permutation.
    indices: Int32Array.from([
      ...Array.from(randomWords(size, 82), (word) => word % side),
      ...upTo(size, (index) => index * 37 % size),
    ]),
    rows: new Int32Array(size),
    columns: new Int32Array(size),
    scattered: new Int32Array(size).fill(-1),
  }),
  launches: [{ kernel: "gathers", grid: 1, arguments: ["x", "indices", "rows", "columns", "scattered", ...scratch] }],
  expected({ x, indices }) {
    const [values, index] = [x as Int32Array, indices as Int32Array];
    const scattered = new Int32Array(size).fill(-1);
    for (let at = 0; at < size; at++) if (index[size + at]! % 2 === 0) scattered[index[size + at]!] = values[at ^ 5]!;
    return {
      rows: Int32Array.from(upTo(size, (at) => values[at - at % side + index[at]!]!)),
      columns: Int32Array.from(upTo(size, (at) => values[index[at]! * side + at % side]!)),
      scattered,
    };
  },
};
