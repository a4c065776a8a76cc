/**
 * Functions that round in the directions that WebAssembly's arithmetic cannot, which rounds to nearest even alone.
 *
 * What is rounded to 32 or 16 bits is computed exactly in 64 first, or to odd: where a result of 64 bits is not exact,
 * it is the neighbour whose last bit is 1. Rounding that to fewer bits, in any direction, gives what rounding the exact
 * result would have.
 *
 * @module
 */
import type { HelperBuilder, HelperFunction, HelperIndex } from "./helper_function.ts";
import { CodeWriter } from "../webassembly/code_writer.ts";

/** What they are called. */
export type RoundingHelper = "addToOdd" | "roundBits" | "doubleToSingle" | "correct64" | "divide64" | "squareRoot64";

/** By name. */
export const roundingHelpers: Readonly<Record<RoundingHelper, HelperBuilder>> = {
  addToOdd,
  roundBits,
  doubleToSingle,
  correct64,
  divide64,
  squareRoot64,
};

/** How helpers are told to round. The last is known to those of 64 bits alone. */
export const roundingCodes = { rn: 0, rz: 1, rm: 2, rp: 3, odd: 4 } as const;

/** The name of a rounding that PTX has. */
export type Rounding = Exclude<keyof typeof roundingCodes, "odd">;

/**
 * a + b, rounded to odd. The error of the rounded sum is found by Knuth's two-sum; where there is one, the sum is moved
 * to the neighbour with an odd last bit that the error points to.
 */
function addToOdd(): HelperFunction {
  const [a, b, sum, back, error, bits] = [0, 1, 2, 3, 4, 5] as const;
  const code = new CodeWriter();
  code.get(a).get(b).ops("f64Add").tee(sum).get(a).ops("f64Sub").set(back);
  code.get(a).get(sum).get(back).ops("f64Sub", "f64Sub").get(b).get(back).ops("f64Sub", "f64Add").set(error);
  code.get(sum).ops("i64ReinterpretF64").set(bits);
  // False where the error is NaN, as it is where the sum is not finite.
  code.get(error).f64(0).ops("f64Lt").get(error).f64(0).ops("f64Gt", "i32Or");
  code.get(bits).i64(1n).ops("i64And", "i64Eqz", "i32And").if();
  // An error of the sum's own sign lies further from zero, where the bits are one more.
  code.get(bits).i64(1n).i64(-1n).get(error).f64(0).ops("f64Lt").get(sum).f64(0).ops("f64Lt", "i32Eq", "select");
  code.ops("i64Add", "f64ReinterpretI64", "return").end().get(sum);
  return {
    type: { parameters: ["f64", "f64"], results: ["f64"] },
    locals: ["f64", "f64", "f64", "i64"],
    code: code.finish(),
  };
}

/** Pushes whether rounding a number in a direction takes it away from zero. */
function pushIsAway(code: CodeWriter, { negative, rounding }: { negative: () => void; rounding: number }): void {
  code.get(rounding).i32(roundingCodes.rm).i32(roundingCodes.rp);
  negative();
  code.ops("select", "i32Eq");
}

/**
 * Takes bits of a number that was rounded to nearest, that number, the exact one, and how to round; gives the bits of
 * the exact number rounded so. The bits are a sign and a magnitude in which the next number is one more.
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

/** A number rounded to 32 bits in the way that the second argument says. */
function doubleToSingle(indexOf: HelperIndex): HelperFunction {
  const [exact, rounding, rounded] = [0, 1, 2] as const;
  const code = new CodeWriter();
  code.get(exact).ops("f32DemoteF64").tee(rounded).ops("i32ReinterpretF32").get(rounded).ops("f64PromoteF32");
  code.get(exact).get(rounding).call(indexOf("roundBits")).ops("f32ReinterpretI32");
  return { type: { parameters: ["f64", "i32"], results: ["f32"] }, locals: ["f32"], code: code.finish() };
}

/**
 * Takes a number of 64 bits that was rounded to nearest, a number with the sign of what is missing, and how to round;
 * gives the number rounded so.
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

/** a / b, rounded in the way that the third argument says: what is missing has the sign of (a - quotient * b) / b. */
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

/** The square root, rounded in the way that the second argument says. */
function squareRoot64(indexOf: HelperIndex): HelperFunction {
  const [number, rounding, root] = [0, 1, 2] as const;
  const code = new CodeWriter();
  code.get(number).ops("f64Sqrt").tee(root);
  code.get(number).f64(0).ops("f64Gt").get(number).f64(Infinity).ops("f64Lt", "i32And").if("f64");
  code.get(root).ops("f64Neg").get(root).get(number).i32(roundingCodes.odd).call(indexOf("fusedMultiplyAdd64"));
  code.else().f64(0).end().get(rounding).call(indexOf("correct64"));
  return { type: { parameters: ["f64", "i32"], results: ["f64"] }, locals: ["f64"], code: code.finish() };
}
