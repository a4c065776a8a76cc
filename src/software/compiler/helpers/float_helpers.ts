/**
 * Helper functions for float operations that WebAssembly has no instruction for.
 *
 * @module
 */
import { type ApproximateHelper, approximateHelpers } from "./approximate_helpers.ts";
import { fusedMultiplyAdd64 } from "./fused_multiply_add.ts";
import { type HalfHelper, halfHelpers } from "./half_helpers.ts";
import type { HelperBuilder, HelperFunction } from "./helper_function.ts";
import { type RoundingHelper, roundingHelpers } from "./rounding_helpers.ts";
import { CodeWriter } from "../webassembly/code_writer.ts";

/** The names of the float helpers. */
export type FloatHelper =
  | "fusedMultiplyAdd64"
  | "propagateNaN64"
  | RoundingHelper
  | HalfHelper
  | ApproximateHelper;

/** Maps each name of a float helper to its builder. */
export const floatHelpers: Readonly<Record<FloatHelper, HelperBuilder>> = {
  fusedMultiplyAdd64,
  propagateNaN64,
  ...roundingHelpers,
  ...halfHelpers,
  ...approximateHelpers,
};

/**
 * Builds the helper that returns the NaN resulting from 64-bit arithmetic on two numbers: the second operand if it is a
 * NaN, else the first if it is one, else the default NaN.
 */
function propagateNaN64(): HelperFunction {
  const code = new CodeWriter();
  for (const operand of [1, 0]) {
    code.get(operand).get(operand).ops("f64Ne").if().get(operand).ops("i64ReinterpretF64");
    code.i64(0x0008_0000_0000_0000n).ops("i64Or", "f64ReinterpretI64", "return").end();
  }
  code.f64Bits(0xfff8_0000_0000_0000n);
  return { type: { parameters: ["f64", "f64"], results: ["f64"] }, locals: [], code: code.finish() };
}
