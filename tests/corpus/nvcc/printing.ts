import type { CorpusProgram } from "../corpus_program.ts";

const size = 8;
const input: Int32Array = Int32Array.from({ length: size }, (_, i) => i * i * 1000 - 3 * i);

/** Kernels that print. */
export const program: CorpusProgram = {
  covers: "vprintf: the number of arguments, which it returns, string constants, a buffer in local memory",
  buffers: () => ({ input, out: new Int32Array(size * 5) }),
  launches: [{ kernel: "printing", grid: 2, block: size / 2, arguments: ["input", "out"] }],
  expected: () => ({
    out: Int32Array.from([...input].flatMap((value, i) => [2, 0, value % 2 ? 5 : -1, value * 2 + i % 3, 3])),
  }),
};
