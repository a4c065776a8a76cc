/**
 * Dominators.
 *
 * @module
 */
import { type BasicBlock, postorder, reversePostorder, successors } from "./control_flow_graph.ts";

/** The blocks of a graph in reverse postorder, and its dominator tree. */
export interface DominatorTree<I> {
  /** The blocks in reverse postorder. */
  readonly blocks: readonly BasicBlock<I>[];
  /** The number of each block in reverse postorder. */
  readonly number: ReadonlyMap<BasicBlock<I>, number>;
  /** The blocks that a block immediately dominates, in reverse postorder. */
  children(block: BasicBlock<I>): readonly BasicBlock<I>[];
  /** The immediate dominator of a block. The entry is its own. */
  parent(block: BasicBlock<I>): BasicBlock<I>;
  /** How many blocks a block dominates, itself included. */
  size(block: BasicBlock<I>): number;
}

/** Computes the dominator tree of the blocks that can be reached from `entry`. */
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
  // The successors are asked for when a block is reached.
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
 * The immediate dominator of each node of a graph, whose root is node 0 and reaches all nodes. The root is its own.
 *
 * The simple version of the algorithm of Lengauer and Tarjan, "A Fast Algorithm for Finding Dominators in a Flowgraph"
 * (1979). Its time is proportional to the number of edges times a logarithm, whatever the graph.
 */
export function immediateDominators(edges: readonly (readonly number[])[]): Int32Array {
  const count = edges.length;
  // From here on, nodes are named by their order in a depth-first search.
  const { nodes, order, parent } = searchDepthFirst(edges);
  const before = Array.from({ length: count }, (): number[] => []);
  for (let node = 0; node < count; node++) {
    for (const successor of edges[nodes[node]!]!) before[order[successor]!]!.push(node);
  }
  const semidominator = Int32Array.from({ length: count }, (_, node) => node);
  const dominator = new Int32Array(count);
  const ancestor = new Int32Array(count).fill(-1);
  const label = Int32Array.from({ length: count }, (_, node) => node);
  /** The first node with a semidominator, and the next one with the same. */
  const first = new Int32Array(count).fill(-1);
  const next = new Int32Array(count).fill(-1);
  const path: number[] = [];
  /** The node with the least semidominator on the path to a node from the root of its tree. Shortens the path. */
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
 * The immediate post-dominator of each node of a graph: the first other node that all ways from it to the end go through.
 * The end has the number behind those of the nodes, and nodes without successors lead to it. Undefined for a node from
 * which the end is not reached.
 */
export function immediatePostDominators(edges: readonly (readonly number[])[]): (number | undefined)[] {
  const end = edges.length;
  // Backwards from the end.
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

/** Numbers the nodes in the order of a depth-first search. `parent` is in terms of these numbers. */
function searchDepthFirst(
  edges: readonly (readonly number[])[],
): { nodes: Int32Array; order: Int32Array; parent: Int32Array } {
  const nodes = new Int32Array(edges.length);
  const order = new Int32Array(edges.length).fill(-1);
  const parent = new Int32Array(edges.length);
  /** How many edges of a node have been followed. */
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
