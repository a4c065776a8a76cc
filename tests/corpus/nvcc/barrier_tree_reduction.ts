import type { CorpusLaunch, CorpusProgram } from "../corpus_program.ts";

const blockSizes = [128, 100, 33, 1];
const blocks = 3;
const input: Uint32Array = Uint32Array.from({ length: 1000 }, (_, i) => Math.imul(i + 7, 0x85ebca6b));

function sumsOf(blockSize: number): Uint32Array {
  const sums = new Uint32Array(blocks);
  input.forEach((word, i) => sums[Math.floor(i / blockSize) % blocks]! += word);
  return sums;
}

/** The sum of each block's share of the input. */
export const program: CorpusProgram = {
  covers: "bar.sync in a loop, dynamic shared memory",
  buffers: () => ({
    input,
    ...Object.fromEntries(blockSizes.map((size) => [`sums${size}`, new Uint32Array(blocks)])),
  }),
  launches: blockSizes.map((size): CorpusLaunch => ({
    kernel: "barrier_tree_reduction",
    grid: blocks,
    block: size,
    sharedMemoryBytes: size * 4,
    arguments: ["input", input.length, `sums${size}`],
  })),
  expected: () => Object.fromEntries(blockSizes.map((size) => [`sums${size}`, sumsOf(size)])),
};
