import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { scratch, upTo } from "./scratch.ts";

const length = 700;
const block = 256;
const seed = 1234567;
const p = 0.375;

/** Philox of ten rounds, with the index as the counter. */
function philox(index: number): number[] {
  let counter: readonly [bigint, bigint, bigint, bigint] = [BigInt(index), 0n, 0n, 0n];
  for (let round = 0n; round < 10n; round++) {
    const products = [0xd251_1f53n * counter[0], 0xcd9e_8d57n * counter[2]] as const;
    const mixed = (product: bigint, word: bigint, key: bigint) => BigInt.asUintN(32, product >> 32n ^ word ^ key);
    counter = [
      mixed(products[1], counter[1], BigInt(seed) + round * 0x9e37_79b9n),
      BigInt.asUintN(32, products[1]),
      mixed(products[0], counter[3], round * 0xbb67_ae85n),
      BigInt.asUintN(32, products[0]),
    ];
  }
  return counter.map((word) => Number(word) | 0);
}

export const program: CorpusProgram = {
  covers: "random numbers by Philox: mul.hi.u32, selections, conversions of signed integers",
  buffers: () => ({
    x: Float32Array.from(randomWords(length), (word) => (word | 0) / 5),
    out: new Float32Array(length),
    uniform: new Float32Array(length),
    words: new Int32Array(length * 4),
  }),
  launches: [{
    kernel: "dropout",
    grid: Math.ceil(length / block),
    arguments: ["x", "out", "uniform", "words", length, p, seed, ...scratch],
  }],
  expected({ x }) {
    const words = upTo(length, philox);
    const uniform = Float32Array.from(words, ([first]) => {
      return Math.fround(first! < 0 ? -first! - 1 : first!) * Math.fround(4.6566127342e-10);
    });
    return {
      uniform,
      words: Int32Array.from(words.flat()),
      out: Float32Array.from(x as Float32Array, (value, index) => uniform[index]! > p ? value * 2 : 0),
    };
  },
};
