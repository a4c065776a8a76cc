import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const [threads, items, valid] = [64, 4, 243];
const tile = threads * items;

export const program: CorpusProgram = {
  covers: "a radix sort, a merge sort, and exchanges of blocks, through shared memory",
  buffers: () => ({ x: randomWords(tile, 8), out: new Uint32Array(4 * tile) }),
  launches: [{ kernel: "sort_and_exchange", grid: 1, block: threads, arguments: ["x", "out", valid] }],
  expected({ x }) {
    const loaded = Array.from(x as Uint32Array, (word, index) => index < valid ? word : 7);
    const sorted = loaded.map((word, index) => [word & 0xffff, index] as const)
      .sort(([a, i], [b, j]) => (a >> 4) - (b >> 4) || i - j);
    return {
      out: Uint32Array.from([
        ...sorted.map(([key]) => key),
        ...sorted.map(([, index]) => index),
        ...loaded.toSorted((a, b) => b - a),
        // Item k of a thread is the item of number 64 k + the thread's number.
        ...loaded.map((_, at) => loaded[at % items * threads + Math.floor(at / items)]!),
      ]),
    };
  },
};
