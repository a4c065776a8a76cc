/**
 * Numbers of 8 bits, `.e4m3` and `.e5m2`. PTX ISA, section 5.2.3.
 *
 * @module
 */

/** What `encodeEightBits` is told: which of the formats. */
export const eightBitFormats = { e4m3: 0, e5m2: 1 } as const;

const formats = [
  { fractionBits: 3, leastExponent: -6, largest: 448, nan: 0x7f },
  { fractionBits: 2, leastExponent: -14, largest: 57344, nan: 0x7f },
] as const;

/** The bits of the number nearest to another, even where two are; of the largest for what lies beyond that. */
export function encodeEightBits(number: number, format: number): number {
  const { fractionBits, leastExponent, largest, nan } = formats[format]!;
  if (Number.isNaN(number)) return nan;
  const sign = number < 0 || Object.is(number, -0) ? 0x80 : 0;
  const magnitude = Math.min(Math.abs(number), largest);
  let exponent = leastExponent;
  while (magnitude >= 2 ** (exponent + 1)) exponent++;
  const units = roundToEven(magnitude * 2 ** (fractionBits - exponent));
  // The exponent counts from the lowest bit: a fraction that is rounded up to one more carries into it by itself.
  return sign | (((exponent - leastExponent) << fractionBits) + units);
}

function roundToEven(number: number): number {
  const floor = Math.floor(number);
  const rest = number - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}
