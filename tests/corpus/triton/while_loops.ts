import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { scratch } from "./scratch.ts";

const [grid, block] = [3, 128];

function collatz(start: number): number {
  let count = 0;
  for (let number = BigInt(start); number !== 1n && count < 1000; count++) {
    number = number % 2n === 0n ? number / 2n : number * 3n + 1n;
  }
  return count;
}

function stepsOf(start: number): number {
  let steps = 0;
  for (let value = start; value > 1; steps++) value = value % 3 === 0 ? value / 3 : value - 1;
  return steps;
}

export const program: CorpusProgram = {
  covers: "loops whose ends depend on data: of one number, and of the greatest of all elements",
  buffers: () => ({
    x: Int32Array.from(randomWords(grid * block, 141), (word) => word % 1000000000 + 1),
    steps: new Int32Array(grid * block),
    roots: new Int32Array(grid * block),
    total: new Int32Array(grid),
  }),
  launches: [{ kernel: "while_loops", grid, arguments: ["x", "steps", "roots", "total", ...scratch] }],
  expected({ x }) {
    const values = x as Int32Array;
    return {
      steps: values.map(stepsOf),
      roots: values.map((value) => Math.floor(Math.sqrt(value))),
      total: values.slice(0, grid).map(collatz),
    };
  },
};
