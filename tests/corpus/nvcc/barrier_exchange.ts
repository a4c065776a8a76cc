import type { CorpusProgram } from "../corpus_program.ts";

const size = 100;
const blocks = 5;
const input: Uint32Array = Uint32Array.from({ length: size * blocks }, (_, i) => Math.imul(i + 1, 0x9e3779b1));

/** Threads that read each other's shared memory. */
export const program: CorpusProgram = {
  covers: "bar.sync in straight code, static shared memory",
  buffers: () => ({ input, out: new Uint32Array(size * blocks) }),
  launches: [{ kernel: "barrier_exchange", grid: blocks, block: size, arguments: ["input", "out"] }],
  expected() {
    const out: number[] = [];
    for (let block = 0; block < blocks; block++) {
      const mirrored = [...input.slice(block * size, (block + 1) * size)].reverse();
      const rewritten = mirrored.map((word, thread) => Math.imul(word, 3) + thread);
      out.push(...mirrored.map((word, thread) => (rewritten[(thread + 37) % size]! ^ word) >>> 0));
    }
    return { out: Uint32Array.from(out) };
  },
};
