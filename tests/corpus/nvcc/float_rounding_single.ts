import { type Column, floatOperands, storedNaN, tableProgram, words32 } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { FloatArithmetic, isNaNBits, roundings, single } from "../float_reference.ts";

const arithmetics = roundings.map((rounding) => new FloatArithmetic(single, rounding));

/** Returns a column for each rounding direction, in the order of CUDA's suffixes _rn, _rz, _rd and _ru. */
function inEachDirection(compute: (arithmetic: FloatArithmetic) => Column): Column[] {
  return arithmetics.map(compute);
}

function stored(compute: (arithmetic: FloatArithmetic) => Column): Column[] {
  return inEachDirection(compute).map((column): Column => (...operands) => {
    const bits = column(...operands);
    return isNaNBits(single, bits) ? storedNaN : bits;
  });
}

export const program: CorpusProgram = tableProgram(
  "add, sub, mul, div, fma, sqrt and rcp .f32 in .rn, .rz, .rm and .rp",
  [{
    kernel: "round_single",
    operands: floatOperands(single, { operands: 3, mixtures: 300 }).map(words32),
    width: 32,
    columns: [
      ...inEachDirection((arithmetic) => (a, b) => arithmetic.add(a!, b!)),
      ...inEachDirection((arithmetic) => (a, b) => arithmetic.subtract(a!, b!)),
      ...inEachDirection((arithmetic) => (a, b) => arithmetic.multiply(a!, b!)),
      ...stored((arithmetic) => (a, b) => arithmetic.divide(a!, b!)),
      ...inEachDirection((arithmetic) => (a, b, c) => arithmetic.fusedMultiplyAdd(a!, b!, c!)),
      ...stored((arithmetic) => (a) => arithmetic.squareRoot(a!)),
      ...stored((arithmetic) => (a) => arithmetic.reciprocal(a!)),
    ],
  }],
);
