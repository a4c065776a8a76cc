import { graphInstantiateFlags } from "../../driver.ts";
import type { Allocation } from "../../memory/allocation.ts";
import { placeIn } from "../../memory/pools/pool_contents.ts";
import type { DeviceBuffer } from "../../memory/device_buffer.ts";
import type { CudaArray } from "../../memory/arrays/cuda_array.ts";
import type { PitchedArray } from "../../memory/pitched_array.ts";
import type { MemoryPool } from "../../memory/pools/memory_pool.ts";
import type { HostBuffer } from "../../memory/transfers/host_buffer.ts";
import type { Session } from "../../session.ts";
import { cloneRefusal, openInWorker } from "../../support/cloning.ts";
import { cannot, ignoreLoss } from "../../support/driver_errors.ts";
import { CudaError } from "../../support/errors.ts";
import { GraphError } from "../../support/graph_errors.ts";
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
import type { KernelArgument } from "../kernels/kernel_arguments.ts";
import type { OpenedObject } from "../opened_objects.ts";
import type { CudaEvent } from "../streams/cuda_event.ts";
import { checkStream, type CudaStream, progressOf } from "../streams/cuda_stream.ts";
import { type KnownStreamOptions, type OrStream, streamOf, type StreamOption } from "../streams/stream_option.ts";
import type { ConditionOptions, GraphCondition } from "./graph_condition.ts";
import { describeNode, GraphNode } from "./graph_node.ts";
import {
  addAllocation,
  addConditional,
  addCopy,
  addEmpty,
  addEvent,
  addFill,
  addFree,
  addGraph,
  addKernel,
  changeDependency,
  type ConditionalOptions,
  createCondition,
  type KernelNodeOptions,
  type NodeOptions,
} from "./graph_nodes.ts";
import { GraphParts, RootGraph, setPartsOf } from "./graph_parts.ts";
import { GraphResources, type GraphUser } from "./graph_resources.ts";
import { ExecMemory } from "./exec_memory.ts";
import { ExecParameters, type ParametersSource } from "./exec_parameters.ts";
import type { ArgumentUpdate, GraphArguments, LaunchArguments } from "./graph_argument.ts";
import { type NodeParameters, setNode } from "./node_parameters.ts";
import { noPlaces, placesOf } from "./named_arguments.ts";
import { NodeNotes } from "./node_notes.ts";

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

/** Returns what the work of a graph uses. */
const resourcesOf = (graph: CudaGraph): GraphResources => partsOf(graph).resources;

/** Returns what is known of the nodes of a graph. */
export const notesOf = (graph: CudaGraph): NodeNotes => partsOf(graph).notes;

/** Returns what a graph is made of. */
export let partsOf: (graph: CudaGraph) => GraphParts;

/** Call when the capture that has built a graph has ended: the graph belongs to the program. */
export let ownCapturedGraph: (graph: CudaGraph) => void;

/**
 * Work and its order, to be instantiated. Comes from `CudaStream.capture`, and from `CudaDevice.createGraph` for a graph
 * to which the program adds nodes by hand.
 *
 * It does not keep the program's buffers from being freed: a graph that has lost one cannot be instantiated or launched
 * any more, and says so. Modules stay loaded, and events exist, until the graphs with their nodes are disposed.
 *
 * The methods that add a node take the nodes before it as `dependencies`, and return the node. They throw a `TypeError`
 * for nodes of other graphs and for options that are wrong, and a `ReferenceError` if the graph was disposed.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
 *
 * @example Nodes by hand
 * ```ts
 * import { open } from "./mod.ts";
 * import { ptx } from "./kernels/saxpy.ts";
 *
 * using cuda = open();
 * const gpu = cuda.device(0);
 * using stream = gpu.createStream();
 * using pool = gpu.createPool();
 * using x = pool.allocateArray(Float32Array, 1024, stream);
 * using y = pool.allocateArray(Float32Array, 1024, stream);
 * using module = gpu.loadModule(ptx);
 *
 * using graph = gpu.createGraph();
 * const dependencies = [graph.addFill(x, 1), graph.addFill(y, 2)];
 * graph.addKernel(module.kernel("saxpy"), { grid: 4, block: 256, dependencies }, 1024, 3, x, y);
 * using exec = graph.instantiate();
 * exec.launch(stream);
 * console.log((await y.toTypedArray())[0]); // 5
 * ```
 */
export class CudaGraph<Arguments extends GraphArguments = Record<never, never>> implements Disposable {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** The device that the graph was created for, or whose stream was captured. */
  readonly device: CudaDevice;
  readonly #session: Session;
  readonly #parts: GraphParts;

  static {
    partsOf = (graph) => graph.#parts;
    setPartsOf(partsOf);
    ownCapturedGraph = (graph) => graph.#own();
    printAs(this, "CudaGraph", (graph) => {
      const { around, root, hasEnded } = graph.#parts;
      const kind = around === undefined ? "" : "body, ";
      const captured = root.captures.size === 0 ? "" : ", being captured";
      const state = hasEnded ? "disposed" : `${graph.nodes.length} nodes${captured}`;
      return `CudaGraph { device ${graph.device.ordinal}, ${kind}${state} }`;
    }, ["device", ["nodes", (graph) => graph.#parts.hasEnded ? undefined : graph.nodes.length], [
      "disposed",
      (graph) => graph.#parts.hasEnded,
    ]]);
  }

  /**
   * Graphs come from `CudaStream.capture` and `CudaDevice.createGraph`.
   *
   * @ignore
   */
  constructor(
    session: Session,
    {
      device,
      handle = refuseConstruction("CudaGraph", "CudaDevice.createGraph or CudaStream.capture"),
      root,
      notes = new NodeNotes(),
      around,
    }: {
      device: CudaDevice;
      handle: bigint;
      root: RootGraph;
      notes?: NodeNotes;
      /** The graph with the conditional node whose body this is. */
      around?: GraphParts;
    } = {} as never,
  ) {
    this.#session = session;
    this.device = device;
    this.#parts = new GraphParts(this, { session, device, handle, root, notes, around });
    if (around === undefined && root.captures.size === 0) this.#own();
  }

  /** Makes the session destroy the graph. */
  #own(): void {
    const { root, handle } = this.#parts;
    root.resources.hold();
    const opened: OpenedObject = { kind: "graph", release: (driver) => driver.graphDestroy(handle) };
    this.#session.opened.add(opened);
    root.release = () => {
      this.#session.opened.delete(opened);
      ignoreLoss(() => root.forgetUsed());
      ignoreLoss(() => root.resources.drop());
    };
  }

  /** The `cudaGraph_t`, for CUDA calls that this library does not make. */
  get unsafeHandle(): bigint {
    return this.#parts.handle;
  }

  /**
   * The nodes, in the order in which they were added.
   *
   * @throws {ReferenceError} If the graph was disposed
   */
  get nodes(): readonly GraphNode[] {
    return this.#parts.nodes;
  }

  /**
   * The pairs of nodes where the second one waits for the first one.
   *
   * @throws {ReferenceError} If the graph was disposed
   */
  get edges(): readonly (readonly [from: GraphNode, to: GraphNode])[] {
    return this.#session.driver.graphGetEdges(this.unsafeHandle).map(([from, to]) => {
      return [this.#parts.nodeOf(from), this.#parts.nodeOf(to)] as const;
    });
  }

  /** The memory that the graph allocates and does not free. It can be used after a launch. */
  get allocations(): readonly DeviceBuffer[] {
    return this.#parts.around === undefined ? [...this.#parts.resources.unfreed.values()] : [];
  }

  /**
   * Adds a launch of a kernel. The arguments are read now. A `GraphCondition` of the graph can be among them.
   *
   * @param options The numbers of blocks and threads and the attributes, as for a launch, and the node's dependencies.
   * @param args One argument for each parameter, in order.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {TypeError} If an argument does not fit its parameter's type. Also throws what `CudaKernel.launch` throws
   */
  addKernel<Parameters extends readonly KernelArgument[]>(
    kernel: CudaKernel<Parameters>,
    options: KernelNodeOptions,
    ...args: LaunchArguments<Parameters>
  ): GraphNode {
    return addKernel(this.#parts, kernel as unknown as CudaKernel, options, args);
  }

  /**
   * Adds a copy of all of `source` to the beginning of `target`. Elements must have the same type in both, as for
   * `DeviceArray.copyFrom`.
   *
   * @param source The bytes of a typed array or an ArrayBuffer are taken now, and kept by the graph. Other memory is read
   * by each launch. Rows are copied to rows of the same size. An array is copied as by its `copyFrom` and `copyTo`.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {RangeError} If the source has no bytes, does not fit, or overlaps the target
   * @throws {ReferenceError} If a buffer was freed
   */
  addCopy(
    source: DeviceBuffer | HostBuffer | PitchedArray | CudaArray | ArrayBufferView | ArrayBuffer,
    target: DeviceBuffer | HostBuffer | PitchedArray | CudaArray,
    options: NodeOptions = {},
  ): GraphNode {
    return addCopy(this.#parts, source, target, options);
  }

  /**
   * Adds a fill: with a byte, or, for an array, with an element. CUDA fills with at most 4 bytes at once. A fill with
   * elements of 8 bytes is therefore a node of the type `"graph"`, which runs fills and copies, unless both halves of the
   * element are the same.
   *
   * @param target All of it is filled. For a part, give a view such as `buffer.subarray(0, 64)`, or rows in one or two
   * dimensions.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {RangeError} If the type cannot represent the value, or the target is empty
   * @throws {ReferenceError} If the buffer was freed
   */
  addFill(target: DeviceBuffer | PitchedArray, value: number | bigint, options: NodeOptions = {}): GraphNode {
    return addFill(this.#parts, target, value, options);
  }

  /**
   * Adds a record of an event: each launch records it.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {TypeError} If other processes can open the event
   * @throws {CudaError} `cudaErrorInvalidValue` in the body of a conditional node
   */
  addRecord(event: CudaEvent, options: NodeOptions = {}): GraphNode {
    return addEvent(this.#parts, "record", event, options);
  }

  /**
   * Adds a wait for an event: each launch waits for the event's latest record at that time.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {TypeError} If other processes can open the event
   * @throws {CudaError} `cudaErrorInvalidValue` in the body of a conditional node
   */
  addWait(event: CudaEvent, options: NodeOptions = {}): GraphNode {
    return addEvent(this.#parts, "wait", event, options);
  }

  /**
   * Adds a node that runs another graph. The graph is copied: what is added to it afterwards does not count. But if it
   * allocates or frees memory, it is moved, and cannot be used by itself any more. To move a graph needs CUDA 12.9.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {CudaError} `cudaErrorNotSupported` if the graph has conditions, or would be moved and is instantiated;
   * `cudaErrorInvalidValue` if it is this graph, or the graph around this body;
   * `cudaErrorCallRequiresNewerDriver` if it would be moved, before CUDA 12.9
   */
  addGraph(graph: CudaGraph, options: NodeOptions = {}): GraphNode {
    if (!(graph instanceof CudaGraph)) {
      throw new TypeError(`Cannot add ${whatIs(graph, "CudaGraph")} to a graph as a graph: give a CudaGraph`);
    }
    return addGraph(this.#parts, graph.#parts, options);
  }

  /**
   * Adds a node that does nothing. One that depends on many nodes makes one dependency of them.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   */
  addEmpty(options: NodeOptions = {}): GraphNode {
    return addEmpty(this.#parts, options);
  }

  /**
   * Adds an allocation. Nodes that depend on it can use the buffer; everything else can use it after a launch, unless the
   * graph frees it. Its address is the same at each launch. CUDA takes the memory not from the pool, but from memory that
   * it keeps for graphs; the devices with access to the pool have access to it.
   *
   * @param pool A pool of a device that cannot be shared.
   * @param byteLength Size in bytes, at least 1.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {CudaError} `cudaErrorNotSupported` for a pool that can be shared, or in host memory; `cudaErrorInvalidValue`
   * in the body of a conditional node
   */
  addAllocation(
    pool: MemoryPool,
    byteLength: number,
    options: NodeOptions = {},
  ): { node: GraphNode; buffer: DeviceBuffer } {
    return addAllocation(this.#parts, pool, byteLength, options);
  }

  /**
   * Adds a free of memory that this graph or another one allocates.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {CudaError} `cudaErrorInvalidValue` if no graph allocates the buffer, or this one frees it already
   */
  addFree(buffer: DeviceBuffer, options: NodeOptions = {}): GraphNode {
    return addFree(this.#parts, buffer, options);
  }

  /**
   * Creates a value that a conditional node of this graph, or of a body within it, tests. Kernels of the graph set it
   * with `cudaGraphSetConditional`. Needs CUDA 12.3. Each condition is tested by one node.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {RangeError} If the default value is not valid
   * @throws {CudaError} `cudaErrorCallRequiresNewerDriver` before CUDA 12.3
   */
  createCondition(options: ConditionOptions = {}): GraphCondition {
    return createCondition(this.#parts, options);
  }

  /**
   * Adds a node that runs graphs depending on a condition. Its `bodies` are empty at first: add nodes to them, or capture
   * a stream into them with `capture(body, { into })`. They belong to the node: they cannot be instantiated, copied or
   * disposed by themselves, and have kernels, copies, fills, child graphs and conditional nodes only.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {TypeError} If the condition is one of another graph
   * @throws {RangeError} If the type cannot have so many bodies
   * @throws {CudaError} `cudaErrorInvalidValue` if another node tests the condition
   *
   * @example
   * ```ts ignore
   * const condition = graph.createCondition({ defaultValue: 1 });
   * const loop = graph.addConditional(condition, { type: "while" });
   * loop.bodies[0]!.addKernel(kernel, { grid: 1, block: 32 }, condition, buffer);
   * ```
   */
  addConditional(condition: GraphCondition, options: ConditionalOptions): GraphNode {
    // An executable graph changes nodes of bodies, too, so it has the notes of all.
    const { root, notes } = this.#parts;
    const createBody = (handle: bigint) =>
      new CudaGraph(this.#session, { device: this.device, handle, root, notes, around: this.#parts });
    return addConditional(this.#parts, condition, { options, createBody });
  }

  /**
   * Makes a node wait for another one.
   *
   * @throws {CudaError} `cudaErrorInvalidValue` if it does already, or if both are the same node
   */
  addDependency(from: GraphNode, to: GraphNode): void {
    changeDependency(this.#parts, "add", [from, to]);
  }

  /**
   * Makes a node no longer wait for another one.
   *
   * @throws {CudaError} `cudaErrorInvalidValue` if it does not wait for it directly; `cudaErrorNotSupported` if the graph
   * allocates or frees memory
   */
  removeDependency(from: GraphNode, to: GraphNode): void {
    changeDependency(this.#parts, "remove", [from, to]);
  }

  /**
   * Creates an executable graph. Nodes that are added to the graph afterwards do not change it.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {ReferenceError} If the graph was disposed, or a buffer that it uses was freed
   * @throws {TypeError} If an option is unknown or has the wrong type, or the graph is the body of a conditional node
   * @throws {CudaError} `cudaErrorInvalidValue` if nodes wait for each other in a circle, of which the message names one,
   * or no node tests a condition; `cudaErrorNotSupported` if the graph allocates or frees memory or has conditions, and
   * is instantiated already
   */
  instantiate(options: InstantiateOptions = {}): CudaGraphExec<Arguments> {
    checkOptions(options, instantiateOptions);
    const { autoFreeOnLaunch = false, useNodePriority = false, upload } = options;
    checkBoolean(autoFreeOnLaunch, "a graph's autoFreeOnLaunch");
    checkBoolean(useNodePriority, "a graph's useNodePriority");
    if (upload !== undefined) checkStream(upload, this.#session, "instantiate({ upload: stream })");
    this.#checkNotBody("instantiate");
    const { root, resources } = this.#parts;
    root.checkComplete();
    checkUsable("instantiate", resources);
    const flags = (autoFreeOnLaunch ? graphInstantiateFlags.autoFreeOnLaunch : 0) |
      (useNodePriority ? graphInstantiateFlags.useNodePriority : 0);
    let handle: bigint;
    try {
      root.checkNotCaptured("cudaGraphInstantiate");
      handle = this.#session.driver.graphInstantiate(this.unsafeHandle, flags);
    } catch (error) {
      throw cannot(`instantiate a graph of device ${this.device.ordinal}`, error, this.#instantiateHint(error));
    }
    const exec = new CudaGraphExec<Arguments>(this.#session, { graph: this, handle, root, resources: root.used });
    if (upload !== undefined) exec.upload(upload);
    return exec;
  }

  #instantiateHint(error: unknown): string | undefined {
    const handle = error instanceof GraphError ? error.node : undefined;
    const node = handle === undefined ? undefined : this.#parts.find(handle);
    if (node !== undefined) return `look at ${describeNode(node)}`;
    if (!(error instanceof CudaError) || error.code !== "cudaErrorNotSupported") return undefined;
    const { hasConditions } = this.#parts.root;
    return this.#allocationHint() ?? (hasConditions ? "a graph with conditions has one executable graph" : undefined);
  }

  #checkNotBody(action: string): void {
    if (this.#parts.around === undefined) return;
    throw new TypeError(`Cannot ${action} the body of a conditional node by itself: ${action} the graph that it is in`);
  }

  /**
   * Copies the graph.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {ReferenceError} If the graph was disposed
   * @throws {TypeError} If the graph is the body of a conditional node
   * @throws {CudaError} `cudaErrorNotSupported` if the graph allocates or frees memory, or has conditions
   */
  clone(): CudaGraph<Arguments> {
    this.#checkNotBody("copy");
    const { root, notes: known, resources } = this.#parts;
    root.checkComplete();
    try {
      const { driver } = this.#session;
      root.checkNotCaptured("cudaGraphClone");
      const handle = driver.graphClone(this.unsafeHandle);
      const notes = known.copy((node) => driver.graphNodeFindInClone(node, handle));
      const clone = new CudaGraph<Arguments>(this.#session, {
        device: this.device,
        handle,
        root: new RootGraph(resources.copy()),
        notes,
      });
      clone.#parts.named = this.#parts.named;
      return clone;
    } catch (error) {
      const hint = root.hasConditions ? "CUDA copies no graph with conditions" : this.#allocationHint();
      throw cannot(`copy a graph of device ${this.device.ordinal}`, error, hint);
    }
  }

  #allocationHint(): string | undefined {
    const { owned, freedOfOthers } = this.#parts.resources;
    if (owned.size > 0) return "it allocates memory: only one executable graph can have it";
    return freedOfOthers.size > 0 ? "it frees memory: only one executable graph can do that" : undefined;
  }

  /**
   * Returns a description of the graph in the language DOT, which Graphviz draws. It has the names of nodes.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {ReferenceError} If the graph was disposed
   */
  toDot(options: DotOptions = {}): string {
    checkOptions(options, dotOptions);
    const { verbose = false } = options;
    checkBoolean(verbose, "a description's verbose");
    try {
      return this.#parts.toDot({ verbose });
    } catch (error) {
      throw cannot(`describe a graph of device ${this.device.ordinal}`, error);
    }
  }

  /**
   * Destroys the graph, and the bodies of its conditional nodes. Graphs that were instantiated from it stay usable.
   *
   * @throws {TypeError} If the graph is the body of a conditional node
   */
  [Symbol.dispose](): void {
    this.#checkNotBody("dispose of");
    const { root } = this.#parts;
    if (root.end !== undefined) return;
    for (const capture of [...root.captures].reverse()) capture.drop();
    if (root.end !== undefined) return;
    const { handle } = this.#parts;
    root.end = "it was disposed";
    if (root.executables === 0) ignoreLoss(() => this.#session.driver.graphDestroy(handle));
    else this.#destroyLater(handle);
    root.release?.();
  }

  /** CUDA changes nodes of executable graphs only while the graph that they were made of exists. */
  #destroyLater(handle: bigint): void {
    const session = this.#session;
    const kept: OpenedObject = { kind: "graph", release: (driver) => driver.graphDestroy(handle) };
    session.opened.add(kept);
    this.#parts.root.onUnused = () => {
      session.opened.delete(kept);
      ignoreLoss(() => session.driver.graphDestroy(handle));
    };
  }
}

/** Creates a graph without nodes. */
export function createGraph(session: Session, device: CudaDevice): CudaGraph {
  try {
    const root = new RootGraph(new GraphResources());
    return new CudaGraph(session, { device, handle: session.driver.graphCreate(), root });
  } catch (error) {
    throw cannot(`create a graph of device ${device.ordinal}`, error);
  }
}

/**
 * A graph that can be launched. Its launches run one after the other, on whichever streams. Comes from
 * `CudaGraph.instantiate`.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
 */
export class CudaGraphExec<Arguments extends GraphArguments = Record<never, never>> implements Disposable {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** The graph that this was instantiated from. */
  readonly graph: CudaGraph<Arguments>;
  readonly #session: Session;
  readonly #device: CudaDevice;
  readonly #root: RootGraph;
  #resources: GraphResources;
  /** The program's memory that the nodes use now. */
  #memory: ExecMemory;
  #parameters: ExecParameters;
  readonly #opened: OpenedObject;
  readonly #user: GraphUser;
  #handle: bigint | undefined;
  /** The error of a launch, once memory of the graph was freed. */
  #lost: ((action: string) => ReferenceError) | undefined;
  /** The stream of the latest launch, and the stream's position then. */
  #lastStream: CudaStream | undefined;
  #lastPosition = 0;
  /** The graph of the latest update, unless other changes came after it. */
  #updated: { readonly graph: CudaGraph; readonly version: number } | undefined;

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
    { graph, handle = refuseConstruction("CudaGraphExec", "CudaGraph.instantiate"), root, resources }: {
      graph: CudaGraph<Arguments>;
      handle: bigint;
      root: RootGraph;
      resources: GraphResources;
    } = {} as never,
  ) {
    this.#session = session;
    this.graph = graph;
    this.#device = graph.device;
    this.#handle = handle;
    this.#root = root;
    root.executables++;
    this.#resources = resources;
    this.#user = {
      noteUses: (allocation) => {
        if (this.#lastStream !== undefined) allocation.noteUseBefore(this.#lastStream, this.#lastPosition);
      },
      onFreed: (allocation) => {
        // Memory of another graph can exist again: launches look for themselves.
        if (!allocation.owner.isGraphMemory) this.#lost ??= (action) => errorOfFreed(action, allocation);
      },
    };
    resources.hold();
    this.#memory = this.#memoryOf(graph);
    this.#parameters = this.#parametersOf(partsOf(graph));
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
    checkHostMemory("launch", this.#memory.hostMemory);
    for (const allocation of this.#memory.borrowed) if (allocation.isFreed) throw errorOfBorrowed(allocation);
    try {
      this.#session.driver.graphLaunch(this.#device.ordinal, this.unsafeHandle, stream.unsafeHandle);
    } catch (error) {
      throw cannot(`launch a graph on a stream of device ${stream.device.ordinal}`, error, this.#launchHint());
    }
    this.#lastStream = stream;
    this.#lastPosition = progressOf(stream).position;
    this.#resources.onLaunch();
  }

  /**
   * Takes the parameters of all nodes from a graph of the same shape, such as one that was captured again: later
   * launches use its buffers and values. Launches that were enqueued keep theirs. If it throws, nothing has changed.
   * From then on, the arguments are those that `graph` was captured with.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {TypeError} If `graph` is not a graph of the same `Cuda` object
   * @throws {ReferenceError} If a graph was disposed, or a buffer that `graph` uses was freed
   * @throws {CudaError} `cudaErrorGraphExecUpdateFailure` if the graphs differ in more than the parameters of their
   * nodes, or allocate memory; the message says in what
   */
  update(graph: CudaGraph): void;

  /**
   * Changes arguments of the capture, in all nodes that use them: later launches use the new values and memory. Launches
   * that were enqueued keep theirs. If it throws, nothing has changed.
   *
   * @param values The new arguments, by their names. Those that are left out stay.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {TypeError} If there is no argument of a name, no node uses it, or the new one is of another kind or has
   * another element type
   * @throws {RangeError} If a buffer is shorter than the one of the capture, or a number is out of a parameter's range
   * @throws {ReferenceError} If a buffer was freed, or the graph was disposed
   * @throws {CudaError} `cudaErrorInvalidValue` for memory of another device or kind in a copy or a fill
   *
   * @example
   * ```ts
   * import { open } from "./mod.ts";
   * import { ptx } from "./kernels/saxpy.ts";
   *
   * using cuda = open();
   * const gpu = cuda.device(0);
   * using stream = gpu.createStream();
   * using pool = gpu.createPool();
   * using x = pool.allocateArray(new Float32Array(1024).fill(1), stream);
   * using y = pool.allocateArray(new Float32Array(1024), stream);
   * using module = gpu.loadModule(ptx);
   * using graph = stream.capture(({ arguments: { a } }) => {
   *   module.kernel("saxpy").launch({ grid: 4, block: 256, stream }, 1024, a, x, y);
   * }, { arguments: { a: 2, x } });
   * using exec = graph.instantiate();
   * exec.launch(stream);
   * exec.update({ a: 0.5 });
   * exec.launch(stream);
   * console.log((await y.toTypedArray())[0]); // 2.5
   * ```
   */
  update(values: { readonly [Name in keyof Arguments]?: ArgumentUpdate<Arguments[Name]> }): void;

  update(changes: CudaGraph | { readonly [Name in keyof Arguments]?: ArgumentUpdate<Arguments[Name]> }): void {
    if (changes instanceof CudaGraph) return this.#updateBy(changes);
    const prototype = typeof changes === "object" && changes !== null ? Object.getPrototypeOf(changes) : undefined;
    if (prototype !== Object.prototype && prototype !== null) {
      throw new TypeError(
        `Cannot update a graph by ${whatIs(changes, "CudaGraph")}: give its new arguments, as in { a: 0.5, x }, or a ` +
          "CudaGraph of the same shape",
      );
    }
    this.#updated = undefined;
    if (this.#parameters.update(this.unsafeHandle, changes)) this.#findFreed();
  }

  #updateBy(graph: CudaGraph): void {
    if (graph.device.cuda !== this.#device.cuda) throw errorOfAnotherCuda("update a graph by a graph");
    checkUsable("take an update from", resourcesOf(graph));
    try {
      this.#session.driver.graphExecUpdate(this.unsafeHandle, graph.unsafeHandle);
    } catch (error) {
      throw cannot(`update a graph of device ${this.#device.ordinal}`, error, "instantiate the other graph instead");
    }
    const { version } = partsOf(graph).root;
    // Nothing has to be noted if the nodes have what they had.
    if (this.#updated?.graph === graph && this.#updated.version === version) return;
    const resources = partsOf(graph).root.used;
    resources.hold();
    this.#letGo();
    this.#resources = resources;
    this.#lost = undefined;
    this.#memory = this.#memoryOf(graph);
    const notes = notesAs(this.graph, graph);
    const { named } = partsOf(graph);
    const places = notes === undefined
      ? noPlaces
      : graph === this.graph
      ? partsOf(graph).places
      : placesOf(named, notes);
    this.#parameters = this.#parametersOf({ notes, named, places });
    this.#updated = { graph, version };
  }

  #memoryOf(graph: CudaGraph): ExecMemory {
    return new ExecMemory(this.#session, { resources: this.#resources, notes: partsOf(graph).notes, user: this.#user });
  }

  /** @param source.notes undefined if it is not known what the nodes run now */
  #parametersOf(
    { notes, named, places }: Pick<ParametersSource, "notes" | "named" | "places">,
  ): ExecParameters {
    const source = { device: this.#device.ordinal, memory: this.#memory, notes, named, places };
    return new ExecParameters(this.#session, source);
  }

  /** Finds out whether the graph can be launched, after a change of the memory that it uses. */
  #findFreed(): void {
    if (this.#lost === undefined) return;
    const { freed } = this.#memory;
    this.#lost = freed && ((action) => errorOfFreed(action, freed));
  }

  /**
   * Changes one node of `graph`: later launches run it with the new parameters. What is left out stays. Launches that
   * were enqueued keep theirs. If it throws, nothing has changed. Where it sets an argument or memory, later updates of a
   * named argument do not change the node any more.
   *
   * @param node A kernel, a copy, a fill, or a record of an event or a wait for one.
   * @param parameters For a kernel `{ kernel, grid, block, sharedMemoryBytes, args }`, for a copy `{ source, target }`,
   * for a fill `{ target, value }`, for a record or a wait `{ event }`.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {TypeError} If the node is not a node of `graph`, has other parameters or was added by other code, or a
   * parameter has the wrong type. Also throws what `CudaKernel.launch` throws for the arguments of a kernel
   * @throws {RangeError} If a buffer is shorter than the copy or the fill, or a number is out of range
   * @throws {ReferenceError} If a buffer was freed, or the executable graph was disposed
   * @throws {CudaError} `cudaErrorInvalidValue` for memory of another device or kind in a copy
   *
   * @example
   * ```ts ignore
   * const kernel = graph.nodes.find(({ kernel }) => kernel?.name === "saxpy")!;
   * exec.setParameters(kernel, { grid: 8, args: [buffer, 2048, 7] });
   * ```
   */
  setParameters(node: GraphNode, parameters: NodeParameters): void {
    this.#handleOf(node);
    const { ordinal } = this.#device;
    this.#updated = undefined;
    const changed = { session: this.#session, device: ordinal, exec: this.unsafeHandle, root: this.#root };
    const own = { parameters: this.#parameters, resources: this.#resources };
    if (setNode({ ...changed, ...own }, node, parameters)) this.#findFreed();
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
    // Also nodes of the bodies of conditional nodes.
    if (node instanceof GraphNode && partsOf(node.graph).root === this.#root) return node.unsafeHandle;
    throw new TypeError(`Cannot use ${whatIs(node)} as a node: give one of graph.nodes of the executable graph`);
  }

  /** Stops using what the launches so far have used, when they are complete. */
  #letGo(): void {
    const resources = this.#resources;
    this.#memory.letGo();
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
    if (--this.#root.executables === 0) this.#root.onUnused?.();
    this.#letGo();
  }
}

/**
 * Returns what the nodes of a graph run after an update by another graph. Undefined if it is not known, because one of
 * the graphs was disposed, their nodes were not added in the same order, or they have conditional nodes.
 */
function notesAs(graph: CudaGraph, other: CudaGraph): NodeNotes | undefined {
  if (graph === other) return partsOf(graph).notes;
  if (partsOf(graph).hasEnded || partsOf(other).hasEnded) return undefined;
  // The notes have the nodes of bodies, too, and the shapes do not.
  if (partsOf(graph).root.hasConditions) return undefined;
  const [own, others] = [partsOf(graph).shape, partsOf(other).shape];
  if (own.edges !== others.edges) return undefined;
  const known = partsOf(other).notes;
  const notes = new NodeNotes();
  for (const [index, node] of own.nodes.entries()) {
    const counterpart = others.nodes[index]!;
    const note = known.get(counterpart);
    if (note !== undefined) notes.add(node, note, known.siteOf(counterpart));
  }
  return notes;
}

/** Throws if memory that a graph uses was freed. */
function checkUsable(action: string, resources: GraphResources): void {
  for (const allocation of resources.allocations) {
    if (allocation.isGone && !allocation.owner.isGraphMemory) throw errorOfFreed(action, allocation);
  }
  checkHostMemory(action, resources.hostMemory);
}

/** Throws if page-locked memory that a graph uses was freed. */
function checkHostMemory(action: string, hostMemory: Iterable<ArrayBufferLike>): void {
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

function errorOfBorrowed({ byteLength, suspension = "it was freed" }: Allocation): ReferenceError {
  return new ReferenceError(
    `Cannot launch the graph: it uses a buffer of ${byteLength} bytes of another graph that does not exist now: ${suspension}`,
  );
}
