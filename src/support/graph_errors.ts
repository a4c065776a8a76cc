/**
 * The errors of graphs that CUDA cannot execute, or cannot give other parameters, with CUDA's reasons.
 *
 * @module
 */
import { CudaError, cudaErrorName } from "./errors.ts";

/** The values of `cudaGraphInstantiateResult`. */
export const graphInstantiateResult = {
  success: 0,
  error: 1,
  invalidStructure: 2,
  nodeOperationNotSupported: 3,
  multipleDevicesNotSupported: 4,
  conditionalHandleUnused: 5,
} as const;

/** The values of `cudaGraphExecUpdateResult`. */
export const graphExecUpdateResult = {
  success: 0,
  error: 1,
  topologyChanged: 2,
  nodeTypeChanged: 3,
  functionChanged: 4,
  parametersChanged: 5,
  notSupported: 6,
  unsupportedFunctionChange: 7,
  attributesChanged: 8,
} as const;

const instantiateReasons: Readonly<Record<number, string>> = {
  [graphInstantiateResult.invalidStructure]: "its nodes depend on each other in a circle",
  [graphInstantiateResult.nodeOperationNotSupported]: "it has a node that cannot be executed in this way",
  [graphInstantiateResult.multipleDevicesNotSupported]: "its nodes are of several devices",
  [graphInstantiateResult.conditionalHandleUnused]: "it has a condition that no node uses",
};

const updateReasons: Readonly<Record<number, string>> = {
  [graphExecUpdateResult.topologyChanged]: "the graphs differ in their nodes or edges",
  [graphExecUpdateResult.nodeTypeChanged]: "the graphs differ in a node's type",
  [graphExecUpdateResult.functionChanged]: "the graphs differ in a node's kernel, which this driver cannot change",
  [graphExecUpdateResult.parametersChanged]: "the graphs differ in a node's parameters in a way that cannot be changed",
  [graphExecUpdateResult.notSupported]: "the graph has a node that cannot be updated",
  [graphExecUpdateResult.unsupportedFunctionChange]:
    "the graphs differ in a node's kernel in a way that cannot be changed",
  [graphExecUpdateResult.attributesChanged]: "the graphs differ in a node's attributes, which cannot be changed",
};

/** The error of a call about a whole graph, with the node at fault. */
export class GraphError extends CudaError {
  /** CUDA's reason: one of `graphInstantiateResult`, or of `graphExecUpdateResult`. */
  readonly result: number;
  /** The node at fault, in the graph that was passed to the call. Undefined if CUDA names none. */
  readonly node: bigint | undefined;
  /** The reason in words. */
  readonly reason: string | undefined;

  constructor(number: number, call: string, { result, node }: { result: number; node: bigint | undefined }) {
    const reason = (call === "cudaGraphExecUpdate" ? updateReasons : instantiateReasons)[result];
    const message = `${call} failed: ${cudaErrorName(number)} (${number})`;
    super(number, call, reason === undefined ? message : `${message}: ${reason}`);
    this.result = result;
    this.node = node;
    this.reason = reason;
  }
}
