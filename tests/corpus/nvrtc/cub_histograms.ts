import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const [threads, items] = [64, 4];
const length = threads * items;

export const program: CorpusProgram = {
  covers: "histograms by sorting and by atomics in shared memory, flags and differences of neighbors",
  buffers: () => ({
    x: randomWords(length, 9),
    counts: new Uint32Array(64),
    flags: new Int32Array(length),
    differences: new Int32Array(length),
  }),
  launches: [{
    kernel: "histogram_and_flags",
    grid: 1,
    block: threads,
    arguments: ["x", "counts", "flags", "differences"],
  }],
  expected({ x }) {
    const words = Array.from(x as Uint32Array);
    const counts = new Uint32Array(64);
    for (const word of words) counts[word % 32]!++, counts[32 + (word % 32 * 7 + 1) % 32]!++;
    return {
      counts,
      flags: Int32Array.from(words, (word, at) => Number(at === 0 || word >>> 31 !== words[at - 1]! >>> 31)),
      differences: Int32Array.from(words, (word, at) => (word >>> 4) - (at === 0 ? 0 : words[at - 1]! >>> 4)),
    };
  },
};
