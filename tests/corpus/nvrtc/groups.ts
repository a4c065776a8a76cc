import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const block = 64;
const grid = 2;
const upTo = <T>(length: number, make: (index: number) => T) => Array.from({ length }, (_, index) => make(index));
const sum = (of: readonly number[]) => of.reduce((a, b) => a + b | 0, 0);

function tileRow(all: readonly number[], i: number): number[] {
  const value = all[i]!;
  const part = (size: number) => all.slice(i - i % size, i - i % size + size);
  const [eight, warp] = [part(8), part(32)];
  const thread = i % block;
  const other = i - i % 4 + 2;
  return [
    sum(eight),
    Math.min(...eight),
    sum(eight.slice(0, i % 8 + 1)),
    eight.slice(0, i % 8).reduce((a, b) => a ^ b, 0),
    eight[i % 8 ^ 3]! + Math.floor(thread / 8) * 1000,
    eight.reduce((mask, each, lane) => (each & 3) === (value & 3) ? mask | 1 << lane : mask, 0),
    Number(warp.some((each) => each > 1000000)) + 2 * Number(warp.every((each) => each > -2147483647)) +
    4 * warp.reduce((mask, each, lane) => each & 1 ? mask | 1 << lane : mask, 0),
    Math.max(...warp),
    Number(BigInt.asIntN(32, part(2).reduce((total, each) => total + BigInt(each) * BigInt(each), 0n) >> 7n)),
    1600 + i % 16,
    all[other]! + other % block + Number(BigInt.asIntN(32, BigInt(all[other]!) * 3n >> 1n)),
    value,
  ];
}

function coalescedRow(all: readonly number[], i: number): number[] {
  const value = all[i]!;
  const first = i - i % 32;
  const warp = upTo(32, (lane) => first + lane);
  const active = warp.filter((at) => all[at]! % 3 !== 0);
  const before = active.filter((at) => at <= i);
  const values = active.map((at) => all[at]!);
  const isActive = value % 3 !== 0;
  const labeled = warp.filter((at) => (all[at]! & 3) === (value & 3)).map((at) => all[at]! >> 4);
  const positive = warp.filter((at) => all[at]! > 0).length;
  return [
    (isActive ? active.length * 100 + before.length - 1 : 0) + (value > 0 ? 10000 * positive : 0),
    isActive ? sum(values) : 0,
    isActive ? values[0]! : 0,
    isActive ? sum(before.map((at) => all[at]! & 15)) : 0,
    Number(isActive),
    sum(labeled) + labeled.length,
  ];
}

export const program: CorpusProgram = {
  covers: "cooperative groups: tiles of every size, coalesced and labeled threads, reductions, scans, copies",
  buffers: () => ({
    x: Int32Array.from(randomWords(512, 10)),
    tiles: new Int32Array(grid * block * 12),
    coalesced: new Int32Array(block * 6),
    counter: new Int32Array(1),
    copied: new Int32Array(512),
  }),
  launches: [
    { kernel: "tiles", grid, block, arguments: ["x", "tiles"] },
    { kernel: "coalesced", grid: 1, block, arguments: ["x", "coalesced", "counter"] },
    { kernel: "copied", grid: 2, block: 128, arguments: ["x", "copied"] },
  ],
  expected({ x }) {
    const all = Array.from(x as Int32Array);
    const active = all.slice(0, block).filter((value) => value % 3 !== 0).length;
    return {
      tiles: Int32Array.from(upTo(grid * block, (i) => tileRow(all, i)).flat()),
      coalesced: Int32Array.from(upTo(block, (i) => coalescedRow(all, i)).flat()),
      counter: Int32Array.of(active + 1000000),
      copied: Int32Array.from(upTo(512, (at) => all[at - at % 256 + 255 - at % 256]!)),
    };
  },
};
