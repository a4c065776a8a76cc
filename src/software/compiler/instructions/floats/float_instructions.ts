/**
 * 32-bit and 64-bit floating-point arithmetic. PTX ISA, section 9.7.3.
 *
 * WebAssembly rounds to nearest even, as `.rn` does, and never fuses operations. It does not specify the bits of NaNs.
 * Here, NaNs have the bits that an H200 gives. A 32-bit NaN is always 0x7fffffff. A 64-bit NaN is the operand that is a
 * NaN, made quiet. If several operands are NaNs, it is the second one (in a division the first; in a fused multiply-add
 * the second, then the third, then the first). If no operand is a NaN, it is 0xfff8000000000000.
 *
 * @module
 */
import { writeFusedMultiplyAdd } from "../../webassembly/engine_features.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { Emit } from "../instruction_form.ts";
import { type Rounding, roundingCodes } from "../../helpers/rounding_helpers.ts";
import { type ScalarType, typeNamed } from "../../../../ptx/instructions/scalar_types.ts";
import type { ResolvedInstruction, ResolvedOperand } from "../../../../ptx/instructions/resolved_instruction.ts";
import type { OpName } from "../../webassembly/opcodes.ts";

const predicate = typeNamed("pred");

type FloatOperation<Name = OpName> = Name extends `f32${infer Rest}` ? `f64${Rest}` extends OpName ? Rest : never
  : never;

/**
 * The name of an operation that is a single WebAssembly instruction when it rounds to nearest even. In PTX, the
 * operation may also have another rounding mode.
 */
type RoundedOperation = "Add" | "Sub" | "Mul" | "Div" | "Sqrt";

function inType({ value }: ScalarType, operation: FloatOperation): OpName {
  return value === "f64" ? `f64${operation}` : `f32${operation}`;
}

function constant(e: FunctionEmitter, { value }: ScalarType, number: number): void {
  if (value === "f64") e.code.f64(number);
  else e.code.f32(number);
}

/**
 * Emits code that canonicalizes a NaN on the stack.
 *
 * @param operands for 64 bits, the locals of the operands; if several are NaNs, the last one determines the result
 */
export function canonicalizeNaN(e: FunctionEmitter, type: ScalarType, operands: readonly number[]): void {
  if (type.value !== "f64") {
    e.canonicalizeNaN32();
    return;
  }
  const [first = 0, second = first, ...others] = operands;
  const value = e.temporary("f64");
  e.code.tee(value).get(value).ops("f64Ne").ifUnlikely("f64").get(first).get(second);
  e.callHelper("propagateNaN64");
  for (const operand of others) {
    e.code.get(operand);
    e.callHelper("propagateNaN64");
  }
  e.code.else().get(value).end();
}

/** Emits code that, for `.ftz`, replaces a subnormal 32-bit number on the stack with a zero of the same sign. */
export function flushSubnormal(e: FunctionEmitter): void {
  const value = e.temporary("f32");
  e.code.set(value).f32(0).get(value).ops("f32Copysign").get(value);
  e.code.get(value).ops("f32Abs").f32(2 ** -126).ops("f32Lt", "select");
}

const smallestNormal = 2 ** -126;

/**
 * Emits code that applies `.ftz` to a 64-bit number before it is rounded to 32 bits: replaces the number with a zero of
 * the same sign if its magnitude, rounded as if the exponent were unbounded, is below the smallest normal number.
 */
function flushBeforeRounding(e: FunctionEmitter, rounding: number): void {
  const { code } = e;
  const value = e.temporary("f64");
  const largestBelow = smallestNormal * (1 - 2 ** -24);
  code.set(value).f64(0).get(value).ops("f64Copysign").get(value).get(value);
  switch (rounding) {
    case roundingCodes.rn:
      code.ops("f64Abs").f64(smallestNormal * (1 - 2 ** -25)).ops("f64Lt");
      break;
    case roundingCodes.rm:
      code.f64(smallestNormal).ops("f64Lt").get(value).f64(-largestBelow).ops("f64Ge", "i32And");
      break;
    case roundingCodes.rp:
      code.f64(-smallestNormal).ops("f64Gt").get(value).f64(largestBelow).ops("f64Le", "i32And");
      break;
    default:
      code.ops("f64Abs").f64(smallestNormal).ops("f64Lt");
  }
  code.ops("select");
}

/**
 * Emits code that rounds a 64-bit number on the stack to 32 bits, in one of the modes of `roundingCodes`. The number
 * must be exact or rounded to odd.
 */
export function roundToSingle(e: FunctionEmitter, { choices }: ResolvedInstruction, rounding: number): void {
  if (choices.has("ftz")) flushBeforeRounding(e, rounding);
  if (rounding === roundingCodes.rn) {
    e.code.ops("f32DemoteF64");
  } else {
    e.code.i32(rounding);
    e.callHelper("doubleToSingle");
  }
}

/** Emits code that, for `.sat`, clamps the number on the stack to the range from 0 to 1. A NaN becomes +0. */
export function saturate(e: FunctionEmitter, type: ScalarType): void {
  const value = e.temporary(type.value);
  e.code.set(value);
  // Both comparisons below are false for NaN, and the first is false for -0.
  e.code.get(value);
  constant(e, type, 0);
  e.code.get(value);
  constant(e, type, 0);
  e.code.ops(inType(type, "Gt"), "select");
  constant(e, type, 1);
  e.code.ops(inType(type, "Min"));
}

/**
 * Emits code that pushes an operand. If the instruction has `.ftz`, a subnormal operand is replaced with zero. The bits
 * of a 32-bit NaN are unspecified.
 */
export function pushFloat(e: FunctionEmitter, i: ResolvedInstruction, operand: ResolvedOperand | undefined): void {
  e.push(operand, i.type, { anyNaN: true });
  if (i.choices.has("ftz")) flushSubnormal(e);
}

/**
 * Emits code that pushes an operand, like {@linkcode pushFloat}. For a 64-bit operand, also returns the local that
 * contains the operand, because the result may be the operand's NaN.
 */
function pushKept(e: FunctionEmitter, i: ResolvedInstruction, operand: ResolvedOperand | undefined): number[] {
  pushFloat(e, i, operand);
  if (i.type.value !== "f64") return [];
  const held = e.localOf(operand, i.type);
  if (held !== undefined) return [held];
  const local = e.temporary("f64");
  e.code.tee(local);
  return [local];
}

/**
 * Emits code that computes a float, applies `.ftz`, `.sat` and NaN canonicalization, and assigns the result to the
 * destination. `compute` emits the code that pushes the float, and returns the locals of the operands for {@linkcode
 * canonicalizeNaN}.
 */
export function assignFloat(e: FunctionEmitter, i: ResolvedInstruction, compute: () => readonly number[]): void {
  e.assign(i.operands[0], i.type, () => {
    const operands = compute();
    if (i.choices.has("ftz")) flushSubnormal(e);
    if (i.choices.has("sat")) saturate(e, i.type);
    else if (i.type.value === "f64" && !e.defersNaN64) canonicalizeNaN(e, i.type, operands);
  }, { anyNaN: true });
}

/** Returns the rounding mode of an instruction, one of `roundingCodes`. */
function roundingOf({ choices }: ResolvedInstruction): number {
  return roundingCodes[choices.get("rounding") as Rounding | undefined ?? "rn"];
}

/**
 * Whether WebAssembly's instruction for an operation gives the same result as the PTX instruction, given its rounding
 * mode and `.ftz`.
 */
function isRoundedAlike(i: ResolvedInstruction, operation: RoundedOperation): boolean {
  if (roundingOf(i) !== roundingCodes.rn) return false;
  return !i.choices.has("ftz") || (operation !== "Mul" && operation !== "Div");
}

/** Returns the lowering of an operation that is a single WebAssembly instruction if it rounds to nearest even. */
export function float(operation: RoundedOperation): Emit {
  return (e, i) =>
    assignFloat(e, i, () => {
      const isAlike = isRoundedAlike(i, operation);
      const [, a, b] = i.operands;
      const kept = [a, ...(operation === "Sqrt" ? [] : [b])].flatMap((operand) => {
        const local = pushKept(e, i, operand);
        if (!isAlike && i.type.value === "f32") e.code.ops("f64PromoteF32");
        return local;
      });
      if (isAlike) e.code.ops(inType(i.type, operation));
      else if (i.type.value === "f32") roundSingle(e, i, operation);
      else roundDouble(e, operation, roundingOf(i));
      return operation === "Div" ? kept.toReversed() : kept;
    });
}

/**
 * Emits a 32-bit operation that is computed in 64 bits and then rounded to 32 bits. Sums must be rounded to odd in 64
 * bits; for the other operations, rounding twice gives the correct result.
 */
function roundSingle(e: FunctionEmitter, i: ResolvedInstruction, operation: RoundedOperation): void {
  const rounding = roundingOf(i);
  if (operation === "Sub") e.code.ops("f64Neg");
  if (operation === "Add" || operation === "Sub") addToOdd(e, rounding);
  else e.code.ops(`f64${operation}`);
  roundToSingle(e, i, rounding);
}

/**
 * Emits code that pushes the sum of two numbers, rounded to odd. When rounding toward negative infinity, x - x is -0:
 * negating both operands and the result gives -0.
 */
function addToOdd(e: FunctionEmitter, rounding: number): void {
  const { code } = e;
  if (rounding !== roundingCodes.rm) {
    e.callHelper("addToOdd");
    return;
  }
  const second = e.temporary("f64");
  code.ops("f64Neg").set(second).ops("f64Neg").get(second);
  e.callHelper("addToOdd").ops("f64Neg");
}

/** Emits a 64-bit operation in a rounding mode. */
function roundDouble(e: FunctionEmitter, operation: RoundedOperation, rounding: number): void {
  const { code } = e;
  if (operation === "Div" || operation === "Sqrt") {
    code.i32(rounding);
    e.callHelper(operation === "Div" ? "divide64" : "squareRoot64");
    return;
  }
  const a = e.temporary("f64"), b = e.temporary("f64");
  if (operation === "Sub") code.ops("f64Neg");
  code.set(b).set(a).get(a);
  if (operation === "Mul") code.get(b).f64(0).get(a).get(b).ops("f64Mul", "f64Copysign");
  else code.f64(1).get(b);
  code.i32(rounding);
  e.callHelper("fusedMultiplyAdd64");
}

/** Emits code for `rcp` with a rounding mode. */
export const reciprocal: Emit = (e, i) =>
  assignFloat(e, i, () => {
    const rounding = roundingOf(i);
    if (rounding === roundingCodes.rn) {
      constant(e, i.type, 1);
      const kept = pushKept(e, i, i.operands[1]);
      e.code.ops(inType(i.type, "Div"));
      return kept;
    }
    e.code.f64(1);
    const kept = pushKept(e, i, i.operands[1]);
    if (i.type.value === "f32") e.code.ops("f64PromoteF32");
    if (i.type.value === "f32") roundSingle(e, i, "Div");
    else roundDouble(e, "Div", rounding);
    return kept;
  });

/** Returns the lowering of `neg` or `abs`, neither of which changes a NaN's sign. */
export function signChange(operation: "Neg" | "Abs"): Emit {
  return (e, i) =>
    assignFloat(e, i, () => {
      const kept = pushKept(e, i, i.operands[1]);
      e.code.ops(inType(i.type, operation));
      return kept;
    });
}

/** Emits code for `fma` and `mad`. */
export const fusedMultiplyAdd: Emit = (e, i) =>
  assignFloat(e, i, () => {
    const rounding = roundingOf(i);
    const operands = i.operands.slice(1);
    const isAlike = rounding === roundingCodes.rn && !i.choices.has("ftz");
    if (isAlike && e.options.fusedMultiplyAdd) {
      const kept: number[] = [];
      writeFusedMultiplyAdd(
        e.code,
        i.type.value === "f64" ? "f64" : "f32",
        operands.map((operand) => () => kept.push(...pushKept(e, i, operand))),
      );
      return factorLast(kept);
    }
    if (i.type.value === "f64") {
      const kept = operands.flatMap((operand) => pushKept(e, i, operand));
      e.code.i32(rounding);
      e.callHelper("fusedMultiplyAdd64");
      return factorLast(kept);
    }
    pushSingleProduct(e, i);
    if (isAlike) {
      addAndRound(e);
    } else {
      addToOdd(e, rounding);
      roundToSingle(e, i, rounding);
    }
    return [];
  });

/**
 * Orders the locals of the two factors and the addend so that, if several are NaNs, the last of them determines the
 * result. The second factor is last, because its NaN takes precedence.
 */
function factorLast([a, b, c]: readonly number[]): number[] {
  return [a, c, b].filter((local) => local !== undefined);
}

/**
 * Emits code that pushes the product of the operands 1 and 2, which is exact in 64 bits, and the third operand,
 * converted to 64 bits.
 */
function pushSingleProduct(e: FunctionEmitter, i: ResolvedInstruction): void {
  const [, ...operands] = i.operands;
  operands.forEach((operand, index) => {
    pushFloat(e, i, operand);
    e.code.ops("f64PromoteF32");
    if (index === 1) e.code.ops("f64Mul");
  });
}

/**
 * Emits code that adds two 64-bit numbers and rounds the sum to 32 bits. Rounding the sum to 64 bits first gives the
 * correct result, except if the low bits of the 64-bit sum show that it is halfway between two 32-bit numbers, or if
 * the result is subnormal. In these two cases, the sum is rounded to odd in 64 bits.
 */
function addAndRound(e: FunctionEmitter): void {
  const { code } = e;
  const product = e.temporary("f64"), addend = e.temporary("f64"), sum = e.temporary("f64");
  code.set(addend).tee(product).get(addend).ops("f64Add");
  code.tee(sum).ops("i64ReinterpretF64").i64(0x1fff_ffffn).ops("i64And").i64(0x1000_0000n).ops("i64Eq");
  code.get(sum).ops("f64Abs").f64(2 ** -126).ops("f64Lt", "i32Or");
  code.if("f64").get(product).get(addend);
  e.callHelper("addToOdd").else().get(sum).end().ops("f32DemoteF64");
}

/**
 * Returns the lowering of `min` or `max`. If one operand is a NaN, the result is the other one; -0 is less than +0.
 * `.xorsign.abs` compares magnitudes, and gives the result the sign of the operands' product.
 */
export function extremeFloat(operation: Extreme): Emit {
  return (e, i) => {
    const { value } = i.type;
    const operands = [e.temporary(value), e.temporary(value)] as const;
    assignFloat(e, i, () => {
      for (const [index, local] of operands.entries()) {
        pushFloat(e, i, i.operands[index + 1]);
        e.code.set(local);
      }
      pushExtreme(e, i, { operation, value: value === "f64" ? value : "f32", operands });
      return operands;
    });
  };
}

/** The name of the operation `min` or `max`. */
export type Extreme = "Min" | "Max";

/** Emits code that pushes the minimum or the maximum of two numbers of 32 or 64 bits. */
export function pushExtreme(
  { code }: FunctionEmitter,
  { choices }: ResolvedInstruction,
  { operation, value, operands: [a, b] }: {
    operation: Extreme;
    value: "f32" | "f64";
    operands: readonly [number, number];
  },
): void {
  const byMagnitude = choices.has("xorsign");
  const push = (local: number) => {
    code.get(local);
    if (byMagnitude) code.ops(`${value}Abs`);
  };
  const pushIsNaN = (local: number) => code.get(local).get(local).ops(`${value}Ne`);
  const alone = choices.has("NaN") ? [] : [b, a];
  for (const local of [...alone, a, b]) push(local);
  code.ops(`${value}${operation}`);
  for (const local of alone) {
    pushIsNaN(local);
    code.ops("select");
  }
  if (!byMagnitude) return;
  for (const local of [a, b]) {
    if (value === "f64") code.f64(1);
    else code.f32(1);
    code.get(local).ops(`${value}Copysign`);
  }
  code.ops(`${value}Mul`, `${value}Copysign`);
}

/** Emits code for `copysign`: the second operand with the sign of the first. */
export const copySign: Emit = (e, i) => {
  e.assign(i.operands[0], i.type, () => {
    e.push(i.operands[2], i.type);
    e.push(i.operands[1], i.type);
    e.code.ops(inType(i.type, "Copysign"));
  });
};

/** Emits code for `testp`. */
export const testProperty: Emit = (e, i) => {
  const { code } = e;
  const double = i.type.value === "f64";
  const magnitude = e.temporary("i64");
  const infinity = double ? 0x7ff0_0000_0000_0000n : 0x7f80_0000n;
  const smallestNormal = double ? 0x0010_0000_0000_0000n : 0x0080_0000n;
  e.assign(i.operands[0], predicate, () => {
    e.push(i.operands[1], i.type, { anyNaN: true });
    code.ops(inType(i.type, "Abs"));
    if (double) code.ops("i64ReinterpretF64");
    else code.ops("i32ReinterpretF32", "i64ExtendI32U");
    code.set(magnitude).get(magnitude);
    switch (i.choices.get("property")) {
      case "finite":
        code.i64(infinity).ops("i64LtU");
        break;
      case "infinite":
        code.i64(infinity).ops("i64Eq");
        break;
      case "number":
        code.i64(infinity).ops("i64LeU");
        break;
      case "notanumber":
        code.i64(infinity).ops("i64GtU");
        break;
      case "normal":
        // In `testp.normal`, zeros count as normal.
        code.i64(smallestNormal).ops("i64Sub").i64(infinity - smallestNormal).ops("i64LtU");
        code.get(magnitude).ops("i64Eqz", "i32Or");
        break;
      case "subnormal":
        code.i64(1n).ops("i64Sub").i64(smallestNormal - 1n).ops("i64LtU");
        break;
    }
  });
};
