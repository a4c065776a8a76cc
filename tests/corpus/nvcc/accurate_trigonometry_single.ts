import { RandomBits } from "../arithmetic_operands.ts";
import { type Approximation, boundedProgram, rounded, ulps } from "../bounded_tables.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { type FiniteNumber, single } from "../float_reference.ts";
import { cosine, sine, tangent } from "../function_reference.ts";

const random = new RandomBits(141);
const between = (low: number, high: number) => low + (high - low) * random.fraction();
const many = (count: number, make: () => number): number[] => Array.from({ length: count }, make);

const angles = Float32Array.from([
  ...[0, -0, Infinity, -Infinity, NaN, 2 ** -149, 2 ** -30, Math.PI, Math.PI / 2, -Math.PI / 4, 105615, 105616],
  ...[1e5, 1e6, 1e10, 1e22, 3e38, -3e38, 2 ** 127, 16367173 * 2 ** 72],
  ...many(80, () => between(-7, 7)),
  ...many(60, () => between(-1e5, 1e5)),
  ...many(80, () => between(1, 2) * 2 ** random.below(127)),
]);

const of = (
  count: number,
  exact: (x: FiniteNumber) => FiniteNumber,
  special: (x: number) => number,
): Approximation => ({
  value: rounded(single, (x) => exact(x!), (x) => special(x!)),
  error: ulps(single, count),
});
const sines = of(2, sine, Math.sin);
const cosines = of(2, cosine, Math.cos);

export const program: CorpusProgram = boundedProgram(
  "sinf, cosf and tanf of small and huge angles: a table in constant memory, carries, local memory",
  [{
    kernel: "trigonometry",
    operands: [angles],
    format: single,
    derivation:
      "the maximum errors in ulp, relative to a correctly rounded result, in the tables of the CUDA C++ programming " +
      "guide",
    columns: [sines, cosines, of(4, tangent, Math.tan), sines, cosines],
  }],
);
