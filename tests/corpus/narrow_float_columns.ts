/** The results of CUDA's functions for 16-bit floats, for single numbers and for pairs. */
import { type Column, floatOperands, storedNaN } from "./arithmetic_operands.ts";
import { compareFloats, decode, FloatArithmetic, type FloatFormat, isNaNBits, saturated } from "./float_reference.ts";

const sign = 0x8000n;

/** Operations on 16-bit floats, by a descriptive name. */
type Operations = Readonly<Record<string, Column>>;

type Comparison = "eq" | "ne" | "lt" | "le" | "gt" | "ge" | "equ" | "neu" | "ltu" | "leu" | "gtu" | "geu";

const comparisons: readonly Comparison[] = [
  "eq",
  "ne",
  "lt",
  "le",
  "gt",
  "ge",
  "equ",
  "neu",
  "ltu",
  "leu",
  "gtu",
  "geu",
];

/** Whether a comparison holds. If an operand is a NaN, only the unordered ones hold, whose names end in "u". */
function holds(format: FloatFormat, comparison: Comparison, [a, b]: readonly [bigint, bigint]): boolean {
  const difference = compareFloats(format, [a, b]);
  if (difference === undefined) return comparison.length === 3;
  switch (comparison.slice(0, 2)) {
    case "eq":
      return difference === 0;
    case "ne":
      return difference !== 0;
    case "lt":
      return difference < 0;
    case "le":
      return difference <= 0;
    case "gt":
      return difference > 0;
    default:
      return difference >= 0;
  }
}

function operations(format: FloatFormat): Operations {
  const exact = new FloatArithmetic(format);
  const isNaN = (bits: bigint) => isNaNBits(format, bits);
  const smaller = (a: bigint, b: bigint) => {
    const difference = compareFloats(format, [a, b]);
    return difference === 0 ? (a > b ? a : b) : difference === -1 ? a : b;
  };
  const extreme = (select: (a: bigint, b: bigint) => bigint): Column => (a, b) =>
    isNaN(a!) ? b! : isNaN(b!) ? a! : select(a!, b!);
  const orNaN = (select: (a: bigint, b: bigint) => bigint): Column => (a, b) =>
    isNaN(a!) || isNaN(b!) ? storedNaN : select(a!, b!);
  const larger = (a: bigint, b: bigint) => smaller(a, b) === a ? b : a;
  const saturating = (column: Column): Column => (...bits) => saturated(format, column(...bits));
  const notNegative = (column: Column): Column => (...bits) => {
    const result = column(...bits);
    return !isNaN(result) && result >= sign ? 0n : result;
  };
  const add: Column = (a, b) => exact.add(a!, b!);
  const subtract: Column = (a, b) => exact.subtract(a!, b!);
  const multiply: Column = (a, b) => exact.multiply(a!, b!);
  const fused: Column = (a, b, c) => exact.fusedMultiplyAdd(a!, b!, c!);
  const all: Operations = {
    add,
    subtract,
    multiply,
    fused,
    saturatedSum: saturating(add),
    saturatedDifference: saturating(subtract),
    saturatedProduct: saturating(multiply),
    saturatedFused: saturating(fused),
    positiveFused: notNegative(fused),
    quotient: (a, b) => {
      const result = exact.divide(a!, b!);
      return !isNaN(result) && (result & sign - 1n) <= 1n << BigInt(format.fractionBits) ? 0n : result;
    },
    negated: (a) => a! ^ sign,
    magnitude: (a) => a! & sign - 1n,
    minimum: extreme(smaller),
    maximum: extreme(larger),
    minimumOrNaN: orNaN(smaller),
    maximumOrNaN: orNaN(larger),
  };
  return Object.fromEntries(
    Object.entries(all).map(([name, column]) => [name, (...bits: bigint[]) => {
      const result = column(...bits);
      return isNaN(result) ? storedNaN : result;
    }]),
  );
}

/** Returns the columns of the programs that compute with single numbers. */
export function narrowFloatColumns(format: FloatFormat): Column[] {
  const {
    add,
    subtract,
    multiply,
    quotient,
    fused,
    saturatedSum,
    saturatedDifference,
    saturatedProduct,
    saturatedFused,
    positiveFused,
    negated,
    magnitude,
    minimum,
    maximum,
    minimumOrNaN,
    maximumOrNaN,
  } = operations(format) as Record<string, Column>;
  const relations: Column = (a, b) => {
    const value = decode(format, a!);
    const answers = [
      ...comparisons.map((comparison) => holds(format, comparison, [a!, b!])),
      value.kind === "nan",
      value.kind === "infinite",
    ];
    return answers.reduce((bits, answer, index) => answer ? bits | 1n << BigInt(index) : bits, 0n);
  };
  return [
    add!,
    subtract!,
    multiply!,
    add!,
    subtract!,
    multiply!,
    quotient!,
    fused!,
    saturatedSum!,
    saturatedDifference!,
    saturatedProduct!,
    saturatedFused!,
    positiveFused!,
    negated!,
    magnitude!,
    minimum!,
    maximum!,
    minimumOrNaN!,
    maximumOrNaN!,
    relations,
  ];
}

const low = (pair: bigint) => pair & 0xffffn;
const high = (pair: bigint) => pair >> 16n;

/** Returns the columns of the programs that compute with pairs, whose first number is in the low half of a word. */
export function narrowFloatPairColumns(format: FloatFormat): Column[] {
  const one = new FloatArithmetic(format).fromInteger(1n);
  const { add, subtract, multiply, fused, saturatedSum, saturatedProduct, positiveFused, negated, magnitude } =
    operations(format) as Record<string, Column>;
  const { minimum, maximum, maximumOrNaN } = operations(format) as Record<string, Column>;
  const both = (column: Column): Column => (...pairs) => column(...pairs.map(high)) << 16n | column(...pairs.map(low));
  const truth = (comparison: Comparison, value: bigint): Column =>
    both((a, b) => holds(format, comparison, [a!, b!]) ? value : 0n);
  const inBoth = (comparison: Comparison, a: bigint, b: bigint) =>
    holds(format, comparison, [low(a), low(b)]) && holds(format, comparison, [high(a), high(b)]);
  const stored = (bits: bigint) => isNaNBits(format, bits) ? storedNaN : bits;
  return [
    both(add!),
    both(subtract!),
    both(multiply!),
    both(add!),
    both(fused!),
    both(saturatedSum!),
    both(saturatedProduct!),
    both(positiveFused!),
    both(negated!),
    both(magnitude!),
    both(minimum!),
    both(maximum!),
    both(maximumOrNaN!),
    truth("eq", one),
    truth("gt", one),
    truth("leu", one),
    (a, b) => stored(low(b!)) << 16n | stored(low(a!)),
    (a, b) => stored(high(b!)) << 16n | stored(high(a!)),
    (a) => stored(low(a!)) << 16n | stored(high(a!)),
    (a) => stored(low(a!)) << 16n | stored(low(a!)),
    truth("ge", 0xffffn),
    truth("neu", 0xffffn),
    (a, b) => (inBoth("eq", a!, b!) ? 1n : 0n) | (inBoth("lt", a!, b!) ? 2n : 0n) | (inBoth("geu", a!, b!) ? 4n : 0n),
  ];
}

/**
 * Returns three operands of single numbers, and of pairs in words. In a pair, each number is combined with one other
 * than its neighbor.
 */
export function narrowFloatOperands(format: FloatFormat): { single: bigint[][]; paired: bigint[][] } {
  const single = floatOperands(format, { operands: 3, mixtures: 400 });
  const paired = single.map((values) =>
    values.map((value, index) => values[(index * 7 + 3) % values.length]! << 16n | value)
  );
  return { single, paired };
}
