import { type BasicBlock, postorder, predecessors, successors } from "./control_flow_graph.ts";
import type { Step } from "./function_flow.ts";

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
