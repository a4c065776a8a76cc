import type { CorpusProgram } from "../corpus_program.ts";

const doubles = Float64Array.of(1.5, 2.5, 0, 0, -3.5, 4.5, 5.5, 6.5);
const letters = [...new TextEncoder().encode("zeroonetwo")];

export const program: CorpusProgram = {
  covers: "initialized variables of a module in global memory, including pointers, which persist between launches",
  buffers: () => ({
    before: new Int32Array(40),
    doublesBefore: new Float64Array(8),
    after: new Int32Array(40),
    doublesAfter: new Float64Array(8),
  }),
  launches: [
    { kernel: "read_variables", grid: 1, block: 1, arguments: ["before", "doublesBefore"] },
    { kernel: "change_variables", grid: 1, block: 1, arguments: [] },
    { kernel: "change_variables", grid: 1, block: 1, arguments: [] },
    { kernel: "read_variables", grid: 1, block: 1, arguments: ["after", "doublesAfter"] },
  ],
  expected() {
    const filled = (...numbers: number[]) => Int32Array.from({ length: 40 }, (_, index) => numbers[index] ?? 0);
    return {
      before: filled(40, 1, 2, 3, 0, 0, 0, 0, 30, 40, 90, 7, ...letters, 100, 200, 300, 0),
      after: filled(42, 1, 2, 3, 0, 0, 0, 66, 55, 65, 90, 7, ...letters, 200, 300, 100, 7),
      doublesBefore: doubles,
      doublesAfter: doubles,
    };
  },
};
