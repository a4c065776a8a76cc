import type { CorpusProgram } from "../corpus_program.ts";
import { randomWords } from "./contents.ts";

const threads = 64;

function halfBits(...values: number[]): Uint16Array {
  return new Uint16Array(Float16Array.from(values).buffer);
}

/** Returns the bits of numbers that bf16 can represent: the upper half of their f32. */
function bfloatBits(...values: number[]): Uint16Array {
  return Uint16Array.from(new Uint32Array(Float32Array.from(values).buffer), (bits) => bits >>> 16);
}

export const program: CorpusProgram = {
  covers: "atomic add of f16, bf16, f16x2 and bf16x2, global and shared, with and without result",
  buffers: () => ({
    numbers: randomWords(threads, 95).map((word) => word >>> 1),
    halves: new Uint16Array(4),
    bfloats: new Uint16Array(4),
    halfPairs: new Uint16Array(2),
    bfloatPairs: new Uint16Array(4),
    halfNext: new Uint16Array(2),
    bfloatNext: new Uint16Array(2),
    pairNext: new Uint16Array(2),
    taken: new Uint32Array(320),
  }),
  launches: [
    {
      kernel: "add_up",
      grid: 1,
      block: threads,
      arguments: ["numbers", "halves", "bfloats", "halfPairs", "bfloatPairs"],
    },
    { kernel: "take_numbers", grid: 1, block: threads, arguments: ["halfNext", "bfloatNext", "pairNext", "taken"] },
  ],
  expected({ numbers }) {
    const small = Array.from(numbers as Uint32Array, (word) => word % 4);
    const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
    const thirds = [0, 1, 2].map((third) => sum(small.filter((_, thread) => thread % 3 === third)));
    const taken = new Uint32Array(320);
    for (let thread = 0; thread < threads; thread++) {
      for (const at of [thread, 64 + thread, 128 + thread, 192 + 2 * thread]) taken[at]!++;
    }
    return {
      halves: halfBits(...thirds, 0),
      bfloats: bfloatBits(...thirds, 0),
      halfPairs: halfBits(sum(small), sum(small) / -2),
      bfloatPairs: bfloatBits(sum(small), sum(small) / -2, 3 + sum(small), threads - 3),
      halfNext: halfBits(threads, 0),
      bfloatNext: bfloatBits(threads, 0),
      pairNext: bfloatBits(threads, 2 * threads),
      taken,
    };
  },
};
