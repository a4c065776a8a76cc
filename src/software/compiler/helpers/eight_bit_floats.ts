/**
 * 8-bit floats: `.e4m3` and `.e5m2`. PTX ISA, section 5.2.3.
 *
 * @module
 */

/** The formats, as the second argument of `encodeEightBits`. */
export const eightBitFormats = { e4m3: 0, e5m2: 1 } as const;

const formats = [
  { fractionBits: 3, leastExponent: -6, largest: 448, nan: 0x7f },
  { fractionBits: 2, leastExponent: -14, largest: 57344, nan: 0x7f },
] as const;

/** The bits of the 8-bit float nearest to a number; ties go to even. Numbers out of range give the largest float. */
export function encodeEightBits(number: number, format: number): number {
  const { fractionBits, leastExponent, largest, nan } = formats[format]!;
  if (Number.isNaN(number)) return nan;
  const sign = number < 0 || Object.is(number, -0) ? 0x80 : 0;
  const magnitude = Math.min(Math.abs(number), largest);
  let exponent = leastExponent;
  while (magnitude >= 2 ** (exponent + 1)) exponent++;
  const units = roundToEven(magnitude * 2 ** (fractionBits - exponent));
  // The exponent is counted from its least value. A fraction that is rounded up past its last bit carries into it.
  return sign | (((exponent - leastExponent) << fractionBits) + units);
}

function roundToEven(number: number): number {
  const floor = Math.floor(number);
  const rest = number - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}
