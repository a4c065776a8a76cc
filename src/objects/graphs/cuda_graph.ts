import { graphDotFlags, graphInstantiateFlags, graphNodeType } from "../../driver.ts";
import type { Allocation } from "../../memory/allocation.ts";
import { placeIn } from "../../memory/pools/pool_contents.ts";
import type { DeviceBuffer } from "../../memory/device_buffer.ts";
import type { Session } from "../../session.ts";
import { cloneRefusal, openInWorker } from "../../support/cloning.ts";
import { cannot, ignoreLoss } from "../../support/driver_errors.ts";
import { printAs } from "../../support/printing.ts";
import { ReferenceError, TypeError } from "../../support/program_errors.ts";
import {
  checkBoolean,
  checkOptions,
  errorOfAnotherCuda,
  type KnownOptions,
  refuseConstruction,
  whatIs,
} from "../../support/validation.ts";
import type { CudaDevice } from "../cuda_device.ts";
import type { CudaKernel } from "../kernels/cuda_kernel.ts";
import type { OpenedObject } from "../opened_objects.ts";
import { checkStream, type CudaStream, progressOf } from "../streams/cuda_stream.ts";
import { type KnownStreamOptions, type OrStream, streamOf, type StreamOption } from "../streams/stream_option.ts";
import type { GraphResources, GraphUser } from "./graph_resources.ts";
import type { NodeNotes } from "./node_notes.ts";

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

/** Options of `CudaGraph.instantiate`. */
export interface InstantiateOptions {
  /** Whether a launch first frees the memory that the previous launch has left allocated. Defaults to false. */
  autoFreeOnLaunch?: boolean;
  /** Whether kernels run with the priorities that they were captured with, not with the stream's. Defaults to false. */
  useNodePriority?: boolean;
  /** Uploads the graph on this stream, so that the first launch is as fast as the others. */
  upload?: CudaStream;
}

const instantiateOptions: KnownOptions<InstantiateOptions> = {
  action: "instantiate a graph",
  names: { autoFreeOnLaunch: true, useNodePriority: true, upload: true },
};

const launchOptions: KnownStreamOptions<StreamOption> = {
  action: "launch a graph",
  names: { stream: true },
  usage: "launch(stream) or launch({ stream })",
};
const uploadOptions: KnownStreamOptions<StreamOption> = {
  action: "upload a graph",
  names: { stream: true },
  usage: "upload(stream) or upload({ stream })",
};

/** Options of `CudaGraph.toDot`. */
export interface DotOptions {
  /** Whether to describe all that CUDA knows of the nodes. Defaults to false. */
  verbose?: boolean;
}

const dotOptions: KnownOptions<DotOptions> = {
  action: "describe a graph",
  names: { verbose: true },
};

const refusalToClone = cloneRefusal("a graph", openInWorker);

/** A piece of work in a graph. Comes from `CudaGraph.nodes`. */
export class GraphNode {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** What the node does. */
  readonly type: GraphNodeType;
  /** The graph that the node is a part of. */
  readonly graph: CudaGraph;
  /** The `cudaGraphNode_t`, for CUDA calls that this library does not make. */
  readonly unsafeHandle: bigint;

  static {
    printAs(this, "GraphNode", ({ type }) => `GraphNode { ${type} }`, ["type", "graph"]);
  }

  /**
   * Nodes come from `CudaGraph.nodes`.
   *
   * @ignore
   */
  constructor(
    graph: CudaGraph,
    { handle = refuseConstruction("GraphNode", "CudaGraph.nodes"), type }: {
      handle: bigint;
      /** One of `graphNodeType`. */
      type: number;
    } = {} as never,
  ) {
    this.graph = graph;
    this.unsafeHandle = handle;
    this.type = nodeTypes[type] ?? "other";
  }

  /** The kernel of a kernel node that this library has captured or added. Else undefined. */
  get kernel(): CudaKernel | undefined {
    const note = notesOf(this.graph).get(this.unsafeHandle);
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
}

/** Returns what the work of a graph uses. */
let resourcesOf: (graph: CudaGraph) => GraphResources;

/** Returns what is known of the nodes of a graph. */
export let notesOf: (graph: CudaGraph) => NodeNotes;

/**
 * Work and its order, to be instantiated. Comes from `CudaStream.capture`.
 *
 * It does not keep the program's buffers from being freed: a graph that has lost one cannot be instantiated or launched
 * any more, and says so. Modules stay loaded until the graphs with their kernels are disposed.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
 */
export class CudaGraph implements Disposable {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** The device of the stream that was captured. */
  readonly device: CudaDevice;
  readonly #session: Session;
  readonly #resources: GraphResources;
  readonly #notes: NodeNotes;
  readonly #opened: OpenedObject;
  /** The nodes by handle, once they were asked for. */
  #nodes: ReadonlyMap<bigint, GraphNode> | undefined;
  #handle: bigint | undefined;

  static {
    resourcesOf = (graph) => graph.#resources;
    notesOf = (graph) => graph.#notes;
    printAs(this, "CudaGraph", (graph) => {
      const state = graph.#isDisposed ? "disposed" : `${graph.nodes.length} nodes`;
      return `CudaGraph { device ${graph.device.ordinal}, ${state} }`;
    }, ["device", ["nodes", (graph) => graph.#isDisposed ? undefined : graph.nodes.length], [
      "disposed",
      (graph) => graph.#isDisposed,
    ]]);
  }

  /**
   * Graphs come from `CudaStream.capture`.
   *
   * @ignore
   */
  constructor(
    session: Session,
    { device, handle = refuseConstruction("CudaGraph", "CudaStream.capture"), resources, notes }: {
      device: CudaDevice;
      handle: bigint;
      resources: GraphResources;
      notes: NodeNotes;
    } = {} as never,
  ) {
    this.#session = session;
    this.device = device;
    this.#handle = handle;
    this.#resources = resources;
    this.#notes = notes;
    resources.hold();
    this.#opened = { kind: "graph", release: (driver) => driver.graphDestroy(handle) };
    session.opened.add(this.#opened);
  }

  /** The `cudaGraph_t`, for CUDA calls that this library does not make. */
  get unsafeHandle(): bigint {
    if (this.#handle === undefined) throw new ReferenceError("Cannot use the graph: it was disposed");
    return this.#handle;
  }

  get #isDisposed(): boolean {
    return this.#handle === undefined || this.#session.hasEnded;
  }

  /**
   * The nodes, in the order in which they were added.
   *
   * @throws {ReferenceError} If the graph was disposed
   */
  get nodes(): readonly GraphNode[] {
    return [...this.#nodesByHandle().values()];
  }

  /**
   * The pairs of nodes where the second one waits for the first one.
   *
   * @throws {ReferenceError} If the graph was disposed
   */
  get edges(): readonly (readonly [from: GraphNode, to: GraphNode])[] {
    const nodes = this.#nodesByHandle();
    return this.#session.driver.graphGetEdges(this.unsafeHandle).map(([from, to]) => {
      return [nodes.get(from)!, nodes.get(to)!] as const;
    });
  }

  /** The memory that the graph allocates and does not free. It can be used after a launch. */
  get allocations(): readonly DeviceBuffer[] {
    return [...this.#resources.unfreed.values()];
  }

  #nodesByHandle(): ReadonlyMap<bigint, GraphNode> {
    const handle = this.unsafeHandle;
    const { driver } = this.#session;
    return this.#nodes ??= new Map(
      driver.graphGetNodes(handle).map((node) => {
        return [node, new GraphNode(this, { handle: node, type: driver.graphNodeGetType(node) })];
      }),
    );
  }

  /**
   * Creates an executable graph.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {ReferenceError} If the graph was disposed, or a buffer that it uses was freed
   * @throws {TypeError} If an option is unknown or has the wrong type
   * @throws {CudaError} `cudaErrorNotSupported` if the graph allocates memory and is instantiated already
   */
  instantiate(options: InstantiateOptions = {}): CudaGraphExec {
    checkOptions(options, instantiateOptions);
    const { autoFreeOnLaunch = false, useNodePriority = false, upload } = options;
    checkBoolean(autoFreeOnLaunch, "a graph's autoFreeOnLaunch");
    checkBoolean(useNodePriority, "a graph's useNodePriority");
    if (upload !== undefined) checkStream(upload, this.#session, "instantiate({ upload: stream })");
    checkUsable("instantiate", this.#resources);
    const flags = (autoFreeOnLaunch ? graphInstantiateFlags.autoFreeOnLaunch : 0) |
      (useNodePriority ? graphInstantiateFlags.useNodePriority : 0);
    let handle: bigint;
    try {
      handle = this.#session.driver.graphInstantiate(this.unsafeHandle, flags);
    } catch (error) {
      throw cannot(`instantiate a graph of device ${this.device.ordinal}`, error, this.#allocationHint());
    }
    const exec = new CudaGraphExec(this.#session, { graph: this, handle, resources: this.#resources });
    if (upload !== undefined) exec.upload(upload);
    return exec;
  }

  /**
   * Copies the graph.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {ReferenceError} If the graph was disposed
   * @throws {CudaError} `cudaErrorNotSupported` if the graph allocates memory
   */
  clone(): CudaGraph {
    try {
      const { driver } = this.#session;
      const handle = driver.graphClone(this.unsafeHandle);
      const notes = this.#notes.copy((node) => driver.graphNodeFindInClone(node, handle));
      return new CudaGraph(this.#session, { device: this.device, handle, resources: this.#resources, notes });
    } catch (error) {
      throw cannot(`copy a graph of device ${this.device.ordinal}`, error, this.#allocationHint());
    }
  }

  #allocationHint(): string | undefined {
    return this.#resources.owned.size > 0 ? "it allocates memory: only one executable graph can have it" : undefined;
  }

  /**
   * Returns a description of the graph in the language DOT, which Graphviz draws.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {ReferenceError} If the graph was disposed
   */
  toDot(options: DotOptions = {}): string {
    checkOptions(options, dotOptions);
    const { verbose = false } = options;
    checkBoolean(verbose, "a description's verbose");
    try {
      const flags = verbose ? graphDotFlags.verbose : graphDotFlags.none;
      return this.#session.driver.graphDebugDotPrint(this.unsafeHandle, flags);
    } catch (error) {
      throw cannot(`describe a graph of device ${this.device.ordinal}`, error);
    }
  }

  /** Destroys the graph. Graphs that were instantiated from it stay usable. */
  [Symbol.dispose](): void {
    if (this.#handle === undefined) return;
    const handle = this.#handle;
    this.#handle = undefined;
    this.#session.opened.delete(this.#opened);
    ignoreLoss(() => this.#session.driver.graphDestroy(handle));
    this.#resources.drop();
  }
}

/**
 * A graph that can be launched. Its launches run one after the other, on whichever streams. Comes from
 * `CudaGraph.instantiate`.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
 */
export class CudaGraphExec implements Disposable {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** The graph that this was instantiated from. */
  readonly graph: CudaGraph;
  readonly #session: Session;
  readonly #device: CudaDevice;
  #resources: GraphResources;
  readonly #opened: OpenedObject;
  readonly #user: GraphUser;
  #handle: bigint | undefined;
  /** The error of a launch, once memory of the graph was freed. */
  #lost: ((action: string) => ReferenceError) | undefined;
  /** The stream of the latest launch, and the stream's position then. */
  #lastStream: CudaStream | undefined;
  #lastPosition = 0;

  static {
    printAs(this, "CudaGraphExec", (exec) => {
      return `CudaGraphExec { device ${exec.#device.ordinal}${exec.#isDisposed ? ", disposed" : ""} }`;
    }, ["graph", ["disposed", (exec) => exec.#isDisposed]]);
  }

  /**
   * Executable graphs come from `CudaGraph.instantiate`.
   *
   * @ignore
   */
  constructor(
    session: Session,
    { graph, handle = refuseConstruction("CudaGraphExec", "CudaGraph.instantiate"), resources }: {
      graph: CudaGraph;
      handle: bigint;
      resources: GraphResources;
    } = {} as never,
  ) {
    this.#session = session;
    this.graph = graph;
    this.#device = graph.device;
    this.#handle = handle;
    this.#resources = resources;
    this.#user = {
      noteUses: (allocation) => {
        if (this.#lastStream !== undefined) allocation.noteUseBefore(this.#lastStream, this.#lastPosition);
      },
      onFreed: (allocation) => this.#lost ??= (action) => errorOfFreed(action, allocation),
    };
    resources.hold();
    for (const allocation of resources.allocations) allocation.addGraph(this.#user);
    this.#opened = { kind: "graph", release: (driver) => driver.graphExecDestroy(handle) };
    session.opened.add(this.#opened);
  }

  /** The `cudaGraphExec_t`, for CUDA calls that this library does not make. */
  get unsafeHandle(): bigint {
    if (this.#handle === undefined) throw new ReferenceError("Cannot use the executable graph: it was disposed");
    return this.#handle;
  }

  get #isDisposed(): boolean {
    return this.#handle === undefined || this.#session.hasEnded;
  }

  /**
   * Enqueues all work of the graph on a stream, behind the stream's work so far and the graph's earlier launches.
   *
   * @param options The stream, or an object that has it. Defaults to the device's default stream.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {ReferenceError} If a buffer that the graph uses was freed, or the graph or the stream was disposed
   * @throws {CudaError} `cudaErrorInvalidValue` if memory of the last launch was not freed, without `autoFreeOnLaunch`;
   * `cudaErrorStreamCaptureUnsupported` if the stream is being captured
   */
  launch(options?: OrStream<StreamOption>): void {
    const stream = this.#streamOf(options, launchOptions);
    if (this.#lost !== undefined) throw this.#lost("launch");
    checkHostMemory("launch", this.#resources);
    try {
      this.#session.driver.graphLaunch(this.#device.ordinal, this.unsafeHandle, stream.unsafeHandle);
    } catch (error) {
      throw cannot(`launch a graph on a stream of device ${stream.device.ordinal}`, error, this.#launchHint());
    }
    this.#lastStream = stream;
    this.#lastPosition = progressOf(stream).position;
    for (const allocation of this.#resources.unfreed.keys()) allocation.revive();
  }

  /**
   * Takes the parameters of all nodes from a graph of the same shape, such as one that was captured again: later
   * launches use its buffers and values. Launches that were enqueued keep theirs. If it throws, nothing has changed.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {TypeError} If `graph` is not a graph of the same `Cuda` object
   * @throws {ReferenceError} If a graph was disposed, or a buffer that `graph` uses was freed
   * @throws {CudaError} `cudaErrorGraphExecUpdateFailure` if the graphs differ in more than the parameters of their
   * nodes, or allocate memory; the message says in what
   */
  update(graph: CudaGraph): void {
    if (!(graph instanceof CudaGraph)) {
      throw new TypeError(`Cannot update a graph by ${whatIs(graph, "CudaGraph")}: give a CudaGraph of the same shape`);
    }
    if (graph.device.cuda !== this.#device.cuda) throw errorOfAnotherCuda("update a graph by a graph");
    const resources = resourcesOf(graph);
    checkUsable("take an update from", resources);
    try {
      this.#session.driver.graphExecUpdate(this.unsafeHandle, graph.unsafeHandle);
    } catch (error) {
      throw cannot(`update a graph of device ${this.#device.ordinal}`, error, "instantiate the other graph instead");
    }
    resources.hold();
    this.#letGo();
    this.#resources = resources;
    this.#lost = undefined;
    for (const allocation of resources.allocations) allocation.addGraph(this.#user);
  }

  /**
   * Sets whether later launches run a node of `graph`: a kernel, a copy or a fill. The nodes that depend on it run in any
   * case.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {TypeError} If the node is not a node of `graph`
   * @throws {CudaError} `cudaErrorInvalidValue` if the node is not a kernel, a copy or a fill
   */
  setEnabled(node: GraphNode, isEnabled: boolean): void {
    checkBoolean(isEnabled, "whether a node is enabled");
    const handle = this.#handleOf(node);
    try {
      this.#session.driver.graphNodeSetEnabled(this.unsafeHandle, handle, isEnabled);
    } catch (error) {
      throw cannot(`enable or disable a node of the type ${node.type}`, error, "only kernels, copies and fills can be");
    }
  }

  /**
   * Returns whether launches run a node of `graph`.
   *
   * @throws {TypeError} If the node is not a node of `graph`
   */
  isEnabled(node: GraphNode): boolean {
    const handle = this.#handleOf(node);
    try {
      return this.#session.driver.graphNodeGetEnabled(this.unsafeHandle, handle);
    } catch (error) {
      throw cannot(`ask whether a node of the type ${node.type} is enabled`, error);
    }
  }

  #handleOf(node: GraphNode): bigint {
    if (node instanceof GraphNode && node.graph === this.graph) return node.unsafeHandle;
    throw new TypeError(`Cannot use ${whatIs(node)} as a node: give one of graph.nodes of the executable graph`);
  }

  /** Stops using what the launches so far have used, when they are complete. */
  #letGo(): void {
    const resources = this.#resources;
    for (const allocation of resources.allocations) allocation.deleteGraph(this.#user);
    if (this.#lastStream === undefined) resources.drop();
    else this.#session.afterWork([this.#lastStream], () => resources.drop());
  }

  /**
   * Sends the graph to the device, in stream order, without running it: the first launch is then as fast as the others.
   *
   * @param options The stream, or an object that has it. Defaults to the device's default stream.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {ReferenceError} If a buffer that the graph uses was freed, or the graph or the stream was disposed
   */
  upload(options?: OrStream<StreamOption>): void {
    const stream = this.#streamOf(options, uploadOptions);
    if (this.#lost !== undefined) throw this.#lost("upload");
    try {
      this.#session.driver.graphUpload(this.#device.ordinal, this.unsafeHandle, stream.unsafeHandle);
    } catch (error) {
      throw cannot(`upload a graph on a stream of device ${stream.device.ordinal}`, error);
    }
  }

  #streamOf(
    options: OrStream<StreamOption> | undefined,
    known: KnownStreamOptions<StreamOption>,
  ): CudaStream {
    const given = streamOf(options, known);
    if (given === undefined) return this.#device.defaultStream;
    checkStream(given, this.#session, known.usage);
    return given;
  }

  #launchHint(): string | undefined {
    const isUnfreed = [...this.#resources.unfreed.keys()].some(({ isFreed }) => !isFreed);
    return isUnfreed
      ? "memory that its last launch has allocated was not freed: free it, or instantiate with autoFreeOnLaunch"
      : undefined;
  }

  /** Destroys the executable graph. Launches that were enqueued are completed. */
  [Symbol.dispose](): void {
    if (this.#handle === undefined) return;
    const handle = this.#handle;
    this.#handle = undefined;
    const session = this.#session;
    session.opened.delete(this.#opened);
    ignoreLoss(() => session.driver.graphExecDestroy(handle));
    this.#letGo();
  }
}

/** Throws if memory that a graph uses was freed. */
function checkUsable(action: string, resources: GraphResources): void {
  for (const allocation of resources.allocations) if (allocation.isGone) throw errorOfFreed(action, allocation);
  checkHostMemory(action, resources);
}

/** Throws if page-locked memory that a graph uses was freed. */
function checkHostMemory(action: string, { hostMemory }: GraphResources): void {
  for (const buffer of hostMemory) {
    if (!(buffer as ArrayBuffer).detached) continue;
    throw new ReferenceError(`Cannot ${action} the graph: it uses a HostBuffer that was freed`);
  }
}

function errorOfFreed(action: string, { byteLength, freeStack }: Allocation): ReferenceError {
  const place = freeStack === undefined ? undefined : placeIn(freeStack);
  const where = place === undefined ? "; POOLPASS_DEBUG=1 adds where" : ` ${place}`;
  return new ReferenceError(
    `Cannot ${action} the graph: it uses a buffer of ${byteLength} bytes that was freed${where}`,
  );
}
