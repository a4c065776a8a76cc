import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { scratch } from "./scratch.ts";

const rows = 5;
const columns = 201;

export const program: CorpusProgram = {
  covers: "reductions by butterfly shuffles and shared memory, ex2.approx, div.full",
  buffers: () => ({
    x: Float32Array.from(randomWords(rows * columns), (word) => (word % 4096) / 256 - 8),
    out: new Float32Array(rows * columns),
  }),
  launches: [{ kernel: "fused_softmax", grid: rows, arguments: ["x", "out", columns, ...scratch] }],
  expected({ x }) {
    const out = new Float32Array(rows * columns);
    for (let row = 0; row < rows; row++) {
      const values = [...(x as Float32Array).subarray(row * columns, (row + 1) * columns)];
      const powers = values.map((value) => Math.exp(value - Math.max(...values)));
      const sum = powers.reduce((a, b) => a + b, 0);
      powers.forEach((power, column) => out[row * columns + column] = power / sum);
    }
    return { out };
  },
  bounds: {
    out: {
      derivation: "exponents of at most 16: the product with log2(e) is off by 2^-24 of at most 23.1, and the factor " +
        "itself by 2^-25, so powers by 2^-19; ex2.approx 2^-22.5, a sum of 8 rounded additions 2^-21, div.full 2 ulp",
      absolute: (expected) => expected * 2 ** -17,
    },
  },
};
