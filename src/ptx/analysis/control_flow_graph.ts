/**
 * Control-flow graphs, and the order, dominators and loops of their basic blocks.
 *
 * @module
 */
import type { ResolvedInstruction } from "../instructions/resolved_instruction.ts";

/** One step of a basic block: an instruction, or code that the compiler inserts between instructions. */
export interface FlowStep {
  /** The instruction. Undefined for code that the compiler inserts between instructions. */
  readonly instruction: ResolvedInstruction | undefined;
}

/**
 * A variable that decides which target a switch jumps to. Blocks that jump to the switch set the variable first.
 * Compared by identity.
 */
export interface Selector {
  readonly kind: "selector";
}

/** Straight-line code and its terminator. `I` is the type of an instruction. */
export interface BasicBlock<I> {
  readonly instructions: I[];
  terminator: Terminator<I>;
  /** The PTX line of the block's last instruction, for messages. */
  line?: number;
}

/** The end of a basic block, which determines its successors. */
export type Terminator<I> =
  | { readonly kind: "exit" }
  | Jump<I>
  | {
    readonly kind: "branch";
    /** The instruction whose predicate decides whether the branch is taken. */
    readonly on: I;
    readonly taken: BasicBlock<I>;
    readonly otherwise: BasicBlock<I>;
  }
  | {
    readonly kind: "switch";
    /** The instruction or selector that supplies the target's index. An index past the end selects the last target. */
    readonly on: I | Selector;
    readonly targets: readonly BasicBlock<I>[];
  };

/** A jump to a block. If the block switches on a selector, the jump sets the selector first. */
export interface Jump<I> {
  readonly kind: "jump";
  readonly target: BasicBlock<I>;
  readonly selection?: { readonly selector: Selector; readonly value: number };
}

/** Creates an empty block with the terminator `exit`. `I` is the type of an instruction. */
export function newBlock<I>(): BasicBlock<I> {
  return { instructions: [], terminator: { kind: "exit" } };
}

/** Returns the successors of a block. A successor is repeated if several edges lead to it. */
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

/** Returns a copy of a terminator in which each successor is replaced by the result of calling `mapped` with it. */
export function mapTargets<I>(
  terminator: Terminator<I>,
  mapped: (block: BasicBlock<I>) => BasicBlock<I>,
): Terminator<I> {
  switch (terminator.kind) {
    case "exit":
      return terminator;
    case "jump":
      return { ...terminator, target: mapped(terminator.target) };
    case "branch":
      return { ...terminator, taken: mapped(terminator.taken), otherwise: mapped(terminator.otherwise) };
    case "switch":
      return { ...terminator, targets: terminator.targets.map(mapped) };
  }
}

/** Replaces `target` with `replacement` among the successors of a block. */
export function redirect<I>(
  block: BasicBlock<I>,
  { target, replacement }: { target: BasicBlock<I>; replacement: BasicBlock<I> },
): void {
  block.terminator = mapTargets(block.terminator, (successor) => successor === target ? replacement : successor);
}

/** Returns the nodes reachable from `roots`, in postorder. */
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

/** Returns the blocks reachable from `entry`, in reverse postorder. */
export function reversePostorder<I>(entry: BasicBlock<I>): BasicBlock<I>[] {
  return postorder([entry], successors).reverse();
}

/** Maps each node to its predecessors among `nodes`. */
export function predecessors<N>(nodes: Iterable<N>, next: (node: N) => Iterable<N>): Map<N, Set<N>> {
  const result = new Map<N, Set<N>>();
  for (const node of nodes) result.set(node, new Set());
  for (const node of nodes) {
    for (const successor of next(node)) result.get(successor)?.add(node);
  }
  return result;
}

/** The blocks of a graph in reverse postorder, and its dominator tree. */
export interface DominatorTree<I> {
  /** The blocks in reverse postorder. */
  readonly blocks: readonly BasicBlock<I>[];
  /** The index of each block in `blocks`. */
  readonly number: ReadonlyMap<BasicBlock<I>, number>;
  /** Returns the blocks that a block immediately dominates, in reverse postorder. */
  children(block: BasicBlock<I>): readonly BasicBlock<I>[];
  /** Returns the immediate dominator of a block. Returns the entry block for the entry block. */
  parent(block: BasicBlock<I>): BasicBlock<I>;
  /** Returns the number of blocks that a block dominates, itself included. */
  size(block: BasicBlock<I>): number;
}

/** Computes the dominator tree of the blocks reachable from `entry`. */
export function dominatorTree<I>(entry: BasicBlock<I>): DominatorTree<I> {
  const blocks = reversePostorder(entry);
  const number = new Map(blocks.map((block, index) => [block, index]));
  const edges = blocks.map((block) => successors(block).map((successor) => number.get(successor)!));
  const dominators = immediateDominators(edges);
  const children = blocks.map((): BasicBlock<I>[] => []);
  for (let index = 1; index < blocks.length; index++) children[dominators[index]!]!.push(blocks[index]!);
  const sizes = new Int32Array(blocks.length).fill(1);
  for (let index = blocks.length - 1; index > 0; index--) sizes[dominators[index]!]! += sizes[index]!;
  return {
    number,
    blocks,
    parent: (block) => blocks[dominators[number.get(block)!]!]!,
    children: (block) => children[number.get(block)!]!,
    size: (block) => sizes[number.get(block)!]!,
  };
}

/** Whether every loop of a graph is entered only through its header. */
export function isReducible<I>({ blocks, number, children }: DominatorTree<I>): boolean {
  const isBackward = (from: BasicBlock<I>, to: BasicBlock<I>) => number.get(to)! <= number.get(from)!;
  if (!blocks.some((block) => successors(block).some((to) => isBackward(block, to)))) return true;
  const [begins, ends] = [new Map<BasicBlock<I>, number>(), new Map<BasicBlock<I>, number>()];
  // `postorder` calls this function once per block, when it first visits the block, so `begins` is numbered in
  // preorder.
  const order = postorder(blocks.slice(0, 1), (block) => {
    begins.set(block, begins.size);
    return children(block);
  });
  order.forEach((block, index) => ends.set(block, index));
  const dominates = (block: BasicBlock<I>, other: BasicBlock<I>) =>
    begins.get(block)! <= begins.get(other)! && ends.get(block)! >= ends.get(other)!;
  return order.every((block) =>
    successors(block).every((successor) => !isBackward(block, successor) || dominates(successor, block))
  );
}

/**
 * Returns the immediate dominator of each node of a graph. The root is node 0, must reach all nodes, and is listed as
 * its own immediate dominator.
 *
 * The simple version of the algorithm of Lengauer and Tarjan, "A Fast Algorithm for Finding Dominators in a Flowgraph"
 * (1979). The time is O(m log n) for m edges and n nodes, for any graph.
 */
export function immediateDominators(edges: readonly (readonly number[])[]): Int32Array {
  const count = edges.length;
  // Below, nodes are identified by their number in a depth-first search.
  const { nodes, order, parent } = searchDepthFirst(edges);
  const before = Array.from({ length: count }, (): number[] => []);
  for (let node = 0; node < count; node++) {
    for (const successor of edges[nodes[node]!]!) before[order[successor]!]!.push(node);
  }
  const semidominator = Int32Array.from({ length: count }, (_, node) => node);
  const dominator = new Int32Array(count);
  const ancestor = new Int32Array(count).fill(-1);
  const label = Int32Array.from({ length: count }, (_, node) => node);
  /** For each node, the head of the linked list of nodes that have it as their semidominator. -1 if there are none. */
  const first = new Int32Array(count).fill(-1);
  /** For each node, the next node in the same linked list of `first`. -1 at the end of a list. */
  const next = new Int32Array(count).fill(-1);
  const path: number[] = [];
  /**
   * Returns the node with the least semidominator on the path from the root of a node's tree to the node. Compresses
   * the path.
   */
  const evaluate = (node: number): number => {
    if (ancestor[node]! < 0) return node;
    for (let at = node; ancestor[ancestor[at]!]! >= 0; at = ancestor[at]!) path.push(at);
    for (let at = path.pop(); at !== undefined; at = path.pop()) {
      const above = ancestor[at]!;
      if (semidominator[label[above]!]! < semidominator[label[at]!]!) label[at] = label[above]!;
      ancestor[at] = ancestor[above]!;
    }
    return label[node]!;
  };
  for (let node = count - 1; node > 0; node--) {
    for (const predecessor of before[node]!) {
      const least = semidominator[evaluate(predecessor)]!;
      if (least < semidominator[node]!) semidominator[node] = least;
    }
    next[node] = first[semidominator[node]!]!;
    first[semidominator[node]!] = node;
    const above = parent[node]!;
    ancestor[node] = above;
    for (let other = first[above]!; other >= 0; other = next[other]!) {
      const least = evaluate(other);
      dominator[other] = semidominator[least]! < semidominator[other]! ? least : above;
    }
    first[above] = -1;
  }
  for (let node = 1; node < count; node++) {
    if (dominator[node] !== semidominator[node]) dominator[node] = dominator[dominator[node]!]!;
  }
  const result = new Int32Array(count);
  for (let node = 1; node < count; node++) result[nodes[node]!] = nodes[dominator[node]!]!;
  return result;
}

/**
 * Returns the immediate post-dominator of each node of a graph: the first other node on all paths from the node to the
 * exit. The exit is a virtual node, numbered `edges.length`, which follows all nodes without successors. Undefined for
 * a node that does not reach the exit.
 */
export function immediatePostDominators(edges: readonly (readonly number[])[]): (number | undefined)[] {
  const end = edges.length;
  // The reversed edges, with the exit as the root.
  const before = Array.from({ length: end + 1 }, (): number[] => []);
  edges.forEach((next, node) => {
    for (const successor of next.length === 0 ? [end] : next) before[successor]!.push(node);
  });
  const nodes = postorder([end], (node) => before[node]!).reverse();
  const place = new Map(nodes.map((node, index) => [node, index]));
  const dominators = immediateDominators(nodes.map((node) => before[node]!.map((other) => place.get(other)!)));
  return edges.map((_, node) => {
    const index = place.get(node);
    return index === undefined ? undefined : nodes[dominators[index]!];
  });
}

/**
 * Numbers the nodes in the order of a depth-first search. `nodes` maps these numbers to nodes, `order` maps nodes to
 * their numbers, and `parent` maps each number to that of the parent in the search tree.
 */
function searchDepthFirst(
  edges: readonly (readonly number[])[],
): { nodes: Int32Array; order: Int32Array; parent: Int32Array } {
  const nodes = new Int32Array(edges.length);
  const order = new Int32Array(edges.length).fill(-1);
  const parent = new Int32Array(edges.length);
  /** The number of edges of each node that have been followed. */
  const followed = new Int32Array(edges.length);
  let count = 1;
  order[0] = 0;
  const path = [0];
  for (let node = path.at(-1); node !== undefined; node = path.at(-1)) {
    const successor = edges[node]![followed[node]!++];
    if (successor === undefined) {
      path.pop();
    } else if (order[successor]! < 0) {
      parent[count] = order[node]!;
      nodes[count] = successor;
      order[successor] = count++;
      path.push(successor);
    }
  }
  return { nodes, order, parent };
}

/** A natural loop of a control-flow graph. */
export interface Loop<Block> {
  readonly header: Block;
  /** The blocks of the loop that jump back to the header. */
  readonly latches: readonly Block[];
  /** All blocks of the loop, including the header. */
  readonly body: readonly Block[];
}

/** Finds the natural loops among the blocks reachable from `entry`. */
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
   * Returns the header of the innermost loop that contains a block. For the header of a loop, returns the header of the
   * enclosing loop. Undefined for a block outside of all loops.
   */
  around(block: BasicBlock<I>): BasicBlock<I> | undefined;
  isHeader(block: BasicBlock<I>): boolean;
}

/**
 * Finds the loops of a reducible graph, inner loops first. Each loop found is then treated as one block, so that the
 * time does not depend on the nesting depth.
 */
export function loopForest<I>({ blocks, number }: DominatorTree<I>): LoopForest<I> {
  const before = blocks.map((): number[] => []);
  blocks.forEach((block, index) => {
    for (const successor of successors(block)) before[number.get(successor)!]!.push(index);
  });
  const around = new Int32Array(blocks.length).fill(-1);
  const headers = new Set<number>();
  /**
   * The parent links of a union-find forest of blocks. The root of a block's tree is the header of the outermost loop
   * found so far that contains the block.
   */
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

/** Finds the strongly connected components of `region` that contain a cycle, with Kosaraju's algorithm. */
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
