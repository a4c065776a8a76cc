import type { CorpusProgram } from "../corpus_program.ts";

const size = 128;
const blocks = 3;
const warps = size * blocks / 32;
const input: Uint32Array = Uint32Array.from({ length: size * blocks }, (_, i) => Math.imul(i + 1, 0x85ebca6b));

function results(): { counters: Uint32Array; total: Uint32Array; out: Uint32Array } {
  const counters = new Uint32Array(warps);
  const out = new Uint32Array(input.length * 4);
  for (let warp = 0; warp < warps; warp++) {
    for (let round = 0; round < 4; round++) {
      const values = Array.from(input.slice(warp * 32, warp * 32 + 32), (word) => word >>> 8 * round);
      const firstOdd = values.findIndex((value) => value % 3 !== 0 && value % 2 === 1) + 1;
      values.forEach((value, lane) => {
        out[(warp * 32 + lane) * 4 + round] = value % 3 === 0 ? counters[warp]!++ : 1000 + firstOdd;
      });
    }
  }
  return { counters, total: Uint32Array.of(counters.reduce((sum, count) => sum + count, 0)), out };
}

/** Atomic operations that one lane executes for its warp. */
export const program: CorpusProgram = {
  covers: "leader election: vote.sync.ballot, ffs by brev and bfind, atom.add, shfl.sync in a branch",
  buffers: () => ({
    input,
    counters: new Uint32Array(warps),
    total: new Uint32Array(1),
    out: new Uint32Array(input.length * 4),
  }),
  launches: [{
    kernel: "leader_election",
    grid: blocks,
    block: size,
    arguments: ["input", "counters", "total", "out"],
  }],
  expected: results,
};
