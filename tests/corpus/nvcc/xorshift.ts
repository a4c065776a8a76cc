import { RandomBits, words64 } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const count = 64;
const steps = 50;

const seeds = (): Uint32Array => {
  const random = new RandomBits(61);
  return Uint32Array.from({ length: count }, () => Number(random.next(32)));
};

/** Computes with JavaScript's numbers, whose bitwise operators use 32 bits. */
function narrowXorshift(seed: number): bigint {
  let state = seed | 1;
  for (let step = 0; step < steps; step++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
  }
  return BigInt(state >>> 0);
}

function wideXorshift(seed: number): bigint {
  let state = BigInt(seed) << 32n | 1n;
  for (let step = 0; step < steps; step++) {
    state ^= state >> 12n;
    state ^= BigInt.asUintN(64, state << 25n);
    state ^= state >> 27n;
  }
  return state * 0x2545_f491_4f6c_dd1dn;
}

function xorwow(seed: number): bigint {
  const state = [seed, 362436069, 521288629, 88675123, 5783321];
  for (let step = 0; step < steps; step++) {
    const first = state.shift()!;
    const mixed = first ^ first >>> 2;
    const last = state.at(-1)!;
    state.push((last ^ last << 4 ^ mixed ^ mixed << 1) >>> 0);
  }
  return BigInt(state.at(-1)!) + BigInt(6615241 + 362437 * steps) & 0xffff_ffffn;
}

function splitMix(seed: number): bigint {
  const random = new RandomBits(seed);
  for (let step = 1; step < steps; step++) random.next(64);
  return random.next(64);
}

export const program: CorpusProgram = {
  covers: "shifts, exclusive or and products of 32 and 64 bits in loops",
  buffers: () => ({ seeds: seeds(), results: new BigUint64Array(4 * count) }),
  launches: [{ kernel: "xorshift", grid: 1, block: count, arguments: ["seeds", "results", count, steps] }],
  expected: () => ({
    results: words64(
      Array.from(seeds()).flatMap((seed) => [narrowXorshift(seed), wideXorshift(seed), xorwow(seed), splitMix(seed)]),
    ),
  }),
};
