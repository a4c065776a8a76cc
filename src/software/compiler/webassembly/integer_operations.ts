/**
 * WebAssembly's operations on integers of 32 and 64 bits, by the type of the operands.
 *
 * @module
 */
import type { ScalarType } from "../../../ptx/instructions/scalar_types.ts";
import type { CodeWriter } from "./code_writer.ts";
import type { OpName } from "./opcodes.ts";

/** An operation that exists in 32 and 64 bits, such as `Add` for `i32Add` and `i64Add`. */
export type IntegerOperation<Name = OpName> = Name extends `i32${infer Rest}`
  ? `i64${Rest}` extends OpName ? Rest : never
  : never;

/** WebAssembly's instruction for an operation in a type. */
export function inType({ value }: ScalarType, operation: IntegerOperation): OpName {
  return value === "i64" ? `i64${operation}` : `i32${operation}`;
}

/** Pushes a constant in a type. If it does not fit, its low bits are pushed. */
export function constant(code: CodeWriter, { value }: ScalarType, number: number | bigint): CodeWriter {
  return value === "i64" ? code.i64(BigInt(number)) : code.i32(Number(BigInt.asIntN(32, BigInt(number))));
}

/** Converts a 32-bit shift amount on the stack to the type that is shifted. */
export function extendAmount(code: CodeWriter, { value }: ScalarType): CodeWriter {
  return value === "i64" ? code.ops("i64ExtendI32U") : code;
}
