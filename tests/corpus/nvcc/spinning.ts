import type { CorpusProgram } from "../corpus_program.ts";

const ringSize = 48;
const rounds = 4;

function ring(block: number): Uint32Array {
  const seen = new Uint32Array(ringSize);
  let state = block + 1;
  for (let turn = 0; turn < ringSize * rounds; turn++) {
    const thread = seen.findIndex((_, thread) => thread * 7 % ringSize === turn % ringSize);
    state = Math.imul(state, 1664525) + thread >>> 0;
    seen[thread]! ^= state;
  }
  return seen;
}

/** Threads that wait for each other without barriers. */
export const program: CorpusProgram = {
  covers: "spinning on volatile shared memory and on atomics, with membar.cta",
  buffers: () => ({ flag: new Uint32Array(64), ring: new Uint32Array(2 * ringSize), lock: new Uint32Array(2) }),
  launches: [
    { kernel: "spin_on_flag", grid: 1, block: 64, arguments: ["flag"] },
    { kernel: "spin_in_ring", grid: 2, block: ringSize, arguments: [rounds, "ring"] },
    { kernel: "spin_for_lock", grid: 2, block: 64, arguments: ["lock"] },
  ],
  expected: () => ({
    flag: Uint32Array.from({ length: 64 }, (_, thread) => 1234 * 3 + thread),
    ring: Uint32Array.from([...ring(0), ...ring(1)]),
    lock: new Uint32Array(2).fill(Array.from({ length: 64 }, (_, i) => i * i + 1).reduce((sum, term) => sum + term)),
  }),
};
