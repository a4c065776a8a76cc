/**
 * Registers that are first set under a predicate.
 *
 * Without its predicate, an instruction leaves its result as it was. Where that is still what the register had when the
 * thread began, it is set to 0 instead, so that the register is not live from there on: such a register shares no local,
 * and engines take gigabytes for ten thousands of locals.
 *
 * @module
 */
import { resultsOf, sourcesOf } from "../../../ptx/analysis/definitions_and_uses.ts";
import type { Register, ResolvedInstruction } from "../../../ptx/instructions/resolved_instruction.ts";
import { reversePostorder } from "../../../ptx/analysis/control_flow_graph.ts";
import type { FlowBlock, FunctionFlow, Step } from "./function_flow.ts";
import { cyclesIn } from "../../../ptx/analysis/loops.ts";

/** Adds steps that set registers to 0 before the first instruction that may set them. */
export function initializePredicated({ entry }: FunctionFlow): void {
  const blocks = reversePostorder(entry);
  const found = new Map<FlowBlock, Map<ResolvedInstruction, Register[]>>();
  for (const block of blocks) {
    const first = firstPredicated(block);
    if (first.size > 0) found.set(block, first);
  }
  if (found.size === 0) return;
  // Around a loop, the register has what the iteration before has set.
  for (const cycle of cyclesIn(blocks)) for (const block of cycle) found.delete(block);
  /** The block that sets a register. Undefined if several do. */
  const setIn = new Map<Register, FlowBlock | undefined>();
  for (const block of blocks) {
    for (const { instruction } of block.instructions) {
      for (const register of instruction === undefined ? [] : resultsOf(instruction)) {
        setIn.set(register, !setIn.has(register) || setIn.get(register) === block ? block : undefined);
      }
    }
  }
  for (const [block, first] of found) {
    block.instructions.splice(0).forEach((step) => {
      for (const register of step.instruction === undefined ? [] : first.get(step.instruction) ?? []) {
        if (setIn.get(register) === block) block.instructions.push(initialization(register));
      }
      block.instructions.push(step);
    });
  }
}

/** The instructions of a block that set registers under a predicate which the block has neither read nor set before. */
function firstPredicated({ instructions }: FlowBlock): Map<ResolvedInstruction, Register[]> {
  const found = new Map<ResolvedInstruction, Register[]>();
  if (!instructions.some(({ instruction }) => instruction !== undefined && isPredicated(instruction))) return found;
  const seen = new Set<unknown>();
  for (const { instruction } of instructions) {
    if (instruction === undefined) continue;
    for (const source of sourcesOf(instruction)) seen.add(source);
    if (instruction.predicate !== undefined) seen.add(instruction.predicate.register);
    const registers = resultsOf(instruction).filter((register) => !seen.has(register));
    if (registers.length > 0 && isPredicated(instruction)) found.set(instruction, registers);
    for (const register of registers) seen.add(register);
  }
  return found;
}

function isPredicated({ form, predicate }: ResolvedInstruction): boolean {
  return predicate !== undefined && form.hasResult && form.flow === undefined;
}

function initialization(register: Register): Step {
  return { instruction: undefined, initializes: register, emit: (e) => e.initialize(register) };
}
