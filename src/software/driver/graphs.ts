/**
 * The driver calls about captures and graphs.
 *
 * @module
 */
import { type Driver, graphInstantiateFlags, streamCaptureMode, streamCaptureStatus } from "../../driver.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import type { Stream } from "../execution/streams.ts";
import { fail } from "../failure.ts";
import { Capture } from "../execution/captures.ts";
import { ExecutableGraph, type GraphNode, SoftwareGraph } from "../execution/software_graph.ts";
import type { DriverCore } from "./core.ts";
import type { StreamsAndEvents } from "./streams_and_events.ts";

/** The driver calls about captures and graphs. */
type GraphCalls = Pick<
  Driver,
  | "streamIsCapturing"
  | "streamBeginCapture"
  | "streamEndCapture"
  | "streamGetCaptureInfo"
  | "threadExchangeStreamCaptureMode"
  | "graphDestroy"
  | "graphGetNodes"
  | "graphNodeGetType"
  | "graphGetEdges"
  | "graphInstantiate"
  | "graphUpload"
  | "graphLaunch"
  | "graphExecDestroy"
>;

const modes: readonly number[] = Object.values(streamCaptureMode);
const allInstantiateFlags = Object.values(graphInstantiateFlags).reduce((all, flag) => all | flag, 0);

/** Returns the driver calls about captures and graphs. */
export function captureAndGraphCalls({ core, streams }: { core: DriverCore; streams: StreamsAndEvents }): GraphCalls {
  const { captures, scheduler } = core;
  const graphs = new Map<bigint, SoftwareGraph>();
  const execs = new Map<bigint, ExecutableGraph>();
  let captureCount = 0n;

  const graphOf = (graph: bigint, call: string): SoftwareGraph => {
    return graphs.get(graph) ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  };
  const execOf = (exec: bigint, call: string): ExecutableGraph => {
    return execs.get(exec) ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  };
  const nodeOf = (node: bigint, call: string): GraphNode => {
    for (const { nodes } of graphs.values()) {
      const found = nodes.find(({ handle }) => handle === node);
      if (found !== undefined) return found;
    }
    return fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  };
  const captureOf = (stream: Stream, call: string): Capture => {
    return stream.capture ?? fail(cudaErrorNumbers.cudaErrorIllegalState, call);
  };

  return {
    streamIsCapturing(device, stream) {
      const found = streams.stream(device, stream, "cudaStreamIsCapturing");
      return found.isDefault ? captures.areOrderedWith(found) : found.capture !== undefined;
    },
    streamBeginCapture(device, stream, mode) {
      const call = "cudaStreamBeginCapture";
      const found = streams.stream(device, stream, call);
      if (found.isDefault) fail(cudaErrorNumbers.cudaErrorStreamCaptureUnsupported, call);
      if (!modes.includes(mode)) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      if (found.capture !== undefined) fail(cudaErrorNumbers.cudaErrorIllegalState, call);
      const graph = new SoftwareGraph(core.newHandle());
      captures.add(new Capture(++captureCount, { graph, origin: found, mode }));
    },
    streamEndCapture(device, stream) {
      const call = "cudaStreamEndCapture";
      const found = streams.stream(device, stream, call);
      const capture = captureOf(found, call);
      if (capture.origin !== found) {
        capture.isInvalidated = true;
        fail(cudaErrorNumbers.cudaErrorStreamCaptureUnmatched, call);
      }
      captures.delete(capture);
      if (capture.isInvalidated || !capture.isJoined) capture.graph.destroy();
      if (capture.isInvalidated) fail(cudaErrorNumbers.cudaErrorStreamCaptureInvalidated, call);
      if (!capture.isJoined) fail(cudaErrorNumbers.cudaErrorStreamCaptureUnjoined, call);
      graphs.set(capture.graph.handle, capture.graph);
      return capture.graph.handle;
    },
    streamGetCaptureInfo(device, stream) {
      const call = "cudaStreamGetCaptureInfo";
      const found = streams.stream(device, stream, call);
      const { none, active, invalidated } = streamCaptureStatus;
      const { capture } = found;
      if (found.isDefault && captures.areOrderedWith(found)) {
        fail(cudaErrorNumbers.cudaErrorStreamCaptureImplicit, call);
      }
      if (capture === undefined) return { status: none, id: 0n, graph: 0n, dependencies: [] };
      const nodes = capture.dependencies.get(found)!;
      return {
        status: capture.isInvalidated ? invalidated : active,
        id: capture.id,
        graph: capture.graph.handle,
        dependencies: nodes.map(({ handle }) => handle),
      };
    },
    threadExchangeStreamCaptureMode(mode) {
      const before = captures.threadMode;
      captures.threadMode = mode;
      return before;
    },

    graphDestroy(graph) {
      graphOf(graph, "cudaGraphDestroy").destroy();
      graphs.delete(graph);
    },
    graphGetNodes: (graph) => graphOf(graph, "cudaGraphGetNodes").nodes.map(({ handle }) => handle),
    graphNodeGetType: (node) => nodeOf(node, "cudaGraphNodeGetType").operation.type,
    graphGetEdges(graph) {
      const { nodes } = graphOf(graph, "cudaGraphGetEdges");
      return nodes.flatMap((node) => [...node.dependencies].map(({ handle }) => [handle, node.handle] as const));
    },
    graphInstantiate(graph, flags) {
      const call = "cudaGraphInstantiate";
      const found = graphOf(graph, call);
      if ((flags & ~allInstantiateFlags) !== 0) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      const autoFrees = (flags & graphInstantiateFlags.autoFreeOnLaunch) !== 0;
      return core.register(execs, new ExecutableGraph(found, scheduler, { autoFrees }));
    },
    graphUpload(device, exec, stream) {
      const call = "cudaGraphUpload";
      captures.checkWait(streams.stream(device, stream, call), call);
      execOf(exec, call);
    },
    graphLaunch(device, exec, stream) {
      const call = "cudaGraphLaunch";
      const target = streams.stream(device, stream, call);
      captures.checkWait(target, call);
      const found = execOf(exec, call);
      if (found.hasUnfreedMemory) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      found.launch(target);
    },
    graphExecDestroy(exec) {
      execOf(exec, "cudaGraphExecDestroy").destroy();
      execs.delete(exec);
    },
  };
}
