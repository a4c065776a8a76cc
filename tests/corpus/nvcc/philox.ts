import { RandomBits, words64 } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const count = 64;

function words(length: number, seed: number): Uint32Array {
  const random = new RandomBits(seed);
  const edges = [0, 1, 0xffff_ffff, 0x8000_0000];
  return Uint32Array.from({ length }, (_, index) => index < 16 ? edges[index % 4]! : Number(random.next(32)));
}

const counters = words(4 * count, 91);
const keys = words(2 * count, 92);

function philox([x, y, z, w]: readonly bigint[], [first, second]: readonly bigint[]): number[] {
  let counter = [x!, y!, z!, w!] as const;
  for (let round = 0n; round < 10n; round++) {
    const products = [0xd251_1f53n * counter[0], 0xcd9e_8d57n * counter[2]] as const;
    const key = [first! + round * 0x9e37_79b9n, second! + round * 0xbb67_ae85n] as const;
    const mixed = (product: bigint, word: bigint, key: bigint) => BigInt.asUintN(32, product >> 32n ^ word ^ key);
    counter = [
      mixed(products[1], counter[1], key[0]),
      BigInt.asUintN(32, products[1]),
      mixed(products[0], counter[3], key[1]),
      BigInt.asUintN(32, products[0]),
    ];
  }
  return counter.map(Number);
}

/** State and carry are the low and the high half of a number: the state times a constant, plus the carry. */
function multiplyWithCarry(state: bigint, carry: bigint): [bigint, bigint] {
  for (let step = 0; step < 40; step++) {
    const sum = state * 0xff3a_275c_007b_8ee6n + carry;
    [state, carry] = [BigInt.asUintN(64, sum), sum >> 64n];
  }
  return [state, carry];
}

const integers = (of: Uint32Array, begin: number, length: number) =>
  Array.from(of.subarray(begin, begin + length), (word) => BigInt(word));

export const program: CorpusProgram = {
  covers: "Philox and a multiply-with-carry generator: high and low halves of products of 32 and 64 bits",
  buffers: () => ({
    counters: counters.slice(),
    keys: keys.slice(),
    results: new Uint32Array(4 * count),
    states: new BigUint64Array(2 * count),
  }),
  launches: [
    { kernel: "philox", grid: 2, block: 32, arguments: ["counters", "keys", "results", count] },
    { kernel: "multiply_with_carry", grid: 2, block: 32, arguments: ["keys", "states", count] },
  ],
  expected: () => {
    const indices = Array.from({ length: count }, (_, index) => index);
    return {
      results: Uint32Array.from(
        indices.flatMap((index) => philox(integers(counters, 4 * index, 4), integers(keys, 2 * index, 2))),
      ),
      states: words64(
        indices.flatMap((index) => multiplyWithCarry(BigInt(keys[2 * index]!) | 1n, BigInt(keys[2 * index + 1]!))),
      ),
    };
  },
};
