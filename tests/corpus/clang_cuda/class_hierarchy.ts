import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const [grid, block] = [2, 32];
const length = grid * block;

function rowOf(word: number, i: number): number[] {
  const value = word & 31;
  const depth = i & 7;
  const area = value & 1 ? value * value : value * value * 2 + value * depth * 4;
  const sum = Array.from({ length: value & 7 }, (_, k) => k * value - i).reduce((a, b) => a + b, 0);
  let accumulated = i;
  for (let k = 0; k < 5; k++) accumulated = value >> k & 1 ? Math.imul(accumulated, 3) ^ k + 1 : accumulated + k + 1;
  const fibonacci = (n: number): number => n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
  return [area, value & 1 ? area * 3 : area * 3 ^ depth, 100, sum, accumulated, fibonacci(value % 12)];
}

export const program: CorpusProgram = {
  covers: "tables of virtual functions, pointers to members, recursive lambdas, destructors, memory for objects",
  buffers: () => ({
    x: Int32Array.from(randomWords(length, 1)),
    out: new Int32Array(length * 6),
    logs: new Int32Array(length),
  }),
  launches: [{ kernel: "class_hierarchy", grid, block, arguments: ["x", "out", "logs"] }],
  expected({ x }) {
    const words = Array.from(x as Int32Array);
    return {
      out: Int32Array.from(words.flatMap(rowOf)),
      logs: Int32Array.from(words, (word, i) => word & 1 ? 0 : i & 7),
    };
  },
};
