/**
 * How uninitialized bits of operands reach the results of instructions that compute, for the check `initialization`.
 *
 * The rows of the table name a rule each. Without one, every result is wholly uninitialized if any bit of any source
 * is, which is never too little. A rule emits its code before the instruction's own, which may overwrite the sources.
 *
 * @module
 */
import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import { constant, inType } from "../webassembly/opcodes.ts";
import type { CompiledInstruction, ValidityRule } from "../instructions/instruction_form.ts";
import { registersOf, sourcesOf } from "../../../ptx/analysis/definitions_and_uses.ts";
import type { ResolvedOperand } from "../../../ptx/instructions/resolved_instruction.ts";
import { type ScalarType, typeNamed } from "../../../ptx/instructions/scalar_types.ts";
import { type RegisterShadows, shadowType } from "./register_shadows.ts";

/** Emits what an instruction does to the shadows. */
export function emitShadows(e: FunctionEmitter, shadows: RegisterShadows, instruction: CompiledInstruction): void {
  const { form, operands } = instruction;
  const rule = form.traits.validity ?? wholly;
  if (rule === "emitted" || !form.hasResult) return;
  const sources = sourcesOf(instruction);
  if (form.traits.usesCarry) sources.push(e.carry);
  if (sources.some((source) => shadows.mayBeUninitialized(source))) return rule(e, shadows, instruction);
  shadows.clear(operands[0]);
  if (form.traits.usesCarry) shadows.clear(e.carry);
}

/** The result is wholly uninitialized if any bit of a source is; of two packed numbers, each by itself. */
export const wholly: ValidityRule = (e, shadows, i) => {
  const sources = sourcesOf(i);
  if (
    isPair(i) && [...registersOf(i.operands[0]), ...sources.flatMap(registersOf)].every(({ type }) => type.bits === 32)
  ) {
    return shadows.assign(i.operands[0], b32, () => {
      const both = e.temporary("i32");
      pushUnion(e, shadows, sources, b32);
      e.code.set(both);
      pushHalf(e, () => e.code.get(both).i32(0xffff).ops("i32And"), 0xffff);
      pushHalf(e, () => e.code.get(both).i32(16).ops("i32ShrU"), -0x1_0000);
      e.code.ops("i32Or");
    });
  }
  shadows.assignWhole(i.operands[0], () => shadows.pushAny(sources));
};

/** A rule for instructions that also write the carry, and may read it. */
export function whollyWithCarry({ takesCarry }: { takesCarry: boolean }): ValidityRule {
  return (e, shadows, i) => {
    const flag = e.temporary("i32");
    shadows.pushAny(takesCarry ? [...sourcesOf(i), e.carry] : sourcesOf(i));
    e.code.set(flag);
    shadows.assignWhole(i.operands[0], () => e.code.get(flag));
    if (!takesCarry || i.choices.has("cc")) shadows.assignWhole(e.carry, () => e.code.get(flag));
  };
}

/**
 * The result is made of the bits of some operands, given by their indices, as the others say: the instruction is
 * executed on the shadows, too.
 */
export function movesBits(...moved: readonly number[]): ValidityRule {
  return (e, shadows, i) => {
    const others = i.operands.filter((_, index) => index > 0 && !moved.includes(index));
    const isDecided = !others.some((operand) => shadows.mayBeUninitialized(operand));
    const flag = isDecided ? undefined : e.temporary("i32");
    if (flag !== undefined) {
      shadows.pushAny(others);
      e.code.set(flag);
    }
    const operands = i.operands.map((operand, index) => {
      return index === 0
        ? destinationShadow(shadows, operand)
        : moved.includes(index)
        ? source(shadows, operand)
        : operand;
    });
    i.form.emit!(e, { ...i, type: integerType(i.type), sourceType: integerType(i.sourceType), operands });
    if (flag === undefined) return;
    e.code.get(flag).if();
    e.emitConditionally(() => shadows.assignWhole(i.operands[0], () => e.code.i32(1)));
    e.code.end();
  };
}

/** A conversion between integers moves their bits, unless it saturates. Every other conversion computes. */
export const converts: ValidityRule = (e, shadows, i) => {
  const isInteger = i.type.kind !== "float" && i.sourceType.kind !== "float" && !i.choices.has("sat");
  (isInteger ? movesBits(1) : wholly)(e, shadows, i);
};

/** Two numbers that are rounded to the halves of the result. */
export const packsHalves: ValidityRule = (e, shadows, { operands: [destination, high, low] }) => {
  shadows.assign(destination, b32, () => {
    pushHalf(e, () => shadows.pushAny([low]), 0xffff);
    pushHalf(e, () => shadows.pushAny([high]), -0x1_0000);
    e.code.ops("i32Or");
  });
};

/** `and`: a 0 that is initialized decides the result. */
export const conjunction: ValidityRule = (e, shadows, i) => decidedBy(e, shadows, i, false);

/** `or`: a 1 does. */
export const disjunction: ValidityRule = (e, shadows, i) => decidedBy(e, shadows, i, true);

/** Pushes `(as & (b' | bs)) | (bs & a')`, where `b'` has a 1 where b does not decide the result. */
function decidedBy(e: FunctionEmitter, shadows: RegisterShadows, i: CompiledInstruction, isInverted: boolean): void {
  const [destination, a, b] = i.operands;
  const type = shadowType(i.type);
  const { code } = e;
  const pushUndecided = (operand: ResolvedOperand | undefined) => {
    e.push(operand, type);
    if (isInverted) constant(code, type, -1).ops(inType(type, "Xor"));
  };
  shadows.assign(destination, type, () => {
    shadows.push(a, type);
    pushUndecided(b);
    shadows.push(b, type);
    code.ops(inType(type, "Or"), inType(type, "And"));
    shadows.push(b, type);
    pushUndecided(a);
    code.ops(inType(type, "And"), inType(type, "Or"));
  });
}

/** Each bit of the result is uninitialized where one of the sources is: `xor` and `not`. */
export const union: ValidityRule = (e, shadows, i) => {
  const type = shadowType(i.type);
  shadows.assign(i.operands[0], type, () => pushUnion(e, shadows, sourcesOf(i), type));
};

/** `lop3`: a bit is uninitialized if the sources that it may have give both a 0 and a 1. */
export const logicOfThree: ValidityRule = (e, shadows, i) => {
  const table = i.operands[4];
  if (i.operands[0]?.kind !== "register" || table?.kind !== "integer") return wholly(e, shadows, i);
  const { code } = e;
  const inputs = [1, 2, 3].map((index) => {
    const operand = i.operands[index];
    return [true, false].map((isZero) => {
      const possible = e.temporary("i32");
      e.push(operand, b32);
      if (isZero) code.i32(-1).ops("i32Xor");
      shadows.push(operand, b32);
      code.ops("i32Or").set(possible);
      return possible;
    });
  });
  const pushCanBe = (wanted: number) => {
    code.i32(0);
    for (let index = 0; index < 8; index++) {
      if ((Number(table.value) >> index & 1) !== wanted) continue;
      code.get(inputs[0]![index >> 2 & 1]!).get(inputs[1]![index >> 1 & 1]!).ops("i32And");
      code.get(inputs[2]![index & 1]!).ops("i32And", "i32Or");
    }
  };
  shadows.assign(i.operands[0], b32, () => {
    pushCanBe(0);
    pushCanBe(1);
    code.ops("i32And");
  });
};

/** The least and the greatest sum, or difference, differ where a bit is uninitialized. */
export function sums(operation: "Add" | "Sub"): ValidityRule {
  return (e, shadows, i) => {
    if (i.choices.has("sat")) return wholly(e, shadows, i);
    const [destination, a, b] = i.operands;
    const type = shadowType(i.type);
    const { code } = e;
    const isLast = operation === "Add";
    shadows.assign(destination, type, () => {
      pushExtreme(e, shadows, { operand: a, type, isGreatest: false });
      pushExtreme(e, shadows, { operand: b, type, isGreatest: !isLast });
      code.ops(inType(type, operation));
      pushExtreme(e, shadows, { operand: a, type, isGreatest: true });
      pushExtreme(e, shadows, { operand: b, type, isGreatest: isLast });
      code.ops(inType(type, operation), inType(type, "Xor"));
      pushUnion(e, shadows, [a, b], type);
      code.ops(inType(type, "Or"));
      maskNarrow(e, type);
    });
  };
}

/** Every bit from the lowest uninitialized one of the sources on: products, and negation. */
export const fromLowest: ValidityRule = (e, shadows, i) => {
  const [destination] = i.operands;
  if (destination?.kind !== "register") return wholly(e, shadows, i);
  const type = shadowType(destination.type);
  const { code } = e;
  shadows.assign(destination, type, () => {
    const all = e.temporary(type.value);
    sourcesOf(i).forEach((operand, index) => {
      const own = operand.kind === "register" && operand.type.bits < type.bits ? shadowType(operand.type) : type;
      shadows.push(operand, own);
      if (type.value === "i64" && own.value === "i32") code.ops("i64ExtendI32U");
      if (index > 0) code.ops(inType(type, "Or"));
    });
    code.set(all);
    constant(code.get(all), type, 0).get(all).ops(inType(type, "Sub"), inType(type, "Or"));
    maskNarrow(e, type);
  });
};

/** Pushes the least or the greatest number that an operand may be, as an unsigned number. */
export function pushExtreme(
  e: FunctionEmitter,
  shadows: RegisterShadows,
  { operand, type, isGreatest }: { operand: ResolvedOperand | undefined; type: ScalarType; isGreatest: boolean },
): void {
  const { code } = e;
  e.push(operand, type);
  if (!shadows.mayBeUninitialized(operand)) return;
  shadows.push(operand, type);
  if (!isGreatest) constant(code, type, -1).ops(inType(type, "Xor"));
  code.ops(inType(type, isGreatest ? "Or" : "And"));
}

/** Pushes the bits that are uninitialized in any of some operands. */
export function pushUnion(
  e: FunctionEmitter,
  shadows: RegisterShadows,
  operands: readonly (ResolvedOperand | undefined)[],
  type: ScalarType,
): void {
  const tracked = operands.filter((operand) => shadows.mayBeUninitialized(operand));
  if (tracked.length === 0) return void constant(e.code, type, 0);
  tracked.forEach((operand, index) => {
    shadows.push(operand, type);
    if (index > 0) e.code.ops(inType(type, "Or"));
  });
}

const b32 = typeNamed("b32");

/** Pushes a half of a word if a number is not 0, or else 0. */
function pushHalf({ code }: FunctionEmitter, push: () => void, half: number): void {
  code.i32(half).i32(0);
  push();
  code.ops("select");
}

function maskNarrow(e: FunctionEmitter, { bits }: ScalarType): void {
  if (bits < 32) e.code.i32(2 ** bits - 1).ops("i32And");
}

function isPair({ type, choices }: CompiledInstruction): boolean {
  return type.name.endsWith("x2") || choices.has("packed");
}

/** The type with as many bits whose numbers are integers. */
function integerType(type: ScalarType): ScalarType {
  return type.kind === "float" ? shadowType(type) : type;
}

function source(shadows: RegisterShadows, operand: ResolvedOperand): ResolvedOperand {
  if (operand.kind === "vector") return { ...operand, elements: operand.elements.map((each) => source(shadows, each)) };
  const register = operand.kind === "not" ? operand.register : operand;
  const shadow = register.kind === "register" ? shadows.of(register) : undefined;
  return shadow ?? { kind: "integer", value: 0n };
}

function destinationShadow(shadows: RegisterShadows, operand: ResolvedOperand): ResolvedOperand {
  if (operand.kind === "vector") {
    return { ...operand, elements: operand.elements.map((each) => destinationShadow(shadows, each)) };
  }
  const shadow = operand.kind === "register" ? shadows.of(operand) : undefined;
  return shadow ?? { kind: "sink" };
}
