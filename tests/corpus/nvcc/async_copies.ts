import type { CorpusProgram } from "../corpus_program.ts";

const tiles = 5;
const input: Uint32Array = Uint32Array.from({ length: 384 }, (_, i) => Math.imul(i + 1, 0x9e3779b1));

/** Of its last four words, a thread copies as many bytes as its index modulo 17. The word at 1 is zero. */
function sizesRow(thread: number): Uint32Array {
  const bytes = new Uint8Array(input.slice(thread * 12, thread * 12 + 12).buffer);
  bytes.fill(0, 4, 8);
  bytes.fill(0, 32 + thread % 17, 48);
  return new Uint32Array(bytes.buffer);
}

function pipelined(thread: number): number {
  let sum = 0;
  for (let tile = 0; tile < tiles; tile++) sum = Math.imul(sum, 3) + input[tile * 64 + 63 - thread]! | 0;
  return sum;
}

/** Asynchronous copies. */
export const program: CorpusProgram = {
  covers: "cp.async .ca and .cg of 4, 8, 16 bytes, with a source size, commit_group, wait_group, wait_all",
  buffers: () => ({
    input,
    whole: new Uint32Array(256),
    sizes: new Uint32Array(384),
    pipelined: new Uint32Array(64),
  }),
  launches: [
    { kernel: "async_copies", grid: 2, block: 32, arguments: ["input", "whole"] },
    { kernel: "async_copy_sizes", grid: 1, block: 32, arguments: ["input", "sizes"] },
    { kernel: "async_copy_pipeline", grid: 1, block: 64, arguments: ["input", tiles, "pipelined"] },
  ],
  expected: () => ({
    whole: Uint32Array.from({ length: 256 }, (_, i) => {
      const [block, thread, k] = [Math.floor(i / 128), Math.floor(i / 4) % 32, i % 4];
      return input[block * 128 + (thread * 4 + k * 33) % 128]!;
    }),
    sizes: Uint32Array.from(Array.from({ length: 32 }, (_, thread) => [...sizesRow(thread)]).flat()),
    pipelined: Uint32Array.from({ length: 64 }, (_, thread) => pipelined(thread)),
  }),
};
