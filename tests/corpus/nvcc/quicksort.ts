import type { CorpusProgram } from "../corpus_program.ts";

const threads = 40;
const count = 24;
const data: Int32Array = Int32Array.from({ length: threads * count }, (_, i) => Math.imul(i + 1, 0x9e3779b1) % 100000);

const stretches = (): Int32Array[] => Array.from({ length: threads }, (_, i) => data.slice(i * count, (i + 1) * count));

/** A recursive sort. */
export const program: CorpusProgram = {
  covers: "call: recursion on generic addresses of global and local memory",
  buffers: () => ({ data, sums: new Int32Array(threads) }),
  launches: [{ kernel: "sort_stretches", grid: 2, block: threads / 2, arguments: ["data", count, "sums"] }],
  expected: () => ({
    data: Int32Array.from(stretches().flatMap((stretch) => [...stretch.sort()])),
    sums: Int32Array.from(
      stretches(),
      (stretch) => stretch.map((item) => item % 50).sort().reduce((sum, item) => Math.imul(sum, 3) + item | 0, 0),
    ),
  }),
};
