import type { CorpusLaunch, CorpusProgram } from "../corpus_program.ts";

type Shape = readonly [x: number, y: number, z: number];

const launches: readonly { readonly name: string; readonly grid: Shape; readonly block: Shape }[] = [
  { name: "cube", grid: [2, 3, 2], block: [4, 4, 4] },
  { name: "odd", grid: [1, 2, 3], block: [5, 3, 7] },
  { name: "plane", grid: [3, 1, 1], block: [1, 33, 1] },
  { name: "deep", grid: [1, 1, 2], block: [2, 1, 50] },
];

const volume = ([x, y, z]: Shape): number => x * y * z;

function placeOf(index: number, [x, y]: Shape): number {
  return index % x | Math.floor(index / x) % y << 8 | Math.floor(index / x / y) << 16;
}

function rows(grid: Shape, block: Shape): Uint32Array {
  const count = volume(block);
  const word = (thread: number) => placeOf(thread, block) | thread % 32 << 24;
  const shape = grid[0] | grid[1] << 8 | grid[2] << 16 | block[1] << 24;
  return Uint32Array.from(
    Array.from({ length: volume(grid) * count }, (_, i) => {
      const thread = i % count;
      const first = thread - thread % 32;
      const lanes = Math.min(32, count - first);
      const neighbour = first + (thread % 32 + 1) % lanes;
      return [word(count - 1 - thread), word(neighbour), placeOf(Math.floor(i / count), grid), shape];
    }).flat(),
  );
}

/** Blocks of many shapes. */
export const program: CorpusProgram = {
  covers: "%tid, %ntid, %ctaid, %nctaid, %laneid in three dimensions, with bar.sync and shfl.sync",
  buffers: () =>
    Object.fromEntries(
      launches.map(({ name, grid, block }) => [name, new Uint32Array(volume(grid) * volume(block) * 4)]),
    ),
  launches: launches.map(({ name, grid, block }): CorpusLaunch => ({
    kernel: "block_shapes",
    grid,
    block,
    sharedMemoryBytes: volume(block) * 4,
    arguments: [name],
  })),
  expected: () => Object.fromEntries(launches.map(({ name, grid, block }) => [name, rows(grid, block)])),
};
