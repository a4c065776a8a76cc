/** Floats of at most 16 bits, by doubles: every number of such a format is a double. */

/** A format of floats: its bits, and its largest number. */
export interface Format {
  readonly exponentBits: number;
  readonly fractionBits: number;
  readonly largest: number;
}

/** Rounds to the nearest number of a format with an unlimited exponent, ties to even, or toward zero. */
export function rounded(value: number, { exponentBits, fractionBits }: Format, towardZero = false): number {
  const smallest = 2 - 2 ** (exponentBits - 1);
  const unit = 2 ** (Math.max(value === 0 ? smallest : exponentOf(value), smallest) - fractionBits);
  const [units, sign] = [Math.abs(value) / unit, Object.is(value, -0) || value < 0 ? -1 : 1];
  const low = Math.floor(units);
  const isUp = !towardZero && (units - low > 0.5 || (units - low === 0.5 && low % 2 === 1));
  return sign * (isUp ? low + 1 : low) * unit;
}

function exponentOf(value: number): number {
  const exponent = Math.floor(Math.log2(Math.abs(value)));
  return Math.abs(value) < 2 ** exponent
    ? exponent - 1
    : Math.abs(value) >= 2 ** (exponent + 1)
    ? exponent + 1
    : exponent;
}

/** The bits of a number that the format has, or of infinity. */
export function bitsOf(value: number, { exponentBits, fractionBits }: Format): number {
  const sign = Object.is(value, -0) || value < 0 ? 1 << exponentBits + fractionBits : 0;
  const magnitude = Math.abs(value);
  if (magnitude === Infinity) return sign | (1 << exponentBits) - 1 << fractionBits;
  const smallest = 2 - 2 ** (exponentBits - 1);
  if (magnitude < 2 ** smallest) return sign | magnitude / 2 ** (smallest - fractionBits);
  const exponent = exponentOf(magnitude);
  return sign + (exponent - smallest + 1 << fractionBits) +
    (magnitude / 2 ** (exponent - fractionBits) - 2 ** fractionBits);
}
