/**
 * The numbers and the bits of texels.
 *
 * @module
 */
import type { ChannelFormat } from "./texture_object.ts";

const words = new Uint32Array(1);
const floats = new Float32Array(words.buffer);

/** The NaN of the texture unit. */
export const textureNaN = 0x7fff_ffff;

const leastPower = -400;
let powers: Float64Array | undefined;

/** Returns a power of two, from a table: this takes a fraction of the time of `**`. */
export function powerOfTwo(exponent: number): number {
  powers ??= Float64Array.from({ length: 800 }, (_, index) => 2 ** (index + leastPower));
  return powers[exponent - leastPower]!;
}

/** Returns the bits of a number as a 32-bit float. */
export function bitsOfFloat(value: number): number {
  floats[0] = value;
  return words[0]!;
}

/** Returns the 32-bit float of bits. */
export function floatOfBits(bits: number): number {
  words[0] = bits;
  return floats[0]!;
}

/** Returns the number of a 16-bit float. */
export function valueOfHalf(half: number): number {
  const exponent = half >> 10 & 31, fraction = half & 0x3ff;
  const magnitude = exponent === 31
    ? fraction === 0 ? Infinity : NaN
    : exponent === 0
    ? fraction * 2 ** -24
    : (1024 + fraction) * 2 ** (exponent - 25);
  return (half & 0x8000) === 0 ? magnitude : -magnitude;
}

/** Returns the bits of the 32-bit float that equals a 16-bit float. A NaN keeps its sign and its payload. */
export function wordOfHalf(half: number): number {
  if ((half & 0x7c00) !== 0x7c00 || (half & 0x3ff) === 0) return bitsOfFloat(valueOfHalf(half));
  return ((half & 0x8000) << 16 | 0x7f80_0000 | (half & 0x3ff) << 13) >>> 0;
}

/** Returns the bits of the 16-bit float that is nearest to a 32-bit float, ties to even. A NaN becomes 0x7fff. */
export function nearestHalf(bits: number): number {
  const value = floatOfBits(bits);
  if (Number.isNaN(value)) return 0x7fff;
  const sign = bits >>> 16 & 0x8000, magnitude = Math.abs(value);
  if (magnitude >= 65520) return sign | 0x7c00;
  const unit = 2 ** (Math.max(exponentOf(magnitude), -14) - 10);
  const quotient = magnitude / unit, floor = Math.floor(quotient), rest = quotient - floor;
  const whole = rest > 0.5 || rest === 0.5 && floor % 2 === 1 ? floor + 1 : floor;
  return sign | halfOf(whole * unit);
}

/** Returns the bits of the 16-bit float next to a 32-bit float toward 0, at most 65504. */
export function truncatedHalf(bits: number): number {
  const sign = bits >>> 16 & 0x8000, magnitude = floatOfBits(bits & 0x7fff_ffff);
  if (Number.isNaN(magnitude)) return sign | 0x7c00 | (bits >> 13 & 0x3ff || 1);
  if (magnitude === Infinity) return sign | 0x7c00;
  if (magnitude >= 65504) return sign | 0x7bff;
  const unit = 2 ** (Math.max(exponentOf(magnitude), -14) - 10);
  return sign | halfOf(Math.floor(magnitude / unit) * unit);
}

/** Returns the bits of a number that a 16-bit float can be, and that is not negative. */
function halfOf(value: number): number {
  if (value < 2 ** -14) return value * 2 ** 24;
  const exponent = exponentOf(value);
  return (exponent + 15 << 10) + (value * 2 ** (10 - exponent) - 1024);
}

const double = new Float64Array(1);
const upperHalf = new Int32Array(double.buffer);

/** Returns the largest integer e with 2 ** e <= value, for a positive finite number that is not subnormal. */
export function exponentOf(value: number): number {
  double[0] = value;
  return (upperHalf[1]! >> 20 & 0x7ff) - 1023;
}

/** Rounds a sum to a count of bits of its mantissa, half away from 0. Units are not below `least`. */
export function roundedAway(
  value: number,
  { bits, least }: { readonly bits: number; readonly least: number },
): number {
  const magnitude = Math.abs(value);
  const unit = Math.max(powerOfTwo(exponentOf(magnitude) - bits + 1), least);
  const quotient = magnitude / unit, floor = Math.floor(quotient);
  const rounded = (quotient - floor >= 0.5 ? floor + 1 : floor) * unit;
  return value < 0 ? -rounded : rounded;
}

/** The largest value of a normalized integer of each format. */
export const greatestIntegers: Partial<Readonly<Record<ChannelFormat, number>>> = {
  u8: 255,
  u16: 65535,
  s8: 127,
  s16: 32767,
};

/** Returns the numbers that the codes 0 to 255 of sRGB stand for, as the texture unit has them. */
export const srgbValues: () => Float64Array = (() => {
  let values: Float64Array | undefined;
  return () =>
    values ??= Float64Array.from({ length: 256 }, (_, code) => {
      const unit = srgbUnit(code);
      return Math.round(srgbCurve(code) / unit) * unit;
    });
})();

/** Returns E of a code of sRGB: all numbers of eight neighbouring codes are below 2 ** E. */
export function srgbExponent(code: number): number {
  return exponentOf(srgbCurve(code | 7)) + 1;
}

function srgbUnit(code: number): number {
  return Math.max(2 ** (srgbExponent(code) - 8), 2 ** -14);
}

function srgbCurve(code: number): number {
  const value = code / 255;
  return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
}

/** Returns the code of sRGB that is nearest to a number from 0 to 1. */
export function srgbCode(value: number): number {
  const encoded = value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055;
  return Math.min(255, Math.max(0, Math.round(255 * encoded)));
}
