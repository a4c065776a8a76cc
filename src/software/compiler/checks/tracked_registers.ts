/**
 * Finds the registers that may be uninitialized: those that are loaded from memory, shuffled, or read before they are
 * set, and all registers computed from these. Other registers, such as thread indices and addresses of parameters, need
 * no shadows.
 *
 * @module
 */
import type { LiveInterval } from "../codegen/locals.ts";
import { postorder, successors } from "../../../ptx/analysis/control_flow_graph.ts";
import type { FunctionFlow } from "../control_flow/function_flow.ts";
import { readersOf, registersOf, resultsOf, sourcesOf } from "../../../ptx/analysis/definitions_and_uses.ts";
import { mayHave } from "../../../ptx/instructions/instruction_traits.ts";
import type { Register, ResolvedInstruction, ResolvedOperand } from "../../../ptx/instructions/resolved_instruction.ts";
import { instructionsOf } from "../typing/resolver.ts";

/** The registers of a function that may be uninitialized. */
export interface TrackedRegisters {
  readonly tracked: ReadonlySet<Register>;
  /** The registers that the function may read before any instruction sets them. */
  readonly unset: readonly Register[];
  /** Whether a register may be uninitialized other than by a load from uninitialized memory. */
  readonly mayReadUnset: boolean;
}

/**
 * Finds the registers of a function that may be uninitialized. `carry` is the carry register, which instructions access
 * only implicitly.
 */
export function trackedRegisters(
  flow: FunctionFlow,
  { intervals, carry }: { readonly intervals: readonly LiveInterval[]; readonly carry: Register },
): TrackedRegisters {
  const unset = intervals.filter(({ begin }) => begin === 0).map(({ register }) => register);
  const tracked = new Set(unset);
  let mayReadUnset = unset.length > 0;
  for (const block of postorder([flow.entry], successors)) {
    for (const { initializes } of block.instructions) {
      if (initializes === undefined) continue;
      tracked.add(initializes);
      mayReadUnset = true;
    }
  }
  const instructions = [...instructionsOf(flow.function)];
  for (const instruction of instructions) {
    const { form: { flow, traits: { mayBeUndefined = false } } } = instruction;
    if (mayBeUndefined || flow === "call") mayReadUnset = true;
    const isSource = isLoad(instruction) || mayBeUndefined;
    if (isSource) { for (const result of resultsIn(instruction, carry)) tracked.add(result); }
  }
  const readers = readersOf<ResolvedInstruction, ResolvedOperand>(instructions, (each) => readBy(each, carry));
  for (const register of tracked) {
    for (const reader of readers.get(register) ?? []) {
      for (const result of resultsIn(reader, carry)) tracked.add(result);
    }
  }
  return { tracked, unset, mayReadUnset };
}

/** Returns the registers that an instruction sets, including the carry and the results of a call. */
function resultsIn(instruction: ResolvedInstruction, carry: Register): Register[] {
  const results = instruction.form.flow === "call"
    ? instruction.operands.filter(({ kind }) => kind === "list").flatMap(registersOf)
    : resultsOf(instruction);
  return instruction.form.traits.usesCarry ? [...results, carry] : results;
}

/** Returns the operands that an instruction reads, including its predicate and the carry. */
function readBy(instruction: ResolvedInstruction, carry: Register): ResolvedOperand[] {
  const sources = sourcesOf(instruction);
  if (instruction.predicate !== undefined) sources.push(instruction.predicate.register);
  if (instruction.form.traits.usesCarry) sources.push(carry);
  return sources;
}

/** Whether an instruction may read uninitialized memory, or calls a function. */
function isLoad(instruction: ResolvedInstruction): boolean {
  const { form, choices, operands } = instruction;
  if (form.flow === "call") return true;
  if (!mayHave(instruction, "reads")) return false;
  const space = choices.get("space") ?? "generic";
  if (space.startsWith("const")) return false;
  const source = operands[1];
  const base = source?.kind === "address" ? source.base : source?.kind === "sum" ? source.variable : undefined;
  return !(space.startsWith("param") && base?.kind === "variable" && !base.isInFrame);
}
