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
      let header = entered[0];
      if (entered.length > 1) {
        header = dispatchTo(entered, { loop, before });
        before = predecessors(postorder([entry], successors));
      }
      regions.push([...loop].filter((block) => block !== header));
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

/** Makes the header of a loop that is entered at several blocks, and adds what was made to the loop. */
function dispatchTo<I>(
  targets: readonly BasicBlock<I>[],
  { loop, before }: {
    loop: Set<BasicBlock<I>>;
    before: ReadonlyMap<BasicBlock<I>, ReadonlySet<BasicBlock<I>>>;
  },
): BasicBlock<I> {
  const selector: Selector = { kind: "selector" };
  const header: BasicBlock<I> = { instructions: [], terminator: { kind: "switch", on: selector, targets } };
  const sources = targets.map((target) => [...before.get(target)!]);
  targets.forEach((target, value) => {
    for (const source of sources[value]!) {
      const jump: Jump<I> = { kind: "jump", target: header, selection: { selector, value } };
      const replacement: BasicBlock<I> = { instructions: [], terminator: jump };
      redirect(source, { target, replacement });
      if (loop.has(source)) loop.add(replacement);
    }
  });
  loop.add(header);
  return header;
}
