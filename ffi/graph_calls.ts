/**
 * The calls of `CudaDriver` about captures and graphs. They go to libcuda: its handles are those of the runtime.
 *
 * @module
 */
import {
  type Driver,
  graphMemAttribute,
  graphNodeType,
  isArrayCopy,
  type KernelLaunch,
  memLocationType,
  streamCaptureStatus,
} from "../src/driver.ts";
import { CudaError, cudaErrorNumbers } from "../src/support/errors.ts";
import { GraphError } from "../src/support/graph_errors.ts";
import { newerVersionNeeded } from "./cuda_libraries.ts";
import type { DriverFunctions } from "./driver_equivalents.ts";
import { addressOf, foreignBuffer } from "./native/host.ts";
import { closeDescriptor, describeDescriptor, readAt } from "./native/shim/descriptors.ts";
import { createMemoryFile } from "./native/shim/memory_files.ts";
import { cString } from "./native/shim/shim.ts";
import { arrayCopyParams } from "./texture_calls.ts";
import {
  childGraphNodeParamsLayout,
  conditionalNodeParamsLayout,
  copyEnd,
  encodeAccess,
  graphExecUpdateResultInfoLayout,
  graphInstantiateParamsLayout,
  memAccessDescLayout,
  memAllocNodeParamsLayout,
  nodeAttributes,
  NodeParams,
  writePoolProps,
  writeStruct,
} from "./structs.ts";

/** The calls of a driver about captures and graphs. */
export type GraphCalls = Pick<
  Driver,
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

/** A launch, with the `extra` array that passes the packed parameters to `cuLaunchKernel` and to nodes of graphs. */
export interface CudaKernelLaunch extends KernelLaunch {
  readonly extra: Uint8Array;
  /** The address of `extra`; 0 until a node of a graph needs it. */
  extraAddress: bigint;
  /** The addresses of the parameters, and the address of these, once a graph or a cooperative launch has needed them. */
  places?: { readonly addresses: BigUint64Array; readonly address: bigint } | undefined;
}

/** What the calls need of the driver that they belong to. */
interface DriverServices {
  makeCurrent(device: number): void;
  /** Throws the error of a call unless its result is 0. */
  check(result: number, call: string): void;
  /** Returns the addresses of a launch's parameters. Undefined before CUDA 12.4. */
  placesOf(launch: CudaKernelLaunch): CudaKernelLaunch["places"];
}

const handleByteLength = 8;
const wordOut = new BigUint64Array(1);
const out = new Uint8Array(wordOut.buffer);
const intOut = new Int32Array(wordOut.buffer);

const replacingDependencies = 1;
/** `CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE`. */
const movedOwnership = 1;
const minimumVersionOfMoves = 12090;
/** The first CUDA version whose edges have data. Its older calls fail for edges that programmatic launches have made. */
const minimumVersionOfEdgeData = 12030;
/** The size of a `CUgraphEdgeData`. */
const edgeDataByteLength = 8;
/** `CU_GRAPH_COND_ASSIGN_DEFAULT`. */
const assigningDefault = 1;
const knownAttributes: readonly number[] = Object.values(graphMemAttribute);
const params = new NodeParams();

/** Structs that each call fills in anew. */
const instantiateParams = structOf(graphInstantiateParamsLayout.byteLength);
const updateInfo = structOf(graphExecUpdateResultInfoLayout.byteLength);

function structOf(byteLength: number): { readonly bytes: Uint8Array<ArrayBuffer>; readonly view: DataView } {
  const bytes = new Uint8Array(byteLength);
  return { bytes, view: new DataView(bytes.buffer) };
}

/** Returns the calls of a driver about captures and graphs. */
export function graphCalls(cuda: DriverFunctions, { makeCurrent, check, placesOf }: DriverServices): GraphCalls {
  /** The primary context of each device that has been used. It exists until the process exits. */
  const contexts: bigint[] = [];

  const contextOf = (device: number): bigint => {
    const known = contexts[device];
    if (known !== undefined) return known;
    makeCurrent(device);
    check(cuda.cuCtxGetCurrent(out), "cuCtxGetCurrent");
    return contexts[device] = wordOut[0]!;
  };

  let version = 0;
  const driverVersion = (): number => {
    if (version === 0) {
      check(cuda.cuDriverGetVersion(out), "cudaDriverGetVersion");
      version = intOut[0]!;
    }
    return version;
  };

  const kernelParams = (launch: KernelLaunch): Uint8Array => {
    const own = launch as CudaKernelLaunch;
    const places = placesOf(own);
    if (places !== undefined) return params.fillKernel(launch, 0n, places.address);
    if (own.extraAddress === 0n) own.extraAddress = addressOf(own.extra);
    return params.fillKernel(launch, own.extraAddress);
  };

  const moveChildGraph = (graph: bigint, dependencies: readonly bigint[], child: bigint): bigint => {
    const call = "cudaGraphAddNode";
    const version = driverVersion();
    if (version < minimumVersionOfMoves) {
      throw newerVersionNeeded(call, { what: "a child graph that is moved", minimum: minimumVersionOfMoves, version });
    }
    const bytes = new Uint8Array(childGraphNodeParamsLayout.byteLength);
    writeStruct(childGraphNodeParamsLayout, new DataView(bytes.buffer), {
      values: { "type": graphNodeType.graph, "graph.graph": child, "graph.ownership": movedOwnership },
    });
    const [nodes, count] = handles(dependencies);
    check(cuda.cuGraphAddNode_v2(out, graph, nodes, 0n, count, bytes), call);
    return wordOut[0]!;
  };

  /** Throws the error of a call, with CUDA's reason and the node at fault. */
  const failWithNode = (number: number, call: string, { result, node }: { result: number; node: bigint }): never => {
    try {
      check(number, call);
    } catch (error) {
      // Also an error about an old driver, which names no node.
      if (!(error instanceof CudaError) || error.number !== number || result === 0) throw error;
    }
    throw new GraphError(number, call, { result, node: node === 0n ? undefined : node });
  };

  return {
    streamBeginCapture(device, stream, mode) {
      makeCurrent(device);
      check(cuda.cuStreamBeginCapture_v2(stream, mode), "cudaStreamBeginCapture");
    },
    streamBeginCaptureToGraph(device, stream, graph, dependencies, mode) {
      makeCurrent(device);
      const [nodes, count] = handles(dependencies);
      const result = cuda.cuStreamBeginCaptureToGraph(stream, graph, nodes, 0n, count, mode);
      check(result, "cudaStreamBeginCaptureToGraph");
    },
    streamEndCapture(device, stream) {
      makeCurrent(device);
      check(cuda.cuStreamEndCapture(stream, out), "cudaStreamEndCapture");
      return wordOut[0]!;
    },
    streamGetCaptureInfo(device, stream) {
      makeCurrent(device);
      const hasEdgeData = driverVersion() >= minimumVersionOfEdgeData;
      // The capture's number, the graph, the address of its nodes, their count, and the address of the edges' data.
      const results = new BigUint64Array(5);
      const address = addressOf(results);
      const [id, graph, nodes, count, edges] = [address, address + 8n, address + 16n, address + 24n, address + 32n];
      const result = hasEdgeData
        ? cuda.cuStreamGetCaptureInfo_v3(stream, out, id, graph, nodes, edges, count)
        : cuda.cuStreamGetCaptureInfo_v2(stream, out, id, graph, nodes, count);
      check(result, "cudaStreamGetCaptureInfo");
      const status = intOut[0]!;
      const isActive = status === streamCaptureStatus.active && results[3] !== 0n;
      return {
        status,
        id: results[0]!,
        graph: results[1]!,
        dependencies: isActive ? handlesAt(results[2]!, Number(results[3])) : [],
      };
    },
    streamUpdateCaptureDependencies(device, stream, nodes) {
      makeCurrent(device);
      const result = cuda.cuStreamUpdateCaptureDependencies(stream, ...handles(nodes), replacingDependencies);
      check(result, "cudaStreamUpdateCaptureDependencies");
    },
    threadExchangeStreamCaptureMode(mode) {
      intOut[0] = mode;
      check(cuda.cuThreadExchangeStreamCaptureMode(out), "cudaThreadExchangeStreamCaptureMode");
      return intOut[0];
    },

    graphCreate() {
      check(cuda.cuGraphCreate(out, 0), "cudaGraphCreate");
      return wordOut[0]!;
    },
    graphClone(graph) {
      check(cuda.cuGraphClone(out, graph), "cudaGraphClone");
      return wordOut[0]!;
    },
    graphNodeFindInClone(node, clone) {
      check(cuda.cuGraphNodeFindInClone(out, node, clone), "cudaGraphNodeFindInClone");
      return wordOut[0]!;
    },
    graphAddKernelNode(graph, dependencies, launch, attributes) {
      makeCurrent(launch.device);
      const result = cuda.cuGraphAddKernelNode_v2(out, graph, ...handles(dependencies), kernelParams(launch));
      check(result, "cudaGraphAddKernelNode");
      const node = wordOut[0]!;
      for (const [id, value] of attributes === undefined ? [] : nodeAttributes(attributes)) {
        try {
          check(cuda.cuGraphKernelNodeSetAttribute(node, id, value), "cudaGraphKernelNodeSetAttribute");
        } catch (error) {
          cuda.cuGraphDestroyNode(node);
          throw error;
        }
      }
      return node;
    },
    graphAddMemcpyNode(device, graph, dependencies, copy) {
      const context = contextOf(device);
      const bytes = "byteLength" in copy
        ? params.fillMemcpy(copy)
        : isArrayCopy(copy)
        ? arrayCopyParams(copy)
        : params.fillMemcpy3D(copy);
      const result = cuda.cuGraphAddMemcpyNode(out, graph, ...handles(dependencies), bytes, context);
      check(result, "cudaGraphAddMemcpyNode");
      return wordOut[0]!;
    },
    graphAddMemsetNode(device, graph, dependencies, fill) {
      const context = contextOf(device);
      const result = cuda.cuGraphAddMemsetNode(out, graph, ...handles(dependencies), params.fillMemset(fill), context);
      check(result, "cudaGraphAddMemsetNode");
      return wordOut[0]!;
    },
    graphAddEmptyNode(graph, dependencies) {
      check(cuda.cuGraphAddEmptyNode(out, graph, ...handles(dependencies)), "cudaGraphAddEmptyNode");
      return wordOut[0]!;
    },
    graphAddChildGraphNode(graph, dependencies, child, isMoved = false) {
      if (isMoved) return moveChildGraph(graph, dependencies, child);
      check(cuda.cuGraphAddChildGraphNode(out, graph, ...handles(dependencies), child), "cudaGraphAddChildGraphNode");
      return wordOut[0]!;
    },
    graphAddEventRecordNode(graph, dependencies, event) {
      check(cuda.cuGraphAddEventRecordNode(out, graph, ...handles(dependencies), event), "cudaGraphAddEventRecordNode");
      return wordOut[0]!;
    },
    graphAddEventWaitNode(graph, dependencies, event) {
      check(cuda.cuGraphAddEventWaitNode(out, graph, ...handles(dependencies), event), "cudaGraphAddEventWaitNode");
      return wordOut[0]!;
    },
    graphAddMemAllocNode(graph, dependencies, props, accesses, byteLength) {
      check(cuda.cuDeviceGetCount(out), "cudaGetDeviceCount");
      const { type, id } = props.location;
      // CUDA answers for a device that there is not.
      if (type === memLocationType.device && id >= 0 && id < intOut[0]!) makeCurrent(id);
      const bytes = new Uint8Array(memAllocNodeParamsLayout.byteLength);
      const view = new DataView(bytes.buffer);
      const descriptions = encodeAccess(accesses);
      writePoolProps(view, props);
      writeStruct(memAllocNodeParamsLayout, view, {
        values: {
          accessDescs: descriptions.length === 0 ? 0n : addressOf(descriptions),
          accessDescCount: descriptions.length / memAccessDescLayout.byteLength,
          bytesize: byteLength,
        },
      });
      check(cuda.cuGraphAddMemAllocNode(out, graph, ...handles(dependencies), bytes), "cudaGraphAddMemAllocNode");
      return { node: wordOut[0]!, address: view.getBigUint64(memAllocNodeParamsLayout.fields.dptr.offset, true) };
    },
    graphAddMemFreeNode(graph, dependencies, address) {
      check(cuda.cuGraphAddMemFreeNode(out, graph, ...handles(dependencies), address), "cudaGraphAddMemFreeNode");
      return wordOut[0]!;
    },
    graphConditionalHandleCreate(device, graph, defaultValue) {
      const context = contextOf(device);
      const flags = defaultValue === undefined ? 0 : assigningDefault;
      const result = cuda.cuGraphConditionalHandleCreate(out, graph, context, defaultValue ?? 0, flags);
      check(result, "cudaGraphConditionalHandleCreate");
      return wordOut[0]!;
    },
    graphAddConditionalNode(device, graph, dependencies, { handle, type, size }) {
      const bytes = new Uint8Array(conditionalNodeParamsLayout.byteLength);
      const view = new DataView(bytes.buffer);
      const { fields } = conditionalNodeParamsLayout;
      writeStruct(conditionalNodeParamsLayout, view, {
        values: {
          "type": graphNodeType.conditional,
          "conditional.handle": handle,
          "conditional.type": type,
          "conditional.size": size,
          "conditional.ctx": contextOf(device),
        },
      });
      const [nodes, count] = handles(dependencies);
      check(cuda.cuGraphAddNode_v2(out, graph, nodes, 0n, count, bytes), "cudaGraphAddNode");
      const node = wordOut[0]!;
      return { node, bodies: handlesAt(view.getBigUint64(fields["conditional.phGraph_out"].offset, true), size) };
    },
    graphAddDependencies(graph, edges) {
      const [from, count] = handles(edges.map(([node]) => node));
      const [to] = handles(edges.map(([, node]) => node));
      check(cuda.cuGraphAddDependencies(graph, from, to, count), "cudaGraphAddDependencies");
    },
    graphRemoveDependencies(graph, edges) {
      const [from, count] = handles(edges.map(([node]) => node));
      const [to] = handles(edges.map(([, node]) => node));
      check(cuda.cuGraphRemoveDependencies(graph, from, to, count), "cudaGraphRemoveDependencies");
    },
    graphDestroyNode(node) {
      check(cuda.cuGraphDestroyNode(node), "cudaGraphDestroyNode");
    },
    graphDestroy(graph) {
      check(cuda.cuGraphDestroy(graph), "cudaGraphDestroy");
    },
    graphGetNodes(graph) {
      const call = "cudaGraphGetNodes";
      check(cuda.cuGraphGetNodes(graph, null, out), call);
      const nodes = new BigUint64Array(Number(wordOut[0]));
      if (nodes.length > 0) check(cuda.cuGraphGetNodes(graph, bytesOf(nodes), out), call);
      return [...nodes];
    },
    graphNodeGetType(node) {
      check(cuda.cuGraphNodeGetType(node, out), "cudaGraphNodeGetType");
      return intOut[0]!;
    },
    graphGetEdges(graph) {
      const call = "cudaGraphGetEdges";
      check(cuda.cuGraphGetEdges(graph, null, null, out), call);
      const count = Number(wordOut[0]);
      if (count === 0) return [];
      const [from, to] = [new BigUint64Array(count), new BigUint64Array(count)];
      const hasEdgeData = driverVersion() >= minimumVersionOfEdgeData;
      wordOut[0] = BigInt(count);
      const result = hasEdgeData
        ? cuda.cuGraphGetEdges_v2(graph, bytesOf(from), bytesOf(to), new Uint8Array(edgeDataByteLength * count), out)
        : cuda.cuGraphGetEdges(graph, bytesOf(from), bytesOf(to), out);
      check(result, call);
      return Array.from(from, (node, index) => [node, to[index]!] as const);
    },
    graphDebugDotPrint(graph, flags) {
      const file = createMemoryFile("poolpass-graph", 0);
      try {
        const result = cuda.cuGraphDebugDotPrint(graph, cString(`/proc/self/fd/${file}`), flags);
        check(result, "cudaGraphDebugDotPrint");
        const bytes = new Uint8Array(describeDescriptor(file).byteLength);
        return new TextDecoder().decode(bytes.subarray(0, readAt(file, bytes)));
      } finally {
        closeDescriptor(file);
      }
    },
    graphInstantiate(graph, flags) {
      const { bytes: parameters, view } = instantiateParams;
      parameters.fill(0);
      view.setBigUint64(graphInstantiateParamsLayout.fields.flags.offset, BigInt(flags), true);
      const call = "cudaGraphInstantiate";
      const { result_out: reason, hErrNode_out: node } = graphInstantiateParamsLayout.fields;
      const number = cuda.cuGraphInstantiateWithParams(out, graph, parameters);
      const result = view.getInt32(reason.offset, true);
      if (number !== 0) failWithNode(number, call, { result, node: view.getBigUint64(node.offset, true) });
      return wordOut[0]!;
    },
    graphUpload(device, exec, stream) {
      makeCurrent(device);
      check(cuda.cuGraphUpload(exec, stream), "cudaGraphUpload");
    },
    graphLaunch(device, exec, stream) {
      makeCurrent(device);
      check(cuda.cuGraphLaunch(exec, stream), "cudaGraphLaunch");
    },
    graphExecDestroy(exec) {
      check(cuda.cuGraphExecDestroy(exec), "cudaGraphExecDestroy");
    },
    graphExecUpdate(exec, graph) {
      const { bytes, view } = updateInfo;
      bytes.fill(0);
      const number = cuda.cuGraphExecUpdate_v2(exec, graph, bytes);
      if (number === 0) return;
      const { result: reason, errorNode } = graphExecUpdateResultInfoLayout.fields;
      const result = view.getInt32(reason.offset, true);
      failWithNode(number, "cudaGraphExecUpdate", { result, node: view.getBigUint64(errorNode.offset, true) });
    },
    graphExecKernelNodeSetParams(exec, node, launch) {
      const call = "cudaGraphExecKernelNodeSetParams";
      check(cuda.cuGraphExecKernelNodeSetParams_v2(exec, node, kernelParams(launch)), call);
    },
    graphExecMemcpyNodeSetParams(device, exec, node, copy) {
      const context = contextOf(device);
      const set = (type?: number) => {
        return cuda.cuGraphExecMemcpyNodeSetParams(exec, node, params.fillMemcpy(copy, type), context);
      };
      let result = set();
      // The type of an end stays: in a captured copy from or to host memory, the other end is device memory and nothing
      // else.
      const isHostCopy = typeof copy.source !== "bigint" || typeof copy.destination !== "bigint";
      if (result === cudaErrorNumbers.cudaErrorInvalidValue && isHostCopy) result = set(copyEnd.device);
      check(result, "cudaGraphExecMemcpyNodeSetParams");
    },
    graphExecMemsetNodeSetParams(device, exec, node, fill) {
      const context = contextOf(device);
      const call = "cudaGraphExecMemsetNodeSetParams";
      check(cuda.cuGraphExecMemsetNodeSetParams(exec, node, params.fillMemset(fill), context), call);
    },
    graphExecEventRecordNodeSetEvent(exec, node, event) {
      const call = "cudaGraphExecEventRecordNodeSetEvent";
      check(cuda.cuGraphExecEventRecordNodeSetEvent(exec, node, event), call);
    },
    graphExecEventWaitNodeSetEvent(exec, node, event) {
      const call = "cudaGraphExecEventWaitNodeSetEvent";
      check(cuda.cuGraphExecEventWaitNodeSetEvent(exec, node, event), call);
    },
    graphExecChildGraphNodeSetParams(exec, node, child) {
      const call = "cudaGraphExecChildGraphNodeSetParams";
      check(cuda.cuGraphExecChildGraphNodeSetParams(exec, node, child), call);
    },
    graphNodeSetEnabled(exec, node, isEnabled) {
      check(cuda.cuGraphNodeSetEnabled(exec, node, isEnabled ? 1 : 0), "cudaGraphNodeSetEnabled");
    },
    graphNodeGetEnabled(exec, node) {
      check(cuda.cuGraphNodeGetEnabled(exec, node, out), "cudaGraphNodeGetEnabled");
      return intOut[0] !== 0;
    },

    deviceGetGraphMemAttribute(device, attribute) {
      const call = "cudaDeviceGetGraphMemAttribute";
      // CUDA would write past the result of an attribute that it may know and the library does not.
      if (!knownAttributes.includes(attribute)) throw new CudaError(cudaErrorNumbers.cudaErrorInvalidValue, call);
      contextOf(device);
      check(cuda.cuDeviceGetGraphMemAttribute(device, attribute, out), call);
      return wordOut[0]!;
    },
    deviceSetGraphMemAttribute(device, attribute, value) {
      contextOf(device);
      wordOut[0] = value;
      check(cuda.cuDeviceSetGraphMemAttribute(device, attribute, out), "cudaDeviceSetGraphMemAttribute");
    },
    deviceGraphMemTrim(device) {
      contextOf(device);
      check(cuda.cuDeviceGraphMemTrim(device), "cudaDeviceGraphMemTrim");
    },
  };
}

/** Reads handles from an array in native memory. */
function handlesAt(address: bigint, count: number): bigint[] {
  return [...new BigUint64Array(foreignBuffer(address, count * handleByteLength).slice(0))];
}

/** Returns an array of handles for a call, and their count. */
function handles(values: readonly bigint[]): [array: Uint8Array, count: bigint] {
  return [bytesOf(new BigUint64Array(values)), BigInt(values.length)];
}

function bytesOf({ buffer, byteOffset, byteLength }: BigUint64Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
