import { type Column, floatOperands, storedNaN, tableProgram, words64 } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { double, FloatArithmetic, isNaNBits, roundings } from "../float_reference.ts";

const arithmetics = roundings.map((rounding) => new FloatArithmetic(double, rounding));

/** Returns a column for each rounding direction, in the order of CUDA's suffixes _rn, _rz, _rd and _ru. */
function stored(compute: (arithmetic: FloatArithmetic) => Column): Column[] {
  return arithmetics.map(compute).map((column): Column => (...operands) => {
    const bits = column(...operands);
    return isNaNBits(double, bits) ? storedNaN : bits;
  });
}

export const program: CorpusProgram = tableProgram(
  "add, sub, mul, div, fma, sqrt and rcp .f64 in .rn, .rz, .rm and .rp",
  [{
    kernel: "round_double",
    operands: floatOperands(double, { operands: 3, mixtures: 300 }).map(words64),
    width: 64,
    columns: [
      ...stored((arithmetic) => (a, b) => arithmetic.add(a!, b!)),
      ...stored((arithmetic) => (a, b) => arithmetic.subtract(a!, b!)),
      ...stored((arithmetic) => (a, b) => arithmetic.multiply(a!, b!)),
      ...stored((arithmetic) => (a, b) => arithmetic.divide(a!, b!)),
      ...stored((arithmetic) => (a, b, c) => arithmetic.fusedMultiplyAdd(a!, b!, c!)),
      ...stored((arithmetic) => (a) => arithmetic.squareRoot(a!)),
      ...stored((arithmetic) => (a) => arithmetic.reciprocal(a!)),
    ],
  }],
);
