/**
 * Exponentials, logarithms, trigonometry, the error function and the gamma function of exact numbers, in fixed point
 * with hundreds of bits. The results are precise enough that rounding them to a float rounds the true values.
 */
import { type FiniteNumber, fraction, integerSquareRoot } from "./float_reference.ts";

/** The number of bits after the binary point. */
const pointBits = 480n;
const one = 1n << pointBits;

const times = (a: bigint, b: bigint, bits = pointBits): bigint => a * b >> bits;
const over = (a: bigint, b: bigint): bigint => (a << pointBits) / b;
const asNumber = (value: bigint): FiniteNumber => fraction(value, one);
const signed = ({ negative, numerator }: FiniteNumber): bigint => negative ? -numerator : numerator;
const fixed = (value: FiniteNumber, bits = pointBits): bigint => (signed(value) << bits) / value.denominator;
const lengthOf = (value: bigint): number => value === 0n ? 0 : value.toString(2).length;

/** Whether a number is so close to 0 that the first terms of a series are precise enough. */
function isTiny({ numerator, denominator }: FiniteNumber): boolean {
  return numerator << 100n < denominator;
}

/** Sums terms, each computed from the one before, until they vanish. */
function series(first: bigint, next: (term: bigint, index: bigint) => bigint): bigint {
  let sum = 0n;
  let term = first;
  for (let index = 1n; term !== 0n && term !== -1n; index++) {
    sum += term;
    term = next(term, index);
  }
  return sum;
}

/**
 * Sums the odd powers of a small number, each divided by its exponent: the hyperbolic arctangent, or with alternating
 * signs the arctangent.
 */
function oddPowers(x: bigint, sign: 1n | -1n, bits = pointBits): bigint {
  const square = sign * times(x, x, bits);
  let sum = 0n;
  let power = x;
  for (let odd = 1n; power !== 0n && power !== -1n; odd += 2n) {
    sum += power / odd;
    power = times(power, square, bits);
  }
  return sum;
}

const logarithmOf2 = 2n * oddPowers(one / 3n, 1n);

/** Returns pi by Machin's formula. */
function circleConstant(bits: bigint): bigint {
  const guarded = bits + 32n;
  const unit = 1n << guarded;
  const quarter = 4n * oddPowers(unit / 5n, -1n, guarded) - oddPowers(unit / 239n, -1n, guarded);
  return 4n * quarter >> 32n;
}

const pi = circleConstant(pointBits);

/** Returns the exponential of a fixed-point number, with full relative precision. */
function exponentialOf(x: bigint): FiniteNumber {
  const exponent = x / logarithmOf2;
  const rest = x - exponent * logarithmOf2;
  const mantissa = series(one, (term, index) => times(term, rest) / index);
  return exponent < 0n ? fraction(mantissa, one << -exponent) : fraction(mantissa << exponent, one);
}

function logarithmOf({ numerator, denominator }: FiniteNumber): bigint {
  let exponent = BigInt(lengthOf(numerator) - lengthOf(denominator));
  const scaled = () =>
    exponent < 0n ? over(numerator << -exponent, denominator) : over(numerator, denominator << exponent);
  // Scales the mantissa to between 2/3 and 4/3, so that no precision is lost if the logarithm is near 0.
  if (3n * scaled() > 4n * one) exponent++;
  if (3n * scaled() < 2n * one) exponent--;
  const mantissa = scaled();
  return exponent * logarithmOf2 + 2n * oddPowers(over(mantissa - one, mantissa + one), 1n);
}

/** Returns the first terms of a series for a tiny number: x + coefficient * x ** power. */
function firstTerms(x: FiniteNumber, coefficient: readonly [bigint, bigint], power: bigint): FiniteNumber {
  const [numerator, denominator] = coefficient;
  const value = signed(x);
  return fraction(
    value * x.denominator ** (power - 1n) * denominator + numerator * value ** power,
    denominator * x.denominator ** power,
  );
}

/** Returns e ** x. */
export function exponential(x: FiniteNumber): FiniteNumber {
  return exponentialOf(fixed(x));
}

/** Returns a base to a power. */
export function power(base: FiniteNumber, exponent: FiniteNumber): FiniteNumber {
  return exponentialOf(logarithmOf(base) * signed(exponent) / exponent.denominator);
}

/** Returns e ** x - 1. */
export function exponentialMinus1(x: FiniteNumber): FiniteNumber {
  if (isTiny(x)) return firstTerms(x, [1n, 2n], 2n);
  const { numerator, denominator } = exponential(x);
  return fraction(numerator - denominator, denominator);
}

/** Returns the natural logarithm of a positive number, or its logarithm to another base. */
export function logarithm(x: FiniteNumber, base?: FiniteNumber): FiniteNumber {
  const natural = logarithmOf(x);
  return asNumber(base === undefined ? natural : over(natural, logarithmOf(base)));
}

/** Returns the natural logarithm of 1 + x. */
export function logarithmOf1Plus(x: FiniteNumber): FiniteNumber {
  return isTiny(x) ? firstTerms(x, [-1n, 2n], 2n) : logarithm(fraction(signed(x) + x.denominator, x.denominator));
}

/** Returns the sine and the cosine of an angle of any magnitude. */
function sineAndCosine(x: FiniteNumber): { sine: FiniteNumber; cosine: FiniteNumber } {
  const more = BigInt(Math.max(0, lengthOf(x.numerator) - lengthOf(x.denominator))) + 8n;
  const angle = fixed(x, pointBits + more);
  const quarter = circleConstant(pointBits + more) >> 1n;
  const turns = (2n * angle + quarter) / (2n * quarter) - (2n * angle + quarter < 0n ? 1n : 0n);
  const rest = angle - turns * quarter >> more;
  const square = times(rest, rest);
  const alternating = (first: bigint, offset: bigint) =>
    series(first, (term, index) => -times(term, square) / ((2n * index + offset) * (2n * index - 1n + offset)));
  const sine = alternating(rest, 1n);
  const cosine = alternating(one, 0n);
  const quadrants = [[sine, cosine], [cosine, -sine], [-sine, -cosine], [-cosine, sine]];
  const [s, c] = quadrants[Number(BigInt.asUintN(2, turns))]!;
  return { sine: isTiny(x) ? firstTerms(x, [-1n, 6n], 3n) : asNumber(s!), cosine: asNumber(c!) };
}

export function sine(x: FiniteNumber): FiniteNumber {
  return sineAndCosine(x).sine;
}

export function cosine(x: FiniteNumber): FiniteNumber {
  return sineAndCosine(x).cosine;
}

export function tangent(x: FiniteNumber): FiniteNumber {
  if (isTiny(x)) return firstTerms(x, [1n, 3n], 3n);
  const { sine, cosine } = sineAndCosine(x);
  return quotient(signed(sine) * cosine.denominator, signed(cosine) * sine.denominator);
}

function quotient(numerator: bigint, denominator: bigint): FiniteNumber {
  return denominator < 0n ? fraction(-numerator, -denominator) : fraction(numerator, denominator);
}

export function arctangent(x: FiniteNumber): FiniteNumber {
  if (isTiny(x)) return firstTerms(x, [-1n, 3n], 3n);
  let tangentOfPart = fixed(x);
  const halvings = 10;
  for (let halving = 0; halving < halvings; halving++) {
    const hypotenuse = integerSquareRoot((one << pointBits) + tangentOfPart * tangentOfPart);
    tangentOfPart = over(tangentOfPart, one + hypotenuse);
  }
  return asNumber(oddPowers(tangentOfPart, -1n) << BigInt(halvings));
}

function halfOfExponentials(x: FiniteNumber, sign: 1n | -1n): FiniteNumber {
  const { numerator, denominator } = exponential(x);
  return fraction(numerator * numerator + sign * denominator * denominator, 2n * numerator * denominator);
}

export function hyperbolicSine(x: FiniteNumber): FiniteNumber {
  return isTiny(x) ? firstTerms(x, [1n, 6n], 3n) : halfOfExponentials(x, -1n);
}

export function hyperbolicCosine(x: FiniteNumber): FiniteNumber {
  return halfOfExponentials(x, 1n);
}

export function hyperbolicTangent(x: FiniteNumber): FiniteNumber {
  if (isTiny(x)) return firstTerms(x, [-1n, 3n], 3n);
  const { numerator, denominator } = exponential({ ...x, numerator: 2n * x.numerator });
  return fraction(numerator - denominator, numerator + denominator);
}

/** Returns the error function of a number up to about 10 in magnitude. */
export function errorFunction(x: FiniteNumber): FiniteNumber {
  const scale = over(2n * one, integerSquareRoot(pi << pointBits));
  // Computed relative to the magnitude of a tiny number.
  if (isTiny(x)) return fraction(signed(firstTerms(x, [-1n, 3n], 3n)) * scale, x.denominator ** 3n * 3n << pointBits);
  return asNumber(times(scale, errorSum(fixed(x))));
}

function errorSum(x: bigint): bigint {
  const square = times(x, x);
  let sum = 0n;
  let term = x;
  for (let index = 1n; term !== 0n && term !== -1n; index++) {
    sum += term / (2n * index - 1n);
    term = -times(term, square) / index;
  }
  return sum;
}

/** Returns 1 minus the error function. */
export function complementaryErrorFunction(x: FiniteNumber): FiniteNumber {
  const { numerator, denominator, negative } = errorFunction(x);
  return fraction(negative ? denominator + numerator : denominator - numerator, denominator);
}

export function cubeRoot(x: FiniteNumber): FiniteNumber {
  if (x.numerator === 0n) return x;
  const cube = x.numerator * x.denominator ** 2n << 3n * 200n;
  let root = 1n << BigInt(Math.ceil(lengthOf(cube) / 3));
  while (true) {
    const next = (2n * root + cube / (root * root)) / 3n;
    if (next >= root) break;
    root = next;
  }
  return { ...fraction(root, x.denominator << 200n), negative: x.negative };
}

/** Returns the length of a vector with two components. */
export function hypotenuse(x: FiniteNumber, y: FiniteNumber): FiniteNumber {
  const denominator = x.denominator * y.denominator;
  const square = (x.numerator * y.denominator) ** 2n + (y.numerator * x.denominator) ** 2n;
  return fraction(integerSquareRoot(square << 400n), denominator << 200n);
}

/** Returns 1 over the square root of a positive number. */
export function reciprocalSquareRoot({ numerator, denominator }: FiniteNumber): FiniteNumber {
  return fraction(denominator << 400n, integerSquareRoot(numerator * denominator << 800n));
}

/** Returns the gamma function of a number that is not an integer below 1. */
export function gamma(x: FiniteNumber): FiniteNumber {
  // Stirling's series is precise only far from 0. From there, the recurrence of the function goes back one factor at a
  // time.
  const far = 100n * x.denominator;
  let [numerator, shifted] = [1n, signed(x)];
  let denominator = 1n;
  while (shifted < far) {
    numerator *= x.denominator;
    denominator *= shifted;
    shifted += x.denominator;
  }
  const z = fixed(fraction(shifted, x.denominator));
  const logarithmOfZ = logarithmOf(fraction(shifted, x.denominator));
  const main = times(z - one / 2n, logarithmOfZ) - z + logarithmOf(fraction(2n * pi, one)) / 2n;
  const stirling = exponentialOf(main + stirlingSeries(z));
  return quotient(stirling.numerator * numerator, stirling.denominator * denominator);
}

function stirlingSeries(z: bigint): bigint {
  let sum = 0n;
  let power = over(one, z);
  const square = times(power, power);
  for (const [index, [numerator, denominator]] of evenBernoulliNumbers(40).entries()) {
    const k = BigInt(index + 1);
    sum += power * numerator / (denominator * 2n * k * (2n * k - 1n));
    power = times(power, square);
  }
  return sum;
}

/** Returns the Bernoulli numbers with even indices, from index 2 on, as fractions, by the tangent numbers. */
function evenBernoulliNumbers(count: number): [bigint, bigint][] {
  const tangents = [1n];
  for (let k = 1; k < count; k++) tangents.push(BigInt(k) * tangents[k - 1]!);
  for (let k = 1; k < count; k++) {
    for (let j = k; j < count; j++) {
      tangents[j] = BigInt(j - k) * tangents[j - 1]! + BigInt(j - k + 2) * tangents[j]!;
    }
  }
  return tangents.map((number, index) => {
    const n = BigInt(index + 1);
    const sign = index % 2 === 0 ? 1n : -1n;
    return [sign * 2n * n * number, 4n ** n * (4n ** n - 1n)];
  });
}
