/**
 * The locals that hold registers, and conversions between them and the types of instructions.
 *
 * @module
 */
import type { Register, ResolvedInstruction, ResolvedOperand } from "../../../ptx/instructions/resolved_instruction.ts";
import type { ScalarType } from "../../../ptx/instructions/scalar_types.ts";
import type { CodeWriter } from "../webassembly/code_writer.ts";
import type { MemoryOpName, ValueType } from "../webassembly/opcodes.ts";

/**
 * Chooses the WebAssembly types of registers that are declared as untyped bits: floats if most instructions that name
 * the register are floating-point, so that its value rarely moves between units. Only speed depends on it.
 */
export function chooseValueTypes(instructions: Iterable<ResolvedInstruction>): Map<Register, ValueType> {
  const votes = new Map<Register, number>();
  const vote = (operand: ResolvedOperand, weight: number): void => {
    if (operand.kind === "vector") { for (const element of operand.elements) vote(element, weight); }
    if (operand.kind === "address" && operand.base?.kind === "register") vote(operand.base, -1);
    if (operand.kind === "register" && operand.type.kind === "bits" && operand.type.bits >= 32) {
      votes.set(operand, (votes.get(operand) ?? 0) + weight);
    }
  };
  for (const { operands, type, sourceType } of instructions) {
    operands.forEach((operand, index) => {
      const operandType = index > 0 ? sourceType : type;
      const isFloat = operandType.value === "f32" || operandType.value === "f64";
      vote(operand, isFloat ? 1 : operandType.kind === "bits" ? 0 : -1);
    });
  }
  const types = new Map<Register, ValueType>();
  for (const [register, count] of votes) if (count > 0) types.set(register, register.type.bits === 64 ? "f64" : "f32");
  return types;
}

/**
 * Whether PTX allows a register as an operand of an instruction of the given type. For some instructions it may be
 * wider.
 */
export function isOperandOf(register: Register, { type, wide }: { type: ScalarType; wide: boolean }): boolean {
  const { bits, kind } = register.type;
  if (bits !== type.bits && !(wide && bits > type.bits && type.kind !== "predicate")) return false;
  const isFloat = (kind: ScalarType["kind"]) => kind === "float";
  const isInteger = (kind: ScalarType["kind"]) => kind === "signed" || kind === "unsigned";
  const clash = (isFloat(kind) && isInteger(type.kind)) || (isInteger(kind) && isFloat(type.kind)) ||
    (isFloat(kind) && isFloat(type.kind) && bits !== type.bits);
  return !clash;
}

/** A register, and the type of the local that holds it. */
export interface HeldRegister {
  readonly register: Register;
  readonly held: ValueType;
}

/** Converts a register's value on the stack to an instruction's type. */
export function readAs(code: CodeWriter, type: ScalarType, { register, held: from }: HeldRegister): void {
  if (type.value === from && register.type.bits === type.bits) {
    if (type.kind === "signed" && type.bits < 32) extend(code, type);
    return;
  }
  if (from === "f32" && type.value === "i32") code.ops("i32ReinterpretF32");
  else if (from === "f64" && type.value !== "f64") code.ops("i64ReinterpretF64");
  else if (from === "i32" && type.value === "f32") code.ops("f32ReinterpretI32");
  else if (from === "i64" && type.value === "f64") code.ops("f64ReinterpretI64");
  if (register.type.bits === 64 && type.bits < 64) {
    code.ops("i32WrapI64");
    if (type.value === "f32") code.ops("f32ReinterpretI32");
  }
  if (type.bits < 32) extend(code, type);
}

/** Converts a value of an instruction's type on the stack to the type of a register's local. */
export function writeAs(code: CodeWriter, type: ScalarType, { register, held: to }: HeldRegister): void {
  const { bits } = register.type;
  if (type.bits < bits) {
    if (type.value === "f32") code.ops("i32ReinterpretF32");
    extend(code, type);
    if (bits === 64) code.ops(type.kind === "signed" ? "i64ExtendI32S" : "i64ExtendI32U");
  }
  if (bits < 32 && register.type.kind !== "predicate") code.i32(bits === 8 ? 0xff : 0xffff).ops("i32And");
  const value = type.bits < bits ? (bits === 64 ? "i64" : "i32") : type.value;
  if (value === "i32" && to === "f32") code.ops("f32ReinterpretI32");
  else if (value === "f32" && to === "i32") code.ops("i32ReinterpretF32");
  else if (value === "i64" && to === "f64") code.ops("f64ReinterpretI64");
  else if (value === "f64" && to === "i64") code.ops("i64ReinterpretF64");
}

/** Extends the low 8 or 16 bits of an i32 on the stack to 32 bits, by the given type. */
export function extend(code: CodeWriter, type: ScalarType): void {
  if (type.bits !== 8 && type.bits !== 16) return;
  if (type.kind === "signed") code.ops(type.bits === 8 ? "i32Extend8S" : "i32Extend16S");
  else code.i32(type.bits === 8 ? 0xff : 0xffff).ops("i32And");
}

/** The load and the store of all bits of a local. */
export const wholeLoad: Readonly<Record<ValueType, MemoryOpName>> = {
  i32: "i32Load",
  i64: "i64Load",
  f32: "f32Load",
  f64: "f64Load",
};
export const wholeStore: Readonly<Record<ValueType, MemoryOpName>> = {
  i32: "i32Store",
  i64: "i64Store",
  f32: "f32Store",
  f64: "f64Store",
};
