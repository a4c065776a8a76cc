import type { CorpusProgram } from "../corpus_program.ts";

const size = 128;
const input: Uint32Array = Uint32Array.from({ length: size }, (_, i) => Math.imul(i + 1, 0x9e3779b1));

function stepped(word: number): [value: number, steps: number] {
  let value = word;
  for (let steps = 1;; steps++) {
    if (steps > 40) return [value, steps];
    const index = value % 6;
    value = (value ^ steps) >>> 0;
    if (index === 4) return [value, steps];
    if (index === 0) value = value + 3 >>> 0;
    if (index === 1 || index === 5) value >>>= 1;
    if (index === 1 || index === 2 || index === 5) value = Math.imul(value, 3) >>> 0;
  }
}

/** Branches by index. */
export const program: CorpusProgram = {
  covers: "brx.idx with .branchtargets: divergent, under a predicate, in a loop, and .uni",
  buffers: () => ({ input, out: new Uint32Array(size * 3), blocks: new Uint32Array(3 * 32) }),
  launches: [
    { kernel: "branch_by_index", grid: 2, block: size / 2, arguments: ["input", "out"] },
    { kernel: "branch_by_block", grid: 3, block: 32, arguments: ["blocks"] },
  ],
  expected: () => ({
    out: Uint32Array.from([...input].flatMap((word, i) => [...stepped(word), i < 64 ? 6 + i % 2 : 5])),
    blocks: Uint32Array.from({ length: 96 }, (_, i) => (Math.floor(i / 32) + 1) * 10 + i % 32),
  }),
};
