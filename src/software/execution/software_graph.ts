/**
 * Graphs of the software device: operations, and the order in which they run.
 *
 * @module
 */
import { type Scheduler, Stream, type Work } from "./streams.ts";
import type { GraphAllocation } from "./graph_memory.ts";

/** An operation of a program that can be executed any number of times. */
export interface GraphOperation {
  /** One of `graphNodeType`. */
  readonly type: number;
  /** Enqueues the operation on a stream. Returns undefined if the stream has nothing to do. */
  enqueue(stream: Stream): Work | undefined;
}

/** A node of a graph. */
export class GraphNode {
  readonly handle: bigint;
  readonly device: number;
  readonly operation: GraphOperation;
  readonly dependencies: ReadonlySet<GraphNode>;

  constructor(handle: bigint, { device, operation, dependencies }: Omit<GraphNode, "handle">) {
    this.handle = handle;
    this.device = device;
    this.operation = operation;
    this.dependencies = dependencies;
  }
}

/** A graph. Its nodes are in the order in which they were added: each comes after those that it depends on. */
export class SoftwareGraph {
  readonly handle: bigint;
  readonly nodes: GraphNode[] = [];
  /** The memory that the graph allocates. */
  readonly allocations: GraphAllocation[] = [];

  constructor(handle: bigint) {
    this.handle = handle;
  }

  /** Releases what only this graph holds. */
  destroy(): void {
    for (const allocation of this.allocations.splice(0)) allocation.drop();
  }
}

/** A graph that can be launched. Its launches run one after the other. */
export class ExecutableGraph {
  readonly #nodes: readonly GraphNode[];
  readonly #allocations: readonly GraphAllocation[];
  readonly #scheduler: Scheduler;
  /** Whether a launch frees the memory that the previous one has left. */
  readonly #autoFrees: boolean;
  /** The end of the latest launch. */
  #end: Work | undefined;

  constructor({ nodes, allocations }: SoftwareGraph, scheduler: Scheduler, { autoFrees }: { autoFrees: boolean }) {
    this.#nodes = [...nodes];
    this.#allocations = [...allocations];
    this.#scheduler = scheduler;
    this.#autoFrees = autoFrees;
    for (const allocation of allocations) allocation.hold();
  }

  /** Whether the graph cannot be launched before memory of its previous launch is freed. */
  get hasUnfreedMemory(): boolean {
    return !this.#autoFrees && this.#allocations.some(({ isAlive }) => isAlive);
  }

  /** Releases what only this executable graph holds, when its launches are complete. */
  destroy(): void {
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

  /** Enqueues all nodes, each on a stream of its own, so that nodes without an order run in any order. */
  launch(stream: Stream): Work {
    const scheduler = this.#scheduler;
    for (const allocation of this.#allocations) allocation.isAlive = !allocation.isFreedInGraph;
    const begin = scheduler.enqueue(stream, () => {}, { after: this.#end === undefined ? [] : [this.#end] });
    const branches = new Map<GraphNode, Stream>();
    for (const node of this.#nodes) {
      const branch = new Stream(node.device, { isBlocking: false });
      scheduler.addStream(branch);
      branch.comeAfterAllOf(stream);
      const before = [...node.dependencies].map((dependency) => branches.get(dependency)!);
      for (const other of before) branch.comeAfterAllOf(other);
      scheduler.enqueue(branch, () => {}, { after: [begin, ...before.map(({ last }) => last!)] });
      node.operation.enqueue(branch);
      branches.set(node, branch);
    }
    const ends = [...branches.values()].map(({ last }) => last!);
    for (const branch of branches.values()) stream.comeAfterAllOf(branch);
    this.#end = scheduler.enqueue(stream, () => {}, { after: ends });
    for (const branch of branches.values()) scheduler.removeStream(branch);
    return this.#end;
  }
}
