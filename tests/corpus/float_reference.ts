/**
 * Floating-point arithmetic with exact rational numbers and a single rounding, as IEEE 754 defines it: for any format
 * of up to 64 bits, in four directions, with subnormals and overflow. Floats are passed and returned as their bits.
 */

/** The bits of a format. The sign lies above the exponent. */
export interface FloatFormat {
  readonly exponentBits: number;
  readonly fractionBits: number;
}

export const half: FloatFormat = { exponentBits: 5, fractionBits: 10 };
export const bfloat16: FloatFormat = { exponentBits: 8, fractionBits: 7 };
export const single: FloatFormat = { exponentBits: 8, fractionBits: 23 };
export const double: FloatFormat = { exponentBits: 11, fractionBits: 52 };

/** To nearest even, toward zero, toward minus infinity and toward plus infinity, under PTX's names. */
export type Rounding = "rn" | "rz" | "rm" | "rp";

export const roundings: readonly Rounding[] = ["rn", "rz", "rm", "rp"];

/** A finite number: a fraction of non-negative integers and a sign, which zero has too. */
export interface FiniteNumber {
  readonly kind: "finite";
  readonly negative: boolean;
  readonly numerator: bigint;
  readonly denominator: bigint;
}

/** The value of a float. */
export type FloatValue = FiniteNumber | { readonly kind: "infinite"; readonly negative: boolean } | {
  readonly kind: "nan";
};

const nan: FloatValue = { kind: "nan" };

/** Returns a fraction. Zero is positive. The denominator must be positive. */
export function fraction(numerator: bigint, denominator: bigint): FiniteNumber {
  const negative = numerator < 0n;
  return { kind: "finite", negative, numerator: negative ? -numerator : numerator, denominator };
}

function signedNumerator({ negative, numerator }: FiniteNumber): bigint {
  return negative ? -numerator : numerator;
}

function signBit({ exponentBits, fractionBits }: FloatFormat): bigint {
  return 1n << BigInt(exponentBits + fractionBits);
}

function infinity({ exponentBits, fractionBits }: FloatFormat): bigint {
  return (1n << BigInt(exponentBits)) - 1n << BigInt(fractionBits);
}

/** Returns the exponent of the smallest normal number. */
function smallestExponent({ exponentBits }: FloatFormat): number {
  return 2 - 2 ** (exponentBits - 1);
}

/** Returns the NaN that NVIDIA's arithmetic returns in formats of up to 32 bits: all bits except the sign are set. */
export function canonicalNaN(format: FloatFormat): bigint {
  return signBit(format) - 1n;
}

export function isNaNBits(format: FloatFormat, bits: bigint): boolean {
  return (bits & signBit(format) - 1n) > infinity(format);
}

/** Returns the value of a float. */
export function decode(format: FloatFormat, bits: bigint): FloatValue {
  const negative = (bits & signBit(format)) !== 0n;
  const magnitude = bits & signBit(format) - 1n;
  if (magnitude > infinity(format)) return nan;
  if (magnitude === infinity(format)) return { kind: "infinite", negative };
  const fractionBits = BigInt(format.fractionBits);
  const stored = magnitude >> fractionBits;
  const integer = magnitude & (1n << fractionBits) - 1n | (stored === 0n ? 0n : 1n << fractionBits);
  const exponent = Math.max(Number(stored), 1) - 1 + smallestExponent(format) - format.fractionBits;
  return exponent < 0
    ? { kind: "finite", negative, numerator: integer, denominator: 1n << BigInt(-exponent) }
    : { kind: "finite", negative, numerator: integer << BigInt(exponent), denominator: 1n };
}

const bitLength = (value: bigint): number => value.toString(2).length;

/** Returns the largest integer `e` such that 2 ** `e` is at most a positive number. */
function exponentOf({ numerator, denominator }: FiniteNumber): number {
  const estimate = bitLength(numerator) - bitLength(denominator);
  const isLess = estimate >= 0
    ? numerator < denominator << BigInt(estimate)
    : numerator << BigInt(-estimate) < denominator;
  return isLess ? estimate - 1 : estimate;
}

/** Returns the magnitude of a number that is rounded to an integer. */
function roundedQuotient(
  { negative, numerator, denominator }: FiniteNumber,
  rounding: Rounding,
): bigint {
  const quotient = numerator / denominator;
  const remainder = numerator % denominator;
  if (remainder === 0n || rounding === "rz") return quotient;
  if (rounding !== "rn") return (rounding === "rm") === negative ? quotient + 1n : quotient;
  const twice = 2n * remainder;
  return twice > denominator || (twice === denominator && quotient % 2n === 1n) ? quotient + 1n : quotient;
}

/** Rounds a number of any magnitude to an integer. */
export function roundToInteger(value: FiniteNumber, rounding: Rounding): bigint {
  const magnitude = roundedQuotient(value, rounding);
  return value.negative ? -magnitude : magnitude;
}

/** Returns the largest integer whose square is at most `value`. */
export function integerSquareRoot(value: bigint): bigint {
  if (value < 2n) return value;
  let root = 1n << BigInt((bitLength(value) + 1) >> 1);
  while (true) {
    const next = (root + value / root) >> 1n;
    if (next >= root) return root;
    root = next;
  }
}

/** Arithmetic in one format and one rounding direction. Every NaN result is {@linkcode canonicalNaN}. */
export class FloatArithmetic {
  readonly format: FloatFormat;
  readonly rounding: Rounding;
  readonly #flushes: boolean;

  /**
   * @param options.flushes `.ftz`: whether results become zero that would be subnormal with an unlimited exponent
   * range, as on an H200.
   */
  constructor(format: FloatFormat, rounding: Rounding = "rn", { flushes = false }: { flushes?: boolean } = {}) {
    this.format = format;
    this.rounding = rounding;
    this.#flushes = flushes;
  }

  /** Rounds a value of another format or of exact arithmetic. */
  round(value: FloatValue): bigint {
    const { format, rounding } = this;
    if (value.kind === "nan") return canonicalNaN(format);
    const sign = value.negative ? signBit(format) : 0n;
    if (value.kind === "infinite") return sign | infinity(format);
    const { negative, numerator, denominator } = value;
    if (numerator === 0n) return sign;
    const exponent = this.#flushes ? exponentOf(value) : Math.max(exponentOf(value), smallestExponent(format));
    const shift = format.fractionBits - exponent;
    const scaled = shift >= 0
      ? { ...value, numerator: numerator << BigInt(shift) }
      : { ...value, denominator: denominator << BigInt(-shift) };
    // A subnormal number stores exponent 0. The highest bit of a normal number adds 1 to the exponent.
    const magnitude = roundedQuotient(scaled, rounding) +
      (BigInt(exponent - smallestExponent(format)) << BigInt(format.fractionBits));
    if (this.#flushes && magnitude < 1n << BigInt(format.fractionBits)) return sign;
    if (magnitude < infinity(format)) return sign | magnitude;
    const isTowardZero = rounding === "rz" || (rounding === "rm" && !negative) || (rounding === "rp" && negative);
    return sign | (isTowardZero ? infinity(format) - 1n : infinity(format));
  }

  convertFrom(format: FloatFormat, bits: bigint): bigint {
    return this.round(decode(format, bits));
  }

  /** Rounds an integer. */
  fromInteger(value: bigint): bigint {
    return this.round(fraction(value, 1n));
  }

  add(a: bigint, b: bigint): bigint {
    return this.round(this.#sum(decode(this.format, a), decode(this.format, b)));
  }

  subtract(a: bigint, b: bigint): bigint {
    return this.add(a, b ^ signBit(this.format));
  }

  multiply(a: bigint, b: bigint): bigint {
    return this.round(product(decode(this.format, a), decode(this.format, b)));
  }

  fusedMultiplyAdd(a: bigint, b: bigint, c: bigint): bigint {
    const { format } = this;
    return this.round(this.#sum(product(decode(format, a), decode(format, b)), decode(format, c)));
  }

  divide(a: bigint, b: bigint): bigint {
    const dividend = decode(this.format, a);
    const divisor = decode(this.format, b);
    if (dividend.kind === "nan" || divisor.kind === "nan") return this.round(nan);
    const negative = dividend.negative !== divisor.negative;
    if (dividend.kind === "infinite") {
      return this.round(divisor.kind === "infinite" ? nan : { kind: "infinite", negative });
    }
    if (divisor.kind === "infinite") return this.round({ ...dividend, negative, numerator: 0n });
    if (divisor.numerator === 0n) {
      return this.round(dividend.numerator === 0n ? nan : { kind: "infinite", negative });
    }
    return this.round({
      kind: "finite",
      negative,
      numerator: dividend.numerator * divisor.denominator,
      denominator: dividend.denominator * divisor.numerator,
    });
  }

  reciprocal(a: bigint): bigint {
    return this.divide(this.fromInteger(1n), a);
  }

  squareRoot(a: bigint): bigint {
    const value = decode(this.format, a);
    if (value.kind === "nan" || (value.kind === "finite" && value.numerator === 0n)) return this.round(value);
    if (value.negative) return this.round(nan);
    if (value.kind === "infinite") return this.round(value);
    // Many more bits than any format has, and a sticky bit for the rest.
    const precision = 128n;
    const square = value.numerator * value.denominator << 2n * precision;
    const root = integerSquareRoot(square);
    const sticky = root * root === square ? 0n : 1n;
    return this.round(fraction(2n * root + sticky, value.denominator << precision + 1n));
  }

  #sum(a: FloatValue, b: FloatValue): FloatValue {
    if (a.kind === "nan" || b.kind === "nan") return nan;
    if (a.kind === "infinite") return b.kind === "infinite" && a.negative !== b.negative ? nan : a;
    if (b.kind === "infinite") return b;
    const sum = fraction(
      signedNumerator(a) * b.denominator + signedNumerator(b) * a.denominator,
      a.denominator * b.denominator,
    );
    if (sum.numerator !== 0n) return sum;
    return { ...sum, negative: a.negative === b.negative ? a.negative : this.rounding === "rm" };
  }
}

function product(a: FloatValue, b: FloatValue): FloatValue {
  if (a.kind === "nan" || b.kind === "nan") return nan;
  const negative = a.negative !== b.negative;
  if (a.kind === "finite" && b.kind === "finite") {
    return {
      kind: "finite",
      negative,
      numerator: a.numerator * b.numerator,
      denominator: a.denominator * b.denominator,
    };
  }
  const isZero = (value: FloatValue) => value.kind === "finite" && value.numerator === 0n;
  return isZero(a) || isZero(b) ? nan : { kind: "infinite", negative };
}

/** Returns zero with the same sign for a subnormal number, as `.ftz` does for 32-bit operands and results. */
export function flushed(format: FloatFormat, bits: bigint): bigint {
  return (bits & infinity(format)) === 0n ? bits & signBit(format) : bits;
}

/** Clamps a result to the range from 0 to 1, with +0 for a NaN, as `.sat` does. */
export function saturated(format: FloatFormat, bits: bigint): bigint {
  const value = decode(format, bits);
  if (value.kind === "nan" || value.negative) return 0n;
  const one = new FloatArithmetic(format).fromInteger(1n);
  return bits > one ? one : bits;
}

/**
 * Returns a number less than, equal to or greater than 0, as `a` is less than, equal to or greater than `b`; or
 * undefined if either is a NaN.
 */
export function compareFloats(format: FloatFormat, [a, b]: readonly [bigint, bigint]): number | undefined {
  if (isNaNBits(format, a) || isNaNBits(format, b)) return undefined;
  const ordered = (bits: bigint) => bits >= signBit(format) ? signBit(format) - bits : bits;
  const difference = ordered(a) - ordered(b);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

/**
 * Converts a float to an integer as `cvt` does on an H200: clamps to the range of the integer. A NaN becomes 0, or the
 * highest bit alone if the integer or the float has 64 bits.
 */
export function convertToInteger(
  format: FloatFormat,
  bits: bigint,
  { rounding, width, signed }: { rounding: Rounding; width: number; signed: boolean },
): bigint {
  const value = decode(format, bits);
  const highest = 1n << BigInt(width - 1);
  if (value.kind === "nan") return width === 64 || format === double ? highest : 0n;
  const minimum = signed ? -highest : 0n;
  const maximum = signed ? highest - 1n : 2n * highest - 1n;
  const integer = value.kind === "finite" ? roundToInteger(value, rounding) : value.negative ? minimum : maximum;
  return BigInt.asUintN(width, integer < minimum ? minimum : integer > maximum ? maximum : integer);
}

const view = new DataView(new ArrayBuffer(8));

/** Returns the bits of a JavaScript number. */
export function doubleBits(value: number): bigint {
  view.setFloat64(0, value);
  return view.getBigUint64(0);
}

/** Returns the number that bits of any of the formats represent. */
export function numberOf(format: FloatFormat, bits: bigint): number {
  if (isNaNBits(format, bits)) return NaN;
  view.setBigUint64(0, new FloatArithmetic(double).convertFrom(format, bits));
  return view.getFloat64(0);
}

/** Returns the distance from a finite number to the next number of a format, away from zero. */
export function unitInTheLastPlace({ fractionBits, exponentBits }: FloatFormat, value: number): number {
  if (!Number.isFinite(value)) return 0;
  const smallest = smallestExponent({ fractionBits, exponentBits });
  const stored = Number(doubleBits(value) >> 52n & 0x7ffn);
  return 2 ** (Math.max(stored - 1023, smallest) - fractionBits);
}
