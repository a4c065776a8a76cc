/**
 * The driver calls about captures and graphs.
 *
 * @module
 */
import {
  conditionalNodeType,
  type Driver,
  graphDotFlags,
  graphInstantiateFlags,
  graphNodeType,
  memAccessFlags,
  memHandleType,
  memLocationType,
  streamCaptureMode,
  streamCaptureStatus,
} from "../../driver.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import { GraphError } from "../../support/graph_errors.ts";
import type { Stream } from "../execution/streams.ts";
import { fail } from "../failure.ts";
import { Capture } from "../execution/captures.ts";
import {
  ConditionValue,
  ExecutableGraph,
  type GraphOperation,
  SoftwareGraph,
  SoftwareGraphNode,
} from "../execution/software_graph.ts";
import type { NodeOperations } from "./copies_and_fills.ts";
import type { DriverCore } from "./core.ts";
import type { SoftwareGraphMemory } from "./graph_memory.ts";
import type { KernelOperation, Kernels } from "./kernels.ts";
import type { StreamsAndEvents } from "./streams_and_events.ts";

/** The driver calls about captures and graphs. */
type GraphCalls = Pick<
  Driver,
  | "streamIsCapturing"
  | "streamBeginCapture"
  | "streamBeginCaptureToGraph"
  | "streamEndCapture"
  | "streamGetCaptureInfo"
  | "streamUpdateCaptureDependencies"
  | "threadExchangeStreamCaptureMode"
  | "graphCreate"
  | "graphDestroy"
  | "graphClone"
  | "graphNodeFindInClone"
  | "graphAddKernelNode"
  | "graphAddMemcpyNode"
  | "graphAddMemsetNode"
  | "graphAddEmptyNode"
  | "graphAddChildGraphNode"
  | "graphAddEventRecordNode"
  | "graphAddEventWaitNode"
  | "graphAddMemAllocNode"
  | "graphAddMemFreeNode"
  | "graphConditionalHandleCreate"
  | "graphAddConditionalNode"
  | "graphAddDependencies"
  | "graphRemoveDependencies"
  | "graphDestroyNode"
  | "graphGetNodes"
  | "graphNodeGetType"
  | "graphGetEdges"
  | "graphDebugDotPrint"
  | "graphInstantiate"
  | "graphUpload"
  | "graphLaunch"
  | "graphExecDestroy"
  | "graphExecUpdate"
  | "graphExecKernelNodeSetParams"
  | "graphExecMemcpyNodeSetParams"
  | "graphExecMemsetNodeSetParams"
  | "graphExecEventRecordNodeSetEvent"
  | "graphExecEventWaitNodeSetEvent"
  | "graphExecChildGraphNodeSetParams"
  | "graphNodeSetEnabled"
  | "graphNodeGetEnabled"
  | "deviceGetGraphMemAttribute"
  | "deviceSetGraphMemAttribute"
  | "deviceGraphMemTrim"
>;

/** The parts of the driver that the calls in this file use. */
interface GraphParts {
  readonly core: DriverCore;
  readonly streams: StreamsAndEvents;
  readonly kernels: Kernels;
  readonly nodes: NodeOperations;
  readonly graphMemory: SoftwareGraphMemory;
}

const modes: readonly number[] = Object.values(streamCaptureMode);
const allInstantiateFlags = Object.values(graphInstantiateFlags).reduce((all, flag) => all | flag, 0);

/** Returns the driver calls about captures and graphs. */
export function captureAndGraphCalls(
  { core, streams, kernels, nodes: operations, graphMemory }: GraphParts,
): GraphCalls {
  const { captures, scheduler, devices } = core;
  const graphs = new Map<bigint, SoftwareGraph>();
  const execs = new Map<bigint, ExecutableGraph>();
  const conditions = new Map<bigint, ConditionValue>();
  let captureCount = 0n;

  const graphOf = (graph: bigint, call: string): SoftwareGraph => {
    return graphs.get(graph) ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  };
  const execOf = (exec: bigint, call: string): ExecutableGraph => {
    return execs.get(exec) ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  };
  /** Returns a node, and its graph. */
  const nodeOf = (handle: bigint, call: string): { node: SoftwareGraphNode; graph: SoftwareGraph } => {
    for (const graph of graphs.values()) {
      const node = graph.nodes.get(handle);
      if (node !== undefined) return { node, graph };
    }
    return fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  };
  const nodesOf = ({ nodes }: SoftwareGraph, handles: readonly bigint[], call: string): SoftwareGraphNode[] => {
    return handles.map((handle) => nodes.get(handle) ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, call));
  };

  /** Removes a graph, its values and the bodies of its nodes from the tables. */
  const forget = (graph: SoftwareGraph): void => {
    graphs.delete(graph.handle);
    for (const { handle } of graph.conditions) conditions.delete(handle);
    for (const { operation } of graph.nodes.values()) operation.branching?.bodies.forEach(forget);
    for (const { operation: { child } } of graph.nodes.values()) if (child?.isMoved) forget(child);
  };

  /** Adds a node to a graph, after the given nodes, and returns its handle. */
  const add = (
    graph: bigint,
    dependencies: readonly bigint[],
    call: string,
    create: (after: readonly SoftwareGraphNode[]) => { operation: GraphOperation; device?: number },
  ): bigint => {
    const found = graphOf(graph, call);
    const before = nodesOf(found, dependencies, call);
    if (new Set(before).size !== before.length) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    const { operation, device = 0 } = create(before);
    const handle = core.newHandle();
    found.add(new SoftwareGraphNode(handle, { device, operation, dependencies: before }));
    return handle;
  };

  /** Refuses what there can be only one of: a graph that allocates or frees memory. */
  const refuseMemoryNodes = (graph: SoftwareGraph, call: string): void => {
    if (graph.hasMemoryNodes) fail(cudaErrorNumbers.cudaErrorNotSupported, call);
  };
  const refuseCopy = (graph: SoftwareGraph, call: string): void => {
    refuseMemoryNodes(graph, call);
    if (graph.hasConditions || graph.parent !== undefined) fail(cudaErrorNumbers.cudaErrorNotSupported, call);
  };

  const childOperation = (child: SoftwareGraph): GraphOperation => {
    return { type: graphNodeType.graph, child, enqueue: () => undefined };
  };

  /** Returns a node of an executable graph. */
  const executableNode = (exec: bigint, node: bigint, call: string) => {
    return execOf(exec, call).node(node) ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  };
  const replace = (exec: bigint, node: bigint, { operation, call }: { operation: GraphOperation; call: string }) => {
    if (!execOf(exec, call).replace(node, operation)) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  };

  const captureOf = (stream: Stream, call: string): Capture => {
    return stream.capture ?? fail(cudaErrorNumbers.cudaErrorIllegalState, call);
  };

  return {
    streamIsCapturing(device, stream) {
      return captures.excludes(streams.stream(device, stream, "cudaStreamIsCapturing"));
    },
    streamBeginCapture(device, stream, mode) {
      const call = "cudaStreamBeginCapture";
      const found = streams.stream(device, stream, call);
      if (found.isDefault) fail(cudaErrorNumbers.cudaErrorStreamCaptureUnsupported, call);
      if (!modes.includes(mode)) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      if (found.capture !== undefined) fail(cudaErrorNumbers.cudaErrorIllegalState, call);
      const graph = new SoftwareGraph(core.newHandle());
      graphs.set(graph.handle, graph);
      captures.add(new Capture(++captureCount, { graph, origin: found, mode }));
    },
    streamBeginCaptureToGraph(device, stream, graph, dependencies, mode) {
      const call = "cudaStreamBeginCaptureToGraph";
      const found = streams.stream(device, stream, call);
      if (found.isDefault) fail(cudaErrorNumbers.cudaErrorStreamCaptureUnsupported, call);
      if (!modes.includes(mode)) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      const into = graphOf(graph, call);
      const after = nodesOf(into, dependencies, call);
      if (found.capture !== undefined || captures.isBuilding(into)) fail(cudaErrorNumbers.cudaErrorIllegalState, call);
      captures.add(new Capture(++captureCount, { graph: into, origin: found, mode, after }));
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
      // Also a graph that has existed before, or the body of a node.
      if (capture.isInvalidated || !capture.isJoined) {
        capture.graph.destroy();
        graphs.delete(capture.graph.handle);
      }
      if (capture.isInvalidated) fail(cudaErrorNumbers.cudaErrorStreamCaptureInvalidated, call);
      if (!capture.isJoined) fail(cudaErrorNumbers.cudaErrorStreamCaptureUnjoined, call);
      return capture.graph.handle;
    },
    streamGetCaptureInfo(device, stream) {
      const call = "cudaStreamGetCaptureInfo";
      const found = streams.stream(device, stream, call);
      const { none, active, invalidated } = streamCaptureStatus;
      const { capture } = found;
      if (found.isDefault && captures.excludes(found)) {
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
    streamUpdateCaptureDependencies(device, stream, nodes) {
      const call = "cudaStreamUpdateCaptureDependencies";
      const found = streams.stream(device, stream, call);
      const capture = captureOf(found, call);
      if (capture.isInvalidated) fail(cudaErrorNumbers.cudaErrorStreamCaptureInvalidated, call);
      capture.update(found, nodesOf(capture.graph, nodes, call));
    },
    threadExchangeStreamCaptureMode(mode) {
      const before = captures.threadMode;
      captures.threadMode = mode;
      return before;
    },

    graphDestroy(graph) {
      const call = "cudaGraphDestroy";
      const found = graphOf(graph, call);
      if (found.isMoved) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      forget(found);
      found.destroy();
    },
    graphCreate() {
      const graph = new SoftwareGraph(core.newHandle());
      graphs.set(graph.handle, graph);
      return graph.handle;
    },
    graphClone(graph) {
      const call = "cudaGraphClone";
      const found = graphOf(graph, call);
      refuseCopy(found, call);
      const clone = found.clone(() => core.newHandle());
      graphs.set(clone.handle, clone);
      return clone.handle;
    },
    graphNodeFindInClone(node, clone) {
      const call = "cudaGraphNodeFindInClone";
      const { nodes, clones } = graphOf(clone, call);
      const found = clones.get(node);
      if (found === undefined || !nodes.has(found.handle)) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      return found.handle;
    },
    graphAddKernelNode(graph, dependencies, launch, attributes) {
      const call = "cudaGraphAddKernelNode";
      return add(graph, dependencies, call, () => {
        return { device: launch.device, operation: kernels.nodeOperation(launch, attributes, call) };
      });
    },
    graphAddMemcpyNode(device, graph, dependencies, copy) {
      const call = "cudaGraphAddMemcpyNode";
      return add(graph, dependencies, call, () => ({ device, operation: operations.copy(device, copy, call) }));
    },
    graphAddMemsetNode(device, graph, dependencies, fill) {
      const call = "cudaGraphAddMemsetNode";
      return add(graph, dependencies, call, () => ({ device, operation: operations.fill(device, fill, call) }));
    },
    graphAddEmptyNode(graph, dependencies) {
      const operation: GraphOperation = { type: graphNodeType.empty, enqueue: () => undefined };
      return add(graph, dependencies, "cudaGraphAddEmptyNode", () => ({ operation }));
    },
    graphAddChildGraphNode(graph, dependencies, child, isMoved = false) {
      const call = isMoved ? "cudaGraphAddNode" : "cudaGraphAddChildGraphNode";
      return add(graph, dependencies, call, () => {
        const found = graphOf(child, call);
        if (!isMoved) {
          refuseCopy(found, call);
          return { operation: childOperation(found.clone(() => core.newHandle())) };
        }
        if (found.hasConditions || found.isMoved) fail(cudaErrorNumbers.cudaErrorNotSupported, call);
        if (found.handle === graph) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
        found.isMoved = true;
        return { operation: childOperation(found) };
      });
    },
    graphAddEventRecordNode(graph, dependencies, event) {
      const call = "cudaGraphAddEventRecordNode";
      return add(graph, dependencies, call, () => streams.recordOperation(event, call));
    },
    graphAddEventWaitNode(graph, dependencies, event) {
      const call = "cudaGraphAddEventWaitNode";
      return add(graph, dependencies, call, () => streams.waitOperation(event, call));
    },
    graphAddMemAllocNode(graph, dependencies, { handleTypes, location }, accesses, byteLength) {
      const call = "cudaGraphAddMemAllocNode";
      let address = 0n;
      const node = add(graph, dependencies, call, (after) => {
        const { cudaErrorInvalidValue, cudaErrorNotSupported } = cudaErrorNumbers;
        const { type, id: device } = location;
        if (byteLength === 0) fail(cudaErrorInvalidValue, call);
        if (handleTypes !== memHandleType.none || type !== memLocationType.device) fail(cudaErrorNotSupported, call);
        if (device < 0 || device >= devices.count) fail(cudaErrorInvalidValue, call);
        devices.checkAlive(call);
        const others = accesses.filter(({ location }) => location.type === memLocationType.device);
        for (const { location: { id } } of others) devices.check(id, call);
        const into = graphOf(graph, call);
        if (into.isMoved) fail(cudaErrorNotSupported, call);
        const allocated = graphMemory.allocate({ graph: into, device, byteLength, after }, call);
        for (const { location: { id }, flags } of others) {
          if (flags !== memAccessFlags.none) allocated.operation.allocation!.memory.allow(id);
        }
        address = allocated.address;
        return { device, operation: allocated.operation };
      });
      return { node, address };
    },
    graphAddMemFreeNode(graph, dependencies, address) {
      const call = "cudaGraphAddMemFreeNode";
      return add(
        graph,
        dependencies,
        call,
        () => ({ operation: graphMemory.freeOperation(graphOf(graph, call), address, call) }),
      );
    },
    graphConditionalHandleCreate(device, graph, defaultValue) {
      const call = "cudaGraphConditionalHandleCreate";
      devices.check(device, call);
      const found = graphOf(graph, call);
      const values = core.linearMemory.ensureConditions();
      const handle = values?.add(core.newHandle(), defaultValue ?? 0);
      if (values === undefined || handle === undefined) fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
      const condition = new ConditionValue(handle, { graph: found, defaultValue, values });
      found.conditions.push(condition);
      conditions.set(condition.handle, condition);
      return condition.handle;
    },
    graphAddConditionalNode(device, graph, dependencies, { handle, type, size }) {
      const call = "cudaGraphAddNode";
      const bodies: SoftwareGraph[] = [];
      const node = add(graph, dependencies, call, () => {
        devices.check(device, call);
        const parent = graphOf(graph, call);
        const condition = conditions.get(handle);
        const isForeign = condition?.graph.root !== parent.root;
        const most = { [conditionalNodeType.if]: 2, [conditionalNodeType.while]: 1 }[type] ?? Infinity;
        const isKnown = Object.values<number>(conditionalNodeType).includes(type);
        if (condition === undefined || isForeign || condition.isUsed || !isKnown || size < 1 || size > most) {
          fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
        }
        condition.isUsed = true;
        for (let index = 0; index < size; index++) {
          const body = new SoftwareGraph(core.newHandle(), { parent });
          graphs.set(body.handle, body);
          bodies.push(body);
        }
        const branching = { condition, type, bodies };
        const operation = { type: graphNodeType.conditional, branching, enqueue: () => undefined };
        return { device, operation };
      });
      return { node, bodies: bodies.map((body) => body.handle) };
    },
    graphAddDependencies(graph, edges) {
      const call = "cudaGraphAddDependencies";
      const found = graphOf(graph, call);
      const pairs = edges.map((edge) => nodesOf(found, edge, call));
      if (pairs.some(([from, to]) => from === to || to!.dependencies.has(from!))) {
        fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      }
      for (const [from, to] of pairs) to!.dependencies.add(from!);
    },
    graphRemoveDependencies(graph, edges) {
      const call = "cudaGraphRemoveDependencies";
      const found = graphOf(graph, call);
      refuseMemoryNodes(found, call);
      const pairs = edges.map((edge) => nodesOf(found, edge, call));
      if (pairs.some(([from, to]) => !to!.dependencies.has(from!))) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      for (const [from, to] of pairs) to!.dependencies.delete(from!);
    },
    graphDestroyNode(node) {
      const call = "cudaGraphDestroyNode";
      const { node: found, graph } = nodeOf(node, call);
      refuseMemoryNodes(graph, call);
      graph.delete(found);
    },
    graphGetNodes: (graph) => [...graphOf(graph, "cudaGraphGetNodes").nodes.keys()],
    graphNodeGetType: (node) => nodeOf(node, "cudaGraphNodeGetType").node.operation.type,
    graphGetEdges(graph) {
      const nodes = [...graphOf(graph, "cudaGraphGetEdges").nodes.values()];
      return nodes.flatMap((node) => [...node.dependencies].map(({ handle }) => [handle, node.handle] as const));
    },
    graphDebugDotPrint: (graph, flags) => dotOf(graphOf(graph, "cudaGraphDebugDotPrint"), flags),
    graphInstantiate(graph, flags) {
      const call = "cudaGraphInstantiate";
      const found = graphOf(graph, call);
      if ((flags & ~allInstantiateFlags) !== 0) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      const isOnlyOne = found.hasMemoryNodes || found.hasConditionalNodes;
      if (found.isMoved || found.parent !== undefined || isOnlyOne && found.executables > 0) {
        fail(cudaErrorNumbers.cudaErrorNotSupported, call);
      }
      const autoFrees = (flags & graphInstantiateFlags.autoFreeOnLaunch) !== 0;
      return core.register(execs, new ExecutableGraph(found, scheduler, { autoFrees }));
    },
    graphUpload(device, exec, stream) {
      const call = "cudaGraphUpload";
      const target = streams.stream(device, stream, call);
      captures.checkWait(target, call);
      execOf(exec, call).upload(target);
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
    graphExecUpdate(exec, graph) {
      const call = "cudaGraphExecUpdate";
      const obstacle = execOf(exec, call).update(graphOf(graph, call));
      if (obstacle === undefined) return;
      throw new GraphError(cudaErrorNumbers.cudaErrorGraphExecUpdateFailure, call, obstacle);
    },
    graphExecKernelNodeSetParams(exec, node, launch) {
      const call = "cudaGraphExecKernelNodeSetParams";
      const { operation } = executableNode(exec, node, call);
      if (operation.type !== graphNodeType.kernel) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      const { attributes } = operation as KernelOperation;
      replace(exec, node, { operation: kernels.nodeOperation(launch, attributes, call), call });
    },
    graphExecMemcpyNodeSetParams(device, exec, node, copy) {
      const call = "cudaGraphExecMemcpyNodeSetParams";
      executableNode(exec, node, call);
      replace(exec, node, { operation: operations.copy(device, copy, call), call });
    },
    graphExecMemsetNodeSetParams(device, exec, node, fill) {
      const call = "cudaGraphExecMemsetNodeSetParams";
      executableNode(exec, node, call);
      replace(exec, node, { operation: operations.fill(device, fill, call), call });
    },
    graphExecEventRecordNodeSetEvent(exec, node, event) {
      const call = "cudaGraphExecEventRecordNodeSetEvent";
      replace(exec, node, { operation: streams.recordOperation(event, call).operation, call });
    },
    graphExecEventWaitNodeSetEvent(exec, node, event) {
      const call = "cudaGraphExecEventWaitNodeSetEvent";
      replace(exec, node, { operation: streams.waitOperation(event, call).operation, call });
    },
    graphExecChildGraphNodeSetParams(exec, node, child) {
      const call = "cudaGraphExecChildGraphNodeSetParams";
      const found = graphOf(child, call);
      refuseCopy(found, call);
      const { operation: { type } } = executableNode(exec, node, call);
      if (type !== graphNodeType.graph) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      const operation = childOperation(found.clone(() => core.newHandle()));
      const isReplaced = execOf(exec, call).replace(node, operation);
      if (!isReplaced) fail(cudaErrorNumbers.cudaErrorGraphExecUpdateFailure, call);
    },
    graphNodeSetEnabled(exec, node, isEnabled) {
      const call = "cudaGraphNodeSetEnabled";
      const found = executableNode(exec, node, call);
      if (!switchable.has(found.operation.type)) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      execOf(exec, call).enable(node, isEnabled);
    },
    graphNodeGetEnabled(exec, node) {
      const call = "cudaGraphNodeGetEnabled";
      const { operation: { type }, isEnabled } = executableNode(exec, node, call);
      return switchable.has(type) ? isEnabled : fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    },

    deviceGetGraphMemAttribute(device, attribute) {
      const call = "cudaDeviceGetGraphMemAttribute";
      devices.check(device, call);
      return graphMemory.usageOf(device).get(attribute) ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    },
    deviceSetGraphMemAttribute(device, attribute, value) {
      const call = "cudaDeviceSetGraphMemAttribute";
      devices.check(device, call);
      const isReset = value === 0n && graphMemory.usageOf(device).reset(attribute);
      if (!isReset) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    },
    deviceGraphMemTrim(device) {
      devices.check(device, "cudaDeviceGraphMemTrim");
      graphMemory.usageOf(device).trim();
    },
  };
}

/** The types of nodes that can be disabled. */
const switchable: ReadonlySet<number> = new Set([graphNodeType.kernel, graphNodeType.memcpy, graphNodeType.memset]);

const typeNames = new Map<number, string>(Object.entries(graphNodeType).map(([name, type]) => [type, name]));

/** Describes a graph in the language DOT. `flags` are bits of `graphDotFlags`. */
function dotOf(graph: SoftwareGraph, flags: number): string {
  const hasHandles = (flags & (graphDotFlags.verbose | graphDotFlags.handles)) !== 0;
  const nodes = [...graph.nodes.values()];
  const numbers = new Map(nodes.map((node, index) => [node, index]));
  const isVerbose = (flags & graphDotFlags.verbose) !== 0;
  const lines = nodes.map(({ handle, operation }, index) => {
    const described = operation.describe?.();
    const name = described === undefined ? "" : ` ${described.name}`;
    const written = hasHandles ? ` 0x${handle.toString(16)}` : "";
    const details = isVerbose && described !== undefined ? `\\n${described.details}` : "";
    return `  node_${index} [label="${index} ${typeNames.get(operation.type)}${name}${written}${details}"];`;
  });
  const edges = nodes.flatMap((node) =>
    [...node.dependencies].map((dependency) => `  node_${numbers.get(dependency)} -> node_${numbers.get(node)};`)
  );
  return ["digraph graph_of_nodes {", ...lines, ...edges, "}", ""].join("\n");
}
