/**
 * Moves and selections. PTX ISA, sections 9.7.6 and 9.7.9.
 *
 * @module
 */
import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import type { Emit } from "./instruction_form.ts";
import { repeatable } from "./integers/integer_instructions.ts";
import { specialRegister } from "./special_registers.ts";
import { type ScalarType, typeNamed } from "../../../ptx/instructions/scalar_types.ts";
import type { ResolvedInstruction, ResolvedOperand } from "../../../ptx/instructions/resolved_instruction.ts";

/**
 * Emits code for `mov`. If the destination is a vector, the source is unpacked into its elements; if the source is a
 * vector, its elements are packed.
 */
export const move: Emit = (e, i) => {
  const [destination, source] = i.operands;
  if (destination?.kind === "vector") unpack(e, i, destination.elements);
  else if (source?.kind === "vector") pack(e, i, source.elements);
  else e.assign(destination, i.type, () => e.push(source, i.type));
};

/** Emits code for `mov.v2` and `mov.v4`, which read all components before setting any. */
export const moveVector: Emit = (e, i) => {
  const length = Number(i.choices.get("vector")!.slice(1));
  if (length * i.type.bits > 128) e.fail("a vector may have at most 16 bytes");
  const [destinations, sources] = i.operands.map((operand) => {
    const elements = operand.kind === "vector" ? operand.elements : componentsOf(operand);
    return elements?.length === length ? elements : e.fail(`it needs vectors of ${length} components`);
  });
  const values = sources!.map((source) => {
    const value = e.temporary(i.type.value);
    e.push(source, i.type);
    e.code.set(value);
    return value;
  });
  destinations!.forEach((destination, index) => {
    if (destination.kind !== "sink") e.assign(destination, i.type, () => e.code.get(values[index]!));
  });
};

/** Returns the components of a special register such as `%tid`. Undefined for other operands. */
function componentsOf(operand: ResolvedOperand): ResolvedOperand[] | undefined {
  if (operand.kind !== "special" || specialRegister(`${operand.name}.x`) === undefined) return undefined;
  return [..."xyzw"].map((component) => ({ kind: "special", name: `${operand.name}.${component}` }));
}

/** Returns the type of each part when an instruction's type is divided into `count` equal parts. */
function partType(e: FunctionEmitter, { type }: ResolvedInstruction, count: number): ScalarType {
  const bits = type.bits / count;
  if (type.kind !== "bits" || (count !== 2 && count !== 4) || bits < 8) {
    e.fail(`it cannot have a vector of ${count} elements`);
  }
  return typeNamed(`b${bits}`);
}

/** Emits code that assigns the parts of the source to the elements of the destination. */
function unpack(e: FunctionEmitter, i: ResolvedInstruction, parts: readonly ResolvedOperand[]): void {
  const { code } = e;
  const part = partType(e, i, parts.length);
  // Copy the source first, because one of the destinations may be the source register itself.
  const whole = e.temporary(i.type.value);
  e.push(i.operands[1], i.type);
  code.set(whole);
  parts.forEach((destination, index) => {
    if (destination.kind === "sink") return;
    e.assign(destination, part, () => {
      code.get(whole);
      const first = index * part.bits;
      if (i.type.value === "i64") {
        if (first > 0) code.i64(BigInt(first)).ops("i64ShrU");
        code.ops("i32WrapI64");
        if (first + part.bits < 64) e.extend(part);
      } else {
        if (first > 0) code.i32(first).ops("i32ShrU");
        if (first + part.bits < i.type.bits) e.extend(part);
      }
    });
  });
}

/** Emits code that assigns the concatenation of the source's elements to the destination. */
function pack(e: FunctionEmitter, i: ResolvedInstruction, parts: readonly ResolvedOperand[]): void {
  const { code } = e;
  const part = partType(e, i, parts.length);
  e.assign(i.operands[0], i.type, () => {
    parts.forEach((source, index) => {
      const first = index * part.bits;
      e.push(source, part);
      if (i.type.value === "i64") {
        code.ops("i64ExtendI32U");
        if (first > 0) code.i64(BigInt(first)).ops("i64Shl", "i64Or");
      } else if (first > 0) {
        code.i32(first).ops("i32Shl", "i32Or");
      }
    });
  });
}

/** Emits code for `selp`, which selects one of two operands by a predicate. */
export const selectByPredicate: Emit = (e, i) => {
  e.assign(i.operands[0], i.type, () => {
    e.push(i.operands[1], i.type);
    e.push(i.operands[2], i.type);
    e.push(i.operands[3], typeNamed("pred"));
    e.code.ops("select");
  });
};

/**
 * Emits code for `slct`, which selects the first operand if the third is non-negative, and the second operand if the
 * third is negative or a NaN. Negative zero is non-negative.
 */
export const selectBySign: Emit = (e, i) => {
  const by = typeNamed(i.choices.get("by")!);
  e.assign(i.operands[0], i.type, () => {
    e.push(i.operands[1], i.type);
    e.push(i.operands[2], i.type);
    const third = repeatable(e, i.operands[3], by);
    if (by.name === "s32") {
      third().i32(0).ops("i32GeS", "select");
    } else if (i.choices.has("ftz")) {
      // Subnormal numbers are treated as zeros. So compare with -2^-126, the negative normal number of smallest
      // magnitude: all greater numbers are non-negative.
      third().f32Bits(0x8080_0000n).ops("f32Gt", "select");
    } else {
      third().f32Bits(0n).ops("f32Ge", "select");
    }
  });
};
