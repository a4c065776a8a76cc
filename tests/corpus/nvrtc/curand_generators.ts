import type { CorpusProgram } from "../corpus_program.ts";

const [grid, block] = [2, 32];
const seed = 0x0123_4567_89ab_cdefn;
const word = (value: bigint, index: bigint) => BigInt.asUintN(32, value >> 32n * index);

/** Ten rounds of Philox for a counter of 128 bits. */
function philox(number: bigint): bigint[] {
  let counter = [0n, 1n, 2n, 3n].map((index) => word(number, index)) as [bigint, bigint, bigint, bigint];
  for (let round = 0n; round < 10n; round++) {
    const products = [0xd251_1f53n * counter[0], 0xcd9e_8d57n * counter[2]] as const;
    const mixed = (product: bigint, other: bigint, key: bigint) => BigInt.asUintN(32, product >> 32n ^ other ^ key);
    counter = [
      mixed(products[1], counter[1], word(seed, 0n) + round * 0x9e37_79b9n),
      word(products[1], 0n),
      mixed(products[0], counter[3], word(seed, 1n) + round * 0xbb67_ae85n),
      word(products[0], 0n),
    ];
  }
  return counter;
}

/** The word at an index of a subsequence, of which each has 2^66 words. */
function wordAt(subsequence: bigint, index: number): number {
  return Number(philox((subsequence << 64n) + BigInt(index >> 2))[index & 3]);
}

export const program: CorpusProgram = {
  covers: "cuRAND's Philox: states in local memory, 128-bit counters with carries",
  buffers: () => ({ words: new Uint32Array(grid * block * 10), uniform: new Float32Array(grid * block) }),
  launches: [{ kernel: "generators", grid, block, arguments: ["words", "uniform", seed] }],
  expected() {
    const all = Array.from({ length: grid * block }, (_, i) => {
      return Array.from({ length: 11 }, (_, k) => wordAt(BigInt(i) * 0x4000_0001n, 2 * i + 1 + k));
    });
    return {
      words: Uint32Array.from(all.flatMap((words) => words.slice(0, 10))),
      // The sum is exact in a double, and rounded once.
      uniform: Float32Array.from(all, (words) => Math.fround(words[10]!) * 2 ** -32 + 2 ** -33),
    };
  },
};
