import type { CorpusLaunch, CorpusProgram } from "../corpus_program.ts";

const blockSizes = [1, 31, 33, 36, 100];
const blocks = 2;

function results(size: number): { masks: Uint32Array; out: Int32Array } {
  const masks = new Uint32Array(size * blocks);
  const out = new Int32Array(size * blocks);
  const value = (i: number) => i * i + 1;
  for (let block = 0; block < blocks; block++) {
    for (let first = 0; first < size; first += 32) {
      const threads = Array.from({ length: Math.min(32, size - first) }, (_, lane) => first + lane);
      const mask = threads.reduce((bits, thread, lane) => thread % 3 === 1 ? bits : bits | 1 << lane, 0);
      const values = threads.map((thread) => value(block * size + thread));
      const total = values.reduce((sum, term) => sum + term, 0);
      threads.forEach((thread, lane) => {
        const i = block * size + thread;
        masks[i] = mask;
        const rest = 3 * values.at(-1)! + 5 * values[Math.max(0, lane - 1)]!;
        out[i] = total + rest + (threads.length <= 4 ? 7 : 0);
      });
    }
  }
  return { masks, out };
}

/** Warps of fewer than 32 threads. */
export const program: CorpusProgram = {
  covers: "shfl.sync and vote.sync in the partial last warp of blocks of 1, 31, 33, 36 and 100 threads",
  buffers: () =>
    Object.fromEntries(blockSizes.flatMap((size) => [
      [`masks${size}`, new Uint32Array(size * blocks)],
      [`out${size}`, new Int32Array(size * blocks)],
    ])),
  launches: blockSizes.map((size): CorpusLaunch => ({
    kernel: "partial_warps",
    grid: blocks,
    block: size,
    arguments: [`masks${size}`, `out${size}`],
  })),
  expected: () =>
    Object.fromEntries(blockSizes.flatMap((size) => {
      const { masks, out } = results(size);
      return [[`masks${size}`, masks], [`out${size}`, out]];
    })),
};
