/**
 * 16-bit floating-point arithmetic on one float or on two floats in a register. PTX ISA, section 9.7.4.
 *
 * Results are computed in 64 bits, exactly or rounded to odd, and then rounded once. A NaN is 0x7fff, as on an H200.
 *
 * @module
 */
import { type Approximation, exponentialApproximation, tangentApproximation } from "./approximate_instructions.ts";
import { type Extreme, pushExtreme, saturate } from "./float_instructions.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { Emit } from "../instruction_form.ts";
import { roundingCodes } from "../../helpers/rounding_helpers.ts";
import { type ScalarType, typeNamed } from "../../../../ptx/instructions/scalar_types.ts";
import type { ResolvedInstruction, ResolvedOperand } from "../../../../ptx/instructions/resolved_instruction.ts";

const double = typeNamed("f64");

/** The bits of the 16-bit float with which tensor copies fill what is outside of a tensor, if it is to be a NaN. */
const outsideNaN = 0x7ff7;

/** The largest finite number of each 16-bit float type. */
export const largestHalves: Readonly<Record<string, number>> = { f16: 65504, bf16: (2 - 2 ** -7) * 2 ** 127 };

/** Returns the type of the elements of a packed or single value, and the number of elements. */
export function elementsOf({ name, bits }: ScalarType): { readonly element: ScalarType; readonly count: number } {
  return { element: typeNamed(name.replace("x2", "")), count: bits / 16 };
}

/** Whether a type consists of 16-bit floats. */
export function isHalf({ kind, name }: ScalarType): boolean {
  return kind === "float" && name.includes("f16");
}

/** Emits code that converts the bits of a 16-bit float on the stack to a 32-bit float. */
export function widenHalf(e: FunctionEmitter, { name }: ScalarType): void {
  if (name === "f16") e.callHelper("halfToSingle");
  else e.code.i32(16).ops("i32Shl", "f32ReinterpretI32");
}

/** The options of a conversion from a 64-bit float to a 16-bit float. */
export interface NarrowOptions {
  /** The rounding mode, one of `roundingCodes`. */
  readonly rounding: number;
  /** Whether a NaN keeps its sign and the upper bits of its fraction. Default: false; every NaN becomes 0x7fff. */
  readonly keepsNaN?: boolean;
}

/** Emits code that converts the 64-bit float on the stack to the bits of a 16-bit float. */
export function narrowToHalf(
  e: FunctionEmitter,
  { name }: ScalarType,
  { rounding, keepsNaN = false }: NarrowOptions,
): void {
  const { code } = e;
  const value = e.temporary("f64");
  if (name === "bf16") {
    code.tee(value).i32(rounding);
    e.callHelper("doubleToBrain");
    if (!keepsNaN) return;
    const highBits = (shift: bigint) =>
      code.get(value).ops("i64ReinterpretF64").i64(shift).ops("i64ShrU", "i32WrapI64");
    highBits(48n).i32(0x8000).ops("i32And");
    highBits(45n).i32(0x7f).ops("i32And", "i32Or").i32(0x7fc0).ops("i32Or");
    code.get(value).get(value).ops("f64Eq", "select");
    return;
  }
  if (!keepsNaN) {
    code.tee(value).f64Bits(0x7fff_ffff_ffff_ffffn).get(value).get(value).ops("f64Eq", "select");
  }
  if (rounding === roundingCodes.rn) {
    e.callHelper("doubleToHalf");
  } else {
    code.i32(rounding);
    e.callHelper("doubleToHalfDirected");
  }
}

/**
 * Emits code that applies `.relu` and `.satfinite` to the 64-bit float on the stack: `.relu` clamps it to at least +0,
 * and `.satfinite` to the finite range of the result's type.
 */
export function clampDouble(e: FunctionEmitter, { choices }: ResolvedInstruction, largest: number): void {
  if (choices.has("relu")) e.code.f64(0).ops("f64Max");
  if (choices.has("satfinite")) e.code.f64(largest).ops("f64Min").f64(-largest).ops("f64Max");
}

/** The smallest magnitude that rounds to a normal `.f16` when the exponent is unbounded. */
const leastRoundedToNormal = 2 ** -14 * (1 - 2 ** -12);

/**
 * Emits code that, for `.ftz`, replaces the 64-bit float on the stack with a zero of the same sign if its magnitude is
 * less than `least`. `least` is the smallest normal number or, before rounding, {@linkcode leastRoundedToNormal}.
 */
function flushHalf(e: FunctionEmitter, least: number): void {
  const value = e.temporary("f64");
  e.code.set(value).f64(0).get(value).ops("f64Copysign").get(value);
  e.code.get(value).ops("f64Abs").f64(least).ops("f64Lt", "select");
}

/** Emits code that pushes the bits of the element at `index` of the packed floats in a local. */
export function pushElement(
  e: FunctionEmitter,
  local: number,
  { index, count }: { index: number; count: number },
): void {
  e.code.get(local);
  if (index > 0) e.code.i32(16).ops("i32ShrU");
  else if (count > 1) e.code.i32(0xffff).ops("i32And");
}

/** Emits code that copies the bits of operands to new locals, and returns the locals. */
export function holdBits(e: FunctionEmitter, type: ScalarType, operands: readonly ResolvedOperand[]): number[] {
  return operands.map((operand) => {
    const local = e.temporary("i32");
    e.push(operand, type);
    e.code.set(local);
    return local;
  });
}

/**
 * Emits code that packs elements and pushes the packed value. `push` emits the code that pushes one element. The first
 * element is in the lowest bits.
 */
export function packElements(e: FunctionEmitter, count: number, push: (index: number) => void): void {
  for (let index = 0; index < count; index++) {
    push(index);
    if (index > 0) e.code.i32(16).ops("i32Shl", "i32Or");
  }
}

/**
 * Emits code that replaces the bits of a result on the stack with 0 if one of two operands is the NaN with which tensor
 * copies fill what is outside of a tensor. `pushOperand` pushes the bits of the operand with an index.
 */
function clearOutside(e: FunctionEmitter, pushOperand: (operand: number) => void): void {
  const { code } = e;
  const result = e.temporary("i32");
  code.set(result).i32(0).get(result);
  for (const operand of [0, 1]) {
    pushOperand(operand);
    code.i32(0x7fff).ops("i32And").i32(outsideNaN).ops("i32Eq");
  }
  code.ops("i32Or", "select");
}

/**
 * Returns the lowering of an instruction on 16-bit floats. `compute` receives 64-bit locals with the operands, and
 * emits the code that pushes the result. With `clearsOutside`, the result is 0 if one of the first two operands stands
 * for an element outside of a tensor.
 */
function half(
  compute: (e: FunctionEmitter, i: ResolvedInstruction, operands: readonly number[]) => void,
  { clearsOutside = false }: { readonly clearsOutside?: boolean } = {},
): Emit {
  return (e, i) => {
    const { code } = e;
    const { element, count } = elementsOf(i.type);
    const flushes = i.choices.has("ftz") && element.name === "f16";
    const bits = holdBits(e, i.type, i.operands.slice(1));
    const numbers = bits.map(() => e.temporary("f64"));
    e.assign(i.operands[0], i.type, () => {
      packElements(e, count, (index) => {
        bits.forEach((local, operand) => {
          pushElement(e, local, { index, count });
          widenHalf(e, element);
          code.ops("f64PromoteF32");
          if (flushes) flushHalf(e, 2 ** -14);
          code.set(numbers[operand]!);
        });
        compute(e, i, numbers);
        if (flushes) flushHalf(e, leastRoundedToNormal);
        if (i.choices.has("sat")) saturate(e, double);
        clampDouble(e, i, Infinity);
        narrowToHalf(e, element, { rounding: roundingCodes.rn });
        if (clearsOutside) clearOutside(e, (operand) => pushElement(e, bits[operand]!, { index, count }));
      });
    });
  };
}

/** Emits code that replaces the bits of a subnormal `.f16` on the stack with a zero of the same sign. */
export function flushHalfBits(e: FunctionEmitter): void {
  const bits = e.temporary("i32");
  e.code.tee(bits).i32(0x8000).i32(0xffff).get(bits).i32(0x7c00).ops("i32And", "i32Eqz", "select", "i32And");
}

/** Returns the lowering of `add` or `sub`. */
export function halfSum(operation: "Add" | "Sub"): Emit {
  return half((e, _, [a = 0, b = 0]) => {
    e.code.get(a).get(b);
    if (operation === "Sub") e.code.ops("f64Neg");
    e.callHelper("addToOdd");
  });
}

/** Emits code for `mul`. */
export const halfProduct: Emit = half(({ code }, _, [a = 0, b = 0]) => {
  code.get(a).get(b).ops("f64Mul");
});

function multiplyAdd(e: FunctionEmitter, _: ResolvedInstruction, [a = 0, b = 0, c = 0]: readonly number[]): void {
  e.code.get(a).get(b).ops("f64Mul").get(c);
  e.callHelper("addToOdd");
}

/** Emits code for `fma`. */
export const halfMultiplyAdd: Emit = half(multiplyAdd);

/** Emits code for `fma` with `.oob`. */
export const halfMultiplyAddInside: Emit = half(multiplyAdd, { clearsOutside: true });

/** Returns the lowering of `neg` or `abs`. */
export function halfSignChange(operation: "Neg" | "Abs"): Emit {
  return half(({ code }, _, [a = 0]) => {
    code.get(a).ops(`f64${operation}`);
  });
}

/** Returns the lowering of `min` or `max`. */
export function halfExtreme(operation: Extreme): Emit {
  return half((e, i, [a = 0, b = 0]) => pushExtreme(e, i, { operation, value: "f64", operands: [a, b] }));
}

function halfApproximation(compute: Approximation): Emit {
  return half((e, _, [a = 0]) => {
    e.code.get(a);
    compute(e);
  });
}

/** Emits code for `ex2`. */
export const halfExponential: Emit = halfApproximation(exponentialApproximation);
/** Emits code for `tanh`. */
export const halfTangent: Emit = halfApproximation(tangentApproximation);
