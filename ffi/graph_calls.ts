/**
 * The calls of `CudaDriver` about captures and graphs. They go to libcuda: its handles are those of the runtime.
 *
 * @module
 */
import { type Driver, streamCaptureStatus } from "../src/driver.ts";
import type { DriverFunctions } from "./driver_equivalents.ts";
import { addressOf, foreignBuffer } from "./native/host.ts";
import { graphInstantiateParamsLayout, writeStruct } from "./structs.ts";

/** The calls of a driver about captures and graphs. */
export type GraphCalls = Pick<
  Driver,
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

/** What the calls need of the driver that they belong to. */
interface DriverServices {
  makeCurrent(device: number): void;
  /** Throws the error of a call unless its result is 0. */
  check(result: number, call: string): void;
}

const handleByteLength = 8;
const wordOut = new BigUint64Array(1);
const out = new Uint8Array(wordOut.buffer);
const intOut = new Int32Array(wordOut.buffer);

/** Returns the calls of a driver about captures and graphs. */
export function graphCalls(cuda: DriverFunctions, { makeCurrent, check }: DriverServices): GraphCalls {
  return {
    streamBeginCapture(device, stream, mode) {
      makeCurrent(device);
      check(cuda.cuStreamBeginCapture_v2(stream, mode), "cudaStreamBeginCapture");
    },
    streamEndCapture(device, stream) {
      makeCurrent(device);
      check(cuda.cuStreamEndCapture(stream, out), "cudaStreamEndCapture");
      return wordOut[0]!;
    },
    streamGetCaptureInfo(device, stream) {
      makeCurrent(device);
      // The capture's number, the graph, the address of its nodes, and their count.
      const results = new BigUint64Array(4);
      const [id, graph, nodes, count] = [0n, 8n, 16n, 24n].map((offset) => addressOf(results) + offset);
      check(cuda.cuStreamGetCaptureInfo_v2(stream, out, id!, graph!, nodes!, count!), "cudaStreamGetCaptureInfo");
      const status = intOut[0]!;
      const isActive = status === streamCaptureStatus.active && results[3] !== 0n;
      return {
        status,
        id: results[0]!,
        graph: results[1]!,
        dependencies: isActive ? handlesAt(results[2]!, Number(results[3])) : [],
      };
    },
    threadExchangeStreamCaptureMode(mode) {
      intOut[0] = mode;
      check(cuda.cuThreadExchangeStreamCaptureMode(out), "cudaThreadExchangeStreamCaptureMode");
      return intOut[0];
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
      check(cuda.cuGraphGetEdges(graph, bytesOf(from), bytesOf(to), out), call);
      return Array.from(from, (node, index) => [node, to[index]!] as const);
    },
    graphInstantiate(graph, flags) {
      const parameters = new Uint8Array(graphInstantiateParamsLayout.byteLength);
      writeStruct(graphInstantiateParamsLayout, new DataView(parameters.buffer), { values: { flags } });
      check(cuda.cuGraphInstantiateWithParams(out, graph, parameters), "cudaGraphInstantiate");
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
  };
}

/** Reads handles from an array in native memory. */
function handlesAt(address: bigint, count: number): bigint[] {
  return [...new BigUint64Array(foreignBuffer(address, count * handleByteLength).slice(0))];
}

function bytesOf({ buffer, byteOffset, byteLength }: BigUint64Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
