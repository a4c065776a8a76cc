/**
 * Which loops a block is in.
 *
 * @module
 */
import { type BasicBlock, successors } from "./control_flow_graph.ts";
import type { DominatorTree } from "./dominator_tree.ts";

/** The loops of a reducible graph, by their headers. */
export interface LoopForest<I> {
  /**
   * The header of the innermost loop that contains a block. For a header, that of the loop around its own. Undefined
   * outside of all loops.
   */
  around(block: BasicBlock<I>): BasicBlock<I> | undefined;
  isHeader(block: BasicBlock<I>): boolean;
}

/**
 * Finds the loops of a reducible graph, the inner ones first. Each is then treated as one block, so that the time does
 * not depend on how deeply they nest.
 */
export function loopForest<I>({ blocks, number }: DominatorTree<I>): LoopForest<I> {
  const before = blocks.map((): number[] => []);
  blocks.forEach((block, index) => {
    for (const successor of successors(block)) before[number.get(successor)!]!.push(index);
  });
  const around = new Int32Array(blocks.length).fill(-1);
  const headers = new Set<number>();
  /** The header of the outermost loop so far that contains a block, found by following these. */
  const outer = Int32Array.from(blocks, (_, index) => index);
  const outermost = (index: number): number => {
    let top = index;
    while (outer[top] !== top) top = outer[top]!;
    while (outer[index] !== top) [outer[index], index] = [top, outer[index]!];
    return top;
  };
  for (let header = blocks.length - 1; header >= 0; header--) {
    const rest = before[header]!.filter((from) => from >= header);
    if (rest.length === 0) continue;
    headers.add(header);
    for (let from = rest.pop(); from !== undefined; from = rest.pop()) {
      const inside = outermost(from);
      if (inside === header) continue;
      around[inside] = header;
      outer[inside] = header;
      for (const predecessor of before[inside]!) rest.push(predecessor);
    }
  }
  return {
    around: (block) => blocks[around[number.get(block)!]!],
    isHeader: (block) => headers.has(number.get(block)!),
  };
}
