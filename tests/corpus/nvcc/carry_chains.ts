import { RandomBits, words32, words64 } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const count = 200;

/** Returns numbers of a width. Many have long runs of equal bits, which cause long carries. */
function wideNumbers(width: number, seed: number): bigint[] {
  const random = new RandomBits(seed);
  return Array.from({ length: count }, () => {
    let value = 0n;
    for (let limb = 0; limb < width / 32; limb++) {
      const bits = [0n, 0xffff_ffffn, random.next(32), random.next(32)][random.below(4)]!;
      value = value << 32n | bits;
    }
    return value;
  });
}

const a256 = wideNumbers(256, 1);
const b256 = wideNumbers(256, 2);
const a128 = wideNumbers(128, 3);
const b128 = wideNumbers(128, 4);

/** Splits values into limbs, the lowest first. */
function limbs(values: readonly bigint[], { width, limbWidth }: { width: number; limbWidth: number }): bigint[] {
  return values.flatMap((value) =>
    Array.from({ length: width / limbWidth }, (_, index) => BigInt.asUintN(width, value) >> BigInt(limbWidth * index))
  );
}

const inWords = (values: readonly bigint[], width: number) => words32(limbs(values, { width, limbWidth: 32 }));
const inLongWords = (values: readonly bigint[]) => words64(limbs(values, { width: 128, limbWidth: 64 }));

function sumDifferenceProduct(a: bigint, b: bigint): bigint[] {
  const low = (value: bigint) => BigInt.asUintN(64, value);
  return [a + b, a - b, low(a) * low(b) + (a >> 64n) + (b >> 64n << 64n)];
}

const word = (value: bigint) => BigInt.asUintN(32, value);
const [aWords, bWords] = [a256, b256].map((values) =>
  limbs(values, { width: 256, limbWidth: 32 }).slice(0, count).map(word)
);

/** After a subtraction, the carry flag is set if there was no borrow. */
function sumsAfterSubtracting(a: bigint, b: bigint): bigint[] {
  const borrow = a < b ? 1n : 0n;
  return [1n - borrow, a + b + (b - a - borrow < 0n ? 0n : 1n)];
}

export const program: CorpusProgram = {
  covers:
    "add.cc, addc, sub.cc, subc, mad.lo.cc, mad.hi.cc, madc.lo and madc.hi, with and without .cc, of 32 and 64 bits; addc after sub.cc",
  buffers: () => ({
    a256: inWords(a256, 256),
    b256: inWords(b256, 256),
    sums: new Uint32Array(8 * count),
    differences: new Uint32Array(8 * count),
    carries: new Uint32Array(2 * count),
    after: new Uint32Array(2 * count),
    a64: inLongWords(a128),
    b64: inLongWords(b128),
    results: new BigUint64Array(6 * count),
    a128: inWords(a128, 128),
    b128: inWords(b128, 128),
    products: new Uint32Array(8 * count),
  }),
  launches: [
    {
      kernel: "add_and_subtract",
      grid: 4,
      block: 64,
      arguments: ["a256", "b256", "sums", "differences", "carries", count],
    },
    { kernel: "add_after_subtracting", grid: 4, block: 64, arguments: ["a256", "b256", "after", count] },
    { kernel: "add_limbs_of_64_bits", grid: 4, block: 64, arguments: ["a64", "b64", "results", count] },
    { kernel: "multiply", grid: 4, block: 64, arguments: ["a128", "b128", "products", count] },
  ],
  expected: () => ({
    sums: inWords(a256.map((a, index) => a + b256[index]!), 256),
    differences: inWords(a256.map((a, index) => a - b256[index]!), 256),
    carries: words32(a256.flatMap((a, index) => [a + b256[index]! >> 256n, a < b256[index]! ? -1n : 0n])),
    after: words32(aWords!.flatMap((a, index) => sumsAfterSubtracting(a, bWords![index]!))),
    results: inLongWords(a128.flatMap((a, index) => sumDifferenceProduct(a, b128[index]!))),
    products: inWords(a128.map((a, index) => a * b128[index]!), 256),
  }),
};
