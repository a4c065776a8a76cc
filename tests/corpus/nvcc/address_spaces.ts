import type { CorpusProgram } from "../corpus_program.ts";

const threads = 16;

export const program: CorpusProgram = {
  covers: "isspacep for every state space, and cvta to and from each",
  buffers: () => ({
    buffer: Int32Array.of(10, 11, 12, 13),
    spaces: new Uint32Array(threads),
    out: new Uint32Array(11),
  }),
  launches: [
    { kernel: "predicates", grid: 1, block: threads, sharedMemoryBytes: 16, arguments: ["buffer", "spaces"] },
    { kernel: "conversions", grid: 1, block: threads, arguments: ["buffer", "out"] },
  ],
  expected: () => ({
    spaces: Uint32Array.from({ length: threads }, (_, thread) => 16 + [1, 1, 1, 2, 2, 2, 4, 8][thread % 8]!),
    out: Uint32Array.of(11, 42, 71, 8, 10, 41, 70, 6, 20, 1, 1),
  }),
};
