import { RandomBits } from "../arithmetic_operands.ts";
import { type Approximation, boundedProgram, halfUlp, rounded, ulps } from "../bounded_tables.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { type FiniteNumber, fraction, single } from "../float_reference.ts";
import {
  cosine,
  exponential,
  hyperbolicTangent,
  logarithm,
  power,
  reciprocalSquareRoot,
  sine,
} from "../function_reference.ts";

const two = fraction(2n, 1n);
const ten = fraction(10n, 1n);
const singles = (count: number, make: (random: RandomBits) => number): Float32Array => {
  const random = new RandomBits(111);
  return Float32Array.from({ length: count }, () => make(random));
};
const between = (random: RandomBits, low: number, high: number) => low + (high - low) * random.fraction();

const angles = Float32Array.of(
  0,
  -0,
  2 ** -140,
  2 ** -20,
  Math.PI,
  -Math.PI / 2,
  ...singles(150, (random) => between(random, -2 * Math.PI, 2 * Math.PI)),
  ...singles(100, (random) => between(random, -100 * Math.PI, 100 * Math.PI)),
);
const exponents = Float32Array.of(
  0,
  -0,
  1,
  -1,
  80,
  -80,
  Infinity,
  -Infinity,
  NaN,
  0.5,
  ...singles(150, (random) => between(random, -80, 80)),
  ...singles(100, (random) => between(random, -2, 2) * 2 ** -random.below(30)),
);
const positives = Float32Array.of(
  1,
  2,
  0.5,
  Math.fround(1 - 2 ** -24),
  Math.fround(1 + 2 ** -23),
  Infinity,
  2 ** -126,
  2 ** 126,
  ...singles(100, (random) => between(random, 0.5, 2)),
  ...singles(150, (random) => between(random, 1, 2) * 2 ** (random.below(250) - 125)),
);
const bases = singles(250, (random) => between(random, 1, 2) * 2 ** (random.below(40) - 20));
const powers = singles(250, (random) => between(random, -3, 3) || 1);

/** The manual's bounds are relative to the true value, of which the expected value is the rounded one. */
const absolute = (bound: number) => (value: number) => bound + halfUlp(value);
const relative = (bound: number) => (value: number) => bound * Math.abs(value) + halfUlp(value);

const sineError = (value: number, angle?: number) =>
  absolute(Math.abs(angle!) <= 2 * Math.PI ? 2 ** -20.5 : 2 ** -14.7)(value);
/** The error of lg2: absolute near 1, relative elsewhere. */
const logarithmError = (result: number, operand: number) =>
  operand > 0.5 && operand < 2 ? 2 ** -22 : 2 ** -22 * Math.abs(result);

const of = (
  exact: (...operands: FiniteNumber[]) => FiniteNumber,
  special: (...operands: number[]) => number,
  error: Approximation["error"],
): Approximation => ({ value: rounded(single, exact, special), error });

const sines = of(sine, Math.sin, sineError);
const cosines = of(cosine, Math.cos, sineError);
const exponentialOf2 = of((x) => power(two, x), (x) => 2 ** x!, ulps(single, 2));
const exact2 = (x: number) => Number.isFinite(x) ? exponentialOf2.value(x) : 2 ** x;

/**
 * The product x * log2(e) is rounded twice, which adds a relative error of 2 ** -23. The power of 2 multiplies it by
 * ln(2).
 */
const scaledExponentError = (perUnit: number): Approximation["error"] => (value, x) =>
  Number.isFinite(x!) ? Math.abs(value) * (perUnit * Math.abs(x!) * 2 ** -23) + ulps(single, 3)(value) : 0;

/** lg2 times a constant: the instruction's error times the constant, and two roundings. */
const scaledLogarithm = (base: number, exact: FiniteNumber | undefined): Approximation => ({
  value: rounded(single, (x) => logarithm(x, exact), (x) => Math.log(x!) / Math.log(base)),
  error: (value, x) =>
    Number.isFinite(x!)
      ? logarithmError(value * Math.log2(base), x!) / Math.log2(base) + 2 ** -23 * Math.abs(value) + halfUlp(value)
      : 0,
});

const reciprocalRoots = of(reciprocalSquareRoot, (x) => 1 / Math.sqrt(x!), relative(2 ** -22.9));
const quotients = (error: Approximation["error"]) =>
  of(
    (a, b) => {
      const value = fraction(a!.numerator * b!.denominator, a!.denominator * b!.numerator);
      return { ...value, negative: a!.negative !== b!.negative };
    },
    (a, b) => a! / b!,
    error,
  );

export const program: CorpusProgram = boundedProgram(
  "sin, cos, ex2, lg2, tanh, rsqrt, sqrt, rcp and div .approx and div.full, and CUDA's fast functions",
  [
    {
      kernel: "fast_trigonometry",
      operands: [angles],
      format: single,
      derivation:
        "sin.approx and cos.approx: 2^-20.5 absolute within 2 pi, 2^-14.7 within 100 pi; their difference: twice that",
      columns: [sines, cosines, sines, cosines, {
        value: (angle) => Math.fround(sines.value(angle!) - cosines.value(angle!)),
        error: (value, angle) => 2 * sineError(1, angle) + halfUlp(value),
      }],
    },
    {
      kernel: "fast_exponentials",
      operands: [exponents],
      format: single,
      derivation:
        "ex2.approx: 2 ulp; CUDA's exponentials round the product of the operand and a rounded constant before it; " +
        "tanh.approx: 2^-11 relative",
      columns: [
        { value: exact2, error: exponentialOf2.error },
        {
          value: (x) => exact2(Math.abs(x!) < 2 ** -126 ? 0 : x!),
          error: exponentialOf2.error,
        },
        of(exponential, Math.exp, scaledExponentError(1)),
        {
          value: (x) => rounded(single, (y) => power(ten, y!), (y) => 10 ** y!)(Math.fround(x! * 0.25)),
          error: (value, x) => scaledExponentError(Math.LN10)(value, x! / 4),
        },
        of(hyperbolicTangent, Math.tanh, relative(2 ** -11)),
      ],
    },
    {
      kernel: "fast_logarithms",
      operands: [positives],
      format: single,
      derivation: "lg2.approx: 2^-22 absolute from 0.5 to 2, else 2^-22 relative, times a rounded constant, rounded; " +
        "rsqrt.approx: 2^-22.9 relative; sqrt.approx: 2^-23 relative; rcp.approx: 1 ulp",
      columns: [
        scaledLogarithm(2, two),
        scaledLogarithm(Math.E, undefined),
        scaledLogarithm(2, two),
        scaledLogarithm(10, ten),
        reciprocalRoots,
        { value: (x) => Math.fround(Math.sqrt(x!)), error: relative(2 ** -23) },
        { value: (x) => Math.fround(1 / x!), error: ulps(single, 1.5) },
        reciprocalRoots,
      ],
    },
    {
      kernel: "fast_powers_and_quotients",
      operands: [bases, powers],
      format: single,
      derivation:
        "ex2.approx (2 ulp) of the rounded product of the exponent and lg2.approx (2^-22), whose error the power of " +
        "2 multiplies by ln(2); div.approx and div.full: 2 ulp",
      columns: [
        of(power, (x, y) => x! ** y!, (value, x, y) => {
          const exponent = Math.log2(x!);
          const error = Math.abs(y!) * (logarithmError(exponent, x!) + 2 ** -24 * Math.abs(exponent));
          return Math.abs(value) * Math.LN2 * error * (1 + 2 ** -10) + ulps(single, 3)(value);
        }),
        quotients(ulps(single, 2.5)),
        quotients(ulps(single, 2.5)),
        quotients(ulps(single, 2.5)),
      ],
    },
  ],
);
