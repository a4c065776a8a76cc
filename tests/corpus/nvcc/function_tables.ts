import type { CorpusProgram } from "../corpus_program.ts";
import { randomWords } from "./contents.ts";

const threads = 32;
const which = 2;

function greatestCommonDivisor(a: number, b: number): number {
  while (b !== 0) [a, b] = [b, a % b];
  return a;
}

const operations = [
  (a: number, b: number) => a + b | 0,
  (a: number, b: number) => a - b | 0,
  Math.imul,
  greatestCommonDivisor,
];
const numbers = (seed: number) => Int32Array.from(randomWords(threads, seed), (word) => word % 100_000 + 1);

export const program: CorpusProgram = {
  covers: "tables of function pointers in constant and global memory, indirect and recursive calls",
  buffers: () => ({ left: numbers(61), right: numbers(62), out: new Int32Array(2 * threads) }),
  launches: [
    { kernel: "choose", grid: 1, block: 1, arguments: [which] },
    { kernel: "apply", grid: 1, block: threads, arguments: ["left", "right", "out"] },
  ],
  expected({ left, right }) {
    return {
      out: Int32Array.from({ length: 2 * threads }, (_, index) => {
        const thread = Math.floor(index / 2);
        const [a, b] = [Number(left![thread]), Number(right![thread])];
        const own = operations[thread % 4]!(a, b);
        return index % 2 === 0 ? own : operations[which]!(own, b) + (thread % 4 === which ? 1 : 0);
      }),
    };
  },
};
