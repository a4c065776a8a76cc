/**
 * The strides of instructions' results, from those of their operands.
 *
 * @module
 */
import type { Stride, StrideRule, Widening } from "./instruction_traits.ts";
import type { ResolvedInstruction, ResolvedOperand } from "../typing/resolved_instruction.ts";

/** `mov` */
export const strideOfMove: StrideRule = ({ operands: [destination, source] }, strideOf) => {
  const bits = destination?.kind === "register" ? destination.type.bits : 0;
  if (source?.kind === "vector" || (source?.kind === "special" && bits !== 32)) return undefined;
  return strideOf(source);
};

/** `add` */
export const strideOfSum: StrideRule = ({ operands: [, a, b] }, strideOf) => sum(strideOf(a), strideOf(b));

/** `sub` */
export const strideOfDifference: StrideRule = ({ operands: [, a, b] }, strideOf) =>
  sum(strideOf(a), times(strideOf(b), -1n));

/** `neg` */
export const strideOfNegation: StrideRule = ({ operands: [, a] }, strideOf) => times(strideOf(a), -1n);

/** `shl` */
export const strideOfShift: StrideRule = ({ operands: [destination, a, b] }, strideOf) => {
  const bits = destination?.kind === "register" ? destination.type.bits : 0;
  if (b?.kind !== "integer" || b.value < 0n || b.value >= bits) return undefined;
  return times(strideOf(a), 1n << b.value);
};

/** `mul.lo` and `mul.wide` */
export const strideOfProduct: StrideRule = ({ operands: [, a, b], type, choices }, strideOf) => {
  const width = choices.has("wide") ? type.bits : undefined;
  const factorOf = (operand: ResolvedOperand | undefined) =>
    operand?.kind === "integer" ? integerIn(operand.value, type.bits, type.kind === "signed") : undefined;
  const strides = [strideOf(a, width), strideOf(b, width)];
  if (strides[0] === 0n && strides[1] === 0n) return 0n;
  const factor = factorOf(b) ?? factorOf(a);
  return factor === undefined ? undefined : times(factorOf(b) === undefined ? strides[1] : strides[0], factor);
};

/** `mad.lo` and `mad.wide` */
export const strideOfProductSum: StrideRule = (instruction, strideOf) =>
  sum(strideOfProduct(instruction, strideOf), strideOf(instruction.operands[3]));

/** `cvt` between integers */
export const strideOfConversion: StrideRule = ({ operands: [, a], type, sourceType: from, choices }, strideOf) => {
  if (choices.has("sat") || from.kind === "float" || from.bits < 32 || type.bits < 32) return undefined;
  return strideOf(a, from.bits);
};

/** `mul.wide` and `mad.wide` of 32-bit operands */
export function wideningOfProduct({ type, operands }: ResolvedInstruction): Widening | undefined {
  return type.bits === 32 ? { operands: operands.slice(1, 3), type } : undefined;
}

/** `cvt` from a 32-bit integer to a 64-bit one */
export function wideningOfConversion(
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
