import { cyclesIn } from "../../../ptx/analysis/loops.ts";
import {
  type BasicBlock,
  type Jump,
  postorder,
  predecessors,
  redirect,
  type Selector,
  successors,
} from "../../../ptx/analysis/control_flow_graph.ts";
import { type DominatorTree, dominatorTree, isReducible } from "../../../ptx/analysis/dominator_tree.ts";

/**
 * Makes a graph reducible, as structured code requires: every loop is entered only through its header.
 *
 * A loop with several entries gets a new header, which switches to the entry that was meant; blocks that jump into the
 * loop set a selector first. Other loops stay as they are. The graph's entry must not be part of a loop. Returns the
 * dominator tree of the result.
 */
export function makeReducible<I>(entry: BasicBlock<I>): DominatorTree<I> {
  const tree = dominatorTree(entry);
  if (isReducible(tree)) return tree;
  const regions: BasicBlock<I>[][] = [postorder([entry], successors)];
  const before = predecessors(regions[0]!, successors);
  for (let region = regions.pop(); region !== undefined; region = regions.pop()) {
    for (const loop of cyclesIn(region)) {
      const entered = [...loop].filter((block) => [...before.get(block)!].some((from) => !loop.has(from)));
      if (entered.length > 1) {
        // The new header is left out, so that only the loop's own blocks remain to be examined.
        dispatchTo(entered, before);
        regions.push([...loop]);
      } else {
        regions.push([...loop].filter((block) => block !== entered[0]));
      }
    }
  }
  return dominatorTree(entry);
}

/**
 * Creates the header of a loop with several entries, and redirects all jumps to those entries to it. Keeps the
 * predecessors up to date.
 */
function dispatchTo<I>(
  targets: readonly BasicBlock<I>[],
  before: Map<BasicBlock<I>, Set<BasicBlock<I>>>,
): void {
  const selector: Selector = { kind: "selector" };
  const header: BasicBlock<I> = { instructions: [], terminator: { kind: "switch", on: selector, targets } };
  const jumps = new Set<BasicBlock<I>>();
  targets.forEach((target, value) => {
    for (const source of before.get(target)!) {
      const terminator: Jump<I> = { kind: "jump", target: header, selection: { selector, value } };
      const replacement = { instructions: [], terminator };
      redirect(source, { target, replacement });
      before.set(replacement, new Set([source]));
      jumps.add(replacement);
    }
    before.set(target, new Set([header]));
  });
  before.set(header, jumps);
}
