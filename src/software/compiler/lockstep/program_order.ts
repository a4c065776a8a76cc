import { type BasicBlock, postorder, predecessors, successors } from "../../../ptx/analysis/control_flow_graph.ts";

/**
 * Numbers the blocks of a graph so that threads that take different ways meet again if those whose block comes first
 * run first: a block comes before those that it leads to, and the blocks of a loop before those behind the loop.
 */
export function programOrder<I>(entry: BasicBlock<I>): ReadonlyMap<BasicBlock<I>, number> {
  const order = new Map<BasicBlock<I>, number>();
  const all = postorder([entry], successors);
  const before = predecessors(all, successors);
  /** Regions to be ordered, the first one last. A block stands for itself. */
  const regions: (BasicBlock<I> | { readonly region: readonly BasicBlock<I>[]; readonly roots: BasicBlock<I>[] })[] = [
    { region: all, roots: [entry] },
  ];
  for (let next = regions.pop(); next !== undefined; next = regions.pop()) {
    if (!("region" in next)) {
      order.set(next, order.size);
      continue;
    }
    const { region, roots } = next;
    const headers = new Set(roots);
    const inside = new Set(region);
    // Without the edges back to the headers, the loops within this region remain.
    const follow = (block: BasicBlock<I>) => successors(block).filter((to) => inside.has(to) && !headers.has(to));
    const unassigned = new Set(region);
    const parts: (typeof regions)[number][] = [];
    for (const root of postorder(roots, follow).reverse()) {
      if (!unassigned.has(root)) continue;
      const component = headers.has(root)
        ? [root]
        : postorder([root], (block) => [...before.get(block)!].filter((from) => unassigned.has(from)));
      for (const block of component) unassigned.delete(block);
      if (component.length === 1) parts.push(root);
      else parts.push({ region: component, roots: [root] });
    }
    regions.push(...parts.reverse());
  }
  return order;
}
