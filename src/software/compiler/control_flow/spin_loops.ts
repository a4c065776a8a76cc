import { type BasicBlock, postorder, successors } from "./control_flow_graph.ts";
import type { Step } from "./function_flow.ts";
import { loopsOf } from "./natural_loops.ts";
import { hasUnknownEffects, mayHave } from "../instructions/instruction_traits.ts";
import type { Register } from "../typing/names.ts";
import type { ResolvedInstruction, ResolvedOperand } from "../typing/resolved_instruction.ts";

/** An edge that leads back to a loop's header. */
export interface LoopEdge {
  readonly from: BasicBlock<Step>;
  readonly header: BasicBlock<Step>;
}

/**
 * The loops where a thread may wait for what another thread stores. They contain an instruction that observes other
 * threads' stores, and leaving them may depend on its result.
 */
export function spinLoops(entry: BasicBlock<Step>): LoopEdge[] {
  const blocks = postorder([entry], successors).reverse();
  if (!blocks.some((block) => instructionsOf(block).some(seesOthers))) return [];
  return loopsOf(entry).filter(({ body }) => maySpin(body)).flatMap(({ header, latches }) =>
    latches.map((from) => ({ from, header }))
  );
}

function instructionsOf({ instructions }: BasicBlock<Step>): ResolvedInstruction[] {
  return instructions.flatMap(({ instruction }) => instruction === undefined ? [] : [instruction]);
}

function maySpin(body: readonly BasicBlock<Step>[]): boolean {
  const instructions = body.flatMap(instructionsOf);
  if (!instructions.some(seesOthers)) return false;
  const seen = new Set<Register | "memory">();
  for (let size = -1; size !== seen.size;) {
    size = seen.size;
    for (const instruction of instructions) spread(instruction, seen);
  }
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

/** Whether an instruction may read what another thread has stored in the meantime. */
function seesOthers(instruction: ResolvedInstruction): boolean {
  return mayHave(instruction, "observes");
}

/** Propagates dependence on other threads from an instruction's operands to what it sets. */
function spread(instruction: ResolvedInstruction, seen: Set<Register | "memory">): void {
  const { form, operands, predicate } = instruction;
  const [destination, ...sources] = operands;
  const passesOn = sources.some((operand) => depends(operand, seen)) ||
    (predicate !== undefined && seen.has(predicate.register)) || (mayHave(instruction, "reads") && seen.has("memory"));
  // A function may store what it has observed, and leaves its results in memory.
  const isOpen = form.flow === "call" || hasUnknownEffects(instruction);
  if (isOpen || (passesOn && mayHave(instruction, "writes"))) seen.add("memory");
  if (passesOn || seesOthers(instruction)) { for (const register of registersOf(destination)) seen.add(register); }
}

function depends(operand: ResolvedOperand, seen: ReadonlySet<Register | "memory">): boolean {
  return registersOf(operand).some((register) => seen.has(register));
}

function registersOf(operand: ResolvedOperand | undefined): Register[] {
  switch (operand?.kind) {
    case "register":
      return [operand];
    case "not":
      return [operand.register];
    case "pair":
      return [operand.first, operand.second].flatMap(registersOf);
    case "vector":
    case "list":
      return operand.elements.flatMap(registersOf);
    default:
      return [];
  }
}
