import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { scratch, upTo } from "./scratch.ts";

const rows = 6;
const columns = 128;
const groups = 2;
/** Small whole numbers, of which every product and sum, and the mean of 128, is exact in a single. */
const floats = (length: number, seed: number, range = 8) =>
  Float32Array.from(randomWords(length, seed), (word) => word % range - range / 2);

export const program: CorpusProgram = {
  covers: "a spin lock by atom.cas and atom.exch of one thread, with barriers around it",
  buffers: () => ({
    x: floats(rows * columns, 21),
    weight: floats(columns, 22),
    means: floats(rows, 23),
    scales: floats(rows, 24),
    gradient: floats(rows * columns, 25),
    xGradient: new Float32Array(rows * columns),
    weightGradients: new Float32Array(groups * columns).fill(1000),
    locks: new Int32Array(groups),
    counts: new Int32Array(groups),
  }),
  launches: [{
    kernel: "layer_norm_backward",
    grid: rows,
    arguments: [
      ...["x", "weight", "means", "scales", "gradient", "xGradient", "weightGradients", "locks", "counts"],
      columns,
      ...scratch,
    ],
  }],
  expected({ x, weight, means, scales, gradient }) {
    const xGradient = new Float32Array(rows * columns);
    const weightGradients = new Float32Array(groups * columns);
    for (let row = 0; row < rows; row++) {
      const at = (column: number) => row * columns + column;
      const normal = upTo(columns, (c) => (Number(x![at(c)]) - Number(means![row])) * Number(scales![row]));
      const weighted = upTo(columns, (c) => Number(weight![c]) * Number(gradient![at(c)]));
      const average = weighted.reduce((a, b) => a + b, 0) / columns;
      const along = weighted.reduce((sum, value, c) => sum + value * normal[c]!, 0) / columns;
      for (let c = 0; c < columns; c++) {
        xGradient[at(c)] = (weighted[c]! - (normal[c]! * along + average)) * Number(scales![row]);
        weightGradients[row % groups * columns + c]! += Number(gradient![at(c)]) * normal[c]!;
      }
    }
    return {
      xGradient,
      weightGradients,
      locks: new Int32Array(groups),
      counts: new Int32Array(groups).fill(1),
    };
  },
};
