import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram, ErrorBound } from "../corpus_program.ts";
import { scratch } from "./scratch.ts";

const rows = 4;
const columns = 150;
const epsilon = 2 ** -10;
const floats = (length: number, seed: number) =>
  Float32Array.from(randomWords(length, seed), (word) => (word % 2048) / 256 - 4);

const bound: ErrorBound = {
  derivation:
    "numbers of at most 4 with a variance of about 5: every sum has at most 150 terms, added in a tree of at " +
    "most 10 levels, so that means are off by 10 * 2^-24 * 4 and scales by 2^-20; the rest is rounded five times",
  absolute: () => 2 ** -16,
};

export const program: CorpusProgram = {
  covers: "loops over a row, rsqrt.approx, uniform stores by one thread, two warps",
  buffers: () => ({
    x: floats(rows * columns, 11),
    weight: floats(columns, 12),
    bias: floats(columns, 13),
    out: new Float32Array(rows * columns),
    means: new Float32Array(rows),
    scales: new Float32Array(rows),
  }),
  launches: [{
    kernel: "layer_norm",
    grid: rows,
    arguments: ["x", "weight", "bias", "out", "means", "scales", columns, epsilon, ...scratch],
  }],
  expected({ x, weight, bias }) {
    const [means, scales] = [new Float32Array(rows), new Float32Array(rows)];
    const out = new Float32Array(rows * columns);
    for (let row = 0; row < rows; row++) {
      const values = Array.from((x as Float32Array).subarray(row * columns, (row + 1) * columns));
      const mean = values.reduce((a, b) => a + b, 0) / columns;
      const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / columns;
      const scale = 1 / Math.sqrt(variance + epsilon);
      [means[row], scales[row]] = [mean, scale];
      values.forEach((value, column) => {
        out[row * columns + column] = (value - mean) * scale * Number(weight![column]) + Number(bias![column]);
      });
    }
    return { out, means, scales };
  },
  bounds: { out: bound, means: bound, scales: bound },
};
