/**
 * Helper functions for the operations that PTX approximates, computed in 64 bits with a relative error of at most about
 * 2^-40. Rounded to 32 bits, the result is nearly always the nearest number. Only additions, multiplications and
 * divisions are used, so that all engines give the same results.
 *
 * @module
 */
import type { HelperBuilder, HelperFunction, HelperIndex } from "./helper_function.ts";
import { CodeWriter } from "../webassembly/code_writer.ts";

/** The names of the helpers for approximate functions. */
export type ApproximateHelper = "exponential2" | "logarithm2" | "sine" | "hyperbolicTangent";

/** Maps each name of an approximate helper to its builder. */
export const approximateHelpers: Readonly<Record<ApproximateHelper, HelperBuilder>> = {
  exponential2,
  logarithm2,
  sine,
  hyperbolicTangent,
};

/**
 * Emits code that pushes the value of a polynomial by Horner's rule. `coefficients` begins with the constant term;
 * `variable` is a local.
 */
function pushPolynomial(code: CodeWriter, coefficients: readonly number[], variable: number): CodeWriter {
  const [highest = 0, ...others] = coefficients.toReversed();
  code.f64(highest);
  for (const coefficient of others) code.get(variable).ops("f64Mul").f64(coefficient).ops("f64Add");
  return code;
}

/**
 * Returns the first coefficients of the power series of the exponential function of x times `factor`: 1, `factor`,
 * `factor`²/2!, and so on.
 */
function exponentialSeries(count: number, factor: number): number[] {
  const coefficients = [1];
  for (let index = 1; index < count; index++) coefficients.push(coefficients.at(-1)! * factor / index);
  return coefficients;
}

/**
 * Builds the helper that computes 2 to the power of a number, for all powers that are neither zero nor infinite as
 * 32-bit floats.
 */
function exponential2(): HelperFunction {
  const [number, integer, fraction] = [0, 1, 2] as const;
  const code = new CodeWriter();
  code.get(number).f64(-300).ops("f64Max").f64(300).ops("f64Min").tee(number).ops("f64Nearest").set(integer);
  code.get(number).get(integer).ops("f64Sub").set(fraction);
  pushPolynomial(code, exponentialSeries(13, Math.LN2), fraction);
  code.get(integer).ops("i64TruncSatF64S").i64(1023n).ops("i64Add").i64(52n).ops("i64Shl", "f64ReinterpretI64");
  code.ops("f64Mul");
  return { type: { parameters: ["f64"], results: ["f64"] }, locals: ["f64", "f64"], code: code.finish() };
}

/**
 * Builds the helper that computes the base-2 logarithm of a 64-bit number that is not subnormal: its exponent, plus
 * twice an inverse hyperbolic tangent.
 */
function logarithm2(): HelperFunction {
  const [number, bits, exponent, ratio, square] = [0, 1, 2, 3, 4] as const;
  const code = new CodeWriter();
  code.get(number).f64(0).ops("f64Gt", "i32Eqz").if();
  code.f64(-Infinity).f64(0).f64(0).ops("f64Div").get(number).f64(0).ops("f64Eq", "select", "return").end();
  code.get(number).f64(Infinity).ops("f64Eq").if().get(number).ops("return").end();
  // The fraction is scaled to the range from √½ to √2.
  code.get(number).ops("i64ReinterpretF64").i64(0x3fe6_a09e_667f_3bcdn).ops("i64Sub").tee(bits).i64(52n);
  code.ops("i64ShrS", "f64ConvertI64S").set(exponent);
  code.get(bits).i64((1n << 52n) - 1n).ops("i64And").i64(0x3fe6_a09e_667f_3bcdn).ops("i64Add", "f64ReinterpretI64");
  code.tee(number).f64(1).ops("f64Sub").get(number).f64(1).ops("f64Add", "f64Div").tee(ratio).get(ratio);
  code.ops("f64Mul").set(square).get(exponent).get(ratio);
  const series = Array.from({ length: 11 }, (_, index) => 2 / Math.LN2 / (2 * index + 1));
  pushPolynomial(code, series, square).ops("f64Mul", "f64Add");
  return {
    type: { parameters: ["f64"], results: ["f64"] },
    locals: ["i64", "f64", "f64", "f64"],
    code: code.finish(),
  };
}

/**
 * Half of pi as the sum of three parts. The first two have 33 significant bits, so that multiplying them by a whole
 * number of right angles is exact.
 */
const halfPi = [1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21] as const;

/**
 * Builds the helper that computes the sine of the sum of an angle and a number of right angles. With one right angle,
 * the result is the cosine.
 */
function sine(indexOf: HelperIndex): HelperFunction {
  const [number, quadrant, quarters, angle, square] = [0, 1, 2, 3, 4] as const;
  const code = new CodeWriter();
  code.get(number).ops("f64Abs").f64(2 ** 20).ops("f64Ge").if();
  code.get(number).call(indexOf("reduceAngle")).set(number).end();
  // Adding 0 turns -0 into +0. Without the addition, the reduction would change the sign of -0.
  code.get(number).f64(2 / Math.PI).ops("f64Mul", "f64Nearest").f64(0).ops("f64Add").set(quarters).get(number);
  for (const part of halfPi) code.get(quarters).f64(part).ops("f64Mul", "f64Sub");
  code.tee(angle).get(angle).ops("f64Mul").set(square);
  code.get(quarters).ops("i32TruncSatF64S").get(quadrant).ops("i32Add").tee(quadrant).i32(1).ops("i32And").if("f64");
  const series = exponentialSeries(17, 1).map((coefficient, index) => index & 2 ? -coefficient : coefficient);
  pushPolynomial(code, series.filter((_, index) => index % 2 === 0), square).else();
  pushPolynomial(code, series.filter((_, index) => index % 2 === 1), square).get(angle).ops("f64Mul").end();
  code.tee(angle).ops("f64Neg").get(angle).get(quadrant).i32(2).ops("i32And", "select");
  return {
    type: { parameters: ["f64", "i32"], results: ["f64"] },
    locals: ["f64", "f64", "f64"],
    code: code.finish(),
  };
}

/**
 * Builds the helper that computes the hyperbolic tangent: near zero by a power series, elsewhere by an exponential
 * function.
 */
function hyperbolicTangent(indexOf: HelperIndex): HelperFunction {
  const [number, magnitude] = [0, 1] as const;
  const code = new CodeWriter();
  code.get(number).ops("f64Abs").tee(magnitude).f64(2 ** -4).ops("f64Lt").if("f64");
  code.get(number).get(number).ops("f64Mul").set(magnitude);
  pushPolynomial(code, [1, -1 / 3, 2 / 15, -17 / 315, 62 / 2835, -1382 / 155925], magnitude);
  code.get(number).ops("f64Mul").else();
  code.f64(1).f64(2).get(magnitude).f64(40).ops("f64Min").f64(2 * Math.LOG2E).ops("f64Mul");
  code.call(indexOf("exponential2")).f64(1).ops("f64Add", "f64Div", "f64Sub").get(number).ops("f64Copysign").end();
  return { type: { parameters: ["f64"], results: ["f64"] }, locals: ["f64"], code: code.finish() };
}

/** The first 192 bits of the fraction of 2 / pi. */
const twoOverPi = 0xa2f9_836e_4e44_1529_fc27_57d1_f534_ddc0_db62_9599_3c43_9041n;

/**
 * Reduces a large angle to the range from -pi to pi. A number that is not finite gives NaN. The bits of 2 / pi that are
 * omitted do not affect the result for any 32-bit float.
 */
export function reduceAngle(number: number): number {
  if (!Number.isFinite(number)) return NaN;
  // 32-bit floats of 2^20 or more are multiples of one eighth.
  const rightAngles = BigInt.asIntN(3 + 194, BigInt(number * 8) * twoOverPi);
  return Number(rightAngles >> 131n) / 2 ** 64 * (Math.PI / 2);
}
