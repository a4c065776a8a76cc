/**
 * New parameters of single nodes of an executable graph.
 *
 * @module
 */
import { DeviceArray } from "../../memory/device_array.ts";
import { allocationOf, DeviceBuffer } from "../../memory/device_buffer.ts";
import { HostBuffer, sessionOfHost } from "../../memory/transfers/host_buffer.ts";
import type { Session } from "../../session.ts";
import { cannot } from "../../support/driver_errors.ts";
import { cudaErrorNumbers, explainedError } from "../../support/errors.ts";
import { countOf } from "../../support/printing.ts";
import { RangeError, TypeError } from "../../support/program_errors.ts";
import { checkOptions, errorOfAnotherCuda, type KnownOptions, whatIs } from "../../support/validation.ts";
import { CudaKernel, deviceOfKernel, kernelNode, shapeLaunch } from "../kernels/cuda_kernel.ts";
import type { LaunchOptions } from "../kernels/launch_options.ts";
import { checkEvent, type CudaEvent, handleOf, isInterprocess, keepEvent } from "../streams/cuda_event.ts";
import { type CopyEnd, ExecCopy, ExecFill, ExecKernel } from "./exec_nodes.ts";
import { type ExecParameters, memoryOf, partOf } from "./exec_parameters.ts";
import { valueToFill } from "./graph_nodes.ts";
import { describeNode, type GraphNode } from "./graph_node.ts";
import { GraphResources } from "./graph_resources.ts";
import type { RootGraph } from "./graph_parts.ts";
import { sizeOfFill } from "./named_arguments.ts";

/** New parameters of a kernel node. What is left out stays, as do the cluster, the priority and the like. */
export interface KernelNodeParameters extends Partial<Pick<LaunchOptions, "grid" | "block" | "sharedMemoryBytes">> {
  /** Another kernel of the same device. Needs `args`. */
  kernel?: CudaKernel;
  /** One argument for each parameter, in order. */
  args?: readonly unknown[];
}

/** New ends of a copy. What is left out stays. The copy has as many bytes as before, from the beginning of each end. */
export interface CopyNodeParameters {
  /** What is read. Has at least as many bytes as the copy. */
  source?: DeviceBuffer | HostBuffer;
  /** What is written. Has at least as many bytes as the copy. */
  target?: DeviceBuffer | HostBuffer;
}

/** New parameters of a fill. What is left out stays. It fills as many bytes as before. */
export interface FillNodeParameters {
  /** What is filled, from its beginning. Has at least as many bytes as the fill. */
  target?: DeviceBuffer;
  /** A byte or, for an array, an element of its type. For elements of more than a byte, give `target`, too. */
  value?: number | bigint;
}

/** The event that a node records or waits for. */
export interface EventNodeParameters {
  /** An event that other processes cannot open. */
  event: CudaEvent;
}

/** New parameters of a node, for `CudaGraphExec.setParameters`. */
export type NodeParameters = KernelNodeParameters | CopyNodeParameters | FillNodeParameters | EventNodeParameters;

/** The executable graph with the node to change. */
export interface ChangedExec {
  readonly session: Session;
  readonly device: number;
  readonly exec: bigint;
  readonly parameters: ExecParameters;
  /** The graph that the executable one was instantiated from. */
  readonly root: RootGraph;
  /** What the executable graph keeps. */
  readonly resources: GraphResources;
}

const kernelParameters: KnownOptions<KernelNodeParameters> = {
  action: "change a kernel of a graph",
  names: { kernel: true, grid: true, block: true, sharedMemoryBytes: true, args: true },
  instead: {
    stream: "a node has no stream: a launch of the graph has one",
    cluster: "it stays; capture another graph with it, and call update(graph)",
    cooperative: "it stays; capture another graph with it, and call update(graph)",
    priority: "it stays; capture another graph with it, and call update(graph)",
    arguments: "the option is args: one for each parameter",
  },
};
const copyParameters: KnownOptions<CopyNodeParameters> = {
  action: "change a copy of a graph",
  names: { source: true, target: true },
};
const fillParameters: KnownOptions<FillNodeParameters> = {
  action: "change a fill of a graph",
  names: { target: true, value: true },
};
const eventParameters: KnownOptions<EventNodeParameters> = {
  action: "change the event of a node of a graph",
  names: { event: true },
};

/** Changes a node of an executable graph. Returns whether the memory that the graph uses has changed. */
export function setNode(changed: ChangedExec, node: GraphNode, given: NodeParameters): boolean {
  const handle = node.unsafeHandle;
  changed.parameters.checkKnown("change a node of");
  const { type } = node;
  if (type === "record" || type === "wait") return setEvent(changed, { handle, type }, given as EventNodeParameters);
  const known = changed.parameters.nodeOf(handle);
  if (known instanceof ExecKernel) return setKernel(changed, known, given as KernelNodeParameters);
  if (known instanceof ExecCopy) return setCopy(changed, known, given as CopyNodeParameters);
  if (known instanceof ExecFill) return setFill(changed, known, given as FillNodeParameters);
  if (changed.parameters.isRows(handle)) {
    const why = "CUDA changes no copy of rows; capture and instantiate again";
    const number = cudaErrorNumbers.cudaErrorInvalidValue;
    throw cannot(`change ${describeNode(node)}`, explainedError(number, "cudaGraphExecMemcpyNodeSetParams", why));
  }
  const why = type === "kernel" || type === "copy" || type === "fill"
    ? "it was not added by this library"
    : "only kernels, copies, fills, records and waits have parameters; to change all nodes, call update(graph)";
  throw new TypeError(`Cannot change ${describeNode(node)}: ${why}`);
}

function setKernel(changed: ChangedExec, node: ExecKernel, given: KernelNodeParameters): boolean {
  checkOptions(given, kernelParameters);
  const { parameters, exec } = changed;
  const { launch } = node;
  const { kernel = node.kernel, args } = given;
  const {
    grid = [launch.gridX, launch.gridY, launch.gridZ] as const,
    block = [launch.blockX, launch.blockY, launch.blockZ] as const,
    sharedMemoryBytes = launch.sharedMemoryBytes,
  } = given;
  if (!(kernel instanceof CudaKernel)) {
    throw new TypeError(`Cannot change a kernel of a graph to ${whatIs(kernel, "CudaKernel")}: give a CudaKernel`);
  }
  if (deviceOfKernel(kernel).cuda !== deviceOfKernel(node.kernel).cuda) throw errorOfAnotherCuda("use a kernel");
  const shape = { grid, block, sharedMemoryBytes };
  if (args === undefined) {
    if (kernel !== node.kernel) {
      throw new TypeError(
        `Cannot change the kernel ${node.kernel.name} of a graph to ${kernel.name} without arguments: give its args`,
      );
    }
    return parameters.change(exec, node, () => {
      const { gridX, gridY, gridZ, blockX, blockY, blockZ, sharedMemoryBytes } = launch;
      shapeLaunch(kernel, launch, shape);
      return () => Object.assign(launch, { gridX, gridY, gridZ, blockX, blockY, blockZ, sharedMemoryBytes });
    });
  }
  if (!Array.isArray(args)) {
    throw new TypeError(`Cannot use ${whatIs(args)} as the args of a kernel: give an array of its arguments`);
  }
  const uses = new GraphResources();
  uses.hold();
  try {
    const note = changed.root.build(() =>
      kernelNode(kernel, { options: shape, args, capture: undefined, resources: uses })
    );
    const next = new ExecKernel(node.node, note, changed.session.driver);
    const hasChanged = parameters.change(exec, node, () => {
      const { kernel, launch, memory } = node;
      node.become(next);
      return () => node.become({ kernel, launch, memory });
    });
    parameters.detach(node.node);
    keepAll(changed.resources, uses);
    return hasChanged;
  } finally {
    uses.drop();
  }
}

/** Keeps what other resources keep. */
function keepAll(resources: GraphResources, uses: GraphResources): void {
  resources.keep(uses, () => {
    uses.hold();
    return () => uses.drop();
  });
}

function setCopy({ session, parameters, exec }: ChangedExec, node: ExecCopy, given: CopyNodeParameters): boolean {
  checkOptions(given, copyParameters);
  const { byteLength } = node.copy;
  const ends: [end: CopyEnd, name: string, memory: DeviceBuffer | HostBuffer | undefined][] = [
    ["source", "source", given.source],
    ["destination", "target", given.target],
  ];
  const changed = ends.flatMap(([end, name, memory]) => {
    if (memory === undefined) return [];
    if (!(memory instanceof DeviceBuffer) && !(memory instanceof HostBuffer)) {
      throw new TypeError(
        `Cannot use ${whatIs(memory)} as the ${name} of a copy of a graph: give a DeviceBuffer or a HostBuffer`,
      );
    }
    checkMemory(memory, session);
    checkLength(memory, byteLength, `the ${name} of ${node.name}`);
    const isAddress = typeof node.copy[end] === "bigint";
    return [{ end, memory: memoryOf(memory), place: partOf(memory, { byteOffset: 0, byteLength, isAddress }) }];
  });
  const hasChanged = parameters.change(exec, node, () => {
    const before = changed.map(({ end }) => ({ end, place: node.copy[end], memory: node.memoryAt(end) }));
    for (const { end, place, memory } of changed) node.use(end, place, memory);
    return () => before.forEach(({ end, place, memory }) => node.use(end, place, memory));
  });
  for (const { end } of changed) parameters.detach(node.node, end);
  return hasChanged;
}

function setFill({ session, parameters, exec }: ChangedExec, node: ExecFill, given: FillNodeParameters): boolean {
  checkOptions(given, fillParameters);
  const { target, value } = given;
  if (target !== undefined) {
    if (!(target instanceof DeviceBuffer)) {
      throw new TypeError(
        `Cannot fill ${whatIs(target)} in a graph: give a DeviceBuffer or a DeviceArray as the target`,
      );
    }
    checkMemory(target, session);
    checkLength(target, sizeOfFill(node), `the target of ${node.name}`);
  }
  const bits = value === undefined ? node.fill.value : bitsFor(node, target, value);
  const address = target?.address;
  const hasChanged = parameters.change(exec, node, () => {
    const { fill: { value, address: begin }, memory } = node;
    node.fill.value = bits;
    if (address !== undefined) {
      node.fill.address = address;
      node.memory = memoryOf(target!);
    }
    return () => {
      node.fill.value = value;
      node.fill.address = begin;
      node.memory = memory;
    };
  });
  if (target !== undefined) parameters.detach(node.node);
  return hasChanged;
}

/** Returns the bits of a value as an element of a fill. */
function bitsFor(node: ExecFill, target: DeviceBuffer | undefined, value: number | bigint): number {
  const { elementSize } = node.fill;
  if (target === undefined && elementSize !== 1) {
    throw new TypeError(
      `Cannot change the value of ${node.name}, whose elements have ${elementSize} bytes, without its target: give the ` +
        "target, too, whose type says how the value is written",
    );
  }
  const { bits: { low, high }, size } = valueToFill(target, value);
  if (Math.min(size, 4) === elementSize && (high === undefined || high === low)) return low;
  const type = target instanceof DeviceArray ? `an element of ${countOf(size, "byte")}` : "a byte";
  throw new TypeError(
    `Cannot change the value of ${node.name} to ${type}: its elements have ${
      countOf(elementSize, "byte")
    }, which stays`,
  );
}

function setEvent(
  { session, device, exec, resources }: ChangedExec,
  { handle, type }: { handle: bigint; type: "record" | "wait" },
  given: EventNodeParameters,
): boolean {
  checkOptions(given, eventParameters);
  const { event } = given;
  checkEvent(event, session);
  if (isInterprocess(event)) {
    throw new TypeError(`Cannot change the event of a ${type} of a graph to one that other processes can open`);
  }
  const { driver } = session;
  try {
    // The library does not know when launches record the event.
    if (type === "record") driver.graphExecEventRecordNodeSetEvent(exec, handle, event.unsafeHandle);
    else driver.graphExecEventWaitNodeSetEvent(exec, handle, handleOf(event));
  } catch (error) {
    throw cannot(`change the event of a ${type} in a graph of device ${device}`, error);
  }
  resources.keep(event, () => keepEvent(event));
  return false;
}

function checkMemory(memory: DeviceBuffer | HostBuffer, session: Session): void {
  const own = memory instanceof HostBuffer ? sessionOfHost(memory) : allocationOf(memory).session;
  if (own !== session) throw errorOfAnotherCuda("use a buffer");
}

function checkLength(memory: DeviceBuffer | HostBuffer, needed: number, what: string): void {
  if (memory.byteLength >= needed) return;
  throw new RangeError(`Cannot use ${countOf(memory.byteLength, "byte")} as ${what} of a graph: it needs ${needed}`);
}
