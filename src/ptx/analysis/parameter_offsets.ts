/**
 * Finds the accesses to memory whose address is a parameter of the kernel plus an offset in a register, as in most
 * kernels: `add.s64 %rd4, %rd1, %rd3` before an access to `[%rd4]`, where `%rd1` is the parameter.
 *
 * A parameter never changes, so the number of bytes from there to the end of its allocation is found once. The check of
 * such an access then compares the offset with that number.
 *
 * @module
 */

import { type BasicBlock, type FlowStep, postorder, successors } from "./control_flow_graph.ts";
import { type Register, type ResolvedInstruction, spaceOf } from "../instructions/resolved_instruction.ts";
import { parameterOf } from "./address_roots.ts";
import { type Definitions, resultsOf } from "./definitions_and_uses.ts";

/** A register that holds the sum of a parameter and an offset. */
export interface ParameterOffset {
  readonly sum: Register;
  /** Where the parameter of 64 bits begins in the kernel's parameters. */
  readonly parameter: number;
  readonly offset: Register;
}

/** The sums that accesses have as their addresses. Their offsets still hold the same when the access is made. */
export type ParameterOffsets = ReadonlyMap<ResolvedInstruction, ParameterOffset>;

/** How many conversions and moves of a parameter are followed. */
const mostCopies = 4;

/** Finds the accesses of a kernel. The parameters of the functions that it calls are not in its own. */
export function parameterOffsets(
  entry: BasicBlock<FlowStep>,
  definitions: Definitions,
): ParameterOffsets {
  const parameterIn = (register: Register, copies = 0): number | undefined => {
    const [definition, ...others] = definitions.get(register) ?? [];
    if (definition === undefined || others.length > 0 || definition.predicate !== undefined) return undefined;
    const parameter = parameterOf(definition);
    if (parameter !== undefined) return parameter;
    const { form: { traits }, operands: [destination, source] } = definition;
    const isCopy = traits.pointer === "converted" ? spaceOf(definition) === "global" : traits.copies === 1;
    if (!isCopy || destination !== register || source?.kind !== "register" || source.type.bits !== 64) return undefined;
    if (copies === mostCopies) return undefined;
    return parameterIn(source, copies + 1);
  };
  const found = new Map<ResolvedInstruction, ParameterOffset>();
  for (const { instructions } of postorder([entry], successors)) {
    const sums = new Map<Register, ParameterOffset>();
    /** The position in the block where each register was last set, and where its sum was computed. */
    const lastSet = new Map<Register, number>(), computed = new Map<Register, number>();
    instructions.forEach(({ instruction }, position) => {
      if (instruction === undefined || instruction.form.flow !== undefined) {
        sums.clear();
        return;
      }
      for (const operand of instruction.operands) {
        if (operand.kind !== "address" || operand.base?.kind !== "register") continue;
        const sum = sums.get(operand.base);
        if (sum === undefined || (lastSet.get(sum.offset) ?? 0) > computed.get(sum.sum)!) continue;
        found.set(instruction, sum);
      }
      for (const result of resultsOf(instruction)) {
        lastSet.set(result, position);
        sums.delete(result);
      }
      const sum = sumOf(instruction, parameterIn);
      if (sum === undefined) return;
      sums.set(sum.sum, sum);
      computed.set(sum.sum, position);
    });
  }
  return found;
}

function sumOf(
  { form, type, operands: [sum, a, b], predicate }: ResolvedInstruction,
  parameterIn: (register: Register) => number | undefined,
): ParameterOffset | undefined {
  if (form.traits.arithmetic !== "sum" || type.bits !== 64 || predicate !== undefined) return undefined;
  if (sum?.kind !== "register" || a?.kind !== "register" || b?.kind !== "register") return undefined;
  for (const [pointer, offset] of [[a, b], [b, a]] as const) {
    const parameter = parameterIn(pointer);
    if (parameter !== undefined && offset !== sum) return { sum, parameter, offset };
  }
  return undefined;
}
