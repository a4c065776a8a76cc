import type { CorpusProgram } from "../corpus_program.ts";

const size = 64;
const input: Int32Array = Int32Array.from({ length: size }, (_, i) => i * i * 13 % 5000);

/** Integer square roots with assertions. */
export const program: CorpusProgram = {
  covers: "__assertfail in a branch that no thread takes",
  buffers: () => ({ input, out: new Int32Array(size) }),
  launches: [{ kernel: "assertions", grid: 2, block: size / 2, arguments: ["input", "out"] }],
  expected: () => ({ out: input.map((value) => Math.floor(Math.sqrt(value))) }),
};
