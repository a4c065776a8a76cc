/**
 * Literal operands of instructions.
 *
 * @module
 */
import type { FunctionEmitter } from "./function_emitter.ts";
import { type ScalarType, singleBits } from "../../../ptx/instructions/scalar_types.ts";

/** Pushes an integer literal in an instruction's type. As with `ptxas`, one that is too large loses its high bits. */
export function pushIntegerLiteral(e: FunctionEmitter, value: bigint, type: ScalarType): void {
  const { bits, kind } = type;
  if (kind === "float") e.fail(`the integer ${value} is used where a ".${type.name}" is needed`);
  if (kind === "predicate") e.code.i32(value === 0n ? 0 : 1);
  else if (bits === 64) e.code.i64(BigInt.asUintN(64, value));
  else e.code.i32(Number(kind === "signed" ? BigInt.asIntN(bits, value) : BigInt.asUintN(bits, value)));
}

/** Pushes a floating-point literal in an instruction's type. */
export function pushFloatLiteral(
  e: FunctionEmitter,
  { precision, bits }: { precision: "single" | "double"; bits: bigint },
  type: ScalarType,
): void {
  const { code } = e;
  if (type.kind === "predicate" || type.bits < 32 || type.kind === "signed" || type.kind === "unsigned") {
    e.fail(`a floating-point number is used where a ".${type.name}" is needed`);
  }
  if (type.bits === 32 && type.kind === "bits" && precision === "double") {
    e.fail("a double-precision number is used where 32 bits are needed");
  }
  if (type.bits === 32) {
    const single = precision === "single" ? bits : singleBits(bits);
    if (type.value === "f32") code.f32Bits(single);
    else code.i32(Number(single));
  } else {
    // `ptxas` takes the bits of the single-precision number for the lower half.
    if (precision === "single" && type.kind !== "float") {
      e.fail("a single-precision number is used where 64 bits are needed");
    }
    if (type.value === "f64") code.f64Bits(bits);
    else code.i64(bits);
  }
}
