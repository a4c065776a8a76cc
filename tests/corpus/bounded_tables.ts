/** Tables of results that PTX does not define to the bit. Each column has a bound for the error of a device. */
import type { Buffers, CorpusProgram, ErrorBound } from "./corpus_program.ts";
import {
  decode,
  double,
  doubleBits,
  type FiniteNumber,
  FloatArithmetic,
  type FloatFormat,
  numberOf,
  single,
  unitInTheLastPlace,
} from "./float_reference.ts";

/** A column. */
export interface Approximation {
  /** Returns the true result, rounded to the format of the table. */
  value(...operands: number[]): number;
  /** Returns the largest absolute difference from that result. */
  error(value: number, ...operands: number[]): number;
}

/**
 * The results of one kernel. Its parameters are the buffers of operands, the buffer of results, and the number of rows.
 */
export interface BoundedTable {
  readonly kernel: string;
  readonly operands: readonly (Float32Array | Float64Array)[];
  readonly format: FloatFormat;
  readonly columns: readonly Approximation[];
  readonly derivation: string;
}

/** Returns a program whose kernels write such tables. */
export function boundedProgram(covers: string, tables: readonly BoundedTable[]): CorpusProgram {
  return {
    covers,
    buffers: () => Object.fromEntries(tables.flatMap((table) => [...operandsOf(table), resultsOf(table, () => 0)])),
    launches: tables.map(({ kernel, operands }) => {
      const rows = operands[0]!.length;
      const names = operands.map((_, index) => `${kernel}_operand_${index}`);
      return { kernel, grid: Math.ceil(rows / 32), block: 32, arguments: [...names, `${kernel}_results`, rows] };
    }),
    expected: () =>
      Object.fromEntries(tables.map((table) => resultsOf(table, ({ value }, operands) => value(...operands)))),
    bounds: Object.fromEntries(tables.map((table) => [`${table.kernel}_results`, boundOf(table)])),
  };
}

function operandsOf({ kernel, operands }: BoundedTable): [string, Buffers[string]][] {
  return operands.map((operand, index) => [`${kernel}_operand_${index}`, operand.slice()]);
}

function resultsOf(
  { kernel, operands, format, columns }: BoundedTable,
  compute: (column: Approximation, operands: number[]) => number,
): [string, Float32Array | Float64Array] {
  const results = Array.from(operands[0]!).flatMap((_, row) => {
    const values = operands.map((operand) => operand[row]!);
    return columns.map((column) => compute(column, values));
  });
  return [`${kernel}_results`, format === double ? Float64Array.from(results) : Float32Array.from(results)];
}

function boundOf({ operands, columns, derivation }: BoundedTable): ErrorBound {
  return {
    derivation,
    absolute: (expected, index) => {
      const row = Math.floor(index / columns.length);
      return columns[index % columns.length]!.error(expected, ...operands.map((operand) => operand[row]!));
    },
  };
}

/**
 * Returns a function of floats that rounds the result of an exact function. If an operand is zero or not finite, or the
 * result is NaN, it returns the result of the JavaScript function `special`.
 */
export function rounded(
  format: FloatFormat,
  exact: (...operands: FiniteNumber[]) => FiniteNumber,
  special: (...operands: number[]) => number,
): (...operands: number[]) => number {
  const arithmetic = new FloatArithmetic(format);
  return (...operands) => {
    const usual = special(...operands);
    const isSpecial = Number.isNaN(usual) || operands.some((operand) => !Number.isFinite(operand) || operand === 0);
    if (isSpecial) return usual;
    return numberOf(format, arithmetic.round(exact(...operands.map(exactly))));
  };
}

/** Returns a finite double as a fraction. */
export function exactly(value: number): FiniteNumber {
  const decoded = decode(double, doubleBits(value));
  if (decoded.kind !== "finite") throw new RangeError(`Cannot convert ${value} to a fraction`);
  return decoded;
}

/** Returns an error bound of `count` units in the last place of the result. */
export function ulps(format: FloatFormat, count: number): (value: number) => number {
  return (value) => count * unitInTheLastPlace(format, value);
}

/** Half a unit in the last place of a single: the rounding error of the expected result itself. */
export function halfUlp(value: number): number {
  return unitInTheLastPlace(single, value) / 2;
}
