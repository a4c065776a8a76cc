import { RandomBits } from "../arithmetic_operands.ts";
import { type Approximation, boundedProgram, rounded, ulps } from "../bounded_tables.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { type FiniteNumber, fraction, half, integerSquareRoot, numberOf, single } from "../float_reference.ts";
import {
  cosine,
  exponential,
  hyperbolicTangent,
  logarithm,
  power,
  reciprocalSquareRoot,
  sine,
} from "../function_reference.ts";

/** Returns random halves between two of the same sign, by their bits. */
function someHalves(first: bigint, last: bigint, count: number): number[] {
  const random = new RandomBits(121);
  return Array.from({ length: count }, () => numberOf(half, first + BigInt(random.below(Number(last - first)))));
}

const small = someHalves(0x0001n, 0x4800n, 200);
const values = Float32Array.from([0, -0, 1, -1, 8, -8, ...small, ...small.map((value) => -value)]);
const positives = Float32Array.from([1, 2, 0.5, 10, 65504, 2 ** -24, ...someHalves(0x0001n, 0x7c00n, 250)]);

const of = (
  exact: (x: FiniteNumber) => FiniteNumber,
  special: (x: number) => number,
  error: Approximation["error"],
): Approximation => ({
  value: rounded(half, (x) => exact(x!), (x) => special(x!)),
  error,
});
const squareRoot = ({ numerator, denominator }: FiniteNumber) =>
  fraction(integerSquareRoot(numerator * denominator << 80n), denominator << 40n);
const one = ulps(half, 1);
const ten = fraction(10n, 1n);
const two = fraction(2n, 1n);
/** An absolute error before the result is rounded to a half. */
const before = (absolute: number): Approximation["error"] => (value) => absolute + one(value);
const halved = rounded(half, (x) => ({ ...x!, denominator: 2n * x!.denominator }), (x) => x! / 2);
const exponentialOf10 = of((x) => power(ten, x), (x) => 10 ** x, one);

export const program: CorpusProgram = boundedProgram(
  "CUDA's functions of halves; ex2.approx and tanh.approx of .f16",
  [
    {
      kernel: "functions_of_halves",
      operands: [values],
      format: single,
      derivation:
        "1 ulp of a half, because single-precision results are rounded once; sin.approx and cos.approx: 2^-20.5 " +
        "before that; ex2.approx.f16: 2^-9.9 relative; tanh.approx.f16: 2^-10.987 absolute",
      columns: [
        of(sine, Math.sin, before(2 ** -20.5)),
        of(cosine, Math.cos, before(2 ** -20.5)),
        of(exponential, Math.exp, one),
        of((x) => power(two, x), (x) => 2 ** x, one),
        { value: (x) => exponentialOf10.value(halved(x!)), error: one },
        of(hyperbolicTangent, Math.tanh, one),
        of((x) => power(two, x), (x) => 2 ** x, (value) => 2 ** -9.9 * value + one(value) / 2),
        of(hyperbolicTangent, Math.tanh, (value) => 2 ** -10.987 + one(value) / 2),
      ],
    },
    {
      kernel: "functions_of_positive_halves",
      operands: [positives],
      format: single,
      derivation:
        "1 ulp of a half: the single-precision instructions have errors of 2^-22, and their results are rounded once",
      columns: [
        of((x) => logarithm(x), Math.log, one),
        of((x) => logarithm(x, two), Math.log2, one),
        of((x) => logarithm(x, ten), Math.log10, one),
        of(squareRoot, Math.sqrt, one),
        of(reciprocalSquareRoot, (x) => 1 / Math.sqrt(x), one),
        of((x) => fraction(x.denominator, x.numerator), (x) => 1 / x, one),
      ],
    },
  ],
);
