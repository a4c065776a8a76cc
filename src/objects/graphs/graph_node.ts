import { graphNodeType } from "../../driver.ts";
import { cloneRefusal, openInWorker } from "../../support/cloning.ts";
import { cannot } from "../../support/driver_errors.ts";
import { type CudaError, cudaErrorNumbers, explainedError } from "../../support/errors.ts";
import { printAs } from "../../support/printing.ts";
import { ReferenceError, TypeError } from "../../support/program_errors.ts";
import { refuseConstruction, whatIs } from "../../support/validation.ts";
import type { CudaKernel } from "../kernels/cuda_kernel.ts";
import type { CudaGraph } from "./cuda_graph.ts";
import type { GraphParts } from "./graph_parts.ts";

/** What a node of a graph does. */
export type GraphNodeType =
  | "kernel"
  | "copy"
  | "fill"
  | "host"
  | "graph"
  | "empty"
  | "wait"
  | "record"
  | "allocate"
  | "free"
  | "memory-operation"
  | "conditional"
  | "other";

const nodeTypes: Readonly<Record<number, GraphNodeType>> = {
  [graphNodeType.kernel]: "kernel",
  [graphNodeType.memcpy]: "copy",
  [graphNodeType.memset]: "fill",
  [graphNodeType.host]: "host",
  [graphNodeType.graph]: "graph",
  [graphNodeType.empty]: "empty",
  [graphNodeType.waitEvent]: "wait",
  [graphNodeType.eventRecord]: "record",
  [graphNodeType.memAlloc]: "allocate",
  [graphNodeType.memFree]: "free",
  [graphNodeType.batchMemOp]: "memory-operation",
  [graphNodeType.conditional]: "conditional",
};

/** What is known of a node from the call that has added it. */
export interface GraphNodeOrigin {
  readonly name?: string | undefined;
  /** Creates the bodies of a conditional node. */
  createBodies?(node: GraphNode): readonly CudaGraph[];
}

/** Call when a node was removed, or its graph has lost it. */
export let forgetNode: (node: GraphNode) => void;

/** Describes a node for an error: `the kernel saxpy "first"`. */
export let describeNode: (node: GraphNode) => string;

/** Returns the handle of a node. Throws unless it is a node of a graph. */
export let handleOfNode: (node: GraphNode, parts: GraphParts) => bigint;

const refusalToClone = cloneRefusal("a graph", openInWorker);

/**
 * A piece of work in a graph. Comes from `CudaGraph.nodes`, and from the methods of a graph that add nodes.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
 */
export class GraphNode {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** What the node does. */
  readonly type: GraphNodeType;
  /** The graph that the node is a part of. */
  readonly graph: CudaGraph;
  /** The name that the node was added with. */
  readonly name: string | undefined;
  /**
   * The bodies of a conditional node, to be filled with nodes: that for a value that is not 0 and that for 0, that of a
   * loop, or one for each value. Empty for other nodes.
   */
  readonly bodies: readonly CudaGraph[];
  readonly #parts: GraphParts;
  #handle: bigint | undefined;

  static {
    describeNode = (node) => node.#described;
    forgetNode = (node) => node.#handle = undefined;
    handleOfNode = (node, parts) => {
      if (!(node instanceof GraphNode)) {
        const { node: inner } = (node ?? {}) as { readonly node?: unknown };
        const advice = inner instanceof GraphNode ? "its node, which is the property of that name" : "one of the graph";
        throw new TypeError(`Cannot use ${whatIs(node, "GraphNode")} as a node: give ${advice}`);
      }
      if (node.#parts !== parts) {
        throw new TypeError(`Cannot use ${node.#described}, which is a node of another graph: give a node of this one`);
      }
      return node.unsafeHandle;
    };
    printAs(this, "GraphNode", (node) => {
      const { name, type, kernel } = node;
      const state = node.#handle === undefined ? ", removed" : "";
      return `GraphNode { ${type}${kernel === undefined ? "" : ` ${kernel.name}`}${
        name === undefined ? "" : `, ${JSON.stringify(name)}`
      }${state} }`;
    }, ["type", "name", "graph", ["removed", (node) => node.#handle === undefined]]);
  }

  /**
   * Nodes come from `CudaGraph.nodes`.
   *
   * @ignore
   */
  constructor(
    parts: GraphParts,
    { handle = refuseConstruction("GraphNode", "CudaGraph.nodes"), type, name, createBodies }: GraphNodeOrigin & {
      handle: bigint;
      /** One of `graphNodeType`. */
      type: number;
    } = {} as never,
  ) {
    this.#parts = parts;
    this.graph = parts.graph;
    this.#handle = handle;
    this.type = nodeTypes[type] ?? "other";
    this.name = name;
    this.bodies = createBodies?.(this) ?? [];
  }

  /**
   * The `cudaGraphNode_t`, for CUDA calls that this library does not make.
   *
   * @throws {ReferenceError} If the node was removed, or its graph was disposed
   */
  get unsafeHandle(): bigint {
    void this.#parts.handle;
    if (this.#handle === undefined) throw new ReferenceError("Cannot use the node of the graph: it was removed");
    return this.#handle;
  }

  /** The kernel of a kernel node that this library has captured or added. Else undefined. */
  get kernel(): CudaKernel | undefined {
    const note = this.#handle === undefined ? undefined : this.#parts.notes.get(this.#handle);
    return note?.kind === "kernel" ? note.kernel : undefined;
  }

  /** The nodes that come directly before this one. */
  get dependencies(): readonly GraphNode[] {
    return this.graph.edges.filter(([, to]) => to === this).map(([from]) => from);
  }

  /** The nodes that come directly after this one. */
  get dependents(): readonly GraphNode[] {
    return this.graph.edges.filter(([from]) => from === this).map(([, to]) => to);
  }

  get #described(): string {
    const { type, name, kernel } = this;
    return `the ${type}${kernel === undefined ? "" : ` ${kernel.name}`}${
      name === undefined ? "" : ` ${JSON.stringify(name)}`
    }`;
  }

  /**
   * Removes the node from its graph, and the dependencies on it. Executable graphs still run it.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {ReferenceError} If the node was removed already, or its graph was disposed
   * @throws {CudaError} `cudaErrorNotSupported` if the graph allocates or frees memory, or the node is conditional;
   * `cudaErrorStreamCaptureUnsupported` while a stream is captured into the graph
   */
  remove(): void {
    const call = "cudaGraphDestroyNode";
    const parts = this.#parts;
    const handle = this.unsafeHandle;
    try {
      parts.root.checkNotCaptured(call);
      if (this.type === "conditional") {
        throw unsupported(call, "a conditional node stays, because its bodies belong to it; build the graph again");
      }
      parts.session.driver.graphDestroyNode(handle);
    } catch (error) {
      throw cannot(`remove ${this.#described} from a graph of device ${parts.device.ordinal}`, error, keepsNodes);
    }
    parts.forget(handle);
  }
}

const keepsNodes = "a graph that allocates or frees memory keeps its nodes; build another one";

/** Returns CUDA's error for something that a graph cannot have. */
export function unsupported(call: string, why: string): CudaError {
  return explainedError(cudaErrorNumbers.cudaErrorNotSupported, call, why);
}
