import {
  type Column,
  floatEdges,
  mixedOperands,
  RandomBits,
  randomFloat,
  storedNaN,
  tableProgram,
  words32,
} from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import {
  compareFloats,
  convertToInteger,
  decode,
  FloatArithmetic,
  flushed,
  fraction,
  isNaNBits,
  roundings,
  roundToInteger,
  saturated,
  single,
} from "../float_reference.ts";

const [nearest, towardZero, down, up] = roundings.map((rounding) => new FloatArithmetic(single, rounding)) as [
  FloatArithmetic,
  FloatArithmetic,
  FloatArithmetic,
  FloatArithmetic,
];

/** Flushes the operands and the result. */
function flushing(column: Column): Column {
  return (...operands) => {
    const result = column(...operands.map((bits) => flushed(single, bits)));
    return isNaNBits(single, result) ? storedNaN : flushed(single, result);
  };
}

/** Flushes the operands. The result is not a float. */
const comparing = (column: Column): Column => (...operands) => column(...operands.map((bits) => flushed(single, bits)));

function smaller(a: bigint, b: bigint): bigint {
  const difference = compareFloats(single, [a, b]);
  if (difference === undefined) return isNaNBits(single, a) ? b : a;
  return difference === 0 ? (a > b ? a : b) : difference === -1 ? a : b;
}

function larger(a: bigint, b: bigint): bigint {
  if (isNaNBits(single, a)) return b;
  if (isNaNBits(single, b)) return a;
  return smaller(a, b) === a ? b : a;
}

function floor(bits: bigint): bigint {
  const value = decode(single, bits);
  if (value.kind !== "finite") return bits;
  const { numerator } = fraction(roundToInteger(value, "rm"), 1n);
  return nearest.fromInteger(numerator) | bits & 0x8000_0000n;
}

const random = new RandomBits(41);
/** Returns a number. Many are such that their sums, products and quotients are near the smallest normal number. */
function operand(): bigint {
  const bits = randomFloat(random, single);
  return random.below(2) === 0
    ? bits
    : bits & 0x807f_ffffn | BigInt([0, 0, 1, 2, 24, 62, 64, 190][random.below(8)]!) << 23n;
}

/** Results that may not be multiples of the smallest subnormal number. Sums of two numbers always are. */
const inexact: readonly ((arithmetic: FloatArithmetic, operands: readonly bigint[]) => bigint)[] = [
  (arithmetic, [a, b]) => arithmetic.multiply(a!, b!),
  (arithmetic, [a, b]) => arithmetic.divide(a!, b!),
  (arithmetic, [a, b, c]) => arithmetic.fusedMultiplyAdd(a!, b!, c!),
  (arithmetic, [a]) => arithmetic.reciprocal(a!),
];

/**
 * Whether a result lies between the largest subnormal number and the smallest normal one. PTX does not say whether such
 * a result is flushed before or after rounding.
 */
function isUnspecified(operands: readonly bigint[]): boolean {
  const inputs = operands.map((bits) => flushed(single, bits));
  return inexact.some((compute) => {
    const [below, above] = [compute(down, inputs), compute(up, inputs)].map((bits) => bits & 0x7fff_ffffn);
    return below !== above && (below === 0x0080_0000n || above === 0x0080_0000n) &&
      (below === 0x007f_ffffn || above === 0x007f_ffffn);
  });
}

/** Returns three operands for each row, without rows whose results are unspecified. */
function operands(): bigint[][] {
  const columns = mixedOperands(floatEdges(single), operand, { operands: 3, mixtures: 400, seed: 42 });
  const isKept = columns[0]!.map((_, row) => !isUnspecified(columns.map((column) => column[row]!)));
  return columns.map((column) => column.filter((_, row) => isKept[row]));
}

export const program: CorpusProgram = tableProgram(
  "add, sub, mul, div, fma, sqrt, rcp, neg, abs, min, max, set and cvt of .f32 with .ftz",
  [{
    kernel: "flush_to_zero",
    operands: operands().map(words32),
    width: 32,
    columns: [
      flushing((a, b) => nearest.add(a!, b!)),
      flushing((a, b) => up.add(a!, b!)),
      flushing((a, b) => towardZero.subtract(a!, b!)),
      flushing((a, b) => nearest.multiply(a!, b!)),
      flushing((a, b) => down.multiply(a!, b!)),
      flushing((a, b) => saturated(single, flushed(single, nearest.multiply(a!, b!)))),
      flushing((a, b) => nearest.divide(a!, b!)),
      flushing((a, b, c) => nearest.fusedMultiplyAdd(a!, b!, c!)),
      flushing((a, b, c) => saturated(single, flushed(single, towardZero.fusedMultiplyAdd(a!, b!, c!)))),
      flushing((a) => nearest.squareRoot(a!)),
      flushing((a) => nearest.reciprocal(a!)),
      flushing((a) => a! ^ 0x8000_0000n),
      flushing((a) => a! & 0x7fff_ffffn),
      flushing((a, b) => smaller(a!, b!)),
      flushing((a, b) => larger(a!, b!)),
      comparing((a, b) => compareFloats(single, [a!, b!]) === -1 ? 0xffff_ffffn : 0n),
      comparing((a, b) => (compareFloats(single, [a!, b!]) ?? 0) === 0 ? 0xffff_ffffn : 0n),
      comparing((a) => convertToInteger(single, a!, { rounding: "rp", width: 32, signed: true })),
      flushing((a) => floor(a!)),
    ],
  }],
);
