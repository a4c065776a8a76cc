/**
 * Computes the live intervals of registers, and initializes registers that are first set under a predicate.
 *
 * If its predicate is false, an instruction does not change its result, so the register's initial value would be live
 * from the start of the function, and the register could not share a local. Such a register is therefore set to 0 just
 * before the instruction. Without sharing, engines need gigabytes of memory to compile tens of thousands of locals.
 *
 * @module
 */
import {
  isOnlySet,
  type RegisterUse,
  resultsOf,
  sourcesOf,
  visitRegisters,
  walkLiveRanges,
} from "../../../ptx/analysis/definitions_and_uses.ts";
import type { LiveInterval } from "../codegen/locals.ts";
import { type BasicBlock, cyclesIn, reversePostorder, successors } from "../../../ptx/analysis/control_flow_graph.ts";
import type { CompiledStep, FlowBlock, FunctionFlow } from "./function_flow.ts";
import type { Register, ResolvedInstruction } from "../../../ptx/instructions/resolved_instruction.ts";

/**
 * Returns the live intervals of a function's registers, sorted by `begin`.
 *
 * @param readsToo for some instructions, registers that are not operands but are read by the code emitted for the
 * instruction
 */
export function liveIntervals(
  { entry, suspendPoints }: FunctionFlow,
  readsToo: ReadonlyMap<ResolvedInstruction, readonly Register[]> = new Map(),
): readonly LiveInterval[] {
  const blocks = reversePostorder(entry);
  /** The basic blocks that end with an instruction that suspends the thread or calls a function. */
  const suspending = new Set(
    suspendPoints.flatMap(({ instruction, suspendBlock }) => instruction === undefined ? [] : suspendBlock),
  );
  const intervals = new Map<Register, LiveInterval>();
  const extend = (register: Register, begin: number, end = begin): void => {
    const interval = intervals.get(register);
    if (interval === undefined) {
      intervals.set(register, { register, begin, end });
    } else {
      if (begin < interval.begin) interval.begin = begin;
      if (end > interval.end) interval.end = end;
    }
  };
  const uses = new Map<FlowBlock, RegisterUse>();
  /** The position of the start of each basic block, in a linear order of all instructions. */
  const begins = new Map<FlowBlock, number>();
  /** The position of the end of each basic block, where its branch is. */
  const ends = new Map<FlowBlock, number>();
  let position = 0;
  for (const block of blocks) {
    begins.set(block, position++);
    const use = { uses: new Set<Register>(), definitions: new Set<Register>() };
    // The instruction at the end of a suspending block sets its result only after the thread has resumed.
    const isSuspending = suspending.has(block);
    const read = (register: Register): void => {
      extend(register, position);
      if (!use.definitions.has(register)) use.uses.add(register);
    };
    const set = (register: Register): void => {
      extend(register, position);
      if (!isSuspending) use.definitions.add(register);
    };
    for (const { instruction, initializes } of stepsOf(block)) {
      position++;
      if (initializes !== undefined) set(initializes);
      if (instruction === undefined) continue;
      const { form, operands, predicate } = instruction;
      const result = form.hasResult && operands[0]?.kind !== "address" ? operands[0] : undefined;
      for (let index = result === undefined ? 0 : 1; index < operands.length; index++) {
        visitRegisters(operands[index]!, read);
      }
      if (predicate !== undefined) read(predicate.register);
      readsToo.get(instruction)?.forEach(read);
      // If the predicate is false, the result keeps its old value, so a predicated instruction reads the result.
      if (result !== undefined) visitRegisters(result, predicate === undefined && isOnlySet(form) ? set : read);
    }
    uses.set(block, use);
    ends.set(block, position++);
  }
  /**
   * Maps each basic block to the range of instruction positions that spans the start of the block and the ends of its
   * predecessors. The live interval of every register that is live on entry to the block must include this range.
   */
  const entered = new Map(blocks.map((block) => [block, { begin: begins.get(block)!, end: begins.get(block)! }]));
  for (const block of blocks) {
    const end = ends.get(block)!;
    for (const successor of successors(block)) {
      const range = entered.get(successor)!;
      range.begin = Math.min(range.begin, end);
      range.end = Math.max(range.end, end);
    }
  }
  walkLiveRanges({ entry, next: successors, use: (block) => uses.get(block)! }, (register, block) => {
    const { begin, end } = entered.get(block)!;
    extend(register, begin, end);
  });
  return [...intervals.values()].sort((a, b) => a.begin - b.begin);
}

/** Returns a basic block's steps, including the branch. */
function stepsOf(
  { instructions, terminator }: BasicBlock<CompiledStep>,
): readonly Pick<CompiledStep, "instruction" | "initializes">[] {
  if (terminator.kind !== "branch" && terminator.kind !== "switch") return instructions;
  return "kind" in terminator.on ? instructions : [...instructions, terminator.on];
}

/**
 * Adds steps that set registers to 0 before the first predicated instruction that may set them. Skips registers that
 * other blocks or earlier loop iterations may set.
 */
export function initializePredicated({ entry }: FunctionFlow): void {
  const blocks = reversePostorder(entry);
  const found = new Map<FlowBlock, Map<ResolvedInstruction, Register[]>>();
  for (const block of blocks) {
    const first = firstPredicated(block);
    if (first.size > 0) found.set(block, first);
  }
  if (found.size === 0) return;
  // In a loop, the register may hold a value from the previous iteration, which must be kept.
  for (const cycle of cyclesIn(blocks)) for (const block of cycle) found.delete(block);
  /** Maps each register to the basic block that sets it, or to undefined if several blocks set it. */
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

/**
 * Returns the predicated instructions of a basic block that set registers which the block has neither read nor set
 * before.
 */
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

function initialization(register: Register): CompiledStep {
  return { instruction: undefined, initializes: register, emit: (e) => e.initialize(register) };
}
