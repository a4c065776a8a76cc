import { type BasicBlock, postorder, predecessors, successors } from "./control_flow_graph.ts";
import type { Step } from "./function_flow.ts";

/** A natural loop: its header, the blocks that lead back to the header, and all its blocks. */
export interface Loop {
  readonly header: BasicBlock<Step>;
  readonly latches: readonly BasicBlock<Step>[];
  readonly body: readonly BasicBlock<Step>[];
}

/** The natural loops of a graph. */
export function loopsOf(entry: BasicBlock<Step>): Loop[] {
  const blocks = postorder([entry], successors).reverse();
  const order = new Map(blocks.map((block, index) => [block, index]));
  const headers = new Set<BasicBlock<Step>>();
  blocks.forEach((block, index) => {
    for (const to of successors(block)) if (order.get(to)! <= index) headers.add(to);
  });
  if (headers.size === 0) return [];
  const before = predecessors(blocks);
  const loops: Loop[] = [];
  for (const header of blocks) {
    if (!headers.has(header)) continue;
    const latches = [...before.get(header)!].filter((from) => order.get(header)! <= order.get(from)!);
    const body = postorder(latches, (block) => block === header ? [] : before.get(block)!);
    loops.push({ header, latches, body });
  }
  return loops;
}
