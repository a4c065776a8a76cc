import type { CorpusProgram } from "../corpus_program.ts";

const rounds = 5;
const produced = (lane: number, round: number) => lane * 17 + round * round;

function sumOf(thread: number): number {
  const warp = Math.floor(thread / 32);
  const lane = thread % 32;
  let sum = 0;
  for (let round = 0; round < rounds; round++) {
    if (warp === 1) sum = sum * 3 + produced(31 - lane, round);
    if (warp === 3) sum = sum * 5 + produced(lane ^ 1, round) + 1;
  }
  return sum;
}

function lastSlot(slot: number): number {
  return slot < 32 ? produced(slot, rounds - 1) : produced(slot - 32, rounds - 1) + 1;
}

/** Two producers and their consumers. */
export const program: CorpusProgram = {
  covers: "bar.sync and bar.arrive by number with a count, immediate and in registers; barrier.sync.aligned",
  buffers: () => ({ out: new Uint32Array(128) }),
  launches: [{ kernel: "barrier_named", grid: 1, block: 128, arguments: [rounds, "out"] }],
  expected: () => ({
    out: Uint32Array.from({ length: 128 }, (_, thread) => sumOf(thread) + lastSlot((thread + 1) % 64)),
  }),
};
