import type { CorpusProgram } from "../corpus_program.ts";

const size = 96;
const blocks = 3;
const input: Uint32Array = Uint32Array.from({ length: size * blocks }, (_, i) => Math.imul(i + 1, 0xc2b2ae35));

function hashOf(word: number): number {
  let value = word;
  let hash = 0;
  outer: for (let outer = 0; outer < 40; outer++) {
    if (value >>> outer % 32 & 1) continue;
    let inner = outer;
    for (;;) {
      hash = Math.imul(hash, 31) + inner >>> 0;
      if (hash % 7 === 0) break;
      if (hash % 5 === 1) {
        inner += 3;
        continue;
      }
      do {
        hash = (hash ^ value >>> inner % 13) >>> 0;
        inner++;
        if (hash % 11 === 4) {
          hash = hash + 1 >>> 0;
          continue outer;
        }
      } while (inner % 4 !== 0);
      if (inner > 30) break;
    }
    value = value + hash >>> 0;
    if (value % 97 === 0) break;
    hash = hash + 1 >>> 0;
  }
  return hash;
}

function collatzSteps(start: number): number {
  let steps = 0;
  for (let n = start; n !== 1; steps++) n = n % 2 === 0 ? n / 2 : 3 * n + 1;
  return steps;
}

/** Loops that each thread iterates differently. */
export const program: CorpusProgram = {
  covers: "bra: nested divergent loops with break, continue, and a goto out of two",
  buffers: () => ({ input, out: new Uint32Array(input.length * 2) }),
  launches: [{ kernel: "nested_loops", grid: blocks, block: size, arguments: ["input", "out"] }],
  expected: () => ({
    out: Uint32Array.from([...input].flatMap((word, i) => [hashOf(word), collatzSteps(i + 1)])),
  }),
};
