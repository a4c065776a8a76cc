/**
 * The rules by which uninitialized bits of operands propagate to the results of instructions that compute, for the
 * check `initialization`.
 *
 * Each row of the instruction table names a rule. Without a rule, every result is wholly uninitialized if any bit of
 * any source is, which never misses an uninitialized bit. A rule emits its code before the instruction's own code,
 * which may overwrite the sources.
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

/** Emits code that sets the shadows of an instruction's results. */
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

/**
 * The default rule: the result is wholly uninitialized if any bit of any source is uninitialized. The two halves of
 * packed values are treated separately.
 */
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

/**
 * Returns the shadow rule of an instruction that also writes the carry flag. If `takesCarry`, the instruction also
 * reads the carry flag.
 */
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
 * Returns the rule of an instruction whose result consists of bits of the `moved` operands, given by their indices. The
 * other operands determine how these bits are moved. The rule executes the instruction on the shadows.
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

/**
 * The rule of `cvt`: a conversion between integers moves bits, unless it saturates. For any other conversion, the
 * result is wholly uninitialized if any bit of the source is uninitialized.
 */
export const converts: ValidityRule = (e, shadows, i) => {
  const isInteger = i.type.kind !== "float" && i.sourceType.kind !== "float" && !i.choices.has("sat");
  (isInteger ? movesBits(1) : wholly)(e, shadows, i);
};

/**
 * The rule of a `cvt` that packs two values: each half of the result is uninitialized if any bit of the corresponding
 * source is uninitialized.
 */
export const packsHalves: ValidityRule = (e, shadows, { operands: [destination, high, low] }) => {
  shadows.assign(destination, b32, () => {
    pushHalf(e, () => shadows.pushAny([low]), 0xffff);
    pushHalf(e, () => shadows.pushAny([high]), -0x1_0000);
    e.code.ops("i32Or");
  });
};

/** The rule of `and`: an initialized 0 in either operand determines the result. */
export const conjunction: ValidityRule = (e, shadows, i) => decidedBy(e, shadows, i, false);

/** The rule of `or`: an initialized 1 in either operand determines the result. */
export const disjunction: ValidityRule = (e, shadows, i) => decidedBy(e, shadows, i, true);

/**
 * Emits code that sets the result's shadow to `(as & (b' | bs)) | (bs & a')`, where `as` and `bs` are the shadows of a
 * and b, and `b'` has a 1 where b does not determine the result.
 */
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

/** The rule of `xor` and `not`: a bit of the result is uninitialized if the same bit of any source is uninitialized. */
export const union: ValidityRule = (e, shadows, i) => {
  const type = shadowType(i.type);
  shadows.assign(i.operands[0], type, () => pushUnion(e, shadows, sourcesOf(i), type));
};

/**
 * The rule of `lop3`: a bit of the result is uninitialized if the possible values of the source bits can produce both a
 * 0 and a 1.
 */
export const validityOfThree: ValidityRule = (e, shadows, i) => {
  const table = i.operands[4];
  if (i.operands[0]?.kind !== "register" || table?.kind !== "integer") return wholly(e, shadows, i);
  const { code } = e;
  if (e.sharesChecks) {
    return shadows.assign(i.operands[0], b32, () => {
      pushWithShadows(e, shadows, i.operands.slice(1, 4), b32);
      code.i32(Number(table.value));
      e.callHelper("lookupShadow");
    });
  }
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

/**
 * Returns the rule of `add` or `sub`: a bit of the result is uninitialized if the smallest and the largest possible
 * results differ in it, or if the same bit of an operand is uninitialized.
 */
export function sums(operation: "Add" | "Sub"): ValidityRule {
  return (e, shadows, i) => {
    if (i.choices.has("sat")) return wholly(e, shadows, i);
    const [destination, a, b] = i.operands;
    const type = shadowType(i.type);
    const { code } = e;
    const isLast = operation === "Add";
    shadows.assign(destination, type, () => {
      if (e.sharesChecks && type.bits >= 32) {
        pushWithShadows(e, shadows, [a, b], type);
        e.callHelper(`${isLast ? "sum" : "difference"}Shadow${type.bits === 64 ? 64 : 32}`);
        return;
      }
      pushBound(e, shadows, { operand: a, type, isGreatest: false });
      pushBound(e, shadows, { operand: b, type, isGreatest: !isLast });
      code.ops(inType(type, operation));
      pushBound(e, shadows, { operand: a, type, isGreatest: true });
      pushBound(e, shadows, { operand: b, type, isGreatest: isLast });
      code.ops(inType(type, operation), inType(type, "Xor"));
      pushUnion(e, shadows, [a, b], type);
      code.ops(inType(type, "Or"));
      maskNarrow(e, type);
    });
  };
}

/**
 * The rule of products and `neg`: all bits from the lowest uninitialized bit of the sources upward are uninitialized.
 */
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

/**
 * Emits code that pushes operands, followed by the operands' shadows, as arguments for helpers that compute shadows.
 */
export function pushWithShadows(
  e: FunctionEmitter,
  shadows: RegisterShadows,
  operands: readonly (ResolvedOperand | undefined)[],
  type: ScalarType,
): void {
  for (const operand of operands) e.push(operand, type);
  for (const operand of operands) shadows.push(operand, type);
}

/**
 * Emits code that pushes the smallest or the largest value that an operand with uninitialized bits may have, as an
 * unsigned number.
 */
export function pushBound(
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

/**
 * Emits code that pushes the union of the operands' shadows: a 1 for each bit that is uninitialized in any of the
 * operands.
 */
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

/**
 * Emits code that pushes the constant `half` if a condition is not 0, else 0. `push` emits the code that pushes the
 * condition.
 */
function pushHalf({ code }: FunctionEmitter, push: () => void, half: number): void {
  code.i32(half).i32(0);
  push();
  code.ops("select");
}

/** Emits code that clears the bits of the i32 on the stack that are above the width of the type. */
function maskNarrow(e: FunctionEmitter, { bits }: ScalarType): void {
  if (bits < 32) e.code.i32(2 ** bits - 1).ops("i32And");
}

/** Whether an instruction computes on pairs of packed 16-bit values. */
function isPair({ type, choices }: CompiledInstruction): boolean {
  return type.name.endsWith("x2") || choices.has("packed");
}

/** Maps a float type to untyped bits of the same width, and returns any other type unchanged. */
function integerType(type: ScalarType): ScalarType {
  return type.kind === "float" ? shadowType(type) : type;
}

/** Returns the shadow of a source operand, or 0 if the operand is known to be initialized. */
function source(shadows: RegisterShadows, operand: ResolvedOperand): ResolvedOperand {
  if (operand.kind === "vector") return { ...operand, elements: operand.elements.map((each) => source(shadows, each)) };
  const register = operand.kind === "not" ? operand.register : operand;
  const shadow = register.kind === "register" ? shadows.of(register) : undefined;
  return shadow ?? { kind: "integer", value: 0n };
}

/**
 * Returns the shadow of a destination register, or a sink, which discards the result, if the register is not tracked.
 */
function destinationShadow(shadows: RegisterShadows, operand: ResolvedOperand): ResolvedOperand {
  if (operand.kind === "vector") {
    return { ...operand, elements: operand.elements.map((each) => destinationShadow(shadows, each)) };
  }
  const shadow = operand.kind === "register" ? shadows.of(operand) : undefined;
  return shadow ?? { kind: "sink" };
}
