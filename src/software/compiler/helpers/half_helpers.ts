/**
 * Helper functions that convert between 16-bit or 8-bit floats and wider ones. A half is an `.f16`. A `.bf16` is the
 * upper 16 bits of a 32-bit float. 8-bit floats are `.e4m3` and `.e5m2` (PTX ISA, section 5.2.3).
 *
 * @module
 */
import type { HelperBuilder, HelperFunction, HelperIndex } from "./helper_function.ts";
import { roundingCodes } from "./rounding_helpers.ts";
import { CodeWriter } from "../webassembly/code_writer.ts";

/** The names of the conversion helpers. */
export type HalfHelper = "halfToSingle" | "doubleToHalf" | "doubleToHalfDirected" | "doubleToBrain";

/** Maps each name of a conversion helper to its builder. */
export const halfHelpers: Readonly<Record<HalfHelper, HelperBuilder>> = {
  halfToSingle,
  doubleToHalf,
  doubleToHalfDirected,
  doubleToBrain,
};

/**
 * Builds the helper that converts the bits of a half to a 32-bit float. A NaN keeps its sign and fraction, and is made
 * quiet.
 */
function halfToSingle(): HelperFunction {
  const [half, magnitude, sign] = [0, 1, 2] as const;
  const code = new CodeWriter();
  code.get(half).i32(0x7fff).ops("i32And").tee(magnitude);
  code.get(half).i32(0x8000).ops("i32And").i32(16).ops("i32Shl").set(sign);
  code.i32(0x7c00).ops("i32LtU").if("f32");
  // After the half's bits are moved to the fields of a 32-bit float, the exponent is too small by the difference of the
  // biases. The multiplication corrects the exponent, and also normalizes subnormal numbers.
  code.get(magnitude).i32(13).ops("i32Shl").get(sign).ops("i32Or", "f32ReinterpretI32");
  code.f32(2 ** 112).ops("f32Mul").else();
  code.get(magnitude).i32(13).ops("i32Shl").get(sign).ops("i32Or").i32(0x7f80_0000).ops("i32Or");
  code.i32(0x0040_0000).i32(0).get(magnitude).i32(0x7c00).ops("i32GtU", "select", "i32Or", "f32ReinterpretI32").end();
  return { type: { parameters: ["i32"], results: ["f32"] }, locals: ["i32", "i32"], code: code.finish() };
}

/**
 * Builds the helper that converts a 64-bit number to the bits of the nearest half; ties go to even. A NaN keeps its
 * sign and the upper bits of its fraction.
 */
function doubleToHalf(): HelperFunction {
  const [number, magnitude, bits, sign] = [0, 1, 2, 3] as const;
  const code = new CodeWriter();
  const highBits = (shift: bigint) => code.get(bits).i64(shift).ops("i64ShrU", "i32WrapI64");
  code.get(number).ops("f64Abs").tee(magnitude).ops("i64ReinterpretF64").set(bits);
  code.get(number).ops("i64ReinterpretF64").i64(48n).ops("i64ShrU", "i32WrapI64").i32(0x8000).ops("i32And").set(sign);
  code.get(magnitude).get(magnitude).ops("f64Ne").if();
  highBits(42n).i32(0x3ff).ops("i32And").i32(0x7e00).ops("i32Or").get(sign).ops("i32Or", "return").end();
  // 65520 is halfway between the largest finite half and the next power of two.
  code.get(magnitude).f64(65520).ops("f64Ge").if();
  code.i32(0x7c00).get(sign).ops("i32Or", "return").end();
  // Below 2^-14, halves are multiples of 2^-24. The lowest bit of the 64-bit float 2^28 also has the value 2^-24, so
  // adding 2^28 rounds to a multiple of 2^-24.
  code.get(magnitude).f64(2 ** -14).ops("f64Lt").if();
  code.get(magnitude).f64(2 ** 28).ops("f64Add", "i64ReinterpretF64", "i32WrapI64");
  code.get(sign).ops("i32Or", "return").end();
  // Round to nearest even: add half of the last kept bit's value if that bit is 1, and 1 less than half if the bit is
  // 0. A carry out of the fraction increments the exponent.
  code.get(bits).i64(0x1ff_ffff_ffffn).ops("i64Add").get(bits).i64(42n).ops("i64ShrU").i64(1n).ops("i64And", "i64Add");
  code.set(bits);
  highBits(42n).i32((1023 - 15) << 10).ops("i32Sub").get(sign).ops("i32Or");
  return { type: { parameters: ["f64"], results: ["i32"] }, locals: ["f64", "i64", "i32"], code: code.finish() };
}

/**
 * Builds the helper that converts a 64-bit number to the bits of a half in a given rounding mode, its second parameter.
 */
function doubleToHalfDirected(indexOf: HelperIndex): HelperFunction {
  const [exact, rounding, bits] = [0, 1, 2] as const;
  const code = new CodeWriter();
  code.get(exact).call(indexOf("doubleToHalf")).tee(bits).get(bits).call(indexOf("halfToSingle")).ops("f64PromoteF32");
  code.get(exact).get(rounding).call(indexOf("roundBits"));
  return { type: { parameters: ["f64", "i32"], results: ["i32"] }, locals: ["i32"], code: code.finish() };
}

/**
 * Builds the helper that converts a 64-bit number to the bits of a `.bf16` in a given rounding mode, its second
 * parameter. The number is first rounded to odd in 32 bits. A NaN gives 0x7fff.
 */
function doubleToBrain(indexOf: HelperIndex): HelperFunction {
  const [exact, rounding, single, bits] = [0, 1, 2, 3] as const;
  const code = new CodeWriter();
  const lowHalf = () => code.get(bits).i32(0xffff).ops("i32And");
  code.get(exact).get(exact).ops("f64Ne").if().i32(0x7fff).ops("return").end();
  code.get(exact).ops("f32DemoteF64").tee(single).ops("i32ReinterpretF32").get(single).ops("f64PromoteF32").get(exact);
  code.i32(roundingCodes.rz).call(indexOf("roundBits"));
  code.get(single).ops("f64PromoteF32").get(exact).ops("f64Ne", "i32Or").set(bits);
  code.get(bits).i32(16).ops("i32ShrU").get(rounding).ops("i32Eqz").if("i32");
  lowHalf().get(bits).i32(16).ops("i32ShrU").i32(1).ops("i32And", "i32Add").i32(0x8000).ops("i32GtU").else();
  lowHalf().i32(0).ops("i32Ne").get(rounding).i32(roundingCodes.rm).i32(roundingCodes.rp);
  code.get(bits).i32(0).ops("i32LtS", "select", "i32Eq", "i32And").end().ops("i32Add");
  return { type: { parameters: ["f64", "i32"], results: ["i32"] }, locals: ["f32", "i32"], code: code.finish() };
}

/** The codes of 8-bit formats, for the second argument of `encodeEightBits`. */
export const eightBitFormats = { e4m3: 0, e5m2: 1 } as const;

const formats = [
  { fractionBits: 3, leastExponent: -6, largest: 448, nan: 0x7f },
  { fractionBits: 2, leastExponent: -14, largest: 57344, nan: 0x7f },
] as const;

/**
 * Returns the bits of the 8-bit float nearest to a number; ties go to even. Numbers out of range give the largest
 * finite float.
 */
export function encodeEightBits(number: number, format: number): number {
  const { fractionBits, leastExponent, largest, nan } = formats[format]!;
  if (Number.isNaN(number)) return nan;
  const sign = number < 0 || Object.is(number, -0) ? 0x80 : 0;
  const magnitude = Math.min(Math.abs(number), largest);
  let exponent = leastExponent;
  while (magnitude >= 2 ** (exponent + 1)) exponent++;
  const units = roundToEven(magnitude * 2 ** (fractionBits - exponent));
  // The exponent field is relative to the minimum exponent. If rounding up overflows the fraction, it carries into the
  // exponent.
  return sign | (((exponent - leastExponent) << fractionBits) + units);
}

function roundToEven(number: number): number {
  const floor = Math.floor(number);
  const rest = number - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}
