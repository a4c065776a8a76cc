import { RandomBits } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { double, doubleBits, FloatArithmetic, type FloatFormat, numberOf, single } from "../float_reference.ts";

const threads = 64;
const special = Float64Array.of(0, -0, 1, -2.5, NaN, Infinity, 1 + 2 ** -52, -Infinity);
const first = [1e-40, 3, -1e-42, 2.5e-45, 0.1, 0.1, -0, 7, 16777217, 0.5, -1.5, 2.5, 5, 1e30, 1e37, 1e10];

function operands(): Float64Array {
  const random = new RandomBits(14);
  const others = Array.from({ length: threads * 2 - first.length }, () => (random.fraction() - 0.5) * 2e6);
  // The operands of the quotient and the square root are never 0 or negative.
  return Float64Array.from([...first, ...others], (value, index) => index % 2 === 1 ? Math.abs(value) : value);
}

const bitsIn = (format: FloatFormat, value: number) =>
  new FloatArithmetic(format).convertFrom(double, doubleBits(value));

function fusedMultiplyAdd(format: FloatFormat, values: readonly [number, number, number]): number {
  const [a, b, c] = values.map((value) => bitsIn(format, value));
  return numberOf(format, new FloatArithmetic(format).fusedMultiplyAdd(a!, b!, c!));
}

/** Rounds to the nearest integer, ties to even. */
function roundEven(value: number): number {
  const [below, above] = [Math.floor(value), Math.ceil(value)];
  if (value - below !== above - value) return value - below < above - value ? below : above;
  return below % 2 === 0 ? below : above;
}

/** Rounding a 64-bit result to 32 bits gives the result of the 32-bit operation. */
function resultsOf(format: FloatFormat, [a, b]: readonly [number, number]): number[] {
  const round = format === single ? Math.fround : Number;
  const polynomial = [a, b, 0.5, -a].reduce((sum, coefficient) => round(round(sum * b) + coefficient), 0);
  return [
    ...[a + b, a - b, a * b, a / b, -a, a < b ? a : b, a >= b ? a : b, polynomial],
    ...[Math.sqrt(b), fusedMultiplyAdd(format, [a, b, a]), Math.min(a, b), Math.max(a, b)],
  ].map(round);
}

function singlesOf(a: number, b: number, i: number): number[] {
  const [c, d] = [Math.fround(a), Math.fround(b)];
  return [
    ...resultsOf(single, [c, d]),
    Math.abs(c),
    Math.floor(d) + Math.trunc(d),
    Math.ceil(d) - roundEven(d),
    Math.fround(i * 0x1234567890) + Math.fround(Math.imul(i, 0x87654321) >>> 0),
  ];
}

function doublesOf(a: number, b: number, i: number): number[] {
  return [
    ...resultsOf(double, [a, b]),
    Math.fround(a),
    Math.floor(b) + Math.trunc(b),
    Math.ceil(b) - roundEven(b),
    Number(BigInt.asUintN(64, BigInt(i) << 60n)) + Math.imul(i, 0x87654321),
  ];
}

function comparisons(a: number, b: number, c: number): bigint {
  const isUnordered = Number.isNaN(a) || Number.isNaN(b);
  const answers = [
    ...[a === b, a !== b, a < b, a <= b, a > b, a >= b],
    ...[Number.isNaN(a), isUnordered, !isUnordered && a !== b, !(a < b), c === Math.fround(b)],
    ...[a < 0 && b > 0, Number.isNaN(c) || a > 1, a < 0 || Object.is(a, -0)],
  ];
  return answers.reduce((bits, holds, index) => holds ? bits | 1n << BigInt(index) : bits, 0n);
}

function integersOf(a: number, b: number, i: number): bigint[] {
  const bounded = b > 1e6 || !(b > -1e6) ? 7.75 : b;
  const whole = Math.trunc(bounded);
  const magnitude = Math.trunc(Math.fround(Math.abs(bounded)));
  const [left, right] = [special[i % 8]!, special[(i >> 3) % 8]!];
  return [
    comparisons(left, right, Math.fround(left)),
    BigInt((whole << 24 >> 24) + whole),
    BigInt(Math.trunc(bounded * 1e9)),
    BigInt(magnitude * 2),
    BigInt((magnitude & 0xff) + Math.trunc(bounded / 64)),
    BigInt.asIntN(64, doubleBits(a)) ^ BigInt.asIntN(32, bitsIn(single, b)),
  ];
}

/** Clang's floating-point arithmetic. */
export const program: CorpusProgram = {
  covers: "arithmetic, comparisons and conversions of f32 and f64 with .rn, each rounded separately",
  buffers: () => ({
    operands: operands(),
    special,
    singles: new Float32Array(threads * 16),
    doubles: new Float64Array(threads * 16),
    integers: new BigInt64Array(threads * 6),
  }),
  launches: [{
    kernel: "arithmetic",
    grid: 2,
    block: threads / 2,
    arguments: ["operands", "special", "singles", "doubles", "integers"],
  }],
  expected() {
    const values = operands();
    const rows = <Result>(row: (a: number, b: number, i: number) => Result[]) =>
      Array.from({ length: threads }, (_, i) => row(values[i * 2]!, values[i * 2 + 1]!, i)).flat();
    return {
      singles: Float32Array.from(rows(singlesOf)),
      doubles: Float64Array.from(rows(doublesOf)),
      integers: BigInt64Array.from(rows(integersOf)),
    };
  },
};
