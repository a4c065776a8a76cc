import {
  type BasicBlock,
  type Loop,
  loopsOf,
  postorder,
  predecessors,
  reversePostorder,
  successors,
} from "../../../ptx/analysis/control_flow_graph.ts";
import type { CompiledStep, FlowBlock } from "./function_flow.ts";
import { readersOf, registersOf } from "../../../ptx/analysis/definitions_and_uses.ts";
import { hasUnknownEffects, mayHave } from "../../../ptx/instructions/instruction_traits.ts";
import type { Register, ResolvedInstruction, ResolvedOperand } from "../../../ptx/instructions/resolved_instruction.ts";

/** An edge back to the header of a loop. */
export interface LoopEdge {
  readonly from: BasicBlock<CompiledStep>;
  readonly header: BasicBlock<CompiledStep>;
}

/**
 * Finds the loops in which a thread may spin until another thread stores a value, and the loops that never exit. A loop
 * is a spin loop if it contains an instruction that observes stores of other threads, and an exit condition that may
 * depend on the result, or if it has no exit. Returns the back edges of these loops.
 */
export function spinLoops(entry: BasicBlock<CompiledStep>): LoopEdge[] {
  return loopsThatSpin(entry).flatMap(({ header, latches }) => latches.map((from) => ({ from, header })));
}

/** Returns the basic blocks of all spin loops. */
export function spinningBlocks(entry: BasicBlock<CompiledStep>): ReadonlySet<BasicBlock<CompiledStep>> {
  return new Set(loopsThatSpin(entry).flatMap(({ body }) => body));
}

function loopsThatSpin(entry: BasicBlock<CompiledStep>): Loop<FlowBlock>[] {
  const blocks = reversePostorder(entry);
  const observes = blocks.some((block) => instructionsOf(block).some(seesOthers));
  if (!observes && reachesExit(blocks)) return [];
  return loopsOf(entry, successors).filter(({ body }) => maySpin(body) || neverEnds(body));
}

/** Returns whether an exit can be reached from each block of a function, given in reverse postorder. */
function reachesExit(blocks: readonly FlowBlock[]): boolean {
  const before = predecessors(blocks, successors);
  const exits = blocks.filter(({ terminator }) => terminator.kind === "exit");
  return postorder(exits, (block) => before.get(block)!).length === blocks.length;
}

/** Returns whether a loop has no exit. Such a loop must yield; otherwise, no other thread would run again. */
function neverEnds(body: readonly BasicBlock<CompiledStep>[]): boolean {
  const inside = new Set(body);
  return body.every((block) => {
    const targets = successors(block);
    return targets.length > 0 && targets.every((target) => inside.has(target));
  });
}

function instructionsOf({ instructions }: BasicBlock<CompiledStep>): ResolvedInstruction[] {
  return instructions.flatMap(({ instruction }) => instruction === undefined ? [] : [instruction]);
}

function maySpin(body: readonly BasicBlock<CompiledStep>[]): boolean {
  const instructions = body.flatMap(instructionsOf);
  if (!instructions.some(seesOthers)) return false;
  const seen = dependents(instructions);
  return body.some(({ terminator }) => {
    if (terminator.kind !== "branch" && terminator.kind !== "switch") return false;
    const { on } = terminator;
    const instruction = "instruction" in on ? on.instruction : undefined;
    if (instruction === undefined) return false;
    const { predicate, operands } = instruction;
    return predicate !== undefined && seen.has(predicate.register) ||
      operands.some((operand) => depends(operand, seen));
  });
}

/**
 * Returns the registers whose values may depend on other threads after any number of loop iterations. The result
 * contains "memory" if the contents of memory may depend on other threads.
 */
function dependents(instructions: readonly ResolvedInstruction[]): ReadonlySet<Register | "memory"> {
  const seen = new Set<Register | "memory">();
  const readers = readersOf(instructions, readBy);
  // An instruction is examined again whenever one of its sources has been added to `seen`.
  const waiting = new Set(instructions);
  for (const instruction of waiting) {
    waiting.delete(instruction);
    for (const added of spread(instruction, seen)) {
      if (seen.has(added)) continue;
      seen.add(added);
      for (const reader of readers.get(added) ?? []) waiting.add(reader);
    }
  }
  return seen;
}

function readBy(instruction: ResolvedInstruction): (Register | "memory")[] {
  const { operands: [, ...sources], predicate } = instruction;
  const read: (Register | "memory")[] = sources.flatMap(registersOf);
  if (predicate !== undefined) read.push(predicate.register);
  if (mayHave(instruction, "reads")) read.push("memory");
  return read;
}

/** Whether an instruction may read values that other threads store while the kernel runs. */
function seesOthers(instruction: ResolvedInstruction): boolean {
  return mayHave(instruction, "observes");
}

/**
 * Returns the registers to which an instruction may write values that depend on other threads, and "memory" if it may
 * store such values.
 */
function spread(
  instruction: ResolvedInstruction,
  seen: ReadonlySet<Register | "memory">,
): readonly (Register | "memory")[] {
  const { form, operands, predicate } = instruction;
  const [destination, ...sources] = operands;
  const passesOn = sources.some((operand) => depends(operand, seen)) ||
    (predicate !== undefined && seen.has(predicate.register)) || (mayHave(instruction, "reads") && seen.has("memory"));
  // A called function may store values that it has observed, and returns its results in memory.
  const isOpen = form.flow === "call" || hasUnknownEffects(instruction);
  const set: (Register | "memory")[] = passesOn || seesOthers(instruction) ? registersOf(destination) : [];
  if (isOpen || (passesOn && mayHave(instruction, "writes"))) set.push("memory");
  return set;
}

function depends(operand: ResolvedOperand, seen: ReadonlySet<Register | "memory">): boolean {
  return registersOf(operand).some((register) => seen.has(register));
}
