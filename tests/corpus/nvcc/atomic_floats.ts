import type { CorpusProgram } from "../corpus_program.ts";
import { randomWords } from "./contents.ts";

const grid = 2;
const block = 48;

export const program: CorpusProgram = {
  covers: "atomic add of f32, f64 and f16x2, global and shared, with and without result",
  buffers: () => ({
    numbers: randomWords(grid * block, 91).map((word) => word >>> 1),
    floats: new Float32Array(1 + grid),
    doubles: new Float64Array(1 + grid),
    halves: new Uint16Array(new Float16Array(2 * (1 + grid)).buffer),
    floatNext: new Float32Array(1),
    doubleNext: new Float64Array(1),
    halfNext: new Uint16Array(2),
    taken: new Uint32Array(320),
  }),
  launches: [
    { kernel: "add_up", grid, block, arguments: ["numbers", "floats", "doubles", "halves"] },
    { kernel: "take_numbers", grid: 1, block: 64, arguments: ["floatNext", "doubleNext", "halfNext", "taken"] },
  ],
  expected({ numbers }) {
    const small = Array.from(numbers as Uint32Array, (word) => word % 16);
    const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
    const blocks = [small.slice(0, block), small.slice(block)].map(sum);
    const halves = [sum(small) / 4, -sum(small), ...blocks.flatMap((total) => [1 + total / 4, -1 - total])];
    const taken = new Uint32Array(320);
    for (let thread = 0; thread < 64; thread++) {
      for (const at of [thread, 64 + thread, 128 + thread, 192 + 2 * thread]) taken[at]!++;
    }
    return {
      floats: Float32Array.of(sum(small) / 4, ...blocks.map((total) => total - 1)),
      doubles: Float64Array.of(sum(small) / 8, ...blocks.map((total) => total * 1e6 + 0.5)),
      halves: new Uint16Array(Float16Array.from(halves).buffer),
      floatNext: Float32Array.of(32),
      doubleNext: Float64Array.of(16),
      halfNext: new Uint16Array(Float16Array.of(64, 128).buffer),
      taken,
    };
  },
};
