import type { CorpusProgram } from "../corpus_program.ts";

const length = 1000;
const grid = 5;
const start = 1000;

export const program: CorpusProgram = {
  covers: "fences with block, device and system scope; a last block that finishes the work of all blocks",
  buffers: () => ({
    numbers: Int32Array.from({ length }, (_, index) => index * index % 1009 - 500),
    partial: new Int32Array(grid),
    total: Int32Array.of(start),
    flags: new Int32Array(6),
    seen: new Int32Array(3),
  }),
  launches: [
    { kernel: "sum_all", grid, block: 32, arguments: ["numbers", length, "partial", "total"] },
    { kernel: "sum_all", grid, block: 32, arguments: ["numbers", length, "partial", "total"] },
    { kernel: "store_then_load", grid: 1, block: 2, arguments: ["flags", "seen"] },
  ],
  expected({ numbers }) {
    const sum = (values: Int32Array) => values.reduce((total, value) => total + value, 0);
    const all = numbers as Int32Array;
    const ofBlock = (block: number) => all.filter((_, index) => Math.floor(index / 32) % grid === block);
    return {
      partial: Int32Array.from({ length: grid }, (_, block) => sum(ofBlock(block))),
      total: Int32Array.of(start + 2 * sum(all)),
      flags: new Int32Array(6).fill(1),
      seen: new Int32Array(3).fill(1),
    };
  },
};
