import { RandomBits, words64 } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const count = 160;

function wideNumbers(seed: number): bigint[] {
  const random = new RandomBits(seed);
  const limbs = () => [0n, 1n, 2n ** 64n - 1n, 2n ** 63n, random.next(64), random.next(64), random.next(20)];
  const limb = () => limbs()[random.below(7)]!;
  return Array.from({ length: count }, () => limb() << 64n | limb());
}

const a = wideNumbers(1);
const signed = (value: bigint) => BigInt.asIntN(128, value);
const overflows = (value: bigint, divisor: bigint) => signed(value) === -(2n ** 127n) && signed(divisor) === -1n;
const b = wideNumbers(2).map((divisor, index) => divisor === 0n || overflows(a[index]!, divisor) ? 3n : divisor);

function unsignedResults(x: bigint, y: bigint): bigint[] {
  const places = y & 127n;
  const comparisons = (x < y ? 1n : 0n) | (signed(x) < signed(y) ? 2n : 0n) | (x === y ? 4n : 0n);
  return [x + y, x - y, x * y, x / y, x % y, x << places, x >> places, signed(x) >> places, comparisons];
}

const limbs = (values: readonly bigint[]) => words64(values.flatMap((value) => [value, value >> 64n]));

export const program: CorpusProgram = {
  covers: "128-bit integers as nvcc compiles them, with function calls for division",
  buffers: () => ({
    a: limbs(a),
    b: limbs(b),
    unsignedResults: new BigUint64Array(18 * count),
    signedResults: new BigUint64Array(4 * count),
  }),
  launches: [
    { kernel: "unsigned_of_128_bits", grid: 5, block: 32, arguments: ["a", "b", "unsignedResults", count] },
    { kernel: "signed_of_128_bits", grid: 5, block: 32, arguments: ["a", "b", "signedResults", count] },
  ],
  expected: () => ({
    unsignedResults: limbs(a.flatMap((value, index) => unsignedResults(value, b[index]!))),
    signedResults: limbs(
      a.flatMap((value, index) => {
        const [dividend, divisor] = [signed(value), signed(b[index]!)];
        return [dividend / divisor, dividend % divisor];
      }),
    ),
  }),
};
