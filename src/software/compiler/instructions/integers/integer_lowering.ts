/**
 * Common parts of the instructions on integers: WebAssembly's operations by type, constants, and operands that are read
 * more than once.
 *
 * @module
 */
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { Emit } from "../instruction_form.ts";
import { type ScalarType, typeNamed } from "../../../../ptx/instructions/scalar_types.ts";
import type { ResolvedInstruction, ResolvedOperand } from "../../../../ptx/instructions/resolved_instruction.ts";
import type { CodeWriter } from "../../webassembly/code_writer.ts";
import type { OpName } from "../../webassembly/opcodes.ts";

/** The type of shift amounts, positions and counts. */
export const u32: ScalarType = typeNamed("u32");
/** The same, signed. */
export const s32: ScalarType = typeNamed("s32");

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

/** The value of an integer literal. Undefined for any other operand. */
export function constantOf(operand: ResolvedOperand | undefined): bigint | undefined {
  return operand?.kind === "integer" ? operand.value : undefined;
}

/** Whether two operands certainly have the same value. */
export function isSameOperand(a: ResolvedOperand | undefined, b: ResolvedOperand | undefined): boolean {
  return a?.kind === "register" ? a === b : a?.kind === "integer" && b?.kind === "integer" && a.value === b.value;
}

/**
 * Returns a function that can push an operand several times. Registers and literals are pushed as they are; anything
 * else is computed once, here.
 */
export function repeatable(
  e: FunctionEmitter,
  operand: ResolvedOperand | undefined,
  type: ScalarType,
): () => CodeWriter {
  if (operand?.kind === "register" || operand?.kind === "integer") {
    return () => {
      e.push(operand, type);
      return e.code;
    };
  }
  const local = e.temporary(type.value);
  e.push(operand, type);
  e.code.set(local);
  return () => e.code.get(local);
}

/** An instruction whose first operand is computed from its others, all of its type. */
export function fromOperands(emit: (e: FunctionEmitter, i: ResolvedInstruction) => void): Emit {
  return (e, i) =>
    e.assign(i.operands[0], i.type, () => {
      for (const operand of i.operands.slice(1)) e.push(operand, i.type);
      emit(e, i);
    });
}

/** Clamps an i64 on the stack as a signed number. */
export function clampSigned64(e: FunctionEmitter, minimum: bigint, maximum: bigint): void {
  const { code } = e;
  const value = e.temporary("i64");
  code.set(value).i64(minimum).get(value).get(value).i64(minimum).ops("i64LtS", "select").set(value);
  code.i64(maximum).get(value).get(value).i64(maximum).ops("i64GtS", "select");
}

/** Clamps an i32 on the stack as a signed number. */
export function clampSigned32(e: FunctionEmitter, minimum: number, maximum: number): void {
  const { code } = e;
  const value = e.temporary("i32");
  code.set(value).i32(minimum).get(value).get(value).i32(minimum).ops("i32LtS", "select").set(value);
  code.i32(maximum).get(value).get(value).i32(maximum).ops("i32GtS", "select");
}
