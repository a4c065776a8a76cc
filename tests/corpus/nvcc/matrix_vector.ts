import { RandomBits } from "../arithmetic_operands.ts";
import { exactly } from "../bounded_tables.ts";
import type { CorpusProgram, ErrorBound } from "../corpus_program.ts";
import { double, FloatArithmetic, fraction, numberOf } from "../float_reference.ts";

const rows = 50;
const columns = 70;

function numbers(length: number, seed: number): Float64Array {
  const random = new RandomBits(seed);
  return Float64Array.from({ length }, () => (random.fraction() * 2 - 1) * 2 ** (random.below(20) - 10));
}

const matrix = numbers(rows * columns, 171);
const wide = numbers(columns, 172);
const tall = numbers(rows, 173);

const rowOf = (row: number) =>
  Array.from(wide, (value, column): [number, number] => [matrix[row * columns + column]!, value]);
const columnOf = (column: number) =>
  Array.from(tall, (value, row): [number, number] => [matrix[row * columns + column]!, value]);

/** Returns the exact sum of products, rounded once. */
function exactSum(pairs: readonly (readonly [number, number])[]): number {
  // Every product is an integer multiple of 2 ** -scale.
  const scale = 200n;
  const sum = pairs.reduce((total, [a, b]) => {
    const [x, y] = [exactly(a), exactly(b)];
    const product = (x.numerator * y.numerator << scale) / (x.denominator * y.denominator);
    return x.negative === y.negative ? total + product : total - product;
  }, 0n);
  return numberOf(double, new FloatArithmetic(double).round(fraction(sum, 1n << scale)));
}

function boundOf(pairsOf: (index: number) => readonly (readonly [number, number])[]): ErrorBound {
  return {
    derivation:
      "two roundings for each product, each 2^-53 of a partial sum, which the sum of the products' magnitudes limits",
    absolute: (_, index) => {
      const pairs = pairsOf(index);
      const magnitudes = pairs.reduce((total, [a, b]) => total + Math.abs(a * b), 0);
      return 2 * pairs.length * 2 ** -53 * (1 + 2 ** -20) * magnitudes;
    },
  };
}

export const program: CorpusProgram = {
  covers: "loops of double mul and add without a rounding modifier, fused or not, unrolled or not",
  buffers: () => ({
    matrix: matrix.slice(),
    wide: wide.slice(),
    tall: tall.slice(),
    product: new Float64Array(rows),
    transposed: new Float64Array(columns),
  }),
  launches: [
    { kernel: "multiply", grid: 2, block: 32, arguments: ["matrix", "wide", "product", rows, columns] },
    { kernel: "multiply_transposed", grid: 3, block: 32, arguments: ["matrix", "tall", "transposed", rows, columns] },
  ],
  expected: () => ({
    product: Float64Array.from({ length: rows }, (_, row) => exactSum(rowOf(row))),
    transposed: Float64Array.from({ length: columns }, (_, column) => exactSum(columnOf(column))),
  }),
  bounds: { product: boundOf(rowOf), transposed: boundOf(columnOf) },
};
