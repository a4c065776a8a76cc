/**
 * Helper functions for rounding modes that WebAssembly lacks: its arithmetic only rounds to nearest even.
 *
 * A result that is to be rounded to 32 or 16 bits is first computed in 64 bits, exactly or rounded to odd. Rounding to
 * odd replaces an inexact result with the neighbor whose last bit is 1. Rounding that neighbor again to fewer bits, in
 * any direction, gives the same as rounding the exact result.
 *
 * @module
 */
import type { HelperBuilder, HelperFunction, HelperIndex } from "./helper_function.ts";
import { CodeWriter } from "../webassembly/code_writer.ts";

/** The names of the rounding helpers. */
export type RoundingHelper = "addToOdd" | "roundBits" | "doubleToSingle" | "correct64" | "divide64" | "squareRoot64";

/** Maps each name of a rounding helper to its builder. */
export const roundingHelpers: Readonly<Record<RoundingHelper, HelperBuilder>> = {
  addToOdd,
  roundBits,
  doubleToSingle,
  correct64,
  divide64,
  squareRoot64,
};

/** The codes of rounding modes. Only the 64-bit functions support `odd`. */
export const roundingCodes = { rn: 0, rz: 1, rm: 2, rp: 3, odd: 4 } as const;

/** The name of a rounding mode of PTX. */
export type Rounding = Exclude<keyof typeof roundingCodes, "odd">;

/**
 * Builds the helper that computes a + b, rounded to odd. Knuth's two-sum computes the error of the rounded sum. If the
 * error is not zero, the result is whichever of the sum and its neighbor in the direction of the error has an odd last
 * bit.
 */
function addToOdd(): HelperFunction {
  const [a, b, sum, back, error, bits] = [0, 1, 2, 3, 4, 5] as const;
  const code = new CodeWriter();
  code.get(a).get(b).ops("f64Add").tee(sum).get(a).ops("f64Sub").set(back);
  code.get(a).get(sum).get(back).ops("f64Sub", "f64Sub").get(b).get(back).ops("f64Sub", "f64Add").set(error);
  code.get(sum).ops("i64ReinterpretF64").set(bits);
  // If the sum is not finite, the error is NaN, and both comparisons are false.
  code.get(error).f64(0).ops("f64Lt").get(error).f64(0).ops("f64Gt", "i32Or");
  code.get(bits).i64(1n).ops("i64And", "i64Eqz", "i32And").if();
  // If the error and the sum have the same sign, the exact sum is farther from zero than the rounded sum, and the bit
  // pattern of the next number in that direction is greater by one.
  code.get(bits).i64(1n).i64(-1n).get(error).f64(0).ops("f64Lt").get(sum).f64(0).ops("f64Lt", "i32Eq", "select");
  code.ops("i64Add", "f64ReinterpretI64", "return").end().get(sum);
  return {
    type: { parameters: ["f64", "f64"], results: ["f64"] },
    locals: ["f64", "f64", "f64", "i64"],
    code: code.finish(),
  };
}

/** Emits code that pushes whether a rounding mode rounds a number away from zero. */
function pushIsAway(code: CodeWriter, { negative, rounding }: { negative: () => void; rounding: number }): void {
  code.get(rounding).i32(roundingCodes.rm).i32(roundingCodes.rp);
  negative();
  code.ops("select", "i32Eq");
}

/**
 * Builds the helper that corrects the rounding of a number. The helper's parameters are the bits of a number rounded to
 * nearest, the rounded number itself, the exact number, and a rounding mode. The helper returns the bits of the exact
 * number rounded in that mode. The bits consist of a sign and a magnitude; the next representable number has a
 * magnitude greater by one.
 */
function roundBits(): HelperFunction {
  const [bits, rounded, exact, rounding] = [0, 1, 2, 3] as const;
  const code = new CodeWriter();
  const compare = (operation: "f64Lt" | "f64Gt") => code.get(rounded).ops("f64Abs").get(exact).ops("f64Abs", operation);
  code.get(rounding).ops("i32Eqz").if().get(bits).ops("return").end();
  pushIsAway(code, { negative: () => code.get(exact).f64(0).ops("f64Lt"), rounding });
  code.if("i32").get(bits);
  compare("f64Lt").ops("i32Add").else().get(bits);
  compare("f64Gt").ops("i32Sub").end();
  return { type: { parameters: ["i32", "f64", "f64", "i32"], results: ["i32"] }, locals: [], code: code.finish() };
}

/** Builds the helper that rounds a 64-bit number to 32 bits. The second parameter is the rounding mode. */
function doubleToSingle(indexOf: HelperIndex): HelperFunction {
  const [exact, rounding, rounded] = [0, 1, 2] as const;
  const code = new CodeWriter();
  code.get(exact).ops("f32DemoteF64").tee(rounded).ops("i32ReinterpretF32").get(rounded).ops("f64PromoteF32");
  code.get(exact).get(rounding).call(indexOf("roundBits")).ops("f32ReinterpretI32");
  return { type: { parameters: ["f64", "i32"], results: ["f32"] }, locals: ["f32"], code: code.finish() };
}

/**
 * Builds the helper that corrects the rounding of a 64-bit number. The helper's parameters are a number rounded to
 * nearest, a number with the sign of the rounding error, and a rounding mode. The helper returns the number rounded in
 * that mode.
 */
function correct64(): HelperFunction {
  const [rounded, error, rounding, negative] = [0, 1, 2, 3] as const;
  const code = new CodeWriter();
  const isMissing = (more: boolean) => {
    code.get(error).f64(0).ops(more ? "f64Lt" : "f64Gt").get(error).f64(0).ops(more ? "f64Gt" : "f64Lt");
    code.get(negative).ops("select", "i64ExtendI32U");
  };
  code.get(rounding).ops("i32Eqz").if().get(rounded).ops("return").end();
  code.get(rounded).ops("i64ReinterpretF64").i64(0n).ops("i64LtS").set(negative);
  code.get(rounded).ops("i64ReinterpretF64");
  pushIsAway(code, { negative: () => code.get(negative), rounding });
  code.if("i64");
  isMissing(true);
  code.else().i64(0n);
  isMissing(false);
  code.ops("i64Sub").end().ops("i64Add", "f64ReinterpretI64");
  return { type: { parameters: ["f64", "f64", "i32"], results: ["f64"] }, locals: ["i32"], code: code.finish() };
}

function pushIsFiniteAndNotZero(code: CodeWriter, number: number): CodeWriter {
  return code.get(number).ops("f64Abs").f64(Infinity).ops("f64Lt").get(number).f64(0).ops("f64Ne", "i32And");
}

/**
 * Builds the helper that computes a / b. The third parameter is the rounding mode. The rounding error has the sign of
 * (a - quotient * b) / b.
 */
function divide64(indexOf: HelperIndex): HelperFunction {
  const [a, b, rounding, quotient, rest] = [0, 1, 2, 3, 4] as const;
  const code = new CodeWriter();
  code.get(a).get(b).ops("f64Div").set(quotient);
  pushIsFiniteAndNotZero(code, a);
  pushIsFiniteAndNotZero(code, b).ops("i32And", "i32Eqz").if().get(quotient).ops("return").end();
  code.get(quotient).ops("f64Abs").f64(Infinity).ops("f64Eq").if("f64").get(quotient).ops("f64Neg").else();
  code.get(quotient).ops("f64Neg").get(b).get(a).i32(roundingCodes.odd).call(indexOf("fusedMultiplyAdd64")).tee(rest);
  code.get(rest).ops("f64Neg").get(b).f64(0).ops("f64Gt", "select").end().set(rest);
  code.get(quotient).get(rest).get(rounding).call(indexOf("correct64"));
  return { type: { parameters: ["f64", "f64", "i32"], results: ["f64"] }, locals: ["f64", "f64"], code: code.finish() };
}

/** Builds the helper that computes the square root of a number. The second parameter is the rounding mode. */
function squareRoot64(indexOf: HelperIndex): HelperFunction {
  const [number, rounding, root] = [0, 1, 2] as const;
  const code = new CodeWriter();
  code.get(number).ops("f64Sqrt").tee(root);
  code.get(number).f64(0).ops("f64Gt").get(number).f64(Infinity).ops("f64Lt", "i32And").if("f64");
  code.get(root).ops("f64Neg").get(root).get(number).i32(roundingCodes.odd).call(indexOf("fusedMultiplyAdd64"));
  code.else().f64(0).end().get(rounding).call(indexOf("correct64"));
  return { type: { parameters: ["f64", "i32"], results: ["f64"] }, locals: ["f64"], code: code.finish() };
}
