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

/** The name of a format. */
export type FormatName = "f16" | "bf16" | "tf32" | "f32" | "e4m3" | "e5m2";

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
export function decode(bits: number, name: FormatName): Decoded {
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
  for (; normalizes && magnitude !== 0n && magnitude < 1n << BigInt(mantissa); power--) magnitude *= 2n;
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
}

/** The bits of one element of D: of `c` plus the products of the elements of `a` and `b`. */
export function blockSum(
  as: readonly number[],
  bs: readonly number[],
  { c, a, b, fractionBits = 25, ...formats }: Omit<BlockOptions, "c"> & {
    readonly c: number;
    readonly cFormat: "f16" | "f32";
  },
): number {
  const summands: Decoded[] = as.map((bits, index) => product(decode(bits, a), decode(bs[index]!, b)));
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

/** Rounds `sum` * 2^`exponent`: toward zero to f32, to nearest even to f16. */
function encode(sum: bigint, exponent: number, name: "f16" | "f32"): number {
  if (sum === 0n) return 0;
  const { exponent: exponentBits, mantissa } = formats[name];
  const bias = 2 ** (exponentBits - 1) - 1;
  const isNegative = sum < 0n;
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
    if (name === "f16" && (rest > half || (rest === half && (kept & 1n) === 1n))) kept += 1n;
  }
  if (kept === 0n) return 0;
  // A carry out of the mantissa increases the exponent.
  const bits = unit === least ? Number(kept) : Number(kept) - 2 ** mantissa + (unit + mantissa + bias) * 2 ** mantissa;
  const infinity = (2 ** exponentBits - 1) * 2 ** mantissa;
  if (bits >= infinity) return encodeInfinity(isNegative, name);
  return isNegative ? (bits + (name === "f16" ? 0x8000 : 0x8000_0000)) >>> 0 : bits;
}
