/**
 * Control-flow graphs and what is known of them: the order of their blocks and who dominates whom.
 *
 * @module
 */

/** Which way a {@linkcode Dispatch} goes, set by the blocks that jump to it. Compared by identity. */
export interface Selector {
  readonly kind: "selector";
}

/** Straight-line code and where it goes next. `I` is an instruction. */
export interface BasicBlock<I> {
  readonly instructions: I[];
  terminator: Terminator<I>;
}

/** How a block ends. */
export type Terminator<I> =
  | { readonly kind: "exit" }
  | Jump<I>
  | {
    readonly kind: "branch";
    /** The instruction whose predicate decides. */
    readonly on: I;
    readonly taken: BasicBlock<I>;
    readonly otherwise: BasicBlock<I>;
  }
  | {
    readonly kind: "switch";
    /** What gives the index of the target; one past the end goes to the last. */
    readonly on: I | Selector;
    readonly targets: readonly BasicBlock<I>[];
  };

/** Goes to one block; to one that switches on a selector, after setting that. */
export interface Jump<I> {
  readonly kind: "jump";
  readonly target: BasicBlock<I>;
  readonly selection?: { readonly selector: Selector; readonly value: number };
}

/** The blocks that a block may go to, with repetitions. */
export function successors<I>({ terminator }: BasicBlock<I>): readonly BasicBlock<I>[] {
  switch (terminator.kind) {
    case "exit":
      return [];
    case "jump":
      return [terminator.target];
    case "branch":
      return [terminator.taken, terminator.otherwise];
    case "switch":
      return terminator.targets;
  }
}

/** Puts `replacement` where a block goes to `target`. */
export function redirect<I>(
  block: BasicBlock<I>,
  { target, replacement }: { target: BasicBlock<I>; replacement: BasicBlock<I> },
): void {
  const replaced = (successor: BasicBlock<I>) => successor === target ? replacement : successor;
  const { terminator } = block;
  switch (terminator.kind) {
    case "exit":
      break;
    case "jump":
      block.terminator = { ...terminator, target: replaced(terminator.target) };
      break;
    case "branch":
      block.terminator = {
        ...terminator,
        taken: replaced(terminator.taken),
        otherwise: replaced(terminator.otherwise),
      };
      break;
    case "switch":
      block.terminator = { ...terminator, targets: terminator.targets.map(replaced) };
      break;
  }
}

/** What can be reached from `roots`, each node after all that it leads to, but for cycles. */
export function postorder<N>(roots: Iterable<N>, next: (node: N) => Iterable<N>): N[] {
  const order: N[] = [];
  const seen = new Set<N>();
  for (const root of roots) {
    if (seen.has(root)) continue;
    seen.add(root);
    const path = [{ node: root, rest: next(root)[Symbol.iterator]() }];
    while (path.length > 0) {
      const { node, rest } = path.at(-1)!;
      const { value, done } = rest.next();
      if (done) {
        order.push(node);
        path.pop();
      } else if (!seen.has(value)) {
        seen.add(value);
        path.push({ node: value, rest: next(value)[Symbol.iterator]() });
      }
    }
  }
  return order;
}

/** Who leads to whom, among the blocks that can be reached. */
export function predecessors<I>(blocks: Iterable<BasicBlock<I>>): Map<BasicBlock<I>, Set<BasicBlock<I>>> {
  const result = new Map<BasicBlock<I>, Set<BasicBlock<I>>>();
  for (const block of blocks) result.set(block, new Set());
  for (const block of blocks) {
    for (const successor of successors(block)) result.get(successor)?.add(block);
  }
  return result;
}

/** The blocks of a graph in reverse postorder, and the tree of who immediately dominates whom. */
export interface DominatorTree<I> {
  /** Each block's place in reverse postorder. */
  readonly number: ReadonlyMap<BasicBlock<I>, number>;
  /** The blocks that a block immediately dominates, in reverse postorder. */
  children(block: BasicBlock<I>): readonly BasicBlock<I>[];
}

/**
 * Computes dominators by Cooper, Harvey and Kennedy's iteration ("A Simple, Fast Dominance Algorithm").
 */
export function dominatorTree<I>(entry: BasicBlock<I>): DominatorTree<I> {
  const blocks = postorder([entry], successors).reverse();
  const number = new Map(blocks.map((block, index) => [block, index]));
  const before = blocks.map((): number[] => []);
  blocks.forEach((block, index) => {
    for (const successor of successors(block)) before[number.get(successor)!]!.push(index);
  });
  const dominator: number[] = [0];
  let changed = true;
  while (changed) {
    changed = false;
    for (let index = 1; index < blocks.length; index++) {
      let common: number | undefined;
      for (const predecessor of before[index]!) {
        if (dominator[predecessor] === undefined) continue;
        common = common === undefined ? predecessor : commonDominator(dominator, predecessor, common);
      }
      if (dominator[index] !== common) {
        dominator[index] = common!;
        changed = true;
      }
    }
  }
  const children = new Map<BasicBlock<I>, BasicBlock<I>[]>(blocks.map((block) => [block, []]));
  for (let index = 1; index < blocks.length; index++) children.get(blocks[dominator[index]!]!)!.push(blocks[index]!);
  return { number, children: (block) => children.get(block)! };
}

function commonDominator(dominator: readonly number[], a: number, b: number): number {
  while (a !== b) {
    if (a > b) a = dominator[a]!;
    else b = dominator[b]!;
  }
  return a;
}
