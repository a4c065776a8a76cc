import { randomBytes, randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { array } from "./array_arguments.ts";

const length = 64;

function walk(seed: bigint): { end: number; byte: number; count: number } {
  let state = seed;
  const visits = new Int32Array(16);
  let [position, count] = [8, 0];
  while (position > 0 && position < 15 && count < 200) {
    state = BigInt.asUintN(64, state * 6364136223846793005n + 1442695040888963407n);
    const direction = state >> 62n;
    if (direction === 0n) position--;
    else if (direction === 1n) position++;
    else if (direction === 2n && visits[position]! > 2) break;
    visits[position]!++;
    count++;
  }
  const greatest = visits.indexOf(Math.max(...visits));
  return { end: position * 10000 + count * 16 + greatest, byte: Number(state >> 13n & 255n), count };
}

export const program: CorpusProgram = {
  covers: "calls, arrays in local memory with variable indices, chained comparisons, bytes and booleans",
  buffers: () => ({
    seeds: new BigUint64Array(randomBytes(8 * length, 12)),
    ends: new Int32Array(length),
    bytes: new Uint8Array(randomBytes(length, 13)),
    flags: Uint8Array.from(randomWords(length, 14), (word) => word >>> 7 & 1),
  }),
  launches: [{
    kernel: "random_walk",
    grid: 2,
    block: length / 2,
    arguments: [
      ...array("seeds", 8, length),
      ...array("ends", 4, length),
      ...array("bytes", 1, length),
      ...array("flags", 1, length),
    ],
  }],
  expected({ seeds, bytes, flags }) {
    const walks = Array.from(seeds as BigUint64Array, walk);
    return {
      ends: Int32Array.from(walks, ({ end }) => end),
      bytes: Uint8Array.from(walks, ({ byte }, i) => byte + Number(bytes![i])),
      flags: Uint8Array.from(walks, ({ count }, i) => Number(flags![i] === 0 && count % 2 === 0)),
    };
  },
};
