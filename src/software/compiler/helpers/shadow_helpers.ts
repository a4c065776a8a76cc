/**
 * Helper functions that compute the shadows of results, for the check `initialization`. Large kernels call them; other
 * kernels have the same code inline.
 *
 * The parameters `a`, `b` and `c` of a helper are operands, and `as`, `bs` and `cs` are their shadows. In a shadow,
 * each uninitialized bit is 1.
 *
 * @module
 */
import { CodeWriter } from "../webassembly/code_writer.ts";
import type { HelperBuilder, HelperFunction } from "./helper_function.ts";
import { hostIndex } from "../../abi/host_functions.ts";
import { inType } from "../webassembly/opcodes.ts";

/** The name of a helper that computes a shadow. */
export type ShadowHelper =
  | "sumShadow32"
  | "sumShadow64"
  | "differenceShadow32"
  | "differenceShadow64"
  | "orderShadow"
  | "extremeShadow"
  | "lookupShadow"
  | "requireInitialized32"
  | "requireInitialized64";

/** The builder of each helper. */
export const shadowHelpers: Readonly<Record<ShadowHelper, HelperBuilder>> = {
  sumShadow32: () => sumShadow("i32", "Add"),
  sumShadow64: () => sumShadow("i64", "Add"),
  differenceShadow32: () => sumShadow("i32", "Sub"),
  differenceShadow64: () => sumShadow("i64", "Sub"),
  orderShadow,
  extremeShadow,
  lookupShadow,
  requireInitialized32: () => requireInitialized("i32"),
  requireInitialized64: () => requireInitialized("i64"),
};

/** The bits of the last parameter of `orderShadow` and `extremeShadow`. */
export const orderFlags = {
  isSigned: 1,
  /** For `orderShadow`: whether the comparison is strict (`<` instead of `<=`). */
  isStrict: 2,
  /** For `extremeShadow`: whether the instruction is `max`. */
  isGreatest: 4,
} as const;

/** Emits code that pushes the smallest or the largest value that an operand with uninitialized bits can have. */
function pushBound(
  code: CodeWriter,
  { operand, shadow, value, isGreatest }: {
    readonly operand: number;
    readonly shadow: number;
    readonly value: "i32" | "i64";
    readonly isGreatest: boolean;
  },
): void {
  code.get(operand).get(shadow);
  if (isGreatest) {
    code.ops(inType({ value }, "Or"));
    return;
  }
  if (value === "i32") code.i32(-1);
  else code.i64(-1n);
  code.ops(inType({ value }, "Xor"), inType({ value }, "And"));
}

/**
 * Builds the helper for the shadow of a sum or a difference. The parameters are `a`, `b`, `as` and `bs`. A bit of the
 * result is uninitialized if the smallest and the largest possible results differ in this bit, or if the same bit of an
 * operand is uninitialized.
 */
function sumShadow(value: "i32" | "i64", operation: "Add" | "Sub"): HelperFunction {
  const [a, b, as, bs] = [0, 1, 2, 3] as const;
  const code = new CodeWriter();
  for (const isGreatest of [false, true]) {
    pushBound(code, { operand: a, shadow: as, value, isGreatest });
    pushBound(code, { operand: b, shadow: bs, value, isGreatest: isGreatest === (operation === "Add") });
    code.ops(inType({ value }, operation));
  }
  code.ops(inType({ value }, "Xor")).get(as).ops(inType({ value }, "Or")).get(bs).ops(inType({ value }, "Or"));
  return { type: { parameters: [value, value, value, value], results: [value] }, locals: [], code: code.finish() };
}

/**
 * Builds the helper that reports a decision that depends on uninitialized bits. The parameters are the shadow of the
 * value that determines the decision, followed by the parameters of `device.decideByUninitialized`.
 */
function requireInitialized(value: "i32" | "i64"): HelperFunction {
  const [shadow, decision, place, thread] = [0, 1, 2, 3] as const;
  const code = new CodeWriter();
  code.get(shadow).ops(inType({ value }, "Eqz")).if().ops("return").end();
  code.get(decision).get(place).get(thread).call(hostIndex("decideByUninitialized"));
  return { type: { parameters: [value, "i32", "i32", "i32"], results: [] }, locals: [], code: code.finish() };
}

const ordered = { parameters: ["i32", "i32", "i32", "i32", "i32"], results: ["i32"] } as const;

/** Emits code that maps signed operands to unsigned operands with the same order, if `flags` marks them as signed. */
function mapSigned(code: CodeWriter, operands: readonly number[], flags: number): void {
  code.get(flags).i32(orderFlags.isSigned).ops("i32And").if();
  for (const operand of operands) code.get(operand).i32(1 << 31).ops("i32Xor").set(operand);
  code.end();
}

/**
 * Emits code that pushes whether the first operand may be less than the second one, and then whether it must be.
 *
 * @param isStrict whether to compare with `<` instead of `<=`
 */
function pushMayAndMust(
  code: CodeWriter,
  operands: readonly [a: number, b: number, as: number, bs: number],
  isStrict: boolean,
): void {
  const [a, b, as, bs] = operands;
  for (const isGreatest of [false, true]) {
    pushBound(code, { operand: a, shadow: as, value: "i32", isGreatest });
    pushBound(code, { operand: b, shadow: bs, value: "i32", isGreatest: !isGreatest });
    code.ops(isStrict ? "i32LtU" : "i32LeU");
  }
}

/**
 * Builds the helper that returns 1 if the result of comparing two 32-bit operands depends on uninitialized bits, and 0
 * otherwise. The parameters are `a`, `b`, `as`, `bs` and `orderFlags`.
 */
function orderShadow(): HelperFunction {
  const [a, b, as, bs, flags] = [0, 1, 2, 3, 4] as const;
  const code = new CodeWriter();
  mapSigned(code, [a, b], flags);
  code.get(flags).i32(orderFlags.isStrict).ops("i32And").if("i32");
  pushMayAndMust(code, [a, b, as, bs], true);
  code.ops("i32Ne").else();
  pushMayAndMust(code, [a, b, as, bs], false);
  code.ops("i32Ne").end();
  return { type: ordered, locals: [], code: code.finish() };
}

/**
 * Builds the helper for the shadow of the `min` or `max` of two 32-bit operands. Normally returns the shadow of the
 * selected operand. If uninitialized bits determine which operand is selected, a bit of the result counts as
 * initialized only if it is initialized in both operands and has the same value in both. The parameters are `a`, `b`,
 * `as`, `bs` and `orderFlags`.
 */
function extremeShadow(): HelperFunction {
  const [a, b, as, bs, flags] = [0, 1, 2, 3, 4] as const;
  const [may, must] = [5, 6] as const;
  const code = new CodeWriter();
  mapSigned(code, [a, b], flags);
  code.get(flags).i32(orderFlags.isGreatest).ops("i32And").if();
  pushMayAndMust(code, [b, a, bs, as], true);
  code.set(must).set(may).else();
  pushMayAndMust(code, [a, b, as, bs], true);
  code.set(must).set(may).end();
  code.get(a).get(b).ops("i32Xor").get(as).ops("i32Or").get(bs).ops("i32Or");
  code.get(as).get(bs).get(must).ops("select");
  code.get(may).get(must).ops("i32Ne", "select");
  return { type: ordered, locals: ["i32", "i32"], code: code.finish() };
}

/**
 * Builds the helper for the shadow of `lop3`: a bit is uninitialized if the possible values of the source bits can
 * produce both a 0 and a 1. The parameters are `a`, `b`, `c`, `as`, `bs`, `cs` and the lookup table.
 */
function lookupShadow(): HelperFunction {
  const table = 6, term = 7, zeros = 8, ones = 9, isOne = 10;
  const code = new CodeWriter();
  const pushPossible = (operand: number, bit: number) => {
    code.get(operand);
    if (bit === 0) code.i32(-1).ops("i32Xor");
    code.get(operand + 3).ops("i32Or");
  };
  for (let index = 0; index < 8; index++) {
    [2, 1, 0].forEach((shift, operand) => {
      pushPossible(operand, index >> shift & 1);
      if (operand > 0) code.ops("i32And");
    });
    code.set(term);
    code.i32(0).get(table).i32(index).ops("i32ShrU").i32(1).ops("i32And", "i32Sub").set(isOne);
    code.get(ones).get(term).get(isOne).ops("i32And", "i32Or").set(ones);
    code.get(zeros).get(term).get(isOne).i32(-1).ops("i32Xor", "i32And", "i32Or").set(zeros);
  }
  code.get(zeros).get(ones).ops("i32And");
  return {
    type: { parameters: ["i32", "i32", "i32", "i32", "i32", "i32", "i32"], results: ["i32"] },
    locals: ["i32", "i32", "i32", "i32"],
    code: code.finish(),
  };
}
