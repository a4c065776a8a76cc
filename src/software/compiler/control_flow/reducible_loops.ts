import {
  type BasicBlock,
  type Jump,
  postorder,
  predecessors,
  redirect,
  type Selector,
  successors,
} from "./control_flow_graph.ts";

/**
 * Changes a graph so that each loop is entered through one block alone, its header, as structured code requires.
 *
 * A loop that several blocks lead into gets a new header that switches to the block that was meant: who jumps into the
 * loop sets a selector first. Loops that are well formed stay as they are. The entry must not be part of a loop.
 */
export function makeReducible<I>(entry: BasicBlock<I>): void {
  const regions: BasicBlock<I>[][] = [postorder([entry], successors)];
  let before = predecessors(regions[0]!);
  for (let region = regions.pop(); region !== undefined; region = regions.pop()) {
    for (const loop of loops(region)) {
      const entered = [...loop].filter((block) => [...before.get(block)!].some((from) => !loop.has(from)));
      if (entered.length > 1) {
        // Without the edges to its new header, the loop's own blocks are what is left to look at.
        dispatchTo(entered, before);
        before = predecessors(postorder([entry], successors));
        regions.push([...loop]);
      } else {
        regions.push([...loop].filter((block) => block !== entered[0]));
      }
    }
  }
}

/** The largest cycles among some blocks: strongly connected components, found by Kosaraju's two searches. */
function loops<I>(region: readonly BasicBlock<I>[]): Set<BasicBlock<I>>[] {
  const inside = new Set(region);
  const next = (block: BasicBlock<I>) => successors(block).filter((successor) => inside.has(successor));
  const before = predecessors(region);
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

/** Makes the one header of a loop that is entered at several blocks, and leads to it whatever led to those. */
function dispatchTo<I>(
  targets: readonly BasicBlock<I>[],
  before: ReadonlyMap<BasicBlock<I>, ReadonlySet<BasicBlock<I>>>,
): void {
  const selector: Selector = { kind: "selector" };
  const header: BasicBlock<I> = { instructions: [], terminator: { kind: "switch", on: selector, targets } };
  targets.forEach((target, value) => {
    for (const source of before.get(target)!) {
      const jump: Jump<I> = { kind: "jump", target: header, selection: { selector, value } };
      redirect(source, { target, replacement: { instructions: [], terminator: jump } });
    }
  });
}
