import { RandomBits } from "../arithmetic_operands.ts";
import { type Approximation, boundedProgram, rounded, ulps } from "../bounded_tables.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { double, type FiniteNumber, fraction } from "../float_reference.ts";
import {
  arctangent,
  cosine,
  cubeRoot,
  exponential,
  exponentialMinus1,
  gamma,
  hyperbolicTangent,
  hypotenuse,
  logarithm,
  logarithmOf1Plus,
  power,
  reciprocalSquareRoot,
  sine,
  tangent,
} from "../function_reference.ts";

const derivation =
  "the maximum errors in ulp, relative to a correctly rounded result, in the tables of the CUDA C++ programming guide";

const random = new RandomBits(151);
const between = (low: number, high: number) => low + (high - low) * random.fraction();
const many = (count: number, make: () => number): number[] => Array.from({ length: count }, make);

const exponents = Float64Array.from([
  ...[0, -0, 1, -1, 300, -300, 0.5, Infinity, -Infinity, NaN, 2 ** -1074, -(2 ** -1022), 2 ** -53],
  ...many(80, () => between(-300, 300)),
  ...many(60, () => between(-1, 1) * 2 ** -random.below(60)),
]);
const positives = Float64Array.from([
  ...[1, 2, 0.5, 10, 1 - 2 ** -53, 1 + 2 ** -52, Infinity, NaN, 0, 2 ** -1074, 2 ** -1022, 2 ** 1023],
  ...many(60, () => between(0.5, 2)),
  ...many(60, () => between(1, 2) * 2 ** (random.below(2000) - 1000)),
]);
const angles = Float64Array.from([
  ...[0, -0, Infinity, -Infinity, NaN, 2 ** -1074, 2 ** -30, Math.PI, Math.PI / 2, -Math.PI / 4],
  ...[1e5, 1e6, 1e10, 1e22, 1.7e308, -1.7e308, 2 ** 1023, 6381956970095103 * 2 ** 797],
  ...many(60, () => between(-7, 7)),
  ...many(40, () => between(-1e5, 1e5)),
  ...many(40, () => between(1, 2) * 2 ** random.below(1023)),
]);
const bases = Float64Array.from([
  ...[1, 2, 10, 0.5, 3, 2],
  ...many(120, () => between(1, 2) * 2 ** (random.below(60) - 30)),
]);
const powers = Float64Array.from([...[5, 10, 3, -2, 0.5, -0.5], ...many(120, () => between(-20, 20))]);
const gammaArguments = Float64Array.from([
  ...[1, 2, 3, 5, 10, 20, 100, 170, 0.5, 1.5, -0.5, -1.5, -20.5, 171.6, 2 ** -100, -(2 ** -100)],
  ...many(60, () => between(0, 30)),
  ...many(40, () => between(30, 171)),
  ...many(30, () => between(-30, 0)),
]);

const of = (
  count: number,
  exact: (...operands: FiniteNumber[]) => FiniteNumber,
  special: (...operands: number[]) => number,
): Approximation => ({ value: rounded(double, exact, special), error: ulps(double, count) });

const two = fraction(2n, 1n);
const ten = fraction(10n, 1n);

export const program: CorpusProgram = boundedProgram(
  "exp, log, sin, pow, tgamma and others in double precision, as the compiler inlines them",
  [
    {
      kernel: "exponentials",
      operands: [exponents],
      format: double,
      derivation,
      columns: [
        of(1, exponential, Math.exp),
        of(1, (x) => power(two, x!), (x) => 2 ** x!),
        of(1, (x) => power(ten, x!), (x) => 10 ** x!),
        of(1, exponentialMinus1, Math.expm1),
        of(1, hyperbolicTangent, Math.tanh),
        of(1, cubeRoot, Math.cbrt),
      ],
    },
    {
      kernel: "logarithms",
      operands: [positives],
      format: double,
      derivation,
      columns: [
        of(1, (x) => logarithm(x!), Math.log),
        of(1, (x) => logarithm(x!, two), Math.log2),
        of(1, (x) => logarithm(x!, ten), Math.log10),
        of(1, logarithmOf1Plus, Math.log1p),
        { value: (x) => Math.sqrt(x!), error: () => 0 },
        of(1, reciprocalSquareRoot, (x) => 1 / Math.sqrt(x!)),
      ],
    },
    {
      kernel: "trigonometry",
      operands: [angles],
      format: double,
      derivation,
      columns: [of(2, sine, Math.sin), of(2, cosine, Math.cos), of(2, tangent, Math.tan), of(2, arctangent, Math.atan)],
    },
    {
      kernel: "powers",
      operands: [bases, powers],
      format: double,
      derivation,
      columns: [of(2, power, Math.pow), of(2, hypotenuse, Math.hypot)],
    },
    {
      kernel: "gammas",
      operands: [gammaArguments],
      format: double,
      derivation,
      columns: [of(10, gamma, (x) => x!)],
    },
  ],
);
