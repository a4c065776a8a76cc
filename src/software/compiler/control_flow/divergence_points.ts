/**
 * Finds the basic blocks at a function's divergence points, where the members of a gang may diverge.
 *
 * @module
 */
import type { CompiledInstruction } from "../instructions/instruction_form.ts";
import { postorder, successors } from "../../../ptx/analysis/control_flow_graph.ts";
import { blockBefore, type DivergencePoint, type FlowBlock, type FunctionFlow, splitBefore } from "./function_flow.ts";

/** A basic block that ends with a branch, and the branch. */
export interface BranchingBlock {
  readonly block: FlowBlock;
  readonly branch: Extract<FlowBlock["terminator"], { kind: "branch" }>;
}

/** Returns the basic blocks that end with a branch, by the branch instruction. */
export function branchesOf({ entry }: FunctionFlow): Map<CompiledInstruction, BranchingBlock> {
  const branches = new Map<CompiledInstruction, BranchingBlock>();
  for (const block of postorder([entry], successors)) {
    const { terminator } = block;
    if (terminator.kind !== "branch" || terminator.on.instruction === undefined) continue;
    branches.set(terminator.on.instruction, { block, branch: terminator });
  }
  return branches;
}

/** Returns the basic blocks that end with a suspension, by the instruction that suspends. */
export function suspendBlocksOf({ suspendPoints }: FunctionFlow): Map<CompiledInstruction, FlowBlock> {
  const blocks = new Map<CompiledInstruction, FlowBlock>();
  for (const { instruction, suspendBlock } of suspendPoints) {
    if (instruction !== undefined) blocks.set(instruction, suspendBlock);
  }
  return blocks;
}

/** Splits basic blocks at the divergence points that precede an instruction. Returns the result of `splitBefore`. */
export function splitAt(
  flow: FunctionFlow,
  divergencePoints: readonly DivergencePoint[],
): ReturnType<typeof splitBefore> {
  const instructions = divergencePoints.filter(({ way }) => way === "before").map(({ instruction }) => instruction);
  return splitBefore(flow, new Set(instructions));
}

/** Returns for each divergence point a new basic block, which jumps to the block where a single thread resumes. */
export function resumeBlocksAt(flow: FunctionFlow, divergencePoints: readonly DivergencePoint[]): FlowBlock[] {
  const splits = splitAt(flow, divergencePoints);
  const branches = branchesOf(flow);
  const suspendBlocks = suspendBlocksOf(flow);
  const target = ({ instruction, way }: DivergencePoint): FlowBlock => {
    if (way === "before") return splits.get(instruction)!.block;
    if (way !== "suspending") return branches.get(instruction)!.branch[way];
    return suspendBlocks.get(instruction)!;
  };
  return divergencePoints.map((divergence) => blockBefore(target(divergence)));
}
