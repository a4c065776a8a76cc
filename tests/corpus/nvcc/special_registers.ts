import type { CorpusLaunch, CorpusProgram } from "../corpus_program.ts";

type Extent = readonly [x: number, y: number, z: number];

const shapes: readonly { readonly name: string; readonly grid: Extent; readonly block: Extent }[] = [
  { name: "line", grid: [3, 1, 1], block: [70, 1, 1] },
  { name: "plane", grid: [2, 3, 1], block: [5, 9, 1] },
  { name: "space", grid: [2, 1, 4], block: [3, 5, 6] },
  { name: "column", grid: [1, 1, 2], block: [1, 1, 64] },
];
const words = 8;
const relationThreads = 96;
const dynamicBytes = 256;

const volume = ([x, y, z]: Extent) => x * y * z;
const packed = ([x, y, z]: Extent) => x | y << 8 | z << 16;
const positionOf = (index: number, [x, y]: Extent): Extent => [
  index % x,
  Math.floor(index / x) % y,
  Math.floor(index / (x * y)),
];

function positions(grid: Extent, block: Extent): Uint32Array {
  const all: number[] = [];
  for (let blockIndex = 0; blockIndex < volume(grid); blockIndex++) {
    for (let thread = 0; thread < volume(block); thread++) {
      const lane = thread % 32;
      const below = 2 ** lane - 1;
      const equal = 2 ** lane;
      all.push(packed(positionOf(thread, block)), packed(block), packed(positionOf(blockIndex, grid)), packed(grid));
      all.push(lane, equal, ~equal, equal ^ 0xffff0000 ^ below);
    }
  }
  return Uint32Array.from(all, (word) => word >>> 0);
}

export const program: CorpusProgram = {
  covers: "special registers for positions, lane masks, clocks and sizes, in one, two and three dimensions",
  buffers: () => ({
    ...Object.fromEntries(shapes.map(({ name, grid, block }) => {
      return [name, new Uint32Array(words * volume(grid) * volume(block))];
    })),
    relations: new Uint32Array(7 * relationThreads),
  }),
  launches: [
    ...shapes.map(({ name, grid, block }): CorpusLaunch => ({ kernel: "positions", grid, block, arguments: [name] })),
    {
      kernel: "relations",
      grid: 2,
      block: relationThreads / 2,
      sharedMemoryBytes: dynamicBytes,
      arguments: ["relations"],
    },
  ],
  expected: () => ({
    ...Object.fromEntries(shapes.map(({ name, grid, block }) => [name, positions(grid, block)])),
    relations: Uint32Array.from(
      { length: 7 * relationThreads },
      (_, index) => [1, 1, dynamicBytes, 1, 1, 1, 32][index % 7]!,
    ),
  }),
};
