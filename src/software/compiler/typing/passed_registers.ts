/**
 * Registers that are kept in memory while a function is called: how each type is loaded and stored. A predicate is kept
 * as a `u32` that is 0 or 1.
 *
 * @module
 */
import type { InsertedInstructions } from "../../../ptx/analysis/inserted_instructions.ts";
import type { Register, ResolvedOperand } from "../../../ptx/instructions/resolved_instruction.ts";
import { type ScalarType, typeNamed } from "../../../ptx/instructions/scalar_types.ts";
import type { InstructionForm } from "../instructions/instruction_form.ts";

/** The type of the numbers that stand for predicates in memory. */
export const predicateNumber: ScalarType = typeNamed("u32");

/** Returns the type with which a register of the given type is loaded and stored. */
export function registerTypeName({ kind, value, bits, name }: ScalarType): string {
  if (kind === "predicate") return predicateNumber.name;
  return kind === "float" && value === "i32" ? `b${bits}` : name;
}

/** Whether an operand is a register that holds a predicate. */
export function isPredicate(operand: ResolvedOperand): operand is Register {
  return operand.kind === "register" && operand.type.kind === "predicate";
}

/** Inserts an instruction that converts a predicate to a number. */
export function numberOfPredicate(inserted: InsertedInstructions<InstructionForm>, predicate: Register): Register {
  const [one, zero] = [1n, 0n].map((value) => ({ kind: "integer", value }) as const);
  return inserted.add("selp.u32", predicateNumber, [one!, zero!, predicate]);
}

/** Inserts an instruction that sets a predicate to whether a number is not 0. */
export function predicateOf(
  inserted: InsertedInstructions<InstructionForm>,
  predicate: Register,
  number: Register,
): void {
  inserted.addTo("setp.ne.u32", [predicate, number, { kind: "integer", value: 0n }]);
}
