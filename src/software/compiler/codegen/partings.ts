/**
 * Where the threads of a pack may part, in a function's flow of control.
 *
 * @module
 */
import { postorder, successors } from "../control_flow/control_flow_graph.ts";
import { cutBefore, type FlowBlock, type FunctionFlow, type Parting } from "../control_flow/kernel_flow.ts";
import { blockBefore } from "./kernel_code.ts";
import type { TypedInstruction } from "../typing/typed_instruction.ts";

/** A block that ends with a branch, and that. */
export interface BranchingBlock {
  readonly block: FlowBlock;
  readonly branch: Extract<FlowBlock["terminator"], { kind: "branch" }>;
}

/** The blocks that branch, by the instruction that decides. */
export function branchesOf({ entry }: FunctionFlow): Map<TypedInstruction, BranchingBlock> {
  const branches = new Map<TypedInstruction, BranchingBlock>();
  for (const block of postorder([entry], successors)) {
    const { terminator } = block;
    if (terminator.kind !== "branch" || terminator.on.instruction === undefined) continue;
    branches.set(terminator.on.instruction, { block, branch: terminator });
  }
  return branches;
}

/** Cuts blocks in front of the instructions before which threads may part. */
export function cutAt(flow: FunctionFlow, partings: readonly Parting[]): ReturnType<typeof cutBefore> {
  const instructions = partings.filter(({ way }) => way === "before").map(({ instruction }) => instruction);
  return cutBefore(flow, new Set(instructions));
}

/** For each parting a block of its own, that leads to where a thread goes on that comes from there. */
export function blocksBehind(flow: FunctionFlow, partings: readonly Parting[]): FlowBlock[] {
  const cuts = cutAt(flow, partings);
  const branches = branchesOf(flow);
  const target = ({ instruction, way }: Parting): FlowBlock => {
    if (way === "before") return cuts.get(instruction)!.block;
    if (way !== "suspending") return branches.get(instruction)!.branch[way];
    return flow.departures.find((departure) => departure.instruction === instruction)!.leaving;
  };
  return partings.map((parting) => blockBefore(target(parting)));
}
