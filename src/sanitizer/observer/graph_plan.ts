/**
 * Orders the nodes of a graph for a launch: each comes after those that it depends on, and belongs to a branch, whose
 * nodes follow one another.
 *
 * @module
 */
import type { PossibleAccess, RangeAccess } from "../order/stream_order.ts";
import type { CallStack } from "../reporting/call_stacks.ts";

/** What a node does at each launch. */
export type NodeEffect =
  | {
    readonly kind: "access";
    readonly accesses: readonly RangeAccess[];
    readonly possible?: readonly PossibleAccess[];
    /** The array that a copy reads. */
    readonly source?: Uint8Array;
  }
  | { readonly kind: "allocate"; readonly address: number; readonly byteLength: number }
  | { readonly kind: "free"; readonly address: number }
  | { readonly kind: "record" | "wait"; readonly event: bigint }
  | { readonly kind: "graph"; readonly child: GraphShape }
  /** Runs some of its graphs, in their order. */
  | { readonly kind: "branches"; readonly bodies: readonly bigint[] };

/** A node of a graph, as the program has captured or added it. */
export interface ObservedNode {
  /** `"kernel scale"`, `"copyFrom"` and so on. */
  readonly name: string;
  readonly site: CallStack;
  readonly effect: NodeEffect;
}

/** The nodes of a graph at some time, in the order in which they were added. */
export type GraphShape = readonly {
  readonly handle: bigint;
  /** Undefined for a node that was not observed, or does nothing. */
  readonly node: ObservedNode | undefined;
  /** The indices of the nodes that it depends on. */
  readonly dependencies: readonly number[];
  readonly bodies: readonly GraphShape[];
}[];

/** A node in the order of a launch. */
export interface OrderedNode {
  /** Undefined for what only joins other nodes. */
  readonly node: ObservedNode | undefined;
  /** The places in the plan of the nodes that come before it. */
  readonly dependencies: readonly number[];
  /** The number of its branch. */
  readonly branch: number;
}

/** Changes of an executable graph. */
export interface ShapeChanges {
  /** The nodes that have replaced others, by the handles of those. */
  readonly replaced: ReadonlyMap<bigint, ObservedNode>;
  /** The handles of nodes that do not run. */
  readonly disabled: ReadonlySet<bigint>;
}

/** Returns the order of the nodes in a launch. Graphs within the graph are a part of it. */
export function planOf(shape: GraphShape, { replaced, disabled }: ShapeChanges): readonly OrderedNode[] {
  const planned: { node: ObservedNode | undefined; dependencies: readonly number[] }[] = [];
  const add = (node: ObservedNode | undefined, dependencies: readonly number[]) =>
    planned.push({ node, dependencies }) - 1;
  /** Adds the nodes of a graph that begins after the given ones, and returns those with which it ends. */
  const addAll = (nodes: GraphShape, before: readonly number[]): readonly number[] => {
    const places: number[] = [];
    const ends = new Set(nodes.keys());
    for (const index of sorted(nodes)) {
      const { handle, dependencies, bodies } = nodes[index]!;
      const node = replaced.get(handle) ?? nodes[index]!.node;
      for (const dependency of dependencies) ends.delete(dependency);
      let after = dependencies.length === 0 ? before : dependencies.map((dependency) => places[dependency]!);
      if (node?.effect.kind === "graph") after = addAll(node.effect.child, after);
      for (const body of bodies) after = addAll(body, after);
      const isJoin = node === undefined || disabled.has(handle) || ["graph", "branches"].includes(node.effect.kind);
      places[index] = add(isJoin ? undefined : node, after);
    }
    return nodes.length === 0 ? before : [...ends].map((index) => places[index]!);
  };
  addAll(shape, []);
  return withBranches(planned);
}

/**
 * Returns the indices of nodes in an order in which each comes after those that it depends on: allocations early, and
 * frees late, so that accesses which nothing orders lie between them.
 */
function sorted(nodes: GraphShape): readonly number[] {
  const waiting = nodes.map(({ dependencies }) => dependencies.length);
  const dependents = nodes.map((): number[] => []);
  for (const [index, { dependencies }] of nodes.entries()) {
    for (const dependency of dependencies) dependents[dependency]!.push(index);
  }
  const early: number[] = [], ordinary: number[] = [], late: number[] = [];
  const addReady = (index: number) => {
    const kind = nodes[index]!.node?.effect.kind;
    (kind === "allocate" ? early : kind === "free" ? late : ordinary).push(index);
  };
  for (const [index, count] of waiting.entries()) if (count === 0) addReady(index);
  const order: number[] = [];
  for (;;) {
    const next = early.shift() ?? ordinary.shift() ?? late.shift();
    if (next === undefined) return order;
    order.push(next);
    for (const dependent of dependents[next]!) if (--waiting[dependent]! === 0) addReady(dependent);
  }
}

/** Divides planned nodes among branches: a node continues one whose last node comes before it, or begins another. */
function withBranches(
  planned: readonly { readonly node: ObservedNode | undefined; readonly dependencies: readonly number[] }[],
): readonly OrderedNode[] {
  /** For each branch, its last node so far. */
  const lasts: number[] = [];
  /** For each node, the last node of each branch that comes before it, or is the node itself. */
  const known: Map<number, number>[] = [];
  return planned.map(({ node, dependencies }, place) => {
    const before = new Map<number, number>();
    for (const dependency of dependencies) {
      for (const [branch, last] of known[dependency]!) before.set(branch, Math.max(before.get(branch) ?? -1, last));
    }
    let branch = lasts.length;
    for (const [candidate, last] of before) {
      if (lasts[candidate] === last && candidate < branch) branch = candidate;
    }
    lasts[branch] = place;
    before.set(branch, place);
    known.push(before);
    return { node, dependencies, branch };
  });
}
