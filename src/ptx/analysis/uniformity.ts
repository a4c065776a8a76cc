/**
 * Finds how the values of registers differ among the members of a gang, which are adjacent along x and have followed
 * the same path: the strides of results, from those of their operands.
 *
 * @module
 */
import type { Arithmetic } from "../instructions/instruction_traits.ts";
import type { Register, ResolvedInstruction, ResolvedOperand } from "../instructions/resolved_instruction.ts";
import type { ScalarType } from "../instructions/scalar_types.ts";
import { readersOf, resultsOf, sourcesOf } from "./definitions_and_uses.ts";

/**
 * The difference between the value of one thread of a gang and that of the previous thread, modulo 2^bits: 0 for a
 * uniform value, undefined for a varying one.
 */
export type Stride = bigint | undefined;

/** Returns the stride of an operand that is read as `bits` bits, by default the width of the destination. */
export type OperandStride = (operand: ResolvedOperand | undefined, bits?: number) => Stride;

/** Computes the stride of an instruction's result, an integer of at least 32 bits, from the strides of its operands. */
export type StrideRule = (instruction: ResolvedInstruction, strideOf: OperandStride) => Stride;

/** The 32-bit operands that an instruction extends to 64 bits, and the type that determines sign or zero extension. */
export interface Widening {
  readonly operands: readonly ResolvedOperand[];
  readonly type: ScalarType;
}

/** Returns the stride rule for an instruction. Undefined if a strided operand always makes the result varying. */
export function strideRuleOf({ form }: ResolvedInstruction): StrideRule | undefined {
  const { arithmetic } = form.traits;
  return arithmetic === undefined ? undefined : strideRules[arithmetic];
}

/**
 * Returns the operands that an instruction extends to 64 bits. The stride of the result is valid only if these operands
 * do not wrap around within a gang. Undefined for an instruction that extends no operands.
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

/** The stride rule for `mov`. */
const strideOfMove: StrideRule = ({ operands: [destination, source] }, strideOf) => {
  const bits = destination?.kind === "register" ? destination.type.bits : 0;
  if (source?.kind === "vector" || (source?.kind === "special" && bits !== 32)) return undefined;
  return strideOf(source);
};

/** The stride rule for `add`. */
const strideOfSum: StrideRule = ({ operands: [, a, b] }, strideOf) => sum(strideOf(a), strideOf(b));

/** The stride rule for `sub`. */
const strideOfDifference: StrideRule = ({ operands: [, a, b] }, strideOf) => sum(strideOf(a), times(strideOf(b), -1n));

/** The stride rule for `neg`. */
const strideOfNegation: StrideRule = ({ operands: [, a] }, strideOf) => times(strideOf(a), -1n);

/** The stride rule for `shl`. */
const strideOfShift: StrideRule = ({ operands: [destination, a, b] }, strideOf) => {
  const bits = destination?.kind === "register" ? destination.type.bits : 0;
  if (b?.kind !== "integer" || b.value < 0n || b.value >= bits) return undefined;
  return times(strideOf(a), 1n << b.value);
};

/** The stride rule for `mul.lo` and `mul.wide`. */
const strideOfProduct: StrideRule = ({ operands: [, a, b], type, choices }, strideOf) => {
  const width = choices.has("wide") ? type.bits : undefined;
  const factorOf = (operand: ResolvedOperand | undefined) =>
    operand?.kind === "integer" ? integerIn(operand.value, type.bits, type.kind === "signed") : undefined;
  const strides = [strideOf(a, width), strideOf(b, width)];
  if (strides[0] === 0n && strides[1] === 0n) return 0n;
  const factor = factorOf(b) ?? factorOf(a);
  return factor === undefined ? undefined : times(factorOf(b) === undefined ? strides[1] : strides[0], factor);
};

/** The stride rule for `mad.lo` and `mad.wide`. */
const strideOfProductSum: StrideRule = (instruction, strideOf) =>
  sum(strideOfProduct(instruction, strideOf), strideOf(instruction.operands[3]));

/** The stride rule for `cvt` between integers. */
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

/** Returns the factors that `mul.wide` and `mad.wide` extend from 32 bits. */
function wideningOfProduct({ type, operands, choices }: ResolvedInstruction): Widening | undefined {
  return choices.has("wide") && type.bits === 32 ? { operands: operands.slice(1, 3), type } : undefined;
}

/** Returns the source that `cvt` extends from a 32-bit integer to a 64-bit one. */
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

/** The strides of a kernel's registers and operands. */
export interface Uniformity {
  strideOf(operand: ResolvedOperand): Stride;
  /**
   * Whether an instruction has the same results and effects in all threads of a gang, so that executing it once per
   * gang suffices.
   */
  isUniform(instruction: ResolvedInstruction): boolean;
  /**
   * Returns the strided operand that an instruction extends from 32 to 64 bits, if the operand might wrap around within
   * a gang, which would invalidate the result's stride. Undefined for other instructions.
   */
  widened(
    instruction: ResolvedInstruction,
  ): { readonly operand: ResolvedOperand; readonly isSigned: boolean } | undefined;
}

/** Returns the operands that an instruction's results depend on: its sources and its predicate. */
function readBy(instruction: ResolvedInstruction): ResolvedOperand[] {
  const sources = sourcesOf(instruction);
  if (instruction.predicate !== undefined) sources.push(instruction.predicate.register);
  return sources;
}

/** The assumptions of {@linkcode findUniformity}. */
export interface UniformityRules {
  /** Returns the stride of a special register: 1 for a thread index. */
  strideOfSpecial(name: string): Stride;
  /** Whether an instruction's results may differ between threads that have the same operands. Default: no. */
  isVarying?(instruction: ResolvedInstruction): boolean;
}

/**
 * Finds the strides of all registers of a function.
 *
 * @param varying registers that are known to be varying
 */
export function findUniformity(
  instructions: readonly ResolvedInstruction[],
  { strideOfSpecial, isVarying = () => false }: UniformityRules,
  varying: ReadonlySet<Register> = new Set(),
): Uniformity {
  // A register without an entry has not been analyzed yet. The value undefined marks a varying register.
  const strides = new Map<Register, Stride>([...varying].map((register) => [register, undefined]));
  const counting = new Map<Register, boolean>();
  const defined = new Set<ResolvedOperand>();
  const isKnown = (operand: ResolvedOperand) =>
    operand.kind !== "register" || strides.has(operand) || !defined.has(operand);
  const strideOf = (operand: ResolvedOperand): Stride => {
    if (operand.kind === "register") return strides.has(operand) ? strides.get(operand) : 0n;
    if (operand.kind !== "special") return 0n;
    return strideOfSpecial(operand.name);
  };
  const isUniform = (instruction: ResolvedInstruction, read = readBy(instruction)) => {
    return instruction.form.traits.isUniform === true && !isVarying(instruction) &&
      read.every((operand) => strideOf(operand) === 0n);
  };
  const setting: { instruction: ResolvedInstruction; results: Register[]; read: ResolvedOperand[] }[] = [];
  for (const instruction of instructions) {
    const results = resultsOf(instruction);
    if (results.length === 0) continue;
    for (const register of results) defined.add(register);
    setting.push({ instruction, results, read: readBy(instruction) });
  }
  const readers = readersOf(setting, ({ read }) => read.filter((operand) => operand.kind === "register"));
  // An instruction is examined again when the stride of an operand has changed, which happens at most twice per
  // operand.
  const waiting = new Set(setting);
  for (const examined of waiting) {
    waiting.delete(examined);
    const { instruction, results, read } = examined;
    if (!read.every(isKnown)) continue;
    const found = isUniform(instruction, read) ? 0n : resultStride(instruction, strideOf);
    for (const result of results) {
      const before = strides.get(result);
      if (strides.has(result) && (before === undefined || before === found)) continue;
      strides.set(result, strides.has(result) ? undefined : found);
      for (const reader of readers.get(result) ?? []) waiting.add(reader);
    }
  }
  for (const { form, operands: [destination, source], predicate } of instructions) {
    if (destination?.kind !== "register") continue;
    const counts = form.traits.copies === 1 && source?.kind === "special" && strideOfSpecial(source.name) === 1n &&
      predicate === undefined;
    counting.set(destination, counts && counting.get(destination) !== false);
  }
  /** Whether a value is a thread index, which is too small to wrap around. */
  const isCounting = (operand: ResolvedOperand) => {
    return operand.kind === "special" ? strideOfSpecial(operand.name) === 1n : operand.kind === "register" &&
      counting.get(operand) === true;
  };
  return {
    strideOf,
    isUniform: (instruction) => isUniform(instruction),
    widened(instruction) {
      const widening = wideningOf(instruction);
      if (widening === undefined) return undefined;
      const operand = widening.operands.find((factor) => strideOf(factor) !== 0n);
      if (operand === undefined || strideOf(operand) === undefined || isCounting(operand)) return undefined;
      const [result] = resultsOf(instruction);
      if (result === undefined || strideOf(result) === undefined) return undefined;
      return { operand, isSigned: widening.type.kind === "signed" };
    },
  };
}

/** Computes the stride of the result of an instruction that is not uniform. */
function resultStride(instruction: ResolvedInstruction, strideOf: (operand: ResolvedOperand) => Stride): Stride {
  const { type, operands: [destination], predicate } = instruction;
  const stride = strideRuleOf(instruction);
  if (stride === undefined || destination?.kind !== "register") return undefined;
  if (predicate !== undefined && strideOf(predicate.register) !== 0n) return undefined;
  const { bits } = destination.type;
  if (bits < 32 || type.kind === "float") return undefined;
  if (bits !== (wideningOf(instruction) === undefined ? type.bits : 64)) return undefined;
  const found = stride(instruction, (operand, width = bits) => {
    if (operand === undefined || (operand.kind === "register" && operand.type.bits !== width)) return undefined;
    return strideOf(operand);
  });
  return found === undefined ? undefined : BigInt.asIntN(bits, found);
}
