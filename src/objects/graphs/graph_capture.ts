import { streamCaptureMode } from "../../driver.ts";
import type { Session } from "../../session.ts";
import { cloneRefusal, openInWorker } from "../../support/cloning.ts";
import { cannot } from "../../support/driver_errors.ts";
import { CudaError, cudaErrorNumbers, explainedError } from "../../support/errors.ts";
import { printAs } from "../../support/printing.ts";
import { ReferenceError, TypeError } from "../../support/program_errors.ts";
import {
  checkOptions,
  errorOfAnotherCuda,
  type KnownOptions,
  refuseConstruction,
  shown,
  whatIs,
} from "../../support/validation.ts";
import { checkStream, type CudaStream } from "../streams/cuda_stream.ts";
import { type KnownStreamOptions, type OrStream, streamOf, type StreamOption } from "../streams/stream_option.ts";
import { ActiveCapture } from "./captures.ts";
import { CudaGraph, ownCapturedGraph, partsOf } from "./cuda_graph.ts";
import { type BoundArgument, GraphArgument, type GraphArguments } from "./graph_argument.ts";
import { GraphNode, handleOfNode } from "./graph_node.ts";
import { type GraphParts, RootGraph } from "./graph_parts.ts";
import { GraphResources } from "./graph_resources.ts";
import { isMemory, type NamedArguments, namedArgumentsOf, noArguments } from "./named_arguments.ts";
import { NodeNotes } from "./node_notes.ts";

/** Options of a capture. */
export interface CaptureOptions<Arguments extends GraphArguments = Record<never, never>> {
  /**
   * What `CudaGraphExec.update` can change, by names of the program. For memory: work of the capture that uses a buffer
   * among them, or a part of it, uses the new buffer after an update; buffers are recognized by their addresses, except
   * in a struct. For a number, a bigint, a boolean or a struct's value: launches that get `capture.arguments.name` in
   * its place.
   */
  arguments?: Arguments;
  /**
   * Which calls of other libraries CUDA itself refuses meanwhile, because they might disturb the capture: with "global",
   * those of threads on which this library was not opened. "thread-local" and "relaxed" refuse none, because `open` sets
   * the mode of its own thread to relaxed. What this library refuses does not depend on it. Defaults to "relaxed", so
   * that a capture disturbs nobody.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html
   */
  mode?: "relaxed" | "thread-local" | "global";
  /**
   * A graph to add the work to, such as the body of a conditional node. Defaults to a new graph. Needs CUDA 12.3. What a
   * function that throws has added is removed again.
   */
  into?: CudaGraph;
  /** The nodes of `into` that the first work depends on. Defaults to none. */
  dependencies?: readonly GraphNode[];
}

const modes = {
  "relaxed": streamCaptureMode.relaxed,
  "thread-local": streamCaptureMode.threadLocal,
  "global": streamCaptureMode.global,
} as const;

/** Describes the options of a capture, for validation by `checkOptions`. */
export const captureOptions: KnownOptions<CaptureOptions<GraphArguments>> = {
  action: "capture a stream",
  names: { arguments: true, mode: true, into: true, dependencies: true },
};

const refusalToClone = cloneRefusal("a GraphCapture", openInWorker);

/** Advice for the errors of a capture's end. */
const adviceAtEnd: Readonly<Record<string, string>> = {
  cudaErrorStreamCaptureUnjoined:
    "a stream has joined the capture, and the captured stream does not wait for its work: call wait before the end",
  cudaErrorStreamCaptureInvalidated:
    "another library or another Worker has made a call that ends captures, such as cudaDeviceSynchronize",
};

/**
 * A capture that has begun. Comes from `CudaStream.beginCapture` and `CudaStream.capture`. Disposing of it without `end`
 * drops what was captured.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html
 */
export class GraphCapture<Arguments extends GraphArguments = Record<never, never>> implements Disposable {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** The stream on which the capture began, and on which it ends. */
  readonly stream: CudaStream;
  /**
   * The arguments that were given to the capture, by their names: memory as it is, and for each value a `GraphArgument`,
   * which launches take in its place.
   */
  readonly arguments: { readonly [Name in keyof Arguments]: BoundArgument<Arguments[Name]> };
  readonly #session: Session;
  readonly #capture: ActiveCapture;
  readonly #named: NamedArguments;
  /** The program's graph to which the work is added. */
  readonly #into: GraphParts | undefined;
  /** The nodes that `#into` had before the capture. */
  readonly #nodesBefore: ReadonlySet<bigint>;
  /** The graph that is captured, once it was asked for. */
  #graph: CudaGraph | undefined;
  #isEnded = false;

  static {
    printAs(
      this,
      "GraphCapture",
      (capture) => `GraphCapture { device ${capture.stream.device.ordinal}, ${capture.#isEnded ? "ended" : "active"} }`,
      ["stream", ["arguments", (capture) => Object.keys(capture.arguments)], [
        "state",
        (capture) => capture.#isEnded ? "ended" : "active",
      ]],
    );
  }

  /**
   * Captures come from `CudaStream.beginCapture`.
   *
   * @ignore
   */
  constructor(
    session: Session,
    { stream = refuseConstruction("GraphCapture", "CudaStream.beginCapture"), named, mode, into, dependencies = [] }: {
      stream: CudaStream;
      named: NamedArguments;
      /** One of `streamCaptureMode`. */
      mode: number;
      into?: GraphParts | undefined;
      dependencies?: readonly bigint[];
    } = {} as never,
  ) {
    this.#session = session;
    this.stream = stream;
    this.#into = into;
    this.#named = named;
    const { device: { ordinal }, unsafeHandle } = stream;
    const root = into?.root ?? new RootGraph(new GraphResources());
    this.#capture = new ActiveCapture(stream, {
      root,
      notes: into?.notes ?? new NodeNotes(),
      into,
      drop: () => this[Symbol.dispose](),
      allocateHost: (byteLength) => session.allocateHost(byteLength),
      freeHost: (memory) => session.freeHost(memory),
    });
    this.arguments = bind(named, this.#capture) as typeof this.arguments;
    this.#nodesBefore = new Set(into === undefined ? [] : session.driver.graphGetNodes(into.handle));
    session.captures.add(this.#capture);
    try {
      const { driver } = session;
      if (into === undefined) driver.streamBeginCapture(ordinal, unsafeHandle, mode);
      else driver.streamBeginCaptureToGraph(ordinal, unsafeHandle, into.handle, dependencies, mode);
    } catch (error) {
      session.captures.delete(this.#capture);
      throw error;
    }
    session.onCapturesChanged();
    root.captures.add(this.#capture);
    root.resources.onCapture();
    root.resources.hold();
  }

  /**
   * Returns the nodes that the next work on a stream of the capture will depend on.
   *
   * @param options The stream, or an object that has it. Defaults to the stream on which the capture began.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html
   * @throws {TypeError} If the stream is not a part of the capture
   * @throws {ReferenceError} If the capture has ended
   */
  dependencies(options?: OrStream<StreamOption>): readonly GraphNode[] {
    const { parts, dependencies } = this.#stateOf(options, dependenciesOptions);
    return dependencies.map((handle) => parts.nodeOf(handle));
  }

  /**
   * Adds a node that no stream can express, such as a graph or a conditional node, behind a stream's work so far. The
   * stream's next work depends on it.
   *
   * @param build Adds the node to the graph of the capture with the given dependencies, and returns it.
   * @param options The stream, or an object that has it. Defaults to the stream on which the capture began.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html
   * @throws {TypeError} If the stream is not a part of the capture, or `build` does not return a node of the graph
   * @throws {ReferenceError} If the capture has ended
   *
   * @example
   * ```ts ignore
   * using inner = gpu.createGraph();
   * using graph = stream.capture((capture) => {
   *   buffer.fill(1, stream);
   *   capture.add((graph, dependencies) => graph.addGraph(inner, { dependencies }));
   *   buffer.fill(2, stream); // behind the inner graph
   * });
   * ```
   */
  add<Node extends GraphNode>(
    build: (graph: CudaGraph, dependencies: readonly GraphNode[]) => Node,
    options?: OrStream<StreamOption>,
  ): Node {
    const { parts, stream, dependencies } = this.#stateOf(options, addOptions);
    if (typeof build !== "function") {
      throw new TypeError(`Cannot add ${whatIs(build)} to a capture: give a function that adds a node and returns it`);
    }
    const node = build(parts.graph, dependencies.map((handle) => parts.nodeOf(handle)));
    if (!(node instanceof GraphNode)) {
      throw new TypeError(`Cannot add a node to a capture: the function returned ${whatIs(node)}, and not the node`);
    }
    const handle = handleOfNode(node, parts);
    if (this.#isEnded) throw new ReferenceError("Cannot add a node to the capture: the function has ended it");
    try {
      const { ordinal } = stream.device;
      this.#session.driver.streamUpdateCaptureDependencies(ordinal, stream.unsafeHandle, [handle]);
    } catch (error) {
      throw cannot(`make a captured stream of device ${stream.device.ordinal} wait for a node`, error);
    }
    return node;
  }

  /** Returns the captured graph, and the state of a stream of the capture. */
  #stateOf(
    given: OrStream<StreamOption> | undefined,
    known: KnownStreamOptions<StreamOption>,
  ): { parts: GraphParts; stream: CudaStream; dependencies: readonly bigint[] } {
    if (this.#isEnded) throw new ReferenceError("Cannot use the capture: it has ended");
    const chosen = streamOf(given, known);
    const stream = chosen === undefined ? this.stream : chosen;
    checkStream(stream, this.#session, known.usage);
    if (this.#session.captures.of(stream.unsafeHandle) !== this.#capture) {
      throw new TypeError(
        `Cannot ${known.action} on a stream that is not a part of it: let the stream wait for a stream of the capture`,
      );
    }
    const { ordinal } = stream.device;
    const { graph, dependencies } = this.#session.driver.streamGetCaptureInfo(ordinal, stream.unsafeHandle);
    return { parts: this.#into ?? partsOf(this.#graphOf(graph)), stream, dependencies };
  }

  /** Returns the object of the graph that is captured. */
  #graphOf(handle: bigint): CudaGraph {
    const { root, notes } = this.#capture;
    return this.#graph ??= new CudaGraph(this.#session, { device: this.stream.device, handle, root, notes });
  }

  /**
   * Ends the capture, and returns its graph.
   *
   * @throws {ReferenceError} If the capture has ended, or its stream was disposed
   * @throws {CudaError} `cudaErrorStreamCaptureUnjoined` if a stream was not joined, `cudaErrorStreamCaptureInvalidated`
   * if another library or Worker has made a call that ends captures. A graph that was given as `into` can then be used
   * no more
   */
  end(): CudaGraph<Arguments> {
    if (this.#isEnded) {
      throw new ReferenceError("Cannot end the capture: it has ended, or its stream or Cuda object was disposed");
    }
    const { device } = this.stream;
    const { root, resources } = this.#capture;
    const what = `capture a stream of device ${device.ordinal}`;
    if (this.#later().length > 0) {
      const number = cudaErrorNumbers.cudaErrorStreamCaptureUnsupported;
      const why = "another stream is being captured into a body of the graph; end that capture first";
      throw cannot(what, explainedError(number, "cudaStreamEndCapture", why));
    }
    let advice: string | undefined;
    try {
      const handle = this.#end((code) => advice = adviceAtEnd[code]);
      if (root.end !== undefined) {
        const number = cudaErrorNumbers.cudaErrorStreamCaptureInvalidated;
        throw explainedError(number, "cudaStreamEndCapture", `the graph is incomplete: ${root.end}`);
      }
      if (this.#into !== undefined) {
        const { outermost } = this.#into;
        if (this.#named.size > 0) outermost.named = new Map([...outermost.named, ...this.#named]);
        return this.#into.graph as CudaGraph<Arguments>;
      }
      const isNew = this.#graph === undefined;
      const graph = this.#graphOf(handle);
      if (!isNew) ownCapturedGraph(graph);
      partsOf(graph).root.version++;
      partsOf(graph).named = this.#named;
      return graph as CudaGraph<Arguments>;
    } catch (error) {
      throw cannot(what, error, advice);
    } finally {
      resources.drop();
    }
  }

  /**
   * Ends the capture, and drops what was captured. Does nothing if the capture has ended. If nodes were added to a graph
   * from which CUDA removes none, because it allocates memory, the graph can be used no more.
   */
  [Symbol.dispose](): void {
    if (this.#isEnded) return;
    const { root, resources } = this.#capture;
    try {
      for (const capture of this.#later().reverse()) capture.drop();
      const handle = this.#end();
      if (root.end !== undefined) return;
      if (this.#into !== undefined) this.#removeNodes(this.#into);
      else {
        root.end = "its capture was dropped";
        this.#session.driver.graphDestroy(handle);
      }
    } catch (error) {
      // A capture that was invalidated, or whose streams were not joined, has no graph.
      if (!(error instanceof CudaError) || !/StreamCapture/.test(error.code)) throw error;
    } finally {
      resources.drop();
    }
  }

  /** The captures into bodies of the graph that began later and have not ended. They cannot outlast this one. */
  #later(): ActiveCapture[] {
    const all = [...this.#capture.root.captures];
    return all.slice(all.indexOf(this.#capture) + 1);
  }

  /** Removes the nodes that the capture has added to a graph of the program, so that it is as before. */
  #removeNodes(into: GraphParts): void {
    const { driver } = this.#session;
    const added = driver.graphGetNodes(into.handle).filter((node) => !this.#nodesBefore.has(node));
    try {
      for (const node of added.reverse()) {
        driver.graphDestroyNode(node);
        into.forget(node);
      }
    } catch (error) {
      if (!(error instanceof CudaError)) throw error;
      into.root.incomplete = "a capture into it was dropped, and CUDA does not remove the nodes; build another one";
    }
  }

  /** Ends the capture, and returns the graph's handle. Calls `onError` with the code of CUDA's error. */
  #end(onError?: (code: string) => void): bigint {
    this.#isEnded = true;
    const { root } = this.#capture;
    const { device: { ordinal }, unsafeHandle } = this.stream;
    try {
      return this.#session.driver.streamEndCapture(ordinal, unsafeHandle);
    } catch (error) {
      // CUDA has destroyed the graph, or, of the program's graph, the captured part: it would destroy that once more.
      if (this.#into !== undefined) root.leave("a capture into it has failed; build another one");
      else root.end = "its capture has failed";
      if (error instanceof CudaError) onError?.(error.code);
      throw error;
    } finally {
      root.captures.delete(this.#capture);
      // Memory that a capture allocates can be used until the last one ends.
      if (root.captures.size === 0) root.resources.onCaptured();
      this.#session.captures.delete(this.#capture);
      this.#session.onCapturesChanged();
    }
  }
}

const dependenciesOptions: KnownStreamOptions<StreamOption> = {
  action: "ask for the dependencies of a capture",
  names: { stream: true },
  usage: "dependencies(stream) or dependencies({ stream })",
};

const addOptions: KnownStreamOptions<StreamOption> = {
  action: "add a node to a capture",
  names: { stream: true },
  usage: "add(build, stream) or add(build, { stream })",
};

/** Returns what launches in a capture take for each argument. */
function bind(named: NamedArguments, capture: ActiveCapture): Readonly<Record<string, unknown>> {
  const bound: Record<string, unknown> = {};
  for (const [name, argument] of named) {
    const { value } = argument;
    bound[name] = isMemory(argument) ? value : new GraphArgument({ name, value, capture });
  }
  return Object.freeze(bound);
}

/** Begins the capture of a stream. */
export function beginCapture<Arguments extends GraphArguments>(
  stream: CudaStream,
  session: Session,
  options: CaptureOptions<Arguments>,
): GraphCapture<Arguments> {
  checkOptions(options, captureOptions);
  const { mode = "relaxed", arguments: values, into, dependencies } = options;
  if (!Object.hasOwn(modes, mode)) {
    throw new TypeError(
      `Cannot capture a stream in the mode ${shown(mode)}: give "relaxed", "thread-local" or "global"`,
    );
  }
  const { device, unsafeHandle } = stream;
  const what = `capture a stream of device ${device.ordinal}`;
  if (stream === device.defaultStream) {
    throw new TypeError(
      `Cannot capture the default stream of device ${device.ordinal}: create a stream, and capture that`,
    );
  }
  if (session.driver.streamIsCapturing(device.ordinal, unsafeHandle)) {
    const number = cudaErrorNumbers.cudaErrorStreamCaptureUnsupported;
    throw cannot(
      what,
      explainedError(number, "cudaStreamBeginCapture", "it is being captured already; end that first"),
    );
  }
  const target = checkTarget(into, dependencies, session);
  const named = values === undefined
    ? noArguments
    : namedArgumentsOf(values, { session, into: target.into?.outermost });
  try {
    if (target.into !== undefined) checkNotCaptured(target.into);
    return new GraphCapture<Arguments>(session, { stream, named, mode: modes[mode], ...target });
  } catch (error) {
    throw cannot(what, error);
  }
}

/** Throws if a stream is being captured into a graph, or if the graph has bodies into which one is. */
function checkNotCaptured(into: GraphParts): void {
  const { root, around } = into;
  const captures = [...root.captures];
  if (around === undefined || captures.some((capture) => capture.into === into)) {
    root.checkNotCaptured("cudaStreamBeginCaptureToGraph");
  }
}

/** Checks the graph that a stream is to be captured into, and the nodes that the first work depends on. */
function checkTarget(
  into: CudaGraph | undefined,
  dependencies: readonly GraphNode[] | undefined,
  session: Session,
): { into: GraphParts | undefined; dependencies: readonly bigint[] } {
  if (dependencies !== undefined && !Array.isArray(dependencies)) {
    throw new TypeError(`Cannot use ${whatIs(dependencies)} as a capture's dependencies: give an array of nodes`);
  }
  if (into === undefined) {
    if (dependencies === undefined) return { into: undefined, dependencies: [] };
    throw new TypeError("Cannot capture a stream behind nodes of no graph: give the graph of the dependencies as into");
  }
  if (!(into instanceof CudaGraph)) {
    throw new TypeError(`Cannot capture a stream into ${whatIs(into, "CudaGraph")}: give a CudaGraph`);
  }
  const parts = partsOf(into);
  if (parts.session !== session) throw errorOfAnotherCuda("capture a stream into a graph");
  const handles = (dependencies ?? []).map((node) => handleOfNode(node, parts));
  void parts.handle;
  return { into: parts, dependencies: [...new Set(handles)] };
}
