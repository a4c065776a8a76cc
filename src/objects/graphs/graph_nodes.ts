/**
 * The nodes that a program adds to a graph by hand.
 *
 * @module
 */
import { conditionalNodeType, type GraphCopy, type GraphFill, memAccessFlags, memLocationType } from "../../driver.ts";
import type { Allocation } from "../../memory/allocation.ts";
import { type ArrayCopyEnd, driverArrayCopy } from "../../memory/arrays/array_copies.ts";
import { checkArrayEnds, checkElementsForArray, CudaArray, stateOfArray } from "../../memory/arrays/cuda_array.ts";
import {
  checkByte,
  checkHostSource,
  checkHostTarget,
  checkNotTransferred,
  checkRange,
} from "../../memory/buffer_arguments.ts";
import { DeviceArray } from "../../memory/device_array.ts";
import { allocationOf, DeviceBuffer } from "../../memory/device_buffer.ts";
import { checkArrayCopy, checkRowsCopy, PitchedArray, placeOfRows, sessionOfRows } from "../../memory/pitched_array.ts";
import { memoryOfPool, MemoryPool } from "../../memory/pools/memory_pool.ts";
import { checkEnds, elementsToCopy } from "../../memory/transfers/copies.ts";
import { checkCopyBetween, checkCopyFromView, type ElementBits, elementBits } from "../../memory/transfers/elements.ts";
import { bytesOfHost, HostBuffer, lifetimeOfHost } from "../../memory/transfers/host_buffer.ts";
import { driverCopy } from "../../memory/transfers/pitched_copies.ts";
import { copyRows, simplifiedRows, withoutGaps } from "../../memory/transfers/rows.ts";
import type { Session } from "../../session.ts";
import { cannot } from "../../support/driver_errors.ts";
import { CudaError, cudaErrorNumbers, explainedError } from "../../support/errors.ts";
import { countOf } from "../../support/printing.ts";
import { RangeError, TypeError } from "../../support/program_errors.ts";
import {
  bytesOf,
  checkByteLength,
  checkNumber,
  checkOptions,
  errorOfAnotherCuda,
  type KnownOptions,
  shown,
  type TypedArray,
  whatIs,
} from "../../support/validation.ts";
import { CudaKernel, deviceOfKernel, kernelNode } from "../kernels/cuda_kernel.ts";
import { launchError } from "../kernels/launch_attributes.ts";
import type { LaunchOptions } from "../kernels/launch_options.ts";
import { checkEvent, type CudaEvent, handleOf, isInterprocess, keepEvent } from "../streams/cuda_event.ts";
import type { CudaGraph } from "./cuda_graph.ts";
import { type ConditionOptions, GraphCondition, handleToTest, noteTest } from "./graph_condition.ts";
import { describeNode, type GraphNode, type GraphNodeOrigin, handleOfNode, unsupported } from "./graph_node.ts";
import type { GraphParts } from "./graph_parts.ts";
import { GraphResources } from "./graph_resources.ts";
import { type NodeNote, NodeNotes } from "./node_notes.ts";

/** Options of a node that is added to a graph. */
export interface NodeOptions {
  /** The nodes that must be complete before it begins. Defaults to none: it may begin with the graph. */
  dependencies?: readonly GraphNode[];
  /** The node's name, for `CudaGraph.toDot` and errors. */
  name?: string;
}

/** Options of a node that launches a kernel: those of a launch without its stream, and those of any node. */
export interface KernelNodeOptions
  extends NodeOptions, Omit<LaunchOptions, "stream" | "programmaticStreamSerialization"> {}

/** Options of a conditional node. */
export interface ConditionalOptions extends NodeOptions {
  /**
   * What the node does with its bodies. `"if"`: runs `bodies[0]` if the value is not 0, and else `bodies[1]`, if there is
   * one. `"while"`: runs its body as long as the value is not 0. `"switch"`: runs the body whose index is the value.
   */
  type: "if" | "while" | "switch";
  /** The number of bodies: 1 or 2 for `"if"`, 1 for `"while"`, at least 1 for `"switch"`. Defaults to 1. */
  bodies?: number;
}

const names = { dependencies: true, name: true } as const;

function optionsOfNode(what: string): KnownOptions<NodeOptions> {
  return { action: `add ${what} to a graph`, names, instead: { stream: noStream } };
}

const noStream = "a node has no stream: a launch of the graph has one";

/** Checks the options of a node, and returns the handles of its dependencies. */
function checkNode(parts: GraphParts, { dependencies = [], name }: NodeOptions): bigint[] {
  if (!Array.isArray(dependencies)) {
    throw new TypeError(`Cannot use ${whatIs(dependencies)} as a node's dependencies: give an array, such as [node]`);
  }
  if (name !== undefined && typeof name !== "string") {
    throw new TypeError(`Cannot use ${whatIs(name)} as a node's name: give a string`);
  }
  return [...new Set(dependencies.map((node: GraphNode) => handleOfNode(node, parts)))];
}

/** A node to add. */
interface NewNode {
  /** What the node is, for errors: `"a copy"`. */
  readonly what: string;
  readonly options: NodeOptions;
  /** What is known of it, for changes of it in executable graphs. */
  readonly note?: NodeNote;
  /** What it uses. */
  readonly uses?: GraphResources;
  readonly origin?: GraphNodeOrigin;
  /** Adds the node with the driver, and returns its handle. */
  add(graph: bigint, dependencies: readonly bigint[]): bigint;
  /** Returns the error for one of the driver. */
  failed?(error: unknown): unknown;
}

/** Adds a node whose parameters were checked. */
function addNode(parts: GraphParts, { what, options, note, uses, origin, add, failed }: NewNode): GraphNode {
  const dependencies = checkNode(parts, options);
  let handle: bigint;
  try {
    handle = add(parts.handle, dependencies);
  } catch (error) {
    throw failed?.(error) ?? cannot(`add ${named(what, options)} to a graph of device ${parts.device.ordinal}`, error);
  }
  if (note !== undefined) parts.notes.add(handle, note, parts.session.siteOfCall());
  if (uses !== undefined) parts.resources.addNode(handle, uses);
  return parts.nodeOf(handle, { ...origin, name: options.name });
}

function named(what: string, { name }: NodeOptions): string {
  return name === undefined ? what : `${what} ${JSON.stringify(name)}`;
}

/** Calls a function with resources for what a node uses. If it throws, they are released. */
function withUses(add: (uses: GraphResources) => GraphNode): GraphNode {
  const uses = new GraphResources();
  uses.hold();
  try {
    return add(uses);
  } finally {
    uses.drop();
  }
}

/** Throws for what CUDA does not allow in the body of a conditional node. */
function refuseInBody({ around }: GraphParts, call: string, what: string): void {
  if (around === undefined) return;
  throw cannot(
    `add ${what} to the body of a conditional node`,
    invalid(
      call,
      "a body has kernels, copies, fills, child graphs and conditional nodes; add it to the graph around it",
    ),
  );
}

/** Adds a node that launches a kernel. */
export function addKernel(
  parts: GraphParts,
  kernel: CudaKernel,
  options: KernelNodeOptions,
  args: readonly unknown[],
): GraphNode {
  if (!(kernel instanceof CudaKernel)) {
    throw new TypeError(`Cannot add ${whatIs(kernel, "CudaKernel")} to a graph: give a CudaKernel from module.kernel`);
  }
  const device = deviceOfKernel(kernel);
  if (device.cuda !== parts.device.cuda) throw errorOfAnotherCuda("add a kernel");
  const { launch, node } = dividedOptions(kernel, options);
  return withUses((uses) => {
    const note = parts.root.build(() =>
      kernelNode(kernel, { options: launch, args, capture: parts.root.capture, resources: uses })
    );
    return addNode(parts, {
      what: `the kernel ${kernel.name}`,
      options: node,
      note,
      uses,
      add: (graph, dependencies) =>
        parts.session.driver.graphAddKernelNode(graph, dependencies, note.launch, note.attributes),
      failed: (error) => launchError(error, launch, { kernel, device }),
    });
  });
}

/** Divides the options of a kernel node into those of the launch and those of the node. */
function dividedOptions(
  kernel: CudaKernel,
  options: KernelNodeOptions,
): { readonly launch: LaunchOptions; readonly node: NodeOptions } {
  // What is not an object of options is refused with the launch.
  if (typeof options !== "object" || options === null || Array.isArray(options)) return { launch: options, node: {} };
  const { dependencies, name, ...launch } = options;
  const { stream, programmaticStreamSerialization } = launch as LaunchOptions;
  if (stream !== undefined) throw new TypeError(`Cannot add ${kernel.name} to a graph with a stream: ${noStream}`);
  if (programmaticStreamSerialization !== undefined) {
    throw new TypeError(
      `Cannot add ${kernel.name} to a graph with programmaticStreamSerialization: it is about the kernel before it on a ` +
        "stream; capture a stream for it",
    );
  }
  return {
    launch,
    node: { ...dependencies !== undefined && { dependencies }, ...name !== undefined && { name } },
  };
}

/** The ends of a copy. */
type CopyTarget = DeviceBuffer | HostBuffer | PitchedArray | CudaArray;
type CopySource = CopyTarget | ArrayBufferView | ArrayBuffer;

/** Adds a node that copies. */
export function addCopy(
  parts: GraphParts,
  source: CopySource,
  target: CopyTarget,
  options: NodeOptions,
): GraphNode {
  const { session } = parts;
  checkOptions(options, optionsOfNode("a copy"));
  if (source instanceof CudaArray || target instanceof CudaArray) return addCopyOfArray(parts, source, target, options);
  if (target instanceof PitchedArray) return addCopyOfRows(parts, source, target, options);
  if (source instanceof PitchedArray) {
    throw new TypeError(
      `Cannot copy rows to ${whatIs(target)} in a graph: give its rows, as in buffer.pitched(type, [width, height])`,
    );
  }
  return withUses((uses) => {
    const copy = parts.root.build(() => readCopy(session, { source, target, uses }));
    const { ordinal } = deviceOf([target, source]) ?? parts.device;
    return addNode(parts, {
      what: `a copy of ${countOf(copy.byteLength, "byte")}`,
      options,
      note: { kind: "copy", device: ordinal, copy },
      uses,
      add: (graph, dependencies) => session.driver.graphAddMemcpyNode(ordinal, graph, dependencies, copy),
    });
  });
}

/** Adds a node that copies from or to an array. */
function addCopyOfArray(
  parts: GraphParts,
  source: CopySource,
  target: CopyTarget,
  options: NodeOptions,
): GraphNode {
  const { session } = parts;
  const array = target instanceof CudaArray ? target : source as CudaArray;
  if (stateOfArray(array).session !== session) throw errorOfAnotherCuda("copy an array");
  return withUses((uses) => {
    const copy = parts.root.build(() => {
      const isElements = ArrayBuffer.isView(source) && !(source instanceof DataView) && target instanceof CudaArray;
      if (isElements) {
        const { to, size } = checkElementsForArray(source as TypedArray, target);
        const bytes = keptBytes(session, bytesOf(source), uses);
        keepEnd(to, uses);
        return driverArrayCopy({ ...withoutGaps(size), bytes }, to, size);
      }
      const { from, to, size } = checkArrayEnds(source as PitchedArray, target);
      for (const end of [from, to]) keepEnd(end, uses);
      for (const other of [source, target]) useEnd(other, uses);
      return driverArrayCopy(from, to, size);
    });
    const { ordinal } = array.device;
    return addNode(parts, {
      what: `a copy of ${countOf(copy.width * copy.height * copy.depth, "byte")}`,
      options,
      uses,
      add: (graph, dependencies) => session.driver.graphAddMemcpyNode(ordinal, graph, dependencies, copy),
    });
  });
}

/** Keeps an array at one end of a copy. */
function keepEnd(end: ArrayCopyEnd, uses: GraphResources): void {
  if ("array" in end) uses.keep(end.array, () => end.array.hold());
}

/** Adds the memory at one end of a copy to what a node uses. */
function useEnd(end: unknown, uses: GraphResources): void {
  if (end instanceof PitchedArray) useRows(end, uses);
  else if (end instanceof HostBuffer) uses.hostMemory.add(lifetimeOfHost(end));
  else if (end instanceof DeviceBuffer) use(end, uses);
}

/** Adds a node that copies rows, or the elements of a typed array to rows. */
function addCopyOfRows(
  parts: GraphParts,
  source: DeviceBuffer | HostBuffer | PitchedArray | ArrayBufferView | ArrayBuffer,
  target: PitchedArray,
  options: NodeOptions,
): GraphNode {
  const { session } = parts;
  for (const rows of [source, target]) {
    if (rows instanceof PitchedArray && sessionOfRows(rows) !== session) throw errorOfAnotherCuda("copy rows");
  }
  return withUses((uses) => {
    const copy = parts.root.build(() => {
      if (target.width * target.height * target.depth === 0) {
        throw new RangeError("Cannot add a copy of 0 bytes to a graph: there is nothing to copy");
      }
      useRows(target, uses);
      if (source instanceof PitchedArray) {
        const { from, to, shape } = checkRowsCopy(source, target);
        useRows(source, uses);
        return driverCopy(from, to, shape);
      }
      const array = checkArrayCopy(source as TypedArray, target);
      const { place, shape } = placeOfRows(target);
      const packed = new Uint8Array(shape.width * shape.height * shape.depth);
      copyRows(packed, withoutGaps(shape), array.bytes, array, shape);
      return driverCopy({ ...withoutGaps(shape), bytes: keptBytes(session, packed, uses) }, place, shape);
    });
    const { ordinal } = deviceOf([target.buffer, source instanceof PitchedArray ? source.buffer : undefined]) ??
      parts.device;
    // CUDA can change a copy of one row, and no other.
    const isOneRow = copy.height === 1 && copy.depth === 1;
    const range = { source: copy.source.memory, destination: copy.destination.memory, byteLength: copy.width };
    return addNode(parts, {
      what: `a copy of ${countOf(copy.width * copy.height * copy.depth, "byte")}`,
      options,
      note: isOneRow ? { kind: "copy", device: ordinal, copy: range } : { kind: "rows", device: ordinal, copy },
      uses,
      add: (graph, dependencies) =>
        session.driver.graphAddMemcpyNode(ordinal, graph, dependencies, isOneRow ? range : copy),
    });
  });
}

/** Adds the memory of rows to what a node uses. */
function useRows({ buffer }: PitchedArray, uses: GraphResources): void {
  if (buffer instanceof HostBuffer) uses.hostMemory.add(lifetimeOfHost(buffer));
  else use(buffer, uses);
}

/** Adds a node that fills rows. */
function addFillOfRows(
  parts: GraphParts,
  target: PitchedArray,
  value: number | bigint,
  options: NodeOptions,
): GraphNode {
  const { session } = parts;
  if (sessionOfRows(target) !== session) throw errorOfAnotherCuda("fill rows");
  const { low, high } = elementBits(target.type, value);
  return withUses((uses) => {
    const fill = parts.root.build((): GraphFill => {
      const { place, shape } = placeOfRows(target);
      const { size: { width, height, depth }, ends: [{ pitch }] } = simplifiedRows(shape, [place] as const);
      if (width * height * depth === 0) {
        throw new RangeError("Cannot add a fill of 0 bytes to a graph: there is nothing to fill");
      }
      if (depth > 1 || high !== undefined && high !== low) {
        const why = depth > 1 ? "the rows have three dimensions" : "the halves of the element differ";
        throw new TypeError(
          `Cannot fill rows by one node of a graph: ${why}; capture the fill, as in ` +
            "stream.capture(() => rows.fill(value, stream), { into: graph })",
        );
      }
      useRows(target, uses);
      const elementSize = Math.min(target.type.BYTES_PER_ELEMENT, 4) as GraphFill["elementSize"];
      return { address: target.address, value: low, elementSize, width: width / elementSize, height, pitch };
    });
    const { ordinal } = deviceOf([target.buffer]) ?? parts.device;
    return addNode(parts, {
      what: `a fill of ${countOf(fill.width * fill.elementSize * fill.height, "byte")}`,
      options,
      note: { kind: "fill", device: ordinal, fill },
      uses,
      add: (graph, dependencies) => session.driver.graphAddMemsetNode(ordinal, graph, dependencies, fill),
    });
  });
}

/** Returns the device of the first buffer that has one. */
function deviceOf(buffers: readonly unknown[]): { readonly ordinal: number } | undefined {
  const found = buffers.find((buffer) => buffer instanceof DeviceBuffer && !allocationOf(buffer).owner.isHostMemory);
  return (found as DeviceBuffer | undefined)?.device;
}

/** Checks a copy, and returns it. Bytes of the program that copies would read later are copied. */
export function readCopy(session: Session, { source, target, uses }: {
  readonly source: DeviceBuffer | HostBuffer | ArrayBufferView | ArrayBuffer;
  readonly target: DeviceBuffer | HostBuffer;
  /** Gets what the copy uses. */
  readonly uses: GraphResources;
}): GraphCopy {
  if (ArrayBuffer.isView(target)) {
    throw new TypeError(
      `Cannot copy to ${whatIs(target)} in a graph: copy to a HostBuffer, and look into its buffer after a launch`,
    );
  }
  if (!(target instanceof DeviceBuffer)) checkHostTarget(target, session);
  else checkSession(target, session);
  if (source instanceof DeviceBuffer) checkSession(source, session);
  else if (!ArrayBuffer.isView(source)) checkHostSource(source, session);
  if (target instanceof DeviceArray) {
    if (source instanceof DeviceArray) checkCopyBetween(source.type, target.type);
    else if (ArrayBuffer.isView(source)) checkCopyFromView(source, target.type);
  }
  const { byteLength } = source;
  checkRange(0, byteLength, target.byteLength, source);
  if (!(source instanceof DeviceBuffer) && byteLength === 0) checkNotTransferred(source);
  if (byteLength === 0) throw new RangeError("Cannot add a copy of 0 bytes to a graph: there is nothing to copy");
  if (source instanceof DeviceBuffer && target instanceof DeviceBuffer) {
    checkEnds(placeOf(source), placeOf(target), byteLength);
  }
  const from = source instanceof DeviceBuffer
    ? use(source, uses)
    : source instanceof HostBuffer
    ? useHost(source, byteLength, uses)
    : keptBytes(session, bytesOf(source), uses);
  const to = target instanceof DeviceBuffer ? use(target, uses) : useHost(target, byteLength, uses);
  return { source: from, destination: to, byteLength };
}

function checkSession(buffer: DeviceBuffer, session: Session): void {
  if (allocationOf(buffer).session !== session) throw errorOfAnotherCuda("use a buffer");
}

function placeOf(buffer: DeviceBuffer): { readonly allocation: Allocation; readonly address: bigint } {
  return { allocation: allocationOf(buffer), address: buffer.address };
}

function use(buffer: DeviceBuffer, uses: GraphResources): bigint {
  const { address } = buffer;
  uses.allocations.add(allocationOf(buffer));
  return address;
}

function useHost(memory: HostBuffer, byteLength: number, uses: GraphResources): Uint8Array {
  const bytes = bytesOfHost(memory);
  uses.hostMemory.add(lifetimeOfHost(memory));
  return bytes.subarray(0, byteLength);
}

/** Returns bytes that launches read: page-locked memory of the program, or a page-locked copy of them. */
function keptBytes(session: Session, bytes: Uint8Array<ArrayBuffer>, uses: GraphResources): Uint8Array {
  const memory = session.allocateHost(bytes.byteLength);
  uses.keep(memory, () => () => session.freeHost(memory));
  const copy = new Uint8Array(memory.buffer, 0, bytes.byteLength);
  copy.set(bytes);
  return copy;
}

/** Adds a node that fills, or one that runs a graph that fills. */
export function addFill(
  parts: GraphParts,
  target: DeviceBuffer | PitchedArray,
  value: number | bigint,
  options: NodeOptions,
): GraphNode {
  const { session } = parts;
  checkOptions(options, optionsOfNode("a fill"));
  if (target instanceof PitchedArray) return addFillOfRows(parts, target, value, options);
  if (!(target instanceof DeviceBuffer)) {
    throw new TypeError(
      `Cannot fill ${whatIs(target, "DeviceBuffer")} in a graph: give a DeviceBuffer or a DeviceArray`,
    );
  }
  checkSession(target, session);
  const { bits, size } = valueToFill(target, value);
  const { byteLength } = target;
  if (byteLength === 0) throw new RangeError("Cannot add a fill of 0 bytes to a graph: there is nothing to fill");
  return withUses((uses) => {
    const address = parts.root.build(() => use(target, uses));
    const { ordinal } = deviceOf([target]) ?? parts.device;
    const what = `a fill of ${countOf(byteLength, "byte")}`;
    const { low, high } = bits;
    if (high === undefined || high === low) {
      const elementSize = Math.min(size, 4) as 1 | 2 | 4;
      const fill = { address, value: low, elementSize, width: byteLength / elementSize, height: 1, pitch: 0 };
      return addNode(parts, {
        what,
        options,
        note: { kind: "fill", device: ordinal, fill },
        uses,
        add: (graph, dependencies) => session.driver.graphAddMemsetNode(ordinal, graph, dependencies, fill),
      });
    }
    const notes = new NodeNotes();
    const all: GraphFill = { address, value: low, elementSize: 1, width: byteLength, height: 1, pitch: 0 };
    notes.add(0n, { kind: "fill", device: ordinal, fill: all });
    return addNode(parts, {
      what,
      options,
      note: { kind: "graph", notes },
      uses,
      add: (graph, dependencies) =>
        addWideFill(session, { graph, dependencies, device: ordinal, address, byteLength, low, high }),
    });
  });
}

/** Returns the bits of a value as an element of an array, or as a byte. */
export function valueToFill(
  target: DeviceBuffer | undefined,
  value: number | bigint,
): { bits: ElementBits; size: number } {
  if (target instanceof DeviceArray) {
    return { bits: elementBits(target.type, value), size: target.type.BYTES_PER_ELEMENT };
  }
  checkByte(value);
  return { bits: { low: value, high: undefined }, size: 1 };
}

/**
 * Adds a fill with elements of 64 bits, of which CUDA sets at most 32 at once: a node that runs a graph of two fills, for
 * the halves of the elements, and of copies that repeat them.
 */
function addWideFill(
  { driver }: Session,
  { graph, dependencies, device, address, byteLength, low, high }: {
    readonly graph: bigint;
    readonly dependencies: readonly bigint[];
    readonly device: number;
    readonly address: bigint;
    readonly byteLength: number;
    readonly low: number;
    readonly high: number;
  },
): bigint {
  const size = 8;
  const height = Math.min(byteLength / size, elementsToCopy);
  const half: Omit<GraphFill, "address" | "value"> = { elementSize: 4, width: 1, height, pitch: size };
  const child = driver.graphCreate();
  try {
    let before = [
      driver.graphAddMemsetNode(device, child, [], { ...half, address, value: low }),
      driver.graphAddMemsetNode(device, child, [], { ...half, address: address + 4n, value: high }),
    ];
    for (let end = size * height; end < byteLength; end *= 2) {
      const copied = {
        source: address,
        destination: address + BigInt(end),
        byteLength: Math.min(end, byteLength - end),
      };
      before = [driver.graphAddMemcpyNode(device, child, before, copied)];
    }
    return driver.graphAddChildGraphNode(graph, dependencies, child);
  } finally {
    driver.graphDestroy(child);
  }
}

/** Adds a node that records an event, or one that waits for an event. */
export function addEvent(
  parts: GraphParts,
  kind: "record" | "wait",
  event: CudaEvent,
  options: NodeOptions,
): GraphNode {
  const what = kind === "record" ? "a record of an event" : "a wait for an event";
  const { driver } = parts.session;
  checkOptions(options, optionsOfNode(what));
  checkEvent(event, parts.session);
  refuseInBody(parts, kind === "record" ? "cudaGraphAddEventRecordNode" : "cudaGraphAddEventWaitNode", what);
  if (isInterprocess(event)) {
    throw new TypeError(
      `Cannot add ${what} to a graph that other processes can open: record it on a stream behind a launch, or wait for ` +
        "it before one",
    );
  }
  parts.resources.hasEvents = true;
  return withUses((uses) => {
    uses.keep(event, () => keepEvent(event));
    // The library does not know when launches record the event.
    const handle = kind === "record" ? event.unsafeHandle : handleOf(event);
    return addNode(parts, {
      what,
      options,
      note: { kind, event: handle },
      uses,
      add: (graph, dependencies) =>
        kind === "record"
          ? driver.graphAddEventRecordNode(graph, dependencies, handle)
          : driver.graphAddEventWaitNode(graph, dependencies, handle),
    });
  });
}

/** Adds a node that does nothing. */
export function addEmpty(parts: GraphParts, options: NodeOptions): GraphNode {
  checkOptions(options, optionsOfNode("an empty node"));
  return addNode(parts, {
    what: "an empty node",
    options,
    add: (graph, dependencies) => parts.session.driver.graphAddEmptyNode(graph, dependencies),
  });
}

/** Adds a node that runs another graph: a copy of it, or, if it allocates or frees memory, the graph itself. */
export function addGraph(
  parts: GraphParts,
  child: GraphParts,
  options: NodeOptions,
): GraphNode {
  checkOptions(options, optionsOfNode("a graph"));
  const call = "cudaGraphAddChildGraphNode";
  const what = "add a graph to a graph";
  if (child.device.cuda !== parts.device.cuda) throw errorOfAnotherCuda("add a graph");
  if (child.around !== undefined) {
    throw new TypeError("Cannot add the body of a conditional node to a graph: add its nodes to a graph of their own");
  }
  void [parts.handle, child.handle];
  if (child.root === parts.root) {
    const why = "a graph cannot be a part of itself; add a clone of it";
    throw cannot(what, invalid(call, why));
  }
  if (child.root.hasConditions) {
    throw cannot(what, unsupported(call, "it has conditions, and CUDA copies no such graph; add its nodes here"));
  }
  const { owned, freedOfOthers } = child.resources;
  const isMoved = owned.size > 0 || freedOfOthers.size > 0;
  if (isMoved) {
    refuseInBody(parts, call, "a graph that allocates or frees memory");
    if (child.root.executables > 0) {
      throw cannot(
        what,
        unsupported(call, "it allocates or frees memory, so it moves there; dispose of its executable graphs"),
      );
    }
  }
  try {
    child.root.checkNotCaptured(call);
  } catch (error) {
    throw cannot(what, error);
  }
  const hasEvents = () =>
    child.resources.hasEvents || child.nodes.some(({ type }) => type === "record" || type === "wait");
  if (parts.around !== undefined && hasEvents()) refuseInBody(parts, call, "a graph with events");
  const node = addNode(parts, {
    what: "a graph",
    options,
    note: { kind: "graph", notes: child.notes.copy((node) => node) },
    add: (graph, dependencies) =>
      parts.session.driver.graphAddChildGraphNode(graph, dependencies, child.handle, isMoved),
  });
  parts.resources.adopt(isMoved ? child.resources : child.resources.copy());
  if (isMoved) child.root.leave("it was moved into another graph by addGraph");
  return node;
}

/** Adds a node that allocates memory with the properties of a pool. */
export function addAllocation(
  parts: GraphParts,
  pool: MemoryPool,
  byteLength: number,
  options: NodeOptions,
): { node: GraphNode; buffer: DeviceBuffer } {
  const call = "cudaGraphAddMemAllocNode";
  const what = "an allocation";
  checkOptions(options, optionsOfNode(what));
  if (!(pool instanceof MemoryPool)) {
    throw new TypeError(
      `Cannot allocate from ${whatIs(pool, "MemoryPool")} in a graph: give a MemoryPool from createPool`,
    );
  }
  const { session } = parts;
  if (session.pools.get(pool.unsafeHandle) !== pool) throw errorOfAnotherCuda("allocate from a pool");
  checkByteLength(byteLength, "an allocation's size", 1);
  refuseInBody(parts, call, what);
  const { device } = pool;
  if (device === undefined || pool.handleType !== "none") {
    const why = device === undefined
      ? "a graph allocates memory of devices only; use a pool of a device, or memory from before"
      : 'a graph\'s memory cannot be shared; use a pool with handleType "none", or memory from before';
    throw cannot(`add ${what} to a graph`, unsupported(call, why));
  }
  const location = { type: memLocationType.device, id: device.ordinal };
  let address = 0n;
  const node = addNode(parts, {
    what: `${what} of ${countOf(byteLength, "byte")}`,
    options,
    add(graph, dependencies) {
      const props = { handleTypes: 0, location, maxSize: 0n };
      const added = session.driver.graphAddMemAllocNode(graph, dependencies, props, accessesOf(pool), byteLength);
      address = added.address;
      return added.node;
    },
  });
  parts.notes.add(node.unsafeHandle, { kind: "allocate", address, byteLength }, session.siteOfCall());
  const { allocation, buffer } = memoryOfPool(pool).memoryOfGraph(address, byteLength, device.defaultStream);
  parts.resources.own(allocation, buffer, { isCaptured: parts.root.captures.size > 0 });
  return { node, buffer };
}

/** Returns the access that other devices have to memory of a pool. */
function accessesOf(pool: MemoryPool) {
  const { ordinal, cuda } = pool.device!;
  return cuda.devices.filter((device) => device.ordinal !== ordinal && pool.getAccess(device) !== "none").map(
    (device) => {
      return { location: { type: memLocationType.device, id: device.ordinal }, flags: memAccessFlags.readWrite };
    },
  );
}

/** Adds a node that frees memory of a graph. */
export function addFree(parts: GraphParts, buffer: DeviceBuffer, options: NodeOptions): GraphNode {
  const call = "cudaGraphAddMemFreeNode";
  const what = "a free";
  checkOptions(options, optionsOfNode(what));
  if (!(buffer instanceof DeviceBuffer)) {
    throw new TypeError(`Cannot free ${whatIs(buffer, "DeviceBuffer")} in a graph: give a buffer from addAllocation`);
  }
  checkSession(buffer, parts.session);
  refuseInBody(parts, call, what);
  const allocation = allocationOf(buffer);
  const { resources } = parts;
  const refuse = (why: string) => cannot(`add ${what} to a graph`, invalid(call, why));
  if (allocation.owner.isGraphMemory !== true) {
    throw refuse(
      "the buffer is not a graph's: a graph frees what addAllocation, or allocate in a capture, has allocated",
    );
  }
  if (buffer.byteLength !== allocation.byteLength) throw refuse("it is part of a buffer; give the whole buffer");
  if (resources.frees(allocation)) throw refuse("the graph frees the buffer already");
  const { address } = allocation;
  const node = addNode(parts, {
    what,
    options,
    note: { kind: "free", address },
    add: (graph, dependencies) => parts.session.driver.graphAddMemFreeNode(graph, dependencies, address),
  });
  resources.free(allocation);
  return node;
}

/** Creates a value that nodes of a graph test. */
export function createCondition(parts: GraphParts, options: ConditionOptions): GraphCondition {
  checkOptions(options, { action: "create a condition", names: { defaultValue: true } });
  const { defaultValue } = options;
  if (defaultValue !== undefined) {
    checkNumber(defaultValue, "a condition's defaultValue");
    if (!Number.isInteger(defaultValue) || defaultValue < 0 || defaultValue > 2 ** 32 - 1) {
      throw new RangeError(
        `Cannot use ${defaultValue} as a condition's defaultValue: give a whole number from 0 to ${2 ** 32 - 1}`,
      );
    }
  }
  try {
    const { driver } = parts.session;
    const handle = driver.graphConditionalHandleCreate(parts.device.ordinal, parts.handle, defaultValue);
    parts.root.hasConditions = true;
    return new GraphCondition(parts, { handle });
  } catch (error) {
    throw cannot(`create a condition of a graph of device ${parts.device.ordinal}`, error);
  }
}

const mostBodies = { if: 2, while: 1, switch: 2 ** 31 - 1 } as const;

/** Adds a conditional node. `createBody` creates the object of a body. */
export function addConditional(
  parts: GraphParts,
  condition: GraphCondition,
  { options, createBody }: { readonly options: ConditionalOptions; readonly createBody: (handle: bigint) => CudaGraph },
): GraphNode {
  const { type, bodies: size = 1, ...node } = checkConditional(options);
  const { handle, isUsed } = handleToTest(condition, parts);
  const what = "a conditional node";
  if (isUsed) {
    const why = "another node tests the condition; create one for each node";
    const error = invalid("cudaGraphAddNode", why);
    throw cannot(`add ${named(what, node)} to a graph of device ${parts.device.ordinal}`, error);
  }
  let handles: readonly bigint[] = [];
  return addNode(parts, {
    what,
    options: node,
    add(graph, dependencies) {
      const conditional = { handle, type: conditionalNodeType[type], size };
      const added = parts.session.driver.graphAddConditionalNode(
        parts.device.ordinal,
        graph,
        dependencies,
        conditional,
      );
      handles = added.bodies;
      noteTest(condition);
      return added.node;
    },
    origin: { createBodies: () => handles.map(createBody) },
  });
}

function checkConditional(options: ConditionalOptions): ConditionalOptions {
  checkOptions(options, {
    action: "add a conditional node to a graph",
    names: { ...names, type: true, bodies: true },
    required: '{ type }, such as { type: "while" }',
    instead: { stream: noStream },
  });
  const { type, bodies = 1 } = options;
  if (!Object.hasOwn(mostBodies, type)) {
    throw new TypeError(`Cannot add a conditional node of the type ${shown(type)}: give "if", "while" or "switch"`);
  }
  checkNumber(bodies, "the number of bodies");
  const most = mostBodies[type];
  if (!Number.isInteger(bodies) || bodies < 1 || bodies > most) {
    const range = type === "switch" ? "at least 1" : most === 1 ? "1" : "1 or 2";
    throw new RangeError(`Cannot add a conditional node of the type "${type}" with ${bodies} bodies: it has ${range}`);
  }
  return options;
}

/** Adds a dependency between two nodes, or removes it. */
export function changeDependency(
  parts: GraphParts,
  action: "add" | "remove",
  [from, to]: readonly [from: GraphNode, to: GraphNode],
): void {
  const { driver } = parts.session;
  const edge = [handleOfNode(from, parts), handleOfNode(to, parts)] as const;
  const call = action === "add" ? "cudaGraphAddDependencies" : "cudaGraphRemoveDependencies";
  const has = () =>
    driver.graphGetEdges(parts.handle).some(([first, second]) => first === edge[0] && second === edge[1]);
  try {
    if (action === "add") {
      if (edge[0] === edge[1]) throw invalid(call, "a node cannot wait for itself");
      if (has()) throw invalid(call, "it waits for that already");
      driver.graphAddDependencies(parts.handle, [edge]);
    } else {
      if (!has()) throw invalid(call, "it does not wait for that directly");
      driver.graphRemoveDependencies(parts.handle, [edge]);
    }
    parts.root.version++;
  } catch (error) {
    const what = action === "add" ? "make" : "no longer make";
    const isKept = error instanceof CudaError && error.code === "cudaErrorNotSupported";
    throw cannot(`${what} ${describeNode(to)} wait for ${describeNode(from)}`, error, isKept ? keepsEdges : undefined);
  }
}

const keepsEdges = "a graph that allocates or frees memory keeps its dependencies; build another one";

function invalid(call: string, why: string): CudaError {
  return explainedError(cudaErrorNumbers.cudaErrorInvalidValue, call, why);
}
