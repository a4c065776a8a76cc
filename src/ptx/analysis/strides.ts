/**
 * The strides of instructions' results, from those of their operands.
 *
 * @module
 */
import type { Arithmetic } from "../instructions/instruction_traits.ts";
import type { ResolvedInstruction, ResolvedOperand } from "../instructions/resolved_instruction.ts";
import type { ScalarType } from "../instructions/scalar_types.ts";

/**
 * The difference between a value in each thread of a gang and in the thread before, modulo 2^bits: 0 for a uniform
 * value, undefined for a varying one.
 */
export type Stride = bigint | undefined;

/** Finds the stride of an operand that is read with the given bits, by default those of the destination. */
export type OperandStride = (operand: ResolvedOperand | undefined, bits?: number) => Stride;

/** Finds the stride of an instruction's result, an integer of at least 32 bits, from those of its operands. */
export type StrideRule = (instruction: ResolvedInstruction, strideOf: OperandStride) => Stride;

/** The 32-bit operands that an instruction extends to 64 bits, and the type that says how. */
export interface Widening {
  readonly operands: readonly ResolvedOperand[];
  readonly type: ScalarType;
}

/** How the stride of an instruction's result is found. Undefined if a strided operand makes the result varying. */
export function strideRuleOf({ form }: ResolvedInstruction): StrideRule | undefined {
  const { arithmetic } = form.traits;
  return arithmetic === undefined ? undefined : strideRules[arithmetic];
}

/**
 * The operands that an instruction extends to 64 bits. They must not wrap around within a gang for its stride to hold.
 * Undefined for an instruction that extends none.
 */
export function wideningOf(instruction: ResolvedInstruction): Widening | undefined {
  switch (instruction.form.traits.arithmetic) {
    case "product":
    case "product sum":
      return wideningOfProduct(instruction);
    case "conversion":
      return wideningOfConversion(instruction);
    default:
      return undefined;
  }
}

/** `mov` */
const strideOfMove: StrideRule = ({ operands: [destination, source] }, strideOf) => {
  const bits = destination?.kind === "register" ? destination.type.bits : 0;
  if (source?.kind === "vector" || (source?.kind === "special" && bits !== 32)) return undefined;
  return strideOf(source);
};

/** `add` */
const strideOfSum: StrideRule = ({ operands: [, a, b] }, strideOf) => sum(strideOf(a), strideOf(b));

/** `sub` */
const strideOfDifference: StrideRule = ({ operands: [, a, b] }, strideOf) => sum(strideOf(a), times(strideOf(b), -1n));

/** `neg` */
const strideOfNegation: StrideRule = ({ operands: [, a] }, strideOf) => times(strideOf(a), -1n);

/** `shl` */
const strideOfShift: StrideRule = ({ operands: [destination, a, b] }, strideOf) => {
  const bits = destination?.kind === "register" ? destination.type.bits : 0;
  if (b?.kind !== "integer" || b.value < 0n || b.value >= bits) return undefined;
  return times(strideOf(a), 1n << b.value);
};

/** `mul.lo` and `mul.wide` */
const strideOfProduct: StrideRule = ({ operands: [, a, b], type, choices }, strideOf) => {
  const width = choices.has("wide") ? type.bits : undefined;
  const factorOf = (operand: ResolvedOperand | undefined) =>
    operand?.kind === "integer" ? integerIn(operand.value, type.bits, type.kind === "signed") : undefined;
  const strides = [strideOf(a, width), strideOf(b, width)];
  if (strides[0] === 0n && strides[1] === 0n) return 0n;
  const factor = factorOf(b) ?? factorOf(a);
  return factor === undefined ? undefined : times(factorOf(b) === undefined ? strides[1] : strides[0], factor);
};

/** `mad.lo` and `mad.wide` */
const strideOfProductSum: StrideRule = (instruction, strideOf) =>
  sum(strideOfProduct(instruction, strideOf), strideOf(instruction.operands[3]));

/** `cvt` between integers */
const strideOfConversion: StrideRule = ({ operands: [, a], type, sourceType: from, choices }, strideOf) => {
  if (choices.has("sat") || from.kind === "float" || from.bits < 32 || type.bits < 32) return undefined;
  return strideOf(a, from.bits);
};

const strideRules: Readonly<Partial<Record<Arithmetic, StrideRule>>> = {
  "move": strideOfMove,
  "conversion": strideOfConversion,
  "negation": strideOfNegation,
  "sum": strideOfSum,
  "difference": strideOfDifference,
  "product": strideOfProduct,
  "product sum": strideOfProductSum,
  "shift": strideOfShift,
};

/** `mul.wide` and `mad.wide` of 32-bit operands */
function wideningOfProduct({ type, operands, choices }: ResolvedInstruction): Widening | undefined {
  return choices.has("wide") && type.bits === 32 ? { operands: operands.slice(1, 3), type } : undefined;
}

/** `cvt` from a 32-bit integer to a 64-bit one */
function wideningOfConversion(
  { type, sourceType: from, choices, operands }: ResolvedInstruction,
): Widening | undefined {
  if (from.bits !== 32 || from.kind === "float" || type.bits !== 64 || type.kind === "float") return undefined;
  return choices.has("sat") ? undefined : { operands: operands.slice(1, 2), type: from };
}

function integerIn(value: bigint, bits: number, isSigned: boolean): bigint {
  return isSigned ? BigInt.asIntN(bits, value) : BigInt.asUintN(bits, value);
}

function sum(a: Stride, b: Stride): Stride {
  return a === undefined || b === undefined ? undefined : a + b;
}

function times(a: Stride, factor: bigint): Stride {
  return a === undefined ? undefined : a * factor;
}
