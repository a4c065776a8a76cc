import { type Column, integerEdges, RandomBits, tableProgram, words64 } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";

/** Returns the largest integer whose power is at most a value, by bisection. */
function root(value: bigint, degree: bigint): bigint {
  let [low, high] = [0n, 1n << 33n];
  while (high - low > 1n) {
    const middle = low + high >> 1n;
    if (middle ** degree <= value) low = middle;
    else high = middle;
  }
  return low;
}

const word = (value: bigint) => value & 0xffff_ffffn;
const columns: readonly Column[] = [
  (value) => root(word(value!), 2n),
  (value) => root(value!, 2n),
  (value) => root(word(value!) << 16n, 2n),
  (value) => root(value!, 3n),
];

const random = new RandomBits(101);
const powers = Array.from({ length: 40 }, () => random.next(32)).flatMap((base) => {
  const cube = base & 0x1f_ffffn;
  return [base ** 2n - 1n, base ** 2n, cube ** 3n - 1n, cube ** 3n];
});
const values = [
  ...integerEdges(32),
  ...integerEdges(64),
  ...powers,
  ...Array.from({ length: 60 }, () => random.next(64) >> BigInt(random.below(64))),
];

export const program: CorpusProgram = tableProgram(
  "square and cube roots of integers: loops of shifts, comparisons, products and divisions with 64 bits",
  [{ kernel: "roots", operands: [words64(values)], width: 32, columns }],
);
