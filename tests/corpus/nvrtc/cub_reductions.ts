import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const [grid, block] = [2, 64];

export const program: CorpusProgram = {
  covers: "reductions and scans through shared memory and shuffles with predicates, also of parts of a warp",
  buffers: () => ({ x: randomWords(grid * block, 7), out: new Uint32Array(grid * block * 8) }),
  launches: [{ kernel: "reduce_and_scan", grid, block, arguments: ["x", "out"] }],
  expected({ x }) {
    const values = Array.from(x as Uint32Array);
    const sum = (of: readonly number[]) => of.reduce((a, b) => a + b >>> 0, 0);
    const part = (i: number, size: number) => values.slice(i - i % size, i - i % size + size);
    return {
      out: Uint32Array.from(values.flatMap((_, i) => {
        const [all, thread] = [part(i, block), i % block];
        const product = all.reduce((a, b) => Math.imul(a, b | 1), 1);
        const lane = thread % 16;
        // A segment begins at each thread whose number is a multiple of 5, and only its head has the sum.
        const segment = part(i, 16).filter((_, other) => {
          const number = thread - lane + other;
          return other >= lane && Array.from({ length: other - lane }, (_, k) => number - k).every((n) => n % 5 !== 0);
        });
        return [
          thread === 0 ? sum(all) : 0,
          thread === 0 ? product : 0,
          sum(all.slice(0, thread)),
          sum(all),
          Math.max(...all.slice(0, thread + 1)),
          lane === 0 ? Math.min(...part(i, 16)) : 0,
          sum(part(i, 32).slice(0, i % 32 + 1)),
          thread % 5 === 0 || lane === 0 ? sum(segment) : 0,
        ];
      })),
    };
  },
};
