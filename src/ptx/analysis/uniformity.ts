/**
 * Finds how the values of registers differ among the members of a gang, which are adjacent along x and have followed
 * the same path.
 *
 * @module
 */
import { readersOf, resultsOf, sourcesOf } from "./definitions_and_uses.ts";
import type { Register, ResolvedInstruction, ResolvedOperand } from "../instructions/resolved_instruction.ts";
import { type Stride, strideRuleOf, wideningOf } from "./strides.ts";

/** Which registers and operands of a kernel are uniform, strided or varying. */
export interface Uniformity {
  strideOf(operand: ResolvedOperand): Stride;
  /** Whether an instruction does the same in all members of a gang, so that executing it once is enough. */
  isUniform(instruction: ResolvedInstruction): boolean;
  /**
   * The operand that an instruction extends from 32 to 64 bits, if it must not wrap around within a gang. Undefined for
   * other instructions.
   */
  widened(
    instruction: ResolvedInstruction,
  ): { readonly operand: ResolvedOperand; readonly isSigned: boolean } | undefined;
}

/** The registers that an instruction's results depend on: its sources and its predicate. */
function readBy(instruction: ResolvedInstruction): ResolvedOperand[] {
  const sources = sourcesOf(instruction);
  if (instruction.predicate !== undefined) sources.push(instruction.predicate.register);
  return sources;
}

/** The initial state of {@linkcode findUniformity}. */
export interface UniformityRules {
  /** The stride of a special register. It is 1 for those that count threads. */
  strideOfSpecial(name: string): Stride;
  /** Whether an instruction's results may differ although its operands do not. Default: no. */
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
  // A register without an entry has not been reached yet. An undefined stride means varying.
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
  const isUniform = (instruction: ResolvedInstruction) => {
    const { predicate, form } = instruction;
    return form.traits.isUniform === true && !isVarying(instruction) &&
      (predicate === undefined || strideOf(predicate.register) === 0n) &&
      sourcesOf(instruction).every((source) => strideOf(source) === 0n);
  };
  const setting: { instruction: ResolvedInstruction; results: Register[]; read: ResolvedOperand[] }[] = [];
  for (const instruction of instructions) {
    const results = resultsOf(instruction);
    if (results.length === 0) continue;
    for (const register of results) defined.add(register);
    setting.push({ instruction, results, read: readBy(instruction) });
  }
  const readers = readersOf<typeof setting[number], ResolvedOperand>(setting, ({ read }) => read);
  // An instruction is examined again when the stride of what it reads has changed, which happens at most twice.
  const waiting = new Set(setting);
  for (const examined of waiting) {
    waiting.delete(examined);
    const { instruction, results, read } = examined;
    if (!read.every(isKnown)) continue;
    const found = isUniform(instruction) ? 0n : resultStride(instruction, strideOf);
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
  /** Whether a value counts threads, so that it is far from wrapping around. */
  const isCounting = (operand: ResolvedOperand) => {
    return operand.kind === "special" ? strideOfSpecial(operand.name) === 1n : operand.kind === "register" &&
      counting.get(operand) === true;
  };
  return {
    strideOf,
    isUniform,
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

/** The stride of the result of an instruction that is not uniform. */
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
