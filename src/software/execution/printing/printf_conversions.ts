/**
 * Formats values like C's `printf` in the "C" locale: the conversions of the C standard, section 7.23.6.1. Where the
 * standard leaves a choice, follows the GNU C library, which formats the output of kernels on Linux.
 *
 * @module
 */

/** A conversion specification of a `printf` format, such as `%-8d`. */
export interface Conversion {
  /** Any of `-`, `+`, space, `#` and `0`. */
  readonly flags: string;
  readonly width: number;
  readonly precision: number | undefined;
  /** The letter that specifies the conversion. */
  readonly type: string;
}

/** Formats an integer for the conversions `d`, `i`, `o`, `u`, `x` and `X`. */
export function convertInteger(value: bigint, conversion: Conversion): string {
  const { flags, precision, type } = conversion;
  const isSigned = type === "d" || type === "i";
  const digits = paddedDigits(value, conversion);
  const hasPrefix = type.toLowerCase() === "x" && flags.includes("#") && value !== 0n;
  const prefix = (isSigned ? signOf(value < 0n, flags) : "") + (hasPrefix ? "0x" : "");
  return padded(inCaseOf(type, prefix), inCaseOf(type, digits), { conversion, withZeros: precision === undefined });
}

/** Formats an address for the conversion `p`. */
export function convertPointer(value: bigint, conversion: Conversion): string {
  if (value === 0n) return convertText("(nil)", { ...conversion, precision: undefined });
  const digits = paddedDigits(value, { ...conversion, type: "x" });
  const withZeros = conversion.precision === undefined;
  return padded(`${signOf(false, conversion.flags)}0x`, digits, { conversion, withZeros });
}

/** Formats a string for the conversion `s`, or a single character for `c`. The precision is the maximum length. */
export function convertText(text: string, conversion: Conversion): string {
  return padded("", text.slice(0, conversion.precision), { conversion, withZeros: false });
}

/** Formats a null string pointer as `(null)`, or as an empty string if the precision is too small for that. */
export function convertNullText(conversion: Conversion): string {
  const text = "(null)";
  return convertText((conversion.precision ?? text.length) < text.length ? "" : text, conversion);
}

/** Formats a 64-bit floating-point number for the conversions `e`, `f`, `g`, `a`, and their upper-case forms. */
export function convertDouble(bits: bigint, conversion: Conversion): string {
  const { flags, type, precision } = conversion;
  const sign = signOf(bits >> 63n !== 0n, flags);
  const double = partsOf(bits);
  if (!double.isFinite) {
    return padded(sign, inCaseOf(type, double.fraction === 0n ? "inf" : "nan"), { conversion, withZeros: false });
  }
  const isAlternative = flags.includes("#");
  switch (type.toLowerCase()) {
    case "a": {
      const digits = hexadecimal(double, { precision, isAlternative });
      return padded(inCaseOf(type, `${sign}0x`), inCaseOf(type, digits), { conversion, withZeros: true });
    }
    case "e":
      return pad(exponential(decimalOf(double), { precision: precision ?? 6, isAlternative }).text);
    case "f":
      return pad(fixed(decimalOf(double), { precision: precision ?? 6, isAlternative }));
    default:
      return pad(general(decimalOf(double), { precision: precision ?? 6, isAlternative }));
  }

  function pad(digits: string): string {
    return padded(sign, inCaseOf(type, digits), { conversion, withZeros: true });
  }
}

function inCaseOf(type: string, text: string): string {
  return type >= "A" && type <= "Z" ? text.toUpperCase() : text;
}

function signOf(isNegative: boolean, flags: string): string {
  if (isNegative) return "-";
  if (flags.includes("+")) return "+";
  return flags.includes(" ") ? " " : "";
}

/** Returns the digits of an integer without the sign, padded with zeros to the precision. */
function paddedDigits(value: bigint, { flags, precision = 1, type }: Conversion): string {
  const radix = type === "o" ? 8 : type.toLowerCase() === "x" ? 16 : 10;
  const digits = value === 0n ? "" : (value < 0n ? -value : value).toString(radix);
  const all = digits.padStart(precision, "0");
  return type === "o" && flags.includes("#") && !all.startsWith("0") ? `0${all}` : all;
}

function padded(
  prefix: string,
  body: string,
  { conversion: { flags, width }, withZeros }: { conversion: Conversion; withZeros: boolean },
): string {
  if (flags.includes("-")) return (prefix + body).padEnd(width);
  if (withZeros && flags.includes("0")) return prefix + body.padStart(width - prefix.length, "0");
  return (prefix + body).padStart(width);
}

/** The absolute value of a 64-bit floating-point number: `significand * 2 ** (exponent - 52)`. */
interface Double {
  readonly isFinite: boolean;
  readonly fraction: bigint;
  readonly significand: bigint;
  readonly exponent: number;
}

function partsOf(bits: bigint): Double {
  const fraction = BigInt.asUintN(52, bits);
  const field = Number(BigInt.asUintN(11, bits >> 52n));
  const significand = field === 0 ? fraction : fraction | 1n << 52n;
  return { isFinite: field !== 0x7ff, fraction, significand, exponent: Math.max(field, 1) - 1023 };
}

/** A decimal number: `digits / 10 ** scale`. */
interface Decimal {
  readonly digits: bigint;
  readonly scale: number;
}

function decimalOf({ significand, exponent }: Double): Decimal {
  const power = exponent - 52;
  if (power >= 0) return { digits: significand << BigInt(power), scale: 0 };
  return { digits: significand * 5n ** BigInt(-power), scale: -power };
}

/** Divides two integers, rounding the quotient to the nearest integer, with ties to even. */
function quotient(dividend: bigint, divisor: bigint): bigint {
  const down = dividend / divisor;
  const twice = 2n * (dividend % divisor);
  return twice > divisor || twice === divisor && down % 2n === 1n ? down + 1n : down;
}

/** How to format the digits of a floating-point number. */
interface Digits {
  /** The number of digits to print after the decimal point. */
  readonly precision: number;
  /** Whether to print a decimal point even without digits after it. */
  readonly isAlternative: boolean;
}

function withPoint(whole: string, fraction: string, isAlternative: boolean): string {
  return fraction === "" && !isAlternative ? whole : `${whole}.${fraction}`;
}

function fixed({ digits, scale }: Decimal, { precision, isAlternative }: Digits): string {
  const kept = Math.min(precision, scale);
  const text = quotient(digits, 10n ** BigInt(scale - kept)).toString().padStart(kept + 1, "0");
  const point = text.length - kept;
  return withPoint(text.slice(0, point), text.slice(point).padEnd(precision, "0"), isAlternative);
}

function exponential(
  { digits, scale }: Decimal,
  { precision, isAlternative }: Digits,
): { text: string; exponent: number } {
  let text = digits.toString();
  let exponent = digits === 0n ? 0 : text.length - 1 - scale;
  const excess = text.length - 1 - precision;
  if (excess > 0) {
    text = quotient(digits, 10n ** BigInt(excess)).toString();
    // Rounding up may have added a digit.
    if (text.length > precision + 1) exponent++;
  }
  const fraction = text.slice(1, precision + 1).padEnd(precision, "0");
  const power = Math.abs(exponent).toString().padStart(2, "0");
  const mantissa = withPoint(text[0]!, fraction, isAlternative);
  return { text: `${mantissa}e${exponent < 0 ? "-" : "+"}${power}`, exponent };
}

function general(decimal: Decimal, { precision, isAlternative }: Digits): string {
  const significant = Math.max(precision, 1);
  const { text, exponent } = exponential(decimal, { precision: significant - 1, isAlternative });
  const isFixed = exponent >= -4 && exponent < significant;
  const full = isFixed ? fixed(decimal, { precision: significant - 1 - exponent, isAlternative }) : text;
  if (isAlternative || !full.includes(".")) return full;
  const [mantissa, power] = full.split("e");
  return withoutZeros(mantissa!).replace(/\.$/, "") + (power === undefined ? "" : `e${power}`);
}

function withoutZeros(fraction: string): string {
  let end = fraction.length;
  while (fraction[end - 1] === "0") end--;
  return fraction.slice(0, end);
}

function hexadecimal(
  { significand, exponent }: Double,
  { precision, isAlternative }: { precision: number | undefined; isAlternative: boolean },
): string {
  const kept = Math.min(precision ?? 13, 13);
  const digits = quotient(significand, 1n << BigInt(52 - 4 * kept)).toString(16).padStart(kept + 1, "0");
  const fraction = digits.slice(1);
  const shown = precision === undefined ? withoutZeros(fraction) : fraction.padEnd(precision, "0");
  const power = significand === 0n ? 0 : exponent;
  return `${withPoint(digits[0]!, shown, isAlternative)}p${power < 0 ? "-" : "+"}${Math.abs(power)}`;
}
