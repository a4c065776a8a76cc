/**
 * Functions by which compiled kernels compute what WebAssembly has no instruction for.
 *
 * @module
 */
import type { HelperFunction } from "./helper_function.ts";
import { CodeWriter } from "./wasm_encoder.ts";

/** What they are called. */
export type FloatHelper = "fusedMultiplyAdd32" | "propagateNaN64" | "halfToSingle" | "doubleToHalf";

/** By name. */
export const floatHelpers: Readonly<Record<FloatHelper, () => HelperFunction>> = {
  fusedMultiplyAdd32,
  propagateNaN64,
  halfToSingle,
  doubleToHalf,
};

/**
 * a * b + c, rounded once, for finite and other numbers.
 *
 * The product is exact in 64 bits. The sum's rounding error is found by Knuth's two-sum; where there is one, the sum is
 * moved to the neighbour with an odd last bit that the error points to (rounding to odd), from which rounding to 32 bits
 * gives what rounding the exact sum would have.
 */
function fusedMultiplyAdd32(): HelperFunction {
  const [a, b, c, product, addend, sum, back, error, bits] = [0, 1, 2, 3, 4, 5, 6, 7, 8] as const;
  const code = new CodeWriter();
  code.get(a).ops("f64PromoteF32").get(b).ops("f64PromoteF32", "f64Mul").set(product);
  code.get(c).ops("f64PromoteF32").tee(addend).get(product).ops("f64Add").set(sum);
  code.get(sum).get(product).ops("f64Sub").set(back);
  code.get(product).get(sum).get(back).ops("f64Sub", "f64Sub").get(addend).get(back).ops("f64Sub", "f64Add");
  code.set(error).get(sum).ops("i64ReinterpretF64").set(bits);
  // False where the error is NaN, as it is where the sum is not finite.
  code.get(error).f64Bits(0n).ops("f64Lt").get(error).f64Bits(0n).ops("f64Gt", "i32Or");
  code.get(bits).i64(1n).ops("i64And", "i64Eqz", "i32And").if();
  // An error of the sum's own sign lies further from zero, where the bits are one more.
  code.get(bits).i64(1n).i64(-1n);
  code.get(error).f64Bits(0n).ops("f64Lt").get(sum).f64Bits(0n).ops("f64Lt", "i32Eq", "select", "i64Add").set(bits)
    .end();
  code.get(bits).ops("f64ReinterpretI64", "f32DemoteF64");
  return {
    type: { parameters: ["f32", "f32", "f32"], results: ["f32"] },
    locals: ["f64", "f64", "f64", "f64", "f64", "i64"],
    code: code.finish(),
  };
}

/** The NaN that arithmetic on two numbers gives: the second where it is a NaN, else the first, or that of no operand. */
function propagateNaN64(): HelperFunction {
  const code = new CodeWriter();
  for (const operand of [1, 0]) {
    code.get(operand).get(operand).ops("f64Ne").if().get(operand).ops("i64ReinterpretF64");
    code.i64(0x0008_0000_0000_0000n).ops("i64Or", "f64ReinterpretI64", "return").end();
  }
  code.f64Bits(0xfff8_0000_0000_0000n);
  return { type: { parameters: ["f64", "f64"], results: ["f64"] }, locals: [], code: code.finish() };
}

/** The number of a half's bits. A NaN keeps its sign and fraction, and is made quiet. */
function halfToSingle(): HelperFunction {
  const [half, magnitude, sign] = [0, 1, 2] as const;
  const code = new CodeWriter();
  code.get(half).i32(0x7fff).ops("i32And").tee(magnitude);
  code.get(half).i32(0x8000).ops("i32And").i32(16).ops("i32Shl").set(sign);
  code.i32(0x7c00).ops("i32LtU").if("f32");
  // In a single's place, the half's exponent is too small by the difference of the biases. Subnormal numbers come right.
  code.get(magnitude).i32(13).ops("i32Shl").get(sign).ops("i32Or", "f32ReinterpretI32");
  code.f32Bits(0x7780_0000n).ops("f32Mul").else();
  code.get(magnitude).i32(13).ops("i32Shl").get(sign).ops("i32Or").i32(0x7f80_0000).ops("i32Or");
  code.i32(0x0040_0000).i32(0).get(magnitude).i32(0x7c00).ops("i32GtU", "select", "i32Or", "f32ReinterpretI32").end();
  return { type: { parameters: ["i32"], results: ["f32"] }, locals: ["i32", "i32"], code: code.finish() };
}

/** The bits of the half nearest to a number, even where two are. A NaN keeps its sign and the top of its fraction. */
function doubleToHalf(): HelperFunction {
  const [number, magnitude, bits, sign] = [0, 1, 2, 3] as const;
  const code = new CodeWriter();
  const highBits = (shift: bigint) => code.get(bits).i64(shift).ops("i64ShrU", "i32WrapI64");
  code.get(number).ops("f64Abs").tee(magnitude).ops("i64ReinterpretF64").set(bits);
  code.get(number).ops("i64ReinterpretF64").i64(48n).ops("i64ShrU", "i32WrapI64").i32(0x8000).ops("i32And").set(sign);
  code.get(magnitude).get(magnitude).ops("f64Ne").if();
  highBits(42n).i32(0x3ff).ops("i32And").i32(0x7e00).ops("i32Or").get(sign).ops("i32Or", "return").end();
  // 65520 is halfway between the largest half and what would come next.
  code.get(magnitude).f64Bits(0x40ef_fe00_0000_0000n).ops("f64Ge").if();
  code.i32(0x7c00).get(sign).ops("i32Or", "return").end();
  // Below 2 to the -14, halves are multiples of 2 to the -24: the last bit of 2 to the 28, so that adding that rounds.
  code.get(magnitude).f64Bits(0x3f10_0000_0000_0000n).ops("f64Lt").if();
  code.get(magnitude).f64Bits(0x41b0_0000_0000_0000n).ops("f64Add", "i64ReinterpretF64", "i32WrapI64");
  code.get(sign).ops("i32Or", "return").end();
  // Half of the last bit that stays is added, less the least where that bit is 0. Carries go on into the exponent.
  code.get(bits).i64(0x1ff_ffff_ffffn).ops("i64Add").get(bits).i64(42n).ops("i64ShrU").i64(1n).ops("i64And", "i64Add");
  code.set(bits);
  highBits(42n).i32((1023 - 15) << 10).ops("i32Sub").get(sign).ops("i32Or");
  return { type: { parameters: ["f64"], results: ["i32"] }, locals: ["f64", "i64", "i32"], code: code.finish() };
}
