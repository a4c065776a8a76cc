import type { CorpusProgram } from "../corpus_program.ts";

/** Threads that sleep until another thread is done. */
export const program: CorpusProgram = {
  covers: "nanosleep, with a register and an immediate",
  buffers: () => ({ out: new Uint32Array(65) }),
  launches: [{ kernel: "nanosleep_backoff", grid: 1, block: 64, arguments: ["out"] }],
  expected() {
    let result = 0;
    for (let i = 0; i < 100; i++) result = Math.imul(result, 3) + i >>> 0;
    return { out: Uint32Array.from({ length: 65 }, (_, i) => i < 64 ? result + i : result) };
  },
};
