import type { CorpusProgram } from "../corpus_program.ts";

const rounds: Uint32Array = Uint32Array.of(0, 1, 2, 3, 4, 5, 8, 9);

function uniformBranches(count: number, block: number): Uint32Array {
  let words = Uint32Array.from({ length: 64 }, (_, thread) => thread * thread + block);
  if (count % 2 === 0) {
    for (let round = 0; round < count; round++) words = words.map((_, thread) => words[(thread + 1) % 64]! + round);
  } else {
    words = words.map((word) => word ^ 0x55);
    for (let round = 0; round < Math.min(count, 3); round++) {
      words = words.map((_, thread) => Math.imul(words[(thread + 63) % 64]!, 5));
    }
  }
  return words.reverse();
}

function byWarp(): Uint32Array {
  const first = (thread: number) => thread * 7 + 1;
  const words = Uint32Array.from({ length: 96 }, (_, thread) => {
    if (thread < 32) return first(thread) + first(thread + 32);
    return thread < 64 ? first(thread) : first(thread) * 3;
  });
  return words.reverse();
}

/** Barriers at several places in the code. */
export const program: CorpusProgram = {
  covers: "bar.sync in branches and loops that a whole block takes, and one barrier at several places",
  buffers: () => ({ rounds, uniform: new Uint32Array(64 * rounds.length), warps: new Uint32Array(96) }),
  launches: [
    { kernel: "barrier_in_uniform_branches", grid: rounds.length, block: 64, arguments: ["rounds", "uniform"] },
    { kernel: "barrier_by_warp", grid: 1, block: 96, arguments: ["warps"] },
  ],
  expected: () => ({
    uniform: Uint32Array.from([...rounds].flatMap((count, block) => [...uniformBranches(count, block)])),
    warps: byWarp(),
  }),
};
