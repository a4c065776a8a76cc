/**
 * What a graph is made of: its nodes, what they use, and what it shares with the bodies of its conditional nodes.
 *
 * @module
 */
import { graphDotFlags } from "../../driver.ts";
import { withGraphMemory } from "../../memory/allocation.ts";
import type { Session } from "../../session.ts";
import { cudaErrorNumbers, explainedError } from "../../support/errors.ts";
import { ReferenceError } from "../../support/program_errors.ts";
import type { CudaDevice } from "../cuda_device.ts";
import type { ActiveCapture } from "./captures.ts";
import type { CudaGraph } from "./cuda_graph.ts";
import { forgetNode, GraphNode, type GraphNodeOrigin } from "./graph_node.ts";
import type { GraphResources } from "./graph_resources.ts";
import { type ArgumentPlaces, type NamedArguments, noArguments, placesOf } from "./named_arguments.ts";
import type { NodeNotes } from "./node_notes.ts";

/** A graph that is not the body of a node, and what it shares with the bodies of its nodes. */
export class RootGraph {
  /** Counts the changes of the nodes and edges. */
  version = 0;
  /** What the nodes of the graph and of all bodies use. */
  readonly resources: GraphResources;
  /** The captures into the graph and its bodies that have not ended, in the order in which they began. */
  readonly captures: Set<ActiveCapture> = new Set();
  /** Whether the graph has conditional nodes, or values for them. */
  hasConditions = false;
  /** The number of executable graphs that were made of the graph and are not disposed. */
  executables = 0;
  #used: { readonly version: number; readonly resources: GraphResources } | undefined;
  /** Call when the last of them is disposed. */
  onUnused: (() => void) | undefined;
  /** Call when the program can use the graph no more: what the graph uses is released. The graph is not destroyed. */
  release: (() => void) | undefined;
  /** Whether a node is being added: kernels may get a `GraphCondition` of the graph. */
  isBuilding = false;
  /** Why the graph cannot be instantiated or copied any more, but disposed. Undefined while it can. */
  incomplete: string | undefined;
  /** Why neither the graph nor a body can be used any more. Undefined while they can. */
  end: string | undefined;

  constructor(resources: GraphResources) {
    this.resources = resources;
  }

  /** What the nodes use now, for executable graphs that are made now. Nodes that are added later do not change it. */
  get used(): GraphResources {
    if (this.#used?.version !== this.version) {
      this.forgetUsed();
      const resources = this.resources.copy();
      resources.hold();
      this.#used = { version: this.version, resources };
    }
    return this.#used!.resources;
  }

  /** Call when no executable graphs are made of the graph any more. */
  forgetUsed(): void {
    const used = this.#used;
    this.#used = undefined;
    used?.resources.drop();
  }

  /** The capture that has begun first of those that have not ended. */
  get capture(): ActiveCapture | undefined {
    return this.captures.values().next().value;
  }

  /** Calls a function that checks and reads what a new node will use. */
  build<Result>(read: () => Result): Result {
    this.isBuilding = true;
    try {
      return withGraphMemory(read);
    } finally {
      this.isBuilding = false;
    }
  }

  /**
   * Ends the use of the graph without destroying it: it belongs to another graph, or CUDA has destroyed a part of it.
   *
   * @param why what an error says of it, such as `"it was disposed"`
   */
  leave(why: string): void {
    this.end = why;
    this.release?.();
  }

  /** Throws if the graph has nodes that it should not have. */
  checkComplete(): void {
    if (this.incomplete !== undefined) throw new ReferenceError(`Cannot use the graph: ${this.incomplete}`);
  }

  /** Throws if a stream is being captured into the graph, or into a body of it. `call` is the refused one. */
  checkNotCaptured(call: string): void {
    if (this.captures.size === 0) return;
    const number = cudaErrorNumbers.cudaErrorStreamCaptureUnsupported;
    throw explainedError(number, call, "a stream is being captured into the graph; end the capture first");
  }
}

/** A graph, or the body of a conditional node, as the methods of a `CudaGraph` see it. */
export class GraphParts {
  readonly graph: CudaGraph;
  readonly session: Session;
  readonly device: CudaDevice;
  readonly root: RootGraph;
  readonly notes: NodeNotes;
  /** What the program can change in executable graphs, by its names. */
  named: NamedArguments = noArguments;
  /** The graph with the conditional node whose body this is. Undefined for a graph of its own. */
  readonly around: GraphParts | undefined;
  readonly #handle: bigint;
  #places: {
    readonly version: number;
    readonly named: NamedArguments;
    readonly found: ArgumentPlaces;
  } | undefined;
  #shape: { readonly version: number; readonly nodes: readonly bigint[]; readonly edges: string } | undefined;
  /** The nodes that the program may know, by their handles. */
  readonly #nodes = new Map<bigint, GraphNode>();

  constructor(graph: CudaGraph, { session, device, handle, root, notes, around }: {
    session: Session;
    device: CudaDevice;
    handle: bigint;
    root: RootGraph;
    notes: NodeNotes;
    around: GraphParts | undefined;
  }) {
    this.graph = graph;
    this.session = session;
    this.device = device;
    this.root = root;
    this.notes = notes;
    this.around = around;
    this.#handle = handle;
  }

  /** The `cudaGraph_t`. */
  get handle(): bigint {
    const { end } = this.root;
    if (end !== undefined) throw new ReferenceError(`Cannot use the graph: ${end}`);
    return this.#handle;
  }

  get resources(): GraphResources {
    return this.root.resources;
  }

  /** Whether the graph can be used no more. */
  get hasEnded(): boolean {
    return this.root.end !== undefined || this.session.hasEnded;
  }

  /** The nodes, in the order in which they were added. */
  get nodes(): GraphNode[] {
    return this.session.driver.graphGetNodes(this.handle).map((handle) => this.nodeOf(handle));
  }

  /** The nodes, and a string that only graphs of the same shape have. */
  get shape(): { readonly nodes: readonly bigint[]; readonly edges: string } {
    const { version } = this.root;
    if (this.#shape?.version === version) return this.#shape;
    const { driver } = this.session;
    const nodes = driver.graphGetNodes(this.handle);
    const places = new Map(nodes.map((node, index) => [node, index]));
    const edges = driver.graphGetEdges(this.handle).map((edge) => edge.map((node) => places.get(node)));
    this.#shape = { version, nodes, edges: [nodes.length, ...edges].join(" ") };
    return this.#shape;
  }

  /** Where the nodes use the named arguments. */
  get places(): ArgumentPlaces {
    const { version } = this.root;
    const { notes, named } = this;
    if (this.#places?.version !== version || this.#places.named !== named) {
      this.#places = { version, named, found: placesOf(named, notes) };
    }
    return this.#places.found;
  }

  /** Returns the node of a handle. `origin` is what is known of a node that was just added. */
  nodeOf(handle: bigint, origin?: GraphNodeOrigin): GraphNode {
    if (origin !== undefined) this.root.version++;
    let node = this.#nodes.get(handle);
    if (node === undefined) {
      const type = this.session.driver.graphNodeGetType(handle);
      node = new GraphNode(this, { handle, type, ...origin });
      this.#nodes.set(handle, node);
    }
    return node;
  }

  /** The graph around all bodies: itself, or the one with the node whose body this is, at any depth. */
  get outermost(): GraphParts {
    return this.around?.outermost ?? this;
  }

  /** Call when a node was removed. */
  forget(handle: bigint): void {
    this.root.version++;
    const node = this.#nodes.get(handle);
    if (node !== undefined) forgetNode(node);
    this.#nodes.delete(handle);
    this.notes.delete(handle);
    this.resources.deleteNode(handle);
  }

  /** Returns the node of a handle in this graph or in a body, for the error of a call. Undefined if there is none. */
  find(handle: bigint): GraphNode | undefined {
    for (const node of this.#nodes.values()) {
      if (node.unsafeHandle === handle) return node;
      for (const body of node.bodies) {
        const found = partsOf(body).find(handle);
        if (found !== undefined) return found;
      }
    }
    return this.session.driver.graphGetNodes(this.handle).includes(handle) ? this.nodeOf(handle) : undefined;
  }

  /** Describes the graph in the language DOT, with the names that the program has given to nodes. */
  toDot({ verbose }: { verbose: boolean }): string {
    const { driver } = this.session;
    const named = [...this.#nodes.values()].filter(({ name }) => name !== undefined);
    const handles = named.length > 0 && !verbose ? graphDotFlags.handles : graphDotFlags.none;
    const text = driver.graphDebugDotPrint(this.handle, verbose ? graphDotFlags.verbose : handles);
    return named.length === 0 ? text : withNames(text, named);
  }
}

/** Returns the parts of a graph. Set by `CudaGraph`, which this file cannot import. */
let partsOf: (graph: CudaGraph) => GraphParts;

/** Sets the function that returns the parts of a graph. */
export function setPartsOf(find: typeof partsOf): void {
  partsOf = find;
}

/** Adds the names of nodes to a description in the language DOT, beside the nodes whose handles it has. */
function withNames(text: string, nodes: readonly GraphNode[]): string {
  // Each definition of a node reaches to the next one: `"graph_1_node_0"[label="... 0x000055D0A1B2C3D0 ..."];`
  const definitions = [...text.matchAll(/^\s*("?)(\w*node_\d+)\1\s*\[/gm)];
  const end = text.lastIndexOf("}");
  const lines = nodes.flatMap(({ name, unsafeHandle }) => {
    const digits = new RegExp(`0x0*${unsafeHandle.toString(16)}(?![\\da-f])`, "i");
    const index = definitions.findIndex(({ index }, at) => {
      return digits.test(text.slice(index, definitions[at + 1]?.index ?? end));
    });
    return index < 0 ? [] : [`  "${definitions[index]![2]}" [xlabel=${JSON.stringify(name)}];\n`];
  });
  return text.slice(0, end) + lines.join("") + text.slice(end);
}
