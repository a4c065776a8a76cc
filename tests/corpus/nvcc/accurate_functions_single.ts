import { RandomBits } from "../arithmetic_operands.ts";
import { type Approximation, boundedProgram, rounded, ulps } from "../bounded_tables.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { type FiniteNumber, fraction, single } from "../float_reference.ts";
import {
  arctangent,
  complementaryErrorFunction,
  cubeRoot,
  errorFunction,
  exponential,
  exponentialMinus1,
  hyperbolicCosine,
  hyperbolicSine,
  hyperbolicTangent,
  hypotenuse,
  logarithm,
  logarithmOf1Plus,
  power,
} from "../function_reference.ts";

const derivation =
  "the maximum errors in ulp, relative to a correctly rounded result, in the tables of the CUDA C++ programming guide";

const random = new RandomBits(131);
const between = (low: number, high: number) => low + (high - low) * random.fraction();
const many = (count: number, make: () => number): number[] => Array.from({ length: count }, make);

const exponents = Float32Array.from([
  ...[0, -0, 1, -1, 20, -20, 0.5, Infinity, -Infinity, NaN, 2 ** -149, -(2 ** -126), 2 ** -24],
  ...many(120, () => between(-20, 20)),
  ...many(80, () => between(-1, 1) * 2 ** -random.below(26)),
]);
const positives = Float32Array.from([
  ...[1, 2, 0.5, 10, 1 - 2 ** -24, 1 + 2 ** -23, Infinity, NaN, 0, 2 ** -149, 2 ** -126, 2 ** 127],
  ...many(80, () => between(0.5, 2)),
  ...many(80, () => between(1, 2) * 2 ** (random.below(250) - 125)),
]);
const nearZero = Float32Array.from([
  ...[0, -0, 1, -1, 8, -8, Infinity, -Infinity, NaN, 2 ** -140, 2 ** -30],
  ...many(120, () => between(-8, 8)),
  ...many(60, () => between(-1, 1)),
]);
const bases = Float32Array.from([
  ...[1, 2, 10, 0.5, 3, 2],
  ...many(200, () => between(1, 2) * 2 ** (random.below(30) - 15)),
]);
const powers = Float32Array.from([...[5, 10, 3, -2, 0.5, -0.5], ...many(200, () => between(-6, 6))]);

const of = (
  count: number,
  exact: (...operands: FiniteNumber[]) => FiniteNumber,
  special: (...operands: number[]) => number,
): Approximation => ({ value: rounded(single, exact, special), error: ulps(single, count) });

/** The error function of zero and of values that are not finite. */
const errorFunctionOf = (x: number) => Number.isFinite(x) ? x : Math.sign(x);
const two = fraction(2n, 1n);
const ten = fraction(10n, 1n);

export const program: CorpusProgram = boundedProgram(
  "expf, logf, powf, tanhf, erff, cbrtf and others, as the compiler inlines them",
  [
    {
      kernel: "exponentials",
      operands: [exponents],
      format: single,
      derivation,
      columns: [
        of(2, exponential, Math.exp),
        of(2, (x) => power(two, x!), (x) => 2 ** x!),
        of(2, (x) => power(ten, x!), (x) => 10 ** x!),
        of(1, exponentialMinus1, Math.expm1),
        of(3, hyperbolicSine, Math.sinh),
        of(2, hyperbolicCosine, Math.cosh),
        of(2, hyperbolicTangent, Math.tanh),
        of(1, cubeRoot, Math.cbrt),
      ],
    },
    {
      kernel: "logarithms",
      operands: [positives],
      format: single,
      derivation,
      columns: [
        of(1, (x) => logarithm(x!), Math.log),
        of(1, (x) => logarithm(x!, two), Math.log2),
        of(2, (x) => logarithm(x!, ten), Math.log10),
        of(1, logarithmOf1Plus, Math.log1p),
        { value: (x) => Math.fround(Math.sqrt(x!)), error: () => 0 },
        of(1, cubeRoot, Math.cbrt),
      ],
    },
    {
      kernel: "error_functions",
      operands: [nearZero],
      format: single,
      derivation,
      columns: [
        of(2, errorFunction, (x) => errorFunctionOf(x!)),
        of(4, complementaryErrorFunction, (x) => 1 - errorFunctionOf(x!)),
        of(2, arctangent, Math.atan),
      ],
    },
    {
      kernel: "powers",
      operands: [bases, powers],
      format: single,
      derivation,
      columns: [of(4, power, Math.pow), of(3, hypotenuse, Math.hypot)],
    },
  ],
);
