import { type BasicBlock, postorder, predecessors, successors } from "./control_flow_graph.ts";
import type { Step } from "./kernel_flow.ts";
import { hasUnknownEffects, mayHave } from "../instructions/instruction_traits.ts";
import type { Register } from "../typing/names.ts";
import type { ResolvedOperand, TypedInstruction } from "../typing/typed_instruction.ts";

/** An edge of a graph by which a loop is gone around. */
export interface LoopEdge {
  readonly from: BasicBlock<Step>;
  readonly header: BasicBlock<Step>;
}

/**
 * The loops in which a thread may wait for what another thread stores: those that read memory in a way by which other
 * threads are seen, and whose end may depend on what they read.
 */
export function waitingLoops(entry: BasicBlock<Step>): LoopEdge[] {
  const blocks = postorder([entry], successors).reverse();
  if (!blocks.some((block) => instructionsOf(block).some(seesOthers))) return [];
  return loopsOf(entry).filter(({ body }) => mayWait(body)).flatMap(({ header, latches }) =>
    latches.map((from) => ({ from, header }))
  );
}

/** A loop: where it is entered in the order of the blocks, from where it is gone around, and all its blocks. */
export interface Loop {
  readonly header: BasicBlock<Step>;
  readonly latches: readonly BasicBlock<Step>[];
  readonly body: readonly BasicBlock<Step>[];
}

/** The loops of a graph. */
export function loopsOf(entry: BasicBlock<Step>): Loop[] {
  const blocks = postorder([entry], successors).reverse();
  const place = new Map(blocks.map((block, index) => [block, index]));
  const before = predecessors(blocks);
  const loops: Loop[] = [];
  for (const header of blocks) {
    const latches = [...before.get(header)!].filter((from) => place.get(header)! <= place.get(from)!);
    if (latches.length === 0) continue;
    const body = postorder(latches, (block) => block === header ? [] : before.get(block)!);
    loops.push({ header, latches, body });
  }
  return loops;
}

function instructionsOf({ instructions }: BasicBlock<Step>): TypedInstruction[] {
  return instructions.flatMap(({ instruction }) => instruction === undefined ? [] : [instruction]);
}

function mayWait(body: readonly BasicBlock<Step>[]): boolean {
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

/** Whether an instruction reads what another thread may have stored in the meantime. */
function seesOthers(instruction: TypedInstruction): boolean {
  return mayHave(instruction, "observes");
}

/** Adds what an instruction sets to what depends on others, where one of its operands does. */
function spread(instruction: TypedInstruction, seen: Set<Register | "memory">): void {
  const { form, operands, predicate } = instruction;
  const [destination, ...sources] = operands;
  const passesOn = sources.some((operand) => depends(operand, seen)) ||
    (predicate !== undefined && seen.has(predicate.register)) || (mayHave(instruction, "reads") && seen.has("memory"));
  // A function may store what it has seen, and leaves its result in memory.
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
