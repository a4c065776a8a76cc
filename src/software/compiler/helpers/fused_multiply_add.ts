/**
 * Computes a * b + c in 64 bits with a single rounding, in any direction: for engines without a fused multiply-add, and
 * for the rounding directions that no engine supports. Addition and multiplication are special cases.
 *
 * @module
 */
import type { HelperBuilder, HelperIndex } from "./helper_function.ts";
import { roundingCodes } from "./rounding_helpers.ts";
import { CodeWriter } from "../webassembly/code_writer.ts";

const [a, b, c, rounding] = [0, 1, 2, 3] as const;

const integers = ["factor", "otherFactor", "high", "low", "otherHigh", "otherLow", "carry", "middle", "bits"] as const;
const numbers = ["exponent", "otherExponent", "negative", "otherNegative", "distance"] as const;
const floats = ["product", "rest", "sum", "sumRest", "total", "part", "otherPart"] as const;
type Name = typeof integers[number] | typeof numbers[number] | typeof floats[number];
const order: readonly Name[] = [...integers, ...numbers, ...floats];
const local = Object.fromEntries(order.map((name, index) => [name, 4 + index])) as Record<Name, number>;

/**
 * Builds the helper that computes a * b + c. The helper's parameters are a, b, c and a rounding mode, one of
 * `roundingCodes`. The bits of a NaN result are unspecified.
 */
export const fusedMultiplyAdd64: HelperBuilder = (indexOf) => {
  const code = new CodeWriter();
  returnSpecial(code);
  returnByFloats(code, indexOf);
  multiply(code);
  placeAddend(code);
  alignAndAdd(code);
  round(code);
  return {
    type: { parameters: ["f64", "f64", "f64", "i32"], results: ["f64"] },
    locals: [
      ...integers.map(() => "i64" as const),
      ...numbers.map(() => "i32" as const),
      ...floats.map(() => "f64" as const),
    ],
    code: code.finish(),
  };
};

/**
 * Emits code that computes the result and returns if an operand is not finite or a factor is zero. No rounding is
 * needed in these cases, but a zero may need its sign corrected.
 */
function returnSpecial(code: CodeWriter): void {
  const isFinite = (operand: number) => code.get(operand).ops("f64Abs").f64(Infinity).ops("f64Lt");
  isFinite(a);
  isFinite(b).ops("i32And", "i32Eqz").if().get(a).get(b).ops("f64Mul").get(c).ops("f64Add", "return").end();
  isFinite(c).ops("i32Eqz").if().get(c).ops("return").end();
  code.get(a).f64(0).ops("f64Eq").get(b).f64(0).ops("f64Eq", "i32Or").if();
  // When rounding toward negative infinity, the sum of zeros of opposite signs is -0. Negating both operands and the
  // result gives -0.
  code.get(a).get(b).ops("f64Mul", "f64Neg").get(c).ops("f64Sub", "f64Neg");
  code.get(a).get(b).ops("f64Mul").get(c).ops("f64Add");
  code.get(rounding).i32(roundingCodes.rm).ops("i32Eq", "select", "return").end();
}

/**
 * Emits code that computes the result and returns if the rounding mode is to nearest even and no intermediate result
 * can overflow or underflow. The code uses Dekker's exact product, two exact sums, and one sum rounded to odd (Boldo
 * and Melquiond, "Emulation of FMA and Correctly Rounded Sums: Proved Algorithms Using Rounding to Odd").
 */
function returnByFloats(code: CodeWriter, indexOf: HelperIndex): void {
  const { product, rest, sum, sumRest, total, part, otherPart } = local;
  const isBelow = (operand: number, limit: number) => code.get(operand).ops("f64Abs").f64(limit).ops("f64Lt");
  code.get(a).get(b).ops("f64Mul").set(product);
  code.get(rounding).ops("i32Eqz");
  for (const operand of [a, b, c, product]) isBelow(operand, 2 ** 900).ops("i32And");
  isBelow(product, 2 ** -900).ops("i32Eqz", "i32And").if();
  // Split off the upper 26 bits of each factor, so that the products of the parts are exact.
  for (const [operand, upper] of [[a, part], [b, otherPart]] as const) {
    code.get(operand).f64(2 ** 27 + 1).ops("f64Mul").tee(upper).get(upper).get(operand).ops("f64Sub", "f64Sub");
    code.set(upper);
  }
  const upper = [part, otherPart] as const;
  const lower = (index: 0 | 1) => code.get([a, b][index]!).get(upper[index]).ops("f64Sub");
  code.get(part).get(otherPart).ops("f64Mul").get(product).ops("f64Sub").get(part);
  lower(1).ops("f64Mul", "f64Add");
  lower(0).get(otherPart).ops("f64Mul", "f64Add");
  lower(0);
  lower(1).ops("f64Mul", "f64Add").set(rest);
  addExactly(code, { first: c, second: rest, sum, error: sumRest });
  addExactly(code, { first: product, second: sum, sum: total, error: rest });
  code.get(total).get(sumRest).get(rest).call(indexOf("addToOdd")).ops("f64Add", "return").end();
}

/**
 * Emits Knuth's two-sum, which sets `sum` to the rounded sum and `error` to the rounding error. The local `sum` must
 * not be one of the addends; `error` may be one.
 */
function addExactly(
  code: CodeWriter,
  { first, second, sum, error }: { first: number; second: number; sum: number; error: number },
): void {
  const back = local.part;
  code.get(first).get(second).ops("f64Add").tee(sum).get(first).ops("f64Sub").set(back);
  code.get(first).get(sum).get(back).ops("f64Sub", "f64Sub").get(second).get(back).ops("f64Sub", "f64Add").set(error);
}

/**
 * Emits code that splits the magnitude of a nonzero number into a 53-bit significand, whose highest bit is 1, and the
 * exponent of the significand's lowest bit.
 */
function split(code: CodeWriter, operand: number, { bits, exponent }: { bits: number; exponent: number }): void {
  const { carry } = local;
  code.get(operand).ops("f64Abs", "i64ReinterpretF64").tee(bits).i64(52n).ops("i64ShrU").tee(carry);
  code.ops("i64Eqz").if();
  code.i32(1).get(bits).ops("i64Clz").i64(11n).ops("i64Sub").tee(carry).ops("i32WrapI64", "i32Sub").set(exponent);
  code.get(bits).get(carry).ops("i64Shl").set(bits).else();
  code.get(carry).ops("i32WrapI64").set(exponent);
  code.get(bits).i64((1n << 52n) - 1n).ops("i64And").i64(1n << 52n).ops("i64Or").set(bits).end();
}

/** Emits code that pushes whether the sign bit of a number is set. */
function pushIsNegative(code: CodeWriter, operand: number): CodeWriter {
  return code.get(operand).ops("i64ReinterpretF64").i64(0n).ops("i64LtS");
}

/** Emits code that computes the exact product as a 128-bit number, whose highest set bit is bit 125 or 126. */
function multiply(code: CodeWriter): void {
  const { factor, otherFactor, high, low, carry, middle, exponent, otherExponent, negative } = local;
  split(code, a, { bits: factor, exponent });
  split(code, b, { bits: otherFactor, exponent: otherExponent });
  code.get(exponent).get(otherExponent).ops("i32Add").i32(2 * 1075 + 21).ops("i32Sub").set(exponent);
  pushIsNegative(code, a);
  pushIsNegative(code, b).ops("i32Xor").set(negative);
  code.get(factor).i64(10n).ops("i64Shl").set(factor).get(otherFactor).i64(11n).ops("i64Shl").set(otherFactor);
  const lowHalf = (of: number) => code.get(of).i64(0xffff_ffffn).ops("i64And");
  const highHalf = (of: number) => code.get(of).i64(32n).ops("i64ShrU");
  code.get(factor).get(otherFactor).ops("i64Mul").set(low);
  lowHalf(factor);
  lowHalf(otherFactor).ops("i64Mul").i64(32n).ops("i64ShrU");
  highHalf(factor);
  lowHalf(otherFactor).ops("i64Mul", "i64Add").set(carry);
  lowHalf(carry);
  lowHalf(factor);
  highHalf(otherFactor).ops("i64Mul", "i64Add").set(middle);
  highHalf(factor);
  highHalf(otherFactor).ops("i64Mul");
  highHalf(carry).ops("i64Add");
  highHalf(middle).ops("i64Add").set(high);
}

/** Emits code that converts the addend to a 128-bit number, whose highest set bit is bit 125. */
function placeAddend(code: CodeWriter): void {
  const { otherHigh, otherLow, exponent, otherExponent, otherNegative } = local;
  code.i64(0n).set(otherLow);
  pushIsNegative(code, c).set(otherNegative);
  code.get(c).f64(0).ops("f64Eq").if().i64(0n).set(otherHigh).get(exponent).set(otherExponent).else();
  split(code, c, { bits: otherHigh, exponent: otherExponent });
  code.get(otherHigh).i64(9n).ops("i64Shl").set(otherHigh);
  code.get(otherExponent).i32(1075 + 73).ops("i32Sub").set(otherExponent).end();
}

/** Emits code that pops a condition and, if it is not 0, swaps the two locals of each pair. */
function exchange(code: CodeWriter, pairs: readonly (readonly [number, number])[]): void {
  code.if();
  for (const [one, other] of pairs) code.get(one).get(other).set(one).set(other);
  code.end();
}

/**
 * Emits code that pushes whether a right shift of the local `of` by `distance`, a number from 1 to 64, would shift out
 * a set bit.
 */
function pushLost(code: CodeWriter, { of, distance }: { of: number; distance: () => CodeWriter }): CodeWriter {
  code.get(of).i64(64n);
  distance().ops("i64ExtendI32U", "i64Sub", "i64Shl").i64(0n);
  return code.ops("i64Ne", "i64ExtendI32U");
}

/**
 * Emits code that aligns the product and the addend, by shifting the one with the smaller exponent right, and adds
 * them. If set bits are shifted out, the lowest bit becomes 1.
 */
function alignAndAdd(code: CodeWriter): void {
  const { high, low, otherHigh, otherLow, exponent, otherExponent, negative, otherNegative, distance, carry } = local;
  code.get(exponent).get(otherExponent).ops("i32LtS");
  exchange(code, [[high, otherHigh], [low, otherLow], [exponent, otherExponent], [negative, otherNegative]]);
  code.get(exponent).get(otherExponent).ops("i32Sub").tee(distance).i32(64).ops("i32GeS").if();
  code.get(otherHigh).get(otherLow).i64(0n).ops("i64Ne", "i64ExtendI32U", "i64Or").set(otherLow);
  code.i64(0n).set(otherHigh);
  code.get(distance).i32(64).ops("i32Sub").set(distance).end();
  code.get(distance).i32(64).ops("i32GeS").if();
  code.get(otherLow).get(otherHigh).ops("i64Or").i64(0n).ops("i64Ne", "i64ExtendI32U").set(otherLow);
  code.else().get(distance).if();
  pushLost(code, { of: otherLow, distance: () => code.get(distance) });
  const amount = () => code.get(distance).ops("i64ExtendI32U");
  code.get(otherLow);
  amount().ops("i64ShrU", "i64Or").get(otherHigh).i64(64n);
  amount().ops("i64Sub", "i64Shl", "i64Or").set(otherLow).get(otherHigh);
  amount().ops("i64ShrU").set(otherHigh).end().end();
  code.get(negative).get(otherNegative).ops("i32Eq").if();
  code.get(low).get(otherLow).ops("i64Add").tee(carry).get(low).ops("i64LtU", "i64ExtendI32U");
  code.get(high).get(otherHigh).ops("i64Add", "i64Add").set(high).get(carry).set(low).else();
  code.get(high).get(otherHigh).ops("i64Sub").get(low).get(otherLow).ops("i64LtU", "i64ExtendI32U", "i64Sub").set(high);
  code.get(low).get(otherLow).ops("i64Sub").set(low);
  code.get(high).i64(0n).ops("i64LtS").if();
  code.get(negative).ops("i32Eqz").set(negative).i64(0n).get(low).ops("i64Sub").set(low);
  code.get(high).i64(-1n).ops("i64Xor").get(low).ops("i64Eqz", "i64ExtendI32U", "i64Add").set(high).end().end();
}

/** Emits code that returns the sum, rounded to 53 bits, or to fewer if the result is subnormal. */
function round(code: CodeWriter): void {
  const { high, low, exponent, negative, distance, bits, middle: rest } = local;
  const sign = () => code.get(negative).ops("i64ExtendI32U").i64(63n).ops("i64Shl");
  code.get(high).get(low).ops("i64Or", "i64Eqz").if();
  code.f64Bits(1n << 63n).f64(0).get(rounding).i32(roundingCodes.rm).ops("i32Eq", "select", "return").end();
  code.get(high).ops("i64Eqz").if();
  code.get(low).set(high).i64(0n).set(low).get(exponent).i32(64).ops("i32Sub").set(exponent).end();
  code.get(high).ops("i64Clz", "i32WrapI64").tee(distance).if();
  const amount = () => code.get(distance).ops("i64ExtendI32U");
  code.get(high);
  amount().ops("i64Shl").get(low).i64(64n);
  amount().ops("i64Sub", "i64ShrU", "i64Or").set(high).get(low);
  amount().ops("i64Shl").set(low).get(exponent).get(distance).ops("i32Sub").set(exponent).end();
  code.get(high).get(low).i64(0n).ops("i64Ne", "i64ExtendI32U", "i64Or").set(high);
  // From here on, the exponent is biased like the exponent field of the result.
  code.get(exponent).i32(127 + 1023).ops("i32Add").tee(exponent).i32(1).ops("i32LtS").if();
  code.i32(1).get(exponent).ops("i32Sub").set(distance).i32(1).set(exponent);
  code.get(distance).i32(64).ops("i32GeS").if("i64").i64(1n).else();
  pushLost(code, { of: high, distance: () => code.get(distance) }).get(high);
  amount().ops("i64ShrU", "i64Or").end().set(high).end();
  // A sum that overflows is rounded like a number just above the largest finite number.
  code.get(exponent).i32(2046).ops("i32GtS").if().i64(-1n).set(high).i32(2046).set(exponent).end();
  code.get(high).i64(0x7ffn).ops("i64And").set(rest);
  code.get(exponent).i32(1).ops("i32Sub", "i64ExtendI32U").i64(52n).ops("i64Shl");
  code.get(high).i64(11n).ops("i64ShrU", "i64Add").set(bits);
  sign().get(bits);
  code.get(rounding).ops("i32Eqz").if("i64");
  code.get(rest).get(bits).i64(1n).ops("i64And", "i64Add").i64(0x400n).ops("i64GtU", "i64ExtendI32U").else();
  code.get(rest).i64(0n).ops("i64Ne").get(rounding).i32(roundingCodes.rm).i32(roundingCodes.rp).get(negative);
  code.ops("select", "i32Eq").get(rounding).i32(roundingCodes.odd).ops("i32Eq");
  code.get(bits).ops("i32WrapI64").i32(-1).ops("i32Xor", "i32And", "i32Or", "i32And");
  code.i32(1).ops("i32And", "i64ExtendI32U").end().ops("i64Add", "i64Or", "f64ReinterpretI64");
}
