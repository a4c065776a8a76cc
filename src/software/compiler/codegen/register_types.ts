/**
 * Chooses the types of the locals that hold registers, converts between them and the types of instructions, and emits
 * literal operands.
 *
 * @module
 */
import type { Register, ResolvedInstruction, ResolvedOperand } from "../../../ptx/instructions/resolved_instruction.ts";
import { type ScalarType, singleBits } from "../../../ptx/instructions/scalar_types.ts";
import type { CodeWriter } from "../webassembly/code_writer.ts";
import type { MemoryOpName, ValueType } from "../webassembly/opcodes.ts";
import type { FunctionEmitter } from "./function_emitter.ts";

/**
 * Chooses the WebAssembly types of registers that are declared as untyped bits: floats if most instructions that name
 * the register are floating-point, so that the value is rarely reinterpreted. The choice affects only speed.
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
 * Whether PTX allows a register as an operand of an instruction of the given type. With `wide`, the register may be
 * wider than the type.
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

/** Emits code that converts a register's value on the stack to an instruction's type. */
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

/** Emits code that converts a value of an instruction's type on the stack to the type of a register's local. */
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

/** Emits code that extends the low 8 or 16 bits of an i32 on the stack to 32 bits, with the signedness of `type`. */
export function extend(code: CodeWriter, type: ScalarType): void {
  if (type.bits !== 8 && type.bits !== 16) return;
  if (type.kind === "signed") code.ops(type.bits === 8 ? "i32Extend8S" : "i32Extend16S");
  else code.i32(type.bits === 8 ? 0xff : 0xffff).ops("i32And");
}

/** Maps each local type to the WebAssembly instruction that loads a value of the type from memory. */
export const wholeLoad: Readonly<Record<ValueType, MemoryOpName>> = {
  i32: "i32Load",
  i64: "i64Load",
  f32: "f32Load",
  f64: "f64Load",
};
/** Maps each local type to the WebAssembly instruction that stores a value of the type to memory. */
export const wholeStore: Readonly<Record<ValueType, MemoryOpName>> = {
  i32: "i32Store",
  i64: "i64Store",
  f32: "f32Store",
  f64: "f64Store",
};

/**
 * Emits code that pushes an integer literal as a value of an instruction's type. As in `ptxas`, high bits that do not
 * fit are dropped.
 */
export function pushIntegerLiteral(e: FunctionEmitter, value: bigint, type: ScalarType): void {
  const { bits, kind } = type;
  if (kind === "float") e.fail(`the integer ${value} is used where a ".${type.name}" is needed`);
  if (kind === "predicate") e.code.i32(value === 0n ? 0 : 1);
  else if (bits === 64) e.code.i64(BigInt.asUintN(64, value));
  else e.code.i32(Number(kind === "signed" ? BigInt.asIntN(bits, value) : BigInt.asUintN(bits, value)));
}

/** Emits code that pushes a floating-point literal as a value of an instruction's type. */
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
    // For untyped 64-bit operands, `ptxas` accepts a single-precision number and zero-extends its bits. The software
    // device does not.
    if (precision === "single" && type.kind !== "float") {
      e.fail("a single-precision number is used where 64 bits are needed");
    }
    if (type.value === "f64") code.f64Bits(bits);
    else code.i64(bits);
  }
}
