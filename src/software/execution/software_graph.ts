/**
 * Graphs of the software device: operations, and the order in which they run.
 *
 * @module
 */
import { graphNodeType } from "../../driver.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import { GraphError, graphExecUpdateResult, graphInstantiateResult } from "../../support/graph_errors.ts";
import type { ConditionTable } from "../memory/condition_table.ts";
import type { GraphAllocation } from "./graph_memory.ts";
import { LaunchPlan } from "./launch_plan.ts";
import { type Scheduler, Stream, type Work } from "./streams.ts";

/** A value that kernels set, and that decides which bodies of a node run. */
export class ConditionValue {
  readonly handle: bigint;
  readonly graph: SoftwareGraph;
  /** The value at the beginning of each launch. Undefined if the value of the previous launch remains. */
  readonly defaultValue: number | undefined;
  /** Whether a node tests the value. */
  isUsed = false;
  readonly #values: ConditionTable;

  /** @param values the values of all conditions of a driver, which kernels change. Has one for the handle */
  constructor(handle: bigint, { graph, defaultValue, values }: {
    graph: SoftwareGraph;
    defaultValue: number | undefined;
    values: ConditionTable;
  }) {
    this.handle = handle;
    this.graph = graph;
    this.defaultValue = defaultValue;
    this.#values = values;
  }

  get value(): number {
    return this.#values.get(this.handle) ?? 0;
  }

  /** Gives the value its default, if it has one. */
  reset(): void {
    if (this.defaultValue !== undefined) this.#values.set(this.handle, this.defaultValue);
  }

  /** Called when the graph and its executable graphs are destroyed. */
  destroy(): void {
    this.#values.delete(this.handle);
  }
}

/** What a conditional node runs. */
export interface Branching {
  readonly condition: ConditionValue;
  /** One of `conditionalNodeType`. */
  readonly type: number;
  readonly bodies: readonly SoftwareGraph[];
}

/** An operation of a program that can be executed any number of times. */
export interface GraphOperation {
  /** One of `graphNodeType`. */
  readonly type: number;
  /** Returns what the operation is, and more about it, for descriptions of graphs. */
  describe?(): { readonly name: string; readonly details: string };
  /** What the operation of a node in an executable graph must have in common with the one that replaces it. */
  readonly fixed?: readonly unknown[];
  /** The memory that the operation allocates or frees. */
  readonly allocation?: GraphAllocation;
  /** The graph that the operation runs. */
  readonly child?: SoftwareGraph;
  /** The graphs of which the operation runs some. */
  readonly branching?: Branching;
  /**
   * Returns whether the memory that a copy or fill uses exists, and whether it can be accessed now: that of a graph can
   * be accessed after a launch.
   */
  memory?(): { readonly exists: boolean; readonly isAccessible: boolean };
  /** Keeps what the operation uses until the returned function is called. */
  retain?(): () => void;
  /** Enqueues the operation on a stream. Returns undefined if the stream has nothing to do. */
  enqueue(stream: Stream): Work | undefined;
}

/** A node of a graph. */
export class SoftwareGraphNode {
  readonly handle: bigint;
  readonly device: number;
  readonly operation: GraphOperation;
  /** The nodes of the same graph that come before this one. */
  readonly dependencies: Set<SoftwareGraphNode>;

  constructor(handle: bigint, { device, operation, dependencies }: {
    device: number;
    operation: GraphOperation;
    dependencies: Iterable<SoftwareGraphNode>;
  }) {
    this.handle = handle;
    this.device = device;
    this.operation = operation;
    this.dependencies = new Set(dependencies);
  }
}

/** The types of nodes that the body of a conditional node cannot have. */
const unfitForBodies: readonly number[] = [
  graphNodeType.eventRecord,
  graphNodeType.waitEvent,
  graphNodeType.memAlloc,
  graphNodeType.memFree,
];

/** A graph. */
export class SoftwareGraph {
  readonly handle: bigint;
  /** The nodes by their handles, in the order in which they were added. */
  readonly nodes: Map<bigint, SoftwareGraphNode> = new Map();
  /** The nodes of the graph of which this one is a clone. Maps each to its clone. */
  readonly clones: ReadonlyMap<bigint, SoftwareGraphNode>;
  /** The values that kernels of the graph set. */
  readonly conditions: ConditionValue[] = [];
  /** The number of executable graphs that were made of this one and are not destroyed. */
  executables = 0;
  /** Whether the graph was moved into another one. */
  isMoved = false;
  /** The graph with the conditional node whose body this one is. */
  readonly parent: SoftwareGraph | undefined;
  /** Whether the graph was destroyed. A capture that fails destroys the body that it was to fill. */
  isDestroyed = false;

  constructor(
    handle: bigint,
    { clones = new Map(), parent }: {
      clones?: ReadonlyMap<bigint, SoftwareGraphNode>;
      parent?: SoftwareGraph;
    } = {},
  ) {
    this.handle = handle;
    this.clones = clones;
    this.parent = parent;
    for (const node of clones.values()) this.nodes.set(node.handle, node);
  }

  add(node: SoftwareGraphNode): void {
    this.nodes.set(node.handle, node);
    node.operation.allocation?.hold();
  }

  /** Removes a node, and the edges from and to it. */
  delete(node: SoftwareGraphNode): void {
    this.nodes.delete(node.handle);
    const { branching } = node.operation;
    if (branching !== undefined) branching.condition.isUsed = false;
    for (const { dependencies } of this.nodes.values()) dependencies.delete(node);
  }

  /** The memory that nodes allocate or free, including those of child graphs. */
  get allocations(): GraphAllocation[] {
    return [...this.nodes.values()].flatMap(({ operation: { allocation, child } }) => {
      return child?.allocations ?? (allocation === undefined ? [] : [allocation]);
    });
  }

  /** Whether the graph allocates or frees memory, so that there can be only one of it. */
  get hasMemoryNodes(): boolean {
    return this.allocations.length > 0;
  }

  /** The graph itself, or that with the conditional nodes in whose bodies it is. */
  get root(): SoftwareGraph {
    return this.parent?.root ?? this;
  }

  /**
   * A node that makes the graph impossible to execute: one that cannot be in the body of a conditional node, or a
   * conditional node whose body a capture has destroyed.
   */
  unfitNode(isInBody: boolean = this.parent !== undefined): SoftwareGraphNode | undefined {
    for (const node of this.nodes.values()) {
      const { type, child, branching: { bodies } = { bodies: [] } } = node.operation;
      if (isInBody && unfitForBodies.includes(type) || bodies.some(({ isDestroyed }) => isDestroyed)) return node;
      const graphs = child === undefined ? bodies : [child];
      for (const graph of graphs) {
        const unfit = graph.unfitNode(isInBody || child === undefined);
        if (unfit !== undefined) return unfit;
      }
    }
    return undefined;
  }

  /** Whether the graph has conditional nodes. */
  get hasConditionalNodes(): boolean {
    return [...this.nodes.values()].some(({ operation }) => operation.branching);
  }

  /** Whether the graph has conditional nodes, or values for them. */
  get hasConditions(): boolean {
    return this.conditions.length > 0 || this.hasConditionalNodes;
  }

  /** Returns a copy of the graph. */
  clone(newHandle: () => bigint): SoftwareGraph {
    const clones = new Map<bigint, SoftwareGraphNode>();
    for (const { handle, device, operation } of this.nodes.values()) {
      const { child } = operation;
      const own = child === undefined ? operation : { ...operation, child: child.clone(newHandle) };
      clones.set(handle, new SoftwareGraphNode(newHandle(), { device, operation: own, dependencies: [] }));
    }
    for (const { handle, dependencies } of this.nodes.values()) {
      for (const dependency of dependencies) clones.get(handle)!.dependencies.add(clones.get(dependency.handle)!);
    }
    return new SoftwareGraph(newHandle(), { clones });
  }

  /** Returns the nodes in an order in which each comes after those that it depends on, or a node of a circle. */
  sorted(): { readonly nodes: readonly SoftwareGraphNode[]; readonly circular: SoftwareGraphNode | undefined } {
    const sorted = new Set<SoftwareGraphNode>();
    const waiting = new Map<SoftwareGraphNode, number>();
    const dependents = new Map<SoftwareGraphNode, SoftwareGraphNode[]>();
    for (const node of this.nodes.values()) {
      waiting.set(node, node.dependencies.size);
      if (node.dependencies.size === 0) sorted.add(node);
      for (const dependency of node.dependencies) {
        const others = dependents.get(dependency);
        if (others === undefined) dependents.set(dependency, [node]);
        else others.push(node);
      }
    }
    // Nodes that are added meanwhile are visited too.
    for (const node of sorted) {
      for (const dependent of dependents.get(node) ?? []) {
        const left = waiting.get(dependent)! - 1;
        waiting.set(dependent, left);
        if (left === 0) sorted.add(dependent);
      }
    }
    return { nodes: [...sorted], circular: [...this.nodes.values()].find((node) => !sorted.has(node)) };
  }

  /** Releases what only this graph holds. */
  destroy(): void {
    for (const { operation: { allocation, child, branching } } of this.nodes.values()) {
      allocation?.drop();
      child?.destroy();
      branching?.bodies.forEach((body) => body.destroy());
    }
    this.nodes.clear();
    this.isDestroyed = true;
    this.#releaseConditions();
  }

  /** Called when an executable graph of this one is destroyed. */
  executableDestroyed(): void {
    this.executables--;
    this.#releaseConditions();
  }

  #releaseConditions(): void {
    if (this.isDestroyed && this.executables === 0) { for (const condition of this.conditions) condition.destroy(); }
  }
}

/** A node of an executable graph. */
interface ExecutableNode {
  readonly node: SoftwareGraphNode;
  readonly dependencies: readonly ExecutableNode[];
  /** The nodes of the graph that the node runs. */
  readonly child: ExecutableNodes | undefined;
  /** The nodes of the graphs of which the node runs some. */
  readonly bodies: readonly ExecutableNodes[];
  operation: GraphOperation;
  isEnabled: boolean;
}

/** The nodes of an executable graph, or of a graph that one of its nodes runs. */
class ExecutableNodes {
  readonly sorted: readonly ExecutableNode[];
  /** The nodes by the handles of the nodes of the graph of which they were made, in the order of that graph. */
  readonly byHandle: ReadonlyMap<bigint, ExecutableNode>;

  constructor(graph: SoftwareGraph) {
    const { nodes, circular } = graph.sorted();
    if (circular !== undefined) {
      const { cudaErrorInvalidValue } = cudaErrorNumbers;
      const result = graphInstantiateResult.invalidStructure;
      throw new GraphError(cudaErrorInvalidValue, "cudaGraphInstantiate", { result, node: circular.handle });
    }
    const made = new Map<SoftwareGraphNode, ExecutableNode>();
    for (const node of nodes) {
      const { operation } = node;
      made.set(node, {
        node,
        dependencies: [...node.dependencies].map((dependency) => made.get(dependency)!),
        child: operation.child && new ExecutableNodes(operation.child),
        bodies: operation.branching?.bodies.map((body) => new ExecutableNodes(body)) ?? [],
        operation,
        isEnabled: true,
      });
    }
    this.sorted = [...made.values()];
    this.byHandle = new Map([...graph.nodes.values()].map((node) => [node.handle, made.get(node)!]));
  }

  /**
   * Returns what prevents the nodes from getting the operations of another graph, or how to give them these operations.
   */
  compare(graph: SoftwareGraph): { result: number; node: bigint | undefined } | (() => void) {
    const { error, nodeTypeChanged, notSupported } = graphExecUpdateResult;
    const pairs = this.#pairedWith(graph);
    if (!(pairs instanceof Map)) return pairs;
    const changes: (() => void)[] = [];
    let memoryNode: SoftwareGraphNode | undefined;
    for (const [node, own] of pairs) {
      const { handle, operation } = node;
      if (operation.type !== own.operation.type) return { result: nodeTypeChanged, node: handle };
      if (operation === own.operation) continue;
      if (operation.allocation !== undefined) memoryNode ??= node;
      if (operation.memory?.().isAccessible === false) return { result: error, node: handle };
      const obstacle = obstacleBetween(own.operation, operation);
      if (obstacle !== 0) return { result: obstacle, node: handle };
      const graphs = operation.child === undefined ? operation.branching?.bodies ?? [] : [operation.child];
      for (const [index, nodes] of (own.child === undefined ? own.bodies : [own.child]).entries()) {
        const change = nodes.compare(graphs[index]!);
        if (typeof change !== "function") return change;
        changes.push(change);
      }
      if (graphs.length === 0) changes.push(() => own.operation = operation);
    }
    if (memoryNode !== undefined) return { result: notSupported, node: memoryNode.handle };
    return () => changes.forEach((change) => change());
  }

  /**
   * Returns the node that corresponds to each node of another graph, as CUDA pairs them: those without dependents in
   * the order in which they were added, and their dependencies in the order of the edges. Returns the difference
   * between the graphs if there is one.
   */
  #pairedWith(
    graph: SoftwareGraph,
  ): Map<SoftwareGraphNode, ExecutableNode> | { result: number; node: bigint | undefined } {
    const { topologyChanged } = graphExecUpdateResult;
    const own = [...this.byHandle.values()];
    const others = [...graph.nodes.values()];
    if (own.length !== others.length) return { result: topologyChanged, node: undefined };
    const ownEnds = withoutDependents(own), otherEnds = withoutDependents(others);
    if (ownEnds.length !== otherEnds.length) {
      const surplus = otherEnds.length > ownEnds.length ? otherEnds.at(-1) : undefined;
      return { result: topologyChanged, node: surplus?.handle };
    }
    // CUDA begins with the last one, and reports the first difference.
    const pairs = new Map(otherEnds.map((node, index) => [node, ownEnds[index]!] as const).reverse());
    const paired = new Set(ownEnds);
    // Nodes that are paired meanwhile are visited too.
    for (const [node, { dependencies }] of pairs) {
      if (node.dependencies.size !== dependencies.length) return { result: topologyChanged, node: node.handle };
      for (const [index, dependency] of [...node.dependencies].entries()) {
        const before = dependencies[index]!;
        if (pairs.get(dependency) === before) continue;
        if (pairs.has(dependency) || paired.has(before)) return { result: topologyChanged, node: node.handle };
        pairs.set(dependency, before);
        paired.add(before);
      }
    }
    return pairs;
  }

  /** Returns a node of the graph, or of the body of a conditional node. */
  find(handle: bigint): ExecutableNode | undefined {
    const found = this.byHandle.get(handle);
    if (found !== undefined) return found;
    for (const { bodies } of this.sorted) {
      for (const body of bodies) {
        const inBody = body.find(handle);
        if (inBody !== undefined) return inBody;
      }
    }
    return undefined;
  }

  /** Returns what a launch runs now. */
  plan(): LaunchPlan {
    const places = new Map(this.sorted.map((node, index) => [node, index]));
    const nodes = this.sorted.map(({ node: { device }, dependencies, isEnabled, operation, child, bodies }) => ({
      device,
      dependencies: dependencies.map((dependency) => places.get(dependency)!),
      isEnabled,
      operation,
      child: child?.plan(),
      bodies: bodies.map((body) => body.plan()),
    }));
    return new LaunchPlan(nodes);
  }
}

/** Returns the nodes on which no other one depends. */
function withoutDependents<Node extends { readonly dependencies: Iterable<Node> }>(nodes: readonly Node[]): Node[] {
  const before = new Set<Node>();
  for (const { dependencies } of nodes) for (const dependency of dependencies) before.add(dependency);
  return nodes.filter((node) => !before.has(node));
}

/** Returns why an operation cannot replace another one of the same type: one of `graphExecUpdateResult`, or 0. */
function obstacleBetween({ fixed = [] }: GraphOperation, { fixed: others = [] }: GraphOperation): number {
  return fixed.every((value, index) => value === others[index]) ? 0 : graphExecUpdateResult.parametersChanged;
}

/** A graph that can be launched. Its launches run one after the other. */
export class ExecutableGraph {
  readonly #graph: SoftwareGraph;
  readonly #nodes: ExecutableNodes;
  readonly #allocations: readonly GraphAllocation[];
  readonly #scheduler: Scheduler;
  /** Whether a launch frees the memory that the previous one has left. */
  readonly #autoFrees: boolean;
  /** What a launch runs. Undefined if that has changed since the latest launch. */
  #plan: LaunchPlan | undefined;
  /** The end of the latest launch. */
  #end: Work | undefined;

  constructor(graph: SoftwareGraph, scheduler: Scheduler, { autoFrees }: { autoFrees: boolean }) {
    this.#graph = graph;
    this.#nodes = new ExecutableNodes(graph);
    const { cudaErrorInvalidValue } = cudaErrorNumbers;
    const unfit = graph.unfitNode();
    if (unfit !== undefined) {
      const result = graphInstantiateResult.nodeOperationNotSupported;
      throw new GraphError(cudaErrorInvalidValue, "cudaGraphInstantiate", { result, node: unfit.handle });
    }
    if (this.#currentPlan().operations.some((operation) => operation.memory?.().exists === false)) {
      const result = graphInstantiateResult.error;
      throw new GraphError(cudaErrorInvalidValue, "cudaGraphInstantiate", { result, node: undefined });
    }
    if (graph.conditions.some(({ isUsed }) => !isUsed)) {
      const result = graphInstantiateResult.conditionalHandleUnused;
      throw new GraphError(cudaErrorNumbers.cudaErrorInvalidValue, "cudaGraphInstantiate", { result, node: undefined });
    }
    this.#allocations = graph.allocations;
    this.#scheduler = scheduler;
    this.#autoFrees = autoFrees;
    graph.executables++;
    for (const allocation of this.#allocations) allocation.hold();
  }

  /** Whether the graph cannot be launched before memory of its previous launch is freed. */
  get hasUnfreedMemory(): boolean {
    if (this.#autoFrees) return false;
    return this.#currentPlan().operations.some(({ type, allocation }) => {
      return type === graphNodeType.memAlloc && allocation!.isAlive;
    });
  }

  /** Returns the node that a node of the graph has become. Undefined once the graph is destroyed. */
  node(handle: bigint): { operation: GraphOperation; isEnabled: boolean } | undefined {
    return this.#graph.isDestroyed ? undefined : this.#nodes.find(handle);
  }

  /** Sets whether launches run a node. */
  enable(handle: bigint, isEnabled: boolean): void {
    this.#nodes.find(handle)!.isEnabled = isEnabled;
    this.#plan = undefined;
  }

  /** Replaces the operation of a node. Returns whether the operation can replace the previous one. */
  replace(handle: bigint, operation: GraphOperation): boolean {
    const found = this.#graph.isDestroyed ? undefined : this.#nodes.find(handle);
    if (found?.operation.type !== operation.type || obstacleBetween(found.operation, operation) !== 0) return false;
    this.#plan = undefined;
    if (found.child === undefined) {
      found.operation = operation;
      return true;
    }
    const change = found.child.compare(operation.child!);
    if (typeof change !== "function") return false;
    change();
    return true;
  }

  /** Gives the nodes the operations of another graph. Returns why that is impossible, if it is. */
  update(graph: SoftwareGraph): { result: number; node: bigint | undefined } | undefined {
    const change = this.#nodes.compare(graph);
    if (typeof change !== "function") return change;
    change();
    this.#plan = undefined;
    return undefined;
  }

  /** Releases what only this executable graph holds, when its launches are complete. */
  destroy(): void {
    this.#graph.executableDestroyed();
    const end = this.#end;
    const drop = () => {
      for (const allocation of this.#allocations) allocation.drop();
    };
    if (end === undefined || end.done || this.#allocations.length === 0) return drop();
    const stream = new Stream(end.stream.device, { isBlocking: false });
    this.#scheduler.addStream(stream);
    this.#scheduler.enqueue(stream, drop, { after: [end], outlivesDevice: true });
    this.#scheduler.removeStream(stream);
  }

  /** Reserves the memory that a launch on a stream will need. */
  upload(stream: Stream): void {
    for (const { type, allocation } of this.#currentPlan().operations) {
      if (type === graphNodeType.memAlloc) allocation!.reserve(stream);
    }
  }

  /** Enqueues all nodes on a stream. */
  launch(stream: Stream): Work {
    const plan = this.#currentPlan();
    const { operations } = plan;
    for (const { type, allocation } of operations) if (type === graphNodeType.memAlloc) allocation!.allocate(stream);
    const end = this.#end = plan.launch(stream, this.#scheduler, this.#end === undefined ? [] : [this.#end]);
    for (const { type, allocation } of operations) {
      if (type === graphNodeType.memFree) allocation!.freeAfter(end, stream);
    }
    return end;
  }

  #currentPlan(): LaunchPlan {
    return this.#plan ??= this.#nodes.plan();
  }
}
