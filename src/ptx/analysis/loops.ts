/**
 * The loops of a control-flow graph.
 *
 * @module
 */
import { type BasicBlock, postorder, predecessors, successors } from "./control_flow_graph.ts";
import type { DominatorTree } from "./dominator_tree.ts";

/** A natural loop: its header, the blocks that lead back to the header, and all its blocks. */
export interface Loop<Block> {
  readonly header: Block;
  readonly latches: readonly Block[];
  readonly body: readonly Block[];
}

/** The natural loops of the blocks that can be reached from an entry. */
export function loopsOf<Block>(entry: Block, next: (block: Block) => Iterable<Block>): Loop<Block>[] {
  const blocks = postorder([entry], next).reverse();
  const order = new Map(blocks.map((block, index) => [block, index]));
  const headers = new Set<Block>();
  blocks.forEach((block, index) => {
    for (const to of next(block)) if (order.get(to)! <= index) headers.add(to);
  });
  if (headers.size === 0) return [];
  const before = predecessors(blocks, next);
  const loops: Loop<Block>[] = [];
  for (const header of blocks) {
    if (!headers.has(header)) continue;
    const latches = [...before.get(header)!].filter((from) => order.get(header)! <= order.get(from)!);
    const body = postorder(latches, (block) => block === header ? [] : before.get(block)!);
    loops.push({ header, latches, body });
  }
  return loops;
}

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

/** The strongly connected components of some blocks that contain a cycle, found with Kosaraju's algorithm. */
export function cyclesIn<I>(region: readonly BasicBlock<I>[]): Set<BasicBlock<I>>[] {
  const inside = new Set(region);
  const next = (block: BasicBlock<I>) => successors(block).filter((successor) => inside.has(successor));
  const before = predecessors(region, next);
  const result: Set<BasicBlock<I>>[] = [];
  const unassigned = new Set(region);
  for (const root of postorder(region, next).reverse()) {
    if (!unassigned.has(root)) continue;
    const component = postorder([root], (block) => [...before.get(block)!].filter((from) => unassigned.has(from)));
    for (const block of component) unassigned.delete(block);
    if (component.length > 1 || next(root).includes(root)) result.push(new Set(component));
  }
  return result;
}
