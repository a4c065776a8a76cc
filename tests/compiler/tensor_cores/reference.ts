/**
 * What tensor cores compute, written as plainly as possible with exact integers. Shares nothing with the compiler.
 *
 * @module
 */

/** A format of numbers: the bits of the exponent and of the mantissa, and which bits are neither. */
export interface Format {
  readonly exponent: number;
  readonly mantissa: number;
  /** The low bits of an operand that are dropped. */
  readonly dropped?: number;
  /** Whether the largest magnitude is the only NaN, and there are no infinities. */
  readonly hasOneNaN?: boolean;
  /** Whether subnormal numbers have an exponent of their own, as if they were normal. */
  readonly normalizes?: boolean;
}

/** The name of a floating-point format of at most 32 bits. */
export type FormatName = "f16" | "bf16" | "tf32" | "f32" | "e4m3" | "e5m2";

/** The name of an integer format. */
export type IntegerName = "s8" | "u8" | "s4" | "u4" | "b1" | "s32";

/** The formats of floating-point operands and results. */
export const formats: Readonly<Record<FormatName, Format>> = {
  f16: { exponent: 5, mantissa: 10 },
  bf16: { exponent: 8, mantissa: 7 },
  tf32: { exponent: 8, mantissa: 10, dropped: 13 },
  f32: { exponent: 8, mantissa: 23 },
  e4m3: { exponent: 4, mantissa: 3, hasOneNaN: true, normalizes: true },
  e5m2: { exponent: 5, mantissa: 2 },
};

/** A number: `significand` * 2^(`exponent` - `places`), with the exponent that tensor cores take it to have. */
interface Exact {
  readonly kind: "number";
  readonly significand: bigint;
  readonly exponent: number;
  readonly places: number;
}

type Decoded = Exact | { readonly kind: "infinity"; readonly isNegative: boolean } | { readonly kind: "nan" };

/** Decodes the bits of a number. */
export function decode(bits: number, name: FormatName, mayNormalize = true): Decoded {
  const { exponent, mantissa, dropped = 0, hasOneNaN = false, normalizes = false } = formats[name];
  const kept = bits >>> dropped;
  const fraction = kept & (2 ** mantissa - 1);
  const field = (kept >>> mantissa) & (2 ** exponent - 1);
  const isNegative = (kept >>> (mantissa + exponent) & 1) === 1;
  if (hasOneNaN && field === 2 ** exponent - 1 && fraction === 2 ** mantissa - 1) return { kind: "nan" };
  if (!hasOneNaN && field === 2 ** exponent - 1) {
    return fraction === 0 ? { kind: "infinity", isNegative } : { kind: "nan" };
  }
  const bias = 2 ** (exponent - 1) - 1;
  let magnitude = BigInt(field === 0 ? fraction : fraction + 2 ** mantissa);
  let power = Math.max(field, 1) - bias;
  for (; normalizes && mayNormalize && magnitude !== 0n && magnitude < 1n << BigInt(mantissa); power--) magnitude *= 2n;
  return { kind: "number", significand: isNegative ? -magnitude : magnitude, exponent: power, places: mantissa };
}

const nan = { f32: 0x7fff_ffff, f16: 0x7fff } as const;

/** How a sum of products is computed. */
export interface BlockOptions {
  readonly a: FormatName;
  readonly b: FormatName;
  readonly c: "f16" | "f32";
  readonly d: "f16" | "f32";
  /** The bits that are kept below the largest exponent. Default: 25. */
  readonly fractionBits?: number;
  /** Whether subnormal numbers of e4m3 have exponents of their own. Default: true. */
  readonly normalizes?: boolean;
}

/** The bits of one element of D: of `c` plus the products of the elements of `a` and `b`. */
export function blockSum(
  as: readonly number[],
  bs: readonly number[],
  { c, a, b, fractionBits = 25, normalizes = true, ...formats }: Omit<BlockOptions, "c"> & {
    readonly c: number;
    readonly cFormat: "f16" | "f32";
  },
): number {
  const summands: Decoded[] = as.map((bits, index) =>
    product(decode(bits, a, normalizes), decode(bs[index]!, b, normalizes))
  );
  summands.push(decode(c, formats.cFormat));
  if (summands.some(({ kind }) => kind === "nan")) return nan[formats.d];
  const signs = new Set(summands.flatMap((summand) => summand.kind === "infinity" ? summand.isNegative : []));
  if (signs.size === 2) return nan[formats.d];
  if (signs.size === 1) return encodeInfinity(signs.has(true), formats.d);
  const numbers = summands.filter((summand) => summand.kind === "number" && summand.significand !== 0n) as Exact[];
  if (numbers.length === 0) return 0;
  const top = Math.max(...numbers.map(({ exponent }) => exponent));
  let sum = 0n;
  for (const { significand, exponent, places } of numbers) {
    const shift = exponent - places - (top - fractionBits);
    const magnitude = significand < 0n ? -significand : significand;
    const kept = shift >= 0 ? magnitude << BigInt(shift) : magnitude >> BigInt(-shift);
    sum += significand < 0n ? -kept : kept;
  }
  return encode(sum, top - fractionBits, formats.d);
}

function product(a: Decoded, b: Decoded): Decoded {
  if (a.kind === "nan" || b.kind === "nan") return { kind: "nan" };
  if (a.kind === "number" && b.kind === "number") {
    return {
      kind: "number",
      significand: a.significand * b.significand,
      exponent: a.exponent + b.exponent,
      places: a.places + b.places,
    };
  }
  const isNegative = (x: Decoded) => x.kind === "infinity" ? x.isNegative : x.kind === "number" && x.significand < 0n;
  if ([a, b].some((x) => x.kind === "number" && x.significand === 0n)) return { kind: "nan" };
  return { kind: "infinity", isNegative: isNegative(a) !== isNegative(b) };
}

function encodeInfinity(isNegative: boolean, name: "f16" | "f32"): number {
  const bits = name === "f16" ? 0x7c00 : 0x7f80_0000;
  return isNegative ? (bits | (name === "f16" ? 0x8000 : 0x8000_0000)) >>> 0 : bits;
}

/** Rounds `sum` * 2^`exponent`: toward zero to f32, to nearest even to f16. 0 is positive. */
function encode(sum: bigint, exponent: number, name: "f16" | "f32"): number {
  const rounding = name === "f16" ? "rn" : "rz";
  const bits = Number(round({ sum, exponent }, { ...formats[name], rounding, overflowsToInfinity: true }));
  return bits % 2 ** (name === "f16" ? 15 : 31) === 0 ? 0 : bits;
}

/** How a number is rounded to nearest even, toward zero, down or up. */
export type RoundingName = "rn" | "rz" | "rm" | "rp";

/** The bits of the number `sum` * 2^`exponent` in a format. */
function round(
  { sum, exponent }: { sum: bigint; exponent: number },
  { exponent: exponentBits, mantissa, rounding, overflowsToInfinity }: Format & {
    readonly rounding: RoundingName;
    /** Whether results above the largest number are infinite even if they are rounded toward zero. */
    readonly overflowsToInfinity: boolean;
  },
): bigint {
  const signBit = 1n << BigInt(exponentBits + mantissa);
  const isNegative = sum < 0n;
  const sign = isNegative ? signBit : 0n;
  if (sum === 0n) return 0n;
  const bias = 2 ** (exponentBits - 1) - 1;
  const magnitude = isNegative ? -sum : sum;
  const highest = magnitude.toString(2).length - 1 + exponent;
  const least = 1 - bias - mantissa;
  const unit = Math.max(highest - mantissa, least);
  const shift = BigInt(unit - exponent);
  let kept: bigint;
  if (shift <= 0n) {
    kept = magnitude << -shift;
  } else {
    kept = magnitude >> shift;
    const rest = magnitude & ((1n << shift) - 1n), half = 1n << (shift - 1n);
    const isUp = rounding === "rn"
      ? rest > half || (rest === half && (kept & 1n) === 1n)
      : rest !== 0n && rounding === (isNegative ? "rm" : "rp");
    if (isUp) kept += 1n;
  }
  // A carry out of the mantissa increases the exponent.
  const one = 1n << BigInt(mantissa);
  const bits = unit === least ? kept : kept - one + BigInt(unit + mantissa + bias) * one;
  const infinity = BigInt(2 ** exponentBits - 1) * one;
  if (bits < infinity) return sign | bits;
  const isInfinite = overflowsToInfinity || rounding === "rn" || rounding === (isNegative ? "rm" : "rp");
  return sign | (isInfinite ? infinity : infinity - 1n);
}

/** The bits of an integer sum: of `c` plus the products of the elements of `a` and `b`. */
export function integerSum(
  as: readonly number[],
  bs: readonly number[],
  { a, b, c, saturates, operation }: {
    readonly a: IntegerName;
    readonly b: IntegerName;
    readonly c: number;
    readonly saturates: boolean;
    readonly operation?: "xor" | "and" | undefined;
  },
): number {
  let sum = BigInt(c | 0);
  as.forEach((bits, index) => {
    const other = bs[index]!;
    if (operation !== undefined) sum += BigInt(operation === "xor" ? bits ^ other : bits & other);
    else sum += BigInt(integerOf(bits, a) * integerOf(other, b));
  });
  if (saturates) sum = sum > 2n ** 31n - 1n ? 2n ** 31n - 1n : sum < -(2n ** 31n) ? -(2n ** 31n) : sum;
  return Number(BigInt.asUintN(32, sum));
}

function integerOf(bits: number, name: IntegerName): number {
  const size = Number(name.slice(1));
  return name.startsWith("s") && bits >= 2 ** (size - 1) ? bits - 2 ** size : bits;
}

const double = { exponent: 11, mantissa: 52 };
const single = formats.f32;

/** A number of 32 or 64 bits, for chains of fused multiply-adds. */
type Wide = { readonly sum: bigint; readonly exponent: number; readonly isNegative: boolean } | "nan" | "+inf" | "-inf";

function decodeWide(bits: bigint, { exponent, mantissa }: Format): Wide {
  const fraction = bits & ((1n << BigInt(mantissa)) - 1n);
  const field = Number(bits >> BigInt(mantissa)) & (2 ** exponent - 1);
  const isNegative = (bits >> BigInt(exponent + mantissa) & 1n) === 1n;
  if (field === 2 ** exponent - 1) return fraction !== 0n ? "nan" : isNegative ? "-inf" : "+inf";
  const magnitude = field === 0 ? fraction : fraction + (1n << BigInt(mantissa));
  const bias = 2 ** (exponent - 1) - 1;
  return { sum: isNegative ? -magnitude : magnitude, exponent: Math.max(field, 1) - bias - mantissa, isNegative };
}

/** The bits of a * b + c, rounded once. `nan` returns the bits of a NaN result. */
function fusedMultiplyAdd(
  [a, b, c]: readonly [bigint, bigint, bigint],
  { format, rounding, nan }: { format: Format; rounding: RoundingName; nan: () => bigint },
): bigint {
  const [x, y, z] = [a, b, c].map((bits) => decodeWide(bits, format)) as [Wide, Wide, Wide];
  const sign = 1n << BigInt(format.exponent + format.mantissa);
  const infinity = BigInt(2 ** format.exponent - 1) << BigInt(format.mantissa);
  if (x === "nan" || y === "nan" || z === "nan") return nan();
  const isNegative = (value: Wide) => value === "-inf" || (typeof value === "object" && value.isNegative);
  const isZero = (value: Wide) => typeof value === "object" && value.sum === 0n;
  const productIsNegative = isNegative(x) !== isNegative(y);
  if (typeof x === "string" || typeof y === "string") {
    if (isZero(x) || isZero(y)) return nan();
    if (typeof z === "string" && isNegative(z) !== productIsNegative) return nan();
    return productIsNegative ? sign | infinity : infinity;
  }
  if (typeof z === "string") return isNegative(z) ? sign | infinity : infinity;
  const exponent = Math.min(x.exponent + y.exponent, z.exponent);
  const product = x.sum * y.sum << BigInt(x.exponent + y.exponent - exponent);
  const sum = product + (z.sum << BigInt(z.exponent - exponent));
  if (sum === 0n) {
    const isNegativeZero = product === 0n && z.sum === 0n && productIsNegative === isNegative(z)
      ? productIsNegative
      : rounding === "rm";
    return isNegativeZero ? sign : 0n;
  }
  return round({ sum, exponent }, { ...format, rounding, overflowsToInfinity: false });
}

/** The bits of one element of D in 64 bits: a chain of fused multiply-adds. */
export function doubleSum(
  as: readonly bigint[],
  bs: readonly bigint[],
  { c, rounding }: { readonly c: bigint; readonly rounding: RoundingName },
): bigint {
  return as.reduce((sum, a, index) => {
    const b = bs[index]!;
    const nan = () => {
      for (const bits of [b, sum, a]) if (decodeWide(bits, double) === "nan") return bits | 1n << 51n;
      return 0xfff8_0000_0000_0000n;
    };
    return fusedMultiplyAdd([a, b, sum], { format: double, rounding, nan });
  }, c);
}

/** The bits of a * b + c in 32 bits, to nearest even. */
function fused32(a: number, b: number, c: number): number {
  const operands = [BigInt(a), BigInt(b), BigInt(c)] as const;
  return Number(fusedMultiplyAdd(operands, { format: single, rounding: "rn", nan: () => 0x7fff_ffffn }));
}

const one32 = 0x3f80_0000;
const add32 = (a: number, b: number) => fused32(a, one32, b);

/** Converts the bits of an f16 to those of an f32. */
function widen(bits: number): number {
  const decoded = decode(bits, "f16");
  if (decoded.kind === "nan") return 0x7fff_ffff;
  if (decoded.kind === "infinity") return encodeInfinity(decoded.isNegative, "f32");
  if (decoded.significand === 0n) return bits === 0 ? 0 : 0x8000_0000;
  const { significand: sum, exponent, places } = decoded;
  return Number(round({ sum, exponent: exponent - places }, { ...single, rounding: "rz", overflowsToInfinity: false }));
}

/** Converts the bits of an f32 to those of an f16, to nearest even. */
function narrow(bits: number): number {
  const decoded = decode(bits, "f32");
  if (decoded.kind === "nan") return 0x7fff;
  if (decoded.kind === "infinity") return encodeInfinity(decoded.isNegative, "f16");
  const { significand: sum, exponent, places } = decoded;
  const sign = bits >= 2 ** 31 ? 0x8000 : 0;
  const rounded = round({ sum, exponent: exponent - places }, {
    ...formats.f16,
    rounding: "rn",
    overflowsToInfinity: false,
  });
  return Number(rounded) % 0x8000 + sign;
}

/** The bits of one element of D of `mma.m8n8k4` in f16, which GPUs since sm_80 compose. */
export function quadSum(
  as: readonly number[],
  bs: readonly number[],
  { c, cFormat, d }: { readonly c: number; readonly cFormat: "f16" | "f32"; readonly d: "f16" | "f32" },
): number {
  const [a, b] = [as.map(widen), bs.map(widen)] as const;
  const wideC = cFormat === "f16" ? widen(c) : c;
  const fused = (index: number, addend: number) => fused32(a[index]!, b[index]!, addend);
  if (d === "f32") return add32(fused(3, fused(2, fused(1, fused(0, 0)))), wideC);
  // A product of f16 is exact, and may be -0.
  const product = (index: number) => fused32(a[index]!, b[index]!, 0x8000_0000);
  return narrow(add32(add32(wideC, fused(1, product(0))), fused(3, product(2))));
}

/** The bits of one element of D of `wmma.mma` in f16 whose C and D have different formats: of a product in f32. */
export function mixedSum(
  as: readonly number[],
  bs: readonly number[],
  { c, d }: { readonly c: number; readonly d: "f16" | "f32" },
): number {
  const wide = d === "f32" ? widen(c) : c;
  const sum = blockSum(as, bs, { a: "f16", b: "f16", c: wide, cFormat: "f32", d: "f32" });
  return d === "f32" ? sum : narrow(sum);
}

/** The bits of one element of D of 8-bit floating-point elements, which GPUs of sm_90 compose of two blocks. */
export function splitSum(
  as: readonly number[],
  bs: readonly number[],
  { c, d, ...options }: {
    readonly c: number;
    readonly a: FormatName;
    readonly b: FormatName;
    readonly d: "f16" | "f32";
  },
): number {
  const part = (elements: readonly number[], half: number) => elements.filter((_, index) => index % 4 >> 1 === half);
  const sumOf = (half: number, addend: number) =>
    blockSum(part(as, half), part(bs, half), { ...options, c: addend, cFormat: d, d });
  const sum = sumOf(1, sumOf(0, 0));
  if (d === "f32") return add32(sum, c);
  return narrow(add32(widen(sum), widen(c)));
}
