/**
 * The shadows of comparisons, minima, maxima and selections of partly uninitialized values, for the check
 * `initialization`.
 *
 * The initialized bits of two values may determine how they compare: the rules compare the smallest and the largest
 * value that each operand may have.
 *
 * @module
 */
import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import { constant, inType } from "../webassembly/opcodes.ts";
import type { CompiledInstruction, ValidityRule } from "../instructions/instruction_form.ts";
import type { Register, ResolvedOperand } from "../../../ptx/instructions/resolved_instruction.ts";
import { type ScalarType, typeNamed } from "../../../ptx/instructions/scalar_types.ts";
import { type RegisterShadows, shadowType } from "./register_shadows.ts";
import { orderFlags } from "../helpers/shadow_helpers.ts";
import { pushBound, pushUnion, pushWithShadows, wholly } from "./shadow_rules.ts";

const predicate = typeNamed("pred");

/**
 * The shadow rule of `setp` with one result, or with two results, the second of which is for the opposite comparison.
 */
export const setsPredicate: ValidityRule = (e, shadows, i) => {
  const [destination, a, b, c] = i.operands;
  if (i.type.name.endsWith("x2")) return wholly(e, shadows, i);
  const unknown = e.temporary("i32");
  pushIsUndecided(e, shadows, i);
  e.code.set(unknown);
  const operation = i.choices.get("combine");
  if (operation === undefined || operation === "xor" || c === undefined) {
    return shadows.assignWhole(destination, () => {
      e.code.get(unknown);
      shadows.push(c, predicate);
      e.code.ops("i32Or");
    });
  }
  const { code } = e;
  const compared = comparedRegister(e);
  const choices = new Map(i.choices);
  choices.delete("combine");
  i.form.emit!(e, { ...i, choices, operands: [compared, a!, b!] });
  const others = e.temporary("i32");
  shadows.push(c, predicate);
  code.set(others);
  const value = e.temporary("i32"), other = e.temporary("i32");
  e.push(compared, predicate);
  code.set(value);
  e.push(c, predicate);
  if (operation === "or") code.ops("i32Eqz");
  code.set(other);
  const [first, second] = destination?.kind === "pair" ? [destination.first, destination.second] : [destination];
  [first, second].forEach((result, index) => {
    if (result === undefined) return;
    // A false second source determines the result of "and", and a true one the result of "or". The second result of
    // `setp` is for the opposite comparison.
    const isInverted = (operation === "or") !== (index === 1);
    shadows.assign(result, predicate, () => {
      code.get(unknown).get(other).get(others).ops("i32Or", "i32And").get(others).get(value);
      if (isInverted) code.ops("i32Eqz");
      code.ops("i32And", "i32Or");
    });
  });
};

const comparedRegisters = new WeakMap<FunctionEmitter, Register>();

/** Returns a register for the result of a comparison before it is combined with another predicate. */
function comparedRegister(e: FunctionEmitter): Register {
  let register = comparedRegisters.get(e);
  if (register === undefined) {
    comparedRegisters.set(e, register = { kind: "register", name: "compared", type: predicate });
  }
  return register;
}

/** Emits code that pushes 1 if the result of a comparison depends on uninitialized bits. */
function pushIsUndecided(e: FunctionEmitter, shadows: RegisterShadows, i: CompiledInstruction): void {
  const [, a, b] = i.operands;
  const comparison = i.choices.get("compare")!;
  const isTracked = [a, b].some((operand) => shadows.mayBeUninitialized(operand));
  if (i.type.kind === "float" || !isTracked) return shadows.pushAny([a, b]);
  const { code } = e;
  const type = shadowType(i.type);
  if (comparison === "eq" || comparison === "ne") {
    const unknown = e.temporary(type.value);
    pushUnion(e, shadows, [a, b], type);
    code.set(unknown);
    // Two values are known to differ if they differ in a bit that is initialized in both.
    e.push(a, type);
    e.push(b, type);
    constant(code.ops(inType(type, "Xor")).get(unknown), type, -1).ops(inType(type, "Xor"), inType(type, "And"));
    code.ops(inType(type, "Eqz")).get(unknown);
    constant(code, type, 0).ops(inType(type, "Ne"), "i32And");
    return;
  }
  const isStrict = ["lt", "ge", "lo", "hs"].includes(comparison);
  if (e.sharesChecks && type.bits === 32) {
    pushWithShadows(e, shadows, [a, b], type);
    code.i32((i.type.kind === "signed" ? orderFlags.isSigned : 0) | (isStrict ? orderFlags.isStrict : 0));
    e.callHelper("orderShadow");
    return;
  }
  pushMayAndMust(e, shadows, { operands: [a, b], type, isSigned: i.type.kind === "signed", isStrict });
  code.ops("i32Ne");
}

interface Ordered {
  readonly operands: readonly [ResolvedOperand | undefined, ResolvedOperand | undefined];
  readonly type: ScalarType;
  readonly isSigned: boolean;
  readonly isStrict: boolean;
}

/**
 * Emits code that pushes two flags: whether the first value may be less than the second (or, unless `isStrict`, equal
 * to it), and whether this relation holds for all values of the uninitialized bits.
 */
function pushMayAndMust(
  e: FunctionEmitter,
  shadows: RegisterShadows,
  { operands: [a, b], type, isSigned, isStrict }: Ordered,
): void {
  const push = (operand: ResolvedOperand | undefined, isGreatest: boolean) =>
    pushOrdered(e, shadows, { operand, type, isGreatest, isSigned });
  const compare = () => void e.code.ops(inType(type, isStrict ? "LtU" : "LeU"));
  push(a, false);
  push(b, true);
  compare();
  push(a, true);
  push(b, false);
  compare();
}

/**
 * Emits code that pushes the smallest or largest value that an operand with uninitialized bits may have. Signed values
 * are mapped to unsigned values in the same order.
 */
function pushOrdered(
  e: FunctionEmitter,
  shadows: RegisterShadows,
  { operand, type, isGreatest, isSigned }: {
    operand: ResolvedOperand | undefined;
    type: ScalarType;
    isGreatest: boolean;
    isSigned: boolean;
  },
): void {
  if (!isSigned) return pushBound(e, shadows, { operand, type, isGreatest });
  const { code } = e;
  e.push(operand, type);
  constant(code, type, 1n << BigInt(type.bits - 1)).ops(inType(type, "Xor"));
  shadows.push(operand, type);
  if (!isGreatest) constant(code, type, -1).ops(inType(type, "Xor"));
  code.ops(inType(type, isGreatest ? "Or" : "And"));
}

/**
 * Emits code that pushes the shadow of whichever of two operands is selected. The local `isFirst` is 1 if the first
 * operand is selected; the local `isUnknown` is 1 if the selection depends on uninitialized bits.
 */
function pushSelected(
  e: FunctionEmitter,
  shadows: RegisterShadows,
  { operands: [a, b], type, isFirst, isUnknown }: {
    operands: readonly [ResolvedOperand | undefined, ResolvedOperand | undefined];
    type: ScalarType;
    isFirst: number;
    isUnknown: number | undefined;
  },
): void {
  const { code } = e;
  if (isUnknown !== undefined) {
    // If the selection is unknown, a bit of the result is initialized if it is initialized and equal in both operands.
    e.push(a, type);
    e.push(b, type);
    code.ops(inType(type, "Xor"));
    pushUnion(e, shadows, [a, b], type);
    code.ops(inType(type, "Or"));
  }
  shadows.push(a, type);
  shadows.push(b, type);
  code.get(isFirst).ops("select");
  if (isUnknown !== undefined) code.get(isUnknown).ops("select");
}

/** The shadow rule of `selp`. */
export const selects: ValidityRule = (e, shadows, i) => {
  const [destination, a, b, condition] = i.operands;
  const type = shadowType(i.type);
  const isFirst = e.temporary("i32");
  e.push(condition, predicate);
  e.code.set(isFirst);
  let isUnknown: number | undefined;
  if (shadows.mayBeUninitialized(condition)) {
    isUnknown = e.temporary("i32");
    shadows.push(condition, predicate);
    e.code.set(isUnknown);
  }
  shadows.assign(destination, type, () => pushSelected(e, shadows, { operands: [a, b], type, isFirst, isUnknown }));
};

/** Returns the shadow rule of `min` and `max` of integers. */
export function choosesExtreme(operation: "min" | "max"): ValidityRule {
  return (e, shadows, i) => {
    const [destination, a, b] = i.operands;
    if (i.choices.has("relu") || i.choices.has("packed")) return wholly(e, shadows, i);
    const type = shadowType(i.type);
    const { code } = e;
    if (e.sharesChecks && type.bits === 32) {
      const sign = i.type.kind === "signed" ? orderFlags.isSigned : 0;
      return shadows.assign(destination, type, () => {
        pushWithShadows(e, shadows, [a, b], type);
        code.i32(sign | (operation === "max" ? orderFlags.isGreatest : 0));
        e.callHelper("extremeShadow");
      });
    }
    const may = e.temporary("i32"), isFirst = e.temporary("i32"), isUnknown = e.temporary("i32");
    const operands = operation === "min" ? [a, b] as const : [b, a] as const;
    pushMayAndMust(e, shadows, { operands, type, isSigned: i.type.kind === "signed", isStrict: true });
    code.set(isFirst).tee(may).get(isFirst).ops("i32Ne").set(isUnknown);
    shadows.assign(destination, type, () => pushSelected(e, shadows, { operands: [a, b], type, isFirst, isUnknown }));
  };
}
