import {
  type Column,
  floatEdges,
  mixedOperands,
  RandomBits,
  randomFloat,
  storedNaN,
  type Table,
  tableProgram,
  words,
} from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import {
  compareFloats,
  decode,
  double,
  type FiniteNumber,
  FloatArithmetic,
  type FloatFormat,
  fraction,
  isNaNBits,
  type Rounding,
  roundToInteger,
  single,
} from "../float_reference.ts";

const absolute = (value: FiniteNumber): FiniteNumber => ({ ...value, negative: false });

/** Rounds to the nearest integer, ties away from zero. */
function awayFromZero(value: FiniteNumber): bigint {
  const { negative, numerator, denominator } = value;
  const magnitude = (2n * numerator + denominator) / (2n * denominator);
  return negative ? -magnitude : magnitude;
}

/** Returns the remainder of a division whose quotient is rounded to an integer. A zero has the sign of the dividend. */
function rest(a: FiniteNumber, b: FiniteNumber, rounding: Rounding): FiniteNumber {
  const quotient = roundToInteger({
    kind: "finite",
    negative: false,
    numerator: a.numerator * b.denominator,
    denominator: a.denominator * b.numerator,
  }, rounding);
  const magnitude = fraction(
    a.numerator * b.denominator - quotient * b.numerator * a.denominator,
    a.denominator * b.denominator,
  );
  return { ...magnitude, negative: magnitude.negative !== a.negative };
}

function steps(format: FloatFormat, { name, width }: { name: string; width: 32 | 64 }): Table {
  const exact = new FloatArithmetic(format);
  const signBit = 1n << BigInt(width - 1);
  /** A NaN becomes the stored one. Infinities do not change. */
  const ofFinite = (compute: (value: FiniteNumber) => FiniteNumber): Column => (a) => {
    const value = decode(format, a!);
    return value.kind === "nan" ? storedNaN : value.kind === "infinite" ? a! : exact.round(compute(value));
  };
  const toInteger = (round: (value: FiniteNumber) => bigint): Column =>
    ofFinite((value) => ({ ...absolute(fraction(round(value), 1n)), negative: value.negative }));
  const inDirection = (rounding: Rounding) => toInteger((value) => roundToInteger(value, rounding));
  const remainder = (rounding: Rounding): Column => (a, b) => {
    const [dividend, divisor] = [decode(format, a!), decode(format, b!)];
    if (dividend.kind !== "finite" || divisor.kind === "nan") return storedNaN;
    if (divisor.kind === "infinite") return a!;
    return divisor.numerator === 0n ? storedNaN : exact.round(rest(dividend, divisor, rounding));
  };
  const columns: Column[] = [
    inDirection("rm"),
    inDirection("rp"),
    inDirection("rz"),
    inDirection("rn"),
    toInteger(awayFromZero),
    inDirection("rn"),
    remainder("rz"),
    remainder("rn"),
    (a) => decode(format, a!).kind === "infinite" ? a! & signBit : ofFinite((value) => rest(value, one, "rz"))(a!),
    inDirection("rz"),
    ofFinite((value) => ({ ...value, numerator: 8n * value.numerator })),
    (a, b) => {
      const difference = compareFloats(format, [a!, b!]);
      return difference === undefined ? storedNaN : difference > 0 ? exact.subtract(a!, b!) : 0n;
    },
    (a, b) => {
      const difference = compareFloats(format, [a!, b!]);
      if (difference === undefined) return storedNaN;
      if (difference === 0) return b!;
      if ((a! & signBit - 1n) === 0n) return b! & signBit | 1n;
      return (a! >= signBit) === (difference > 0) ? a! + 1n : a! - 1n;
    },
  ];
  const random = new RandomBits(width);
  const halves = [0.5, 1.5, 2.5, 3.5, 0.49999997, 8388607.5, 8388608.5].flatMap((value) => [value, -value])
    .map((value) => exact.round(decode(double, new BigUint64Array(Float64Array.of(value).buffer)[0]!)));
  const operands = mixedOperands(
    [...floatEdges(format), ...halves].filter((bits, index, all) => all.indexOf(bits) === index),
    () => randomFloat(random, format),
    { operands: 2, mixtures: 300, seed: 6 },
  ).map((values) => words(values, width));
  return {
    kernel: `step_${name}`,
    operands,
    width,
    columns: columns.map((column): Column => (...bits) => {
      const result = column(...bits);
      return isNaNBits(format, result) ? storedNaN : result;
    }),
  };
}

const one = fraction(1n, 1n);

export const program: CorpusProgram = tableProgram(
  "cvt.rni, .rzi, .rmi and .rpi between floats, and the loops of fmod and remainder",
  [steps(single, { name: "single", width: 32 }), steps(double, { name: "double", width: 64 })],
);
