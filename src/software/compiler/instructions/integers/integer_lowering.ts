/**
 * Common parts of the instructions on integers, such as operands that are read more than once.
 *
 * @module
 */
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { Emit } from "../instruction_form.ts";
import { type ScalarType, typeNamed } from "../../../../ptx/instructions/scalar_types.ts";
import type { ResolvedInstruction, ResolvedOperand } from "../../../../ptx/instructions/resolved_instruction.ts";
import type { CodeWriter } from "../../webassembly/code_writer.ts";

/** The type of shift amounts, positions and counts. */
export const u32: ScalarType = typeNamed("u32");
/** A signed integer of 32 bits. */
export const s32: ScalarType = typeNamed("s32");

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
