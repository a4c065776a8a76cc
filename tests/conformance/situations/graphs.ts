/**
 * Rows about graphs that are built by hand, and about changing executable graphs.
 *
 * @module
 */
import {
  defaultStream,
  type Driver,
  eventFlags,
  externalEvent,
  type GraphFill,
  graphNodeType,
  type KernelLaunch,
  type LaunchAttributes,
  streamCaptureMode,
} from "../../../src/driver.ts";
import { CudaError } from "../../../src/support/errors.ts";
import { GraphError } from "../../../src/support/graph_errors.ts";
import { attemptEach, type Attempts } from "../attempts.ts";
import { byteLength, endOf, forkAndJoin, modes, nameOfStatus, type Parts, prepare, shapeOf } from "../graph_parts.ts";
import { kernelsPtx } from "../kernels.ts";
import { fillLaunch, readBytes } from "../launch.ts";
import { prepareLongWork } from "../long_work.ts";
import { createPool, onDevice } from "../pools.ts";
import type { Answer, Situation } from "../situation.ts";

const noAttributes: LaunchAttributes = {
  clusterDim: undefined,
  cooperative: false,
  programmaticStreamSerialization: false,
  priority: undefined,
};

const eachAttribute: Readonly<Record<string, Partial<LaunchAttributes>>> = {
  none: {},
  cooperative: { cooperative: true },
  "priority 0": { priority: 0 },
  "priority -1": { priority: -1 },
  programmatic: { programmaticStreamSerialization: true },
  "cluster of one block": { clusterDim: [1, 1, 1] },
};

/** Graphs with a copy, and with a captured fill, of memory that was freed. */
interface FreedParts {
  readonly graph: bigint;
  readonly captured: bigint;
  readonly exec: bigint;
  readonly otherExec: bigint;
  /** A fill of `otherExec`. */
  readonly node: bigint;
  readonly pooled: bigint;
  readonly unpooled: bigint;
  readonly address: bigint;
}

const actionsOnFreedMemory: Readonly<Record<string, (driver: Driver, parts: FreedParts) => unknown>> = {
  "a captured fill instantiated": (driver, { captured }) => driver.graphInstantiate(captured, 0),
  "a fill added": (driver, { graph, pooled }) => driver.graphAddMemsetNode(0, graph, [], fillOf(pooled, 1)),
  "a copy added": (driver, { graph, unpooled, address }) =>
    driver.graphAddMemcpyNode(0, graph, [], { source: unpooled, destination: address, byteLength: 4 }),
  "a fill changed": (driver, { otherExec, node, unpooled }) =>
    driver.graphExecMemsetNodeSetParams(0, otherExec, node, fillOf(unpooled, 1)),
  "a fill updated": (driver, { otherExec, captured }) => driver.graphExecUpdate(otherExec, captured),
  "the same fill updated": (driver, { exec, captured }) => driver.graphExecUpdate(exec, captured),
};

/** What the rows use, and a graph. */
interface GraphParts extends Parts {
  readonly graph: bigint;
  /** Returns a launch that fills bytes of the memory, from `offset` on. */
  launchOf(byte: number, offset?: number, length?: number): KernelLaunch;
  /** Adds a kernel that fills bytes of the memory. */
  addKernel(byte: number, offset?: number, after?: readonly bigint[]): bigint;
  /** Adds a fill of bytes of the memory. */
  addFill(byte: number, offset?: number, after?: readonly bigint[]): bigint;
  /** Returns an executable graph. */
  instantiate(): bigint;
  /** Launches an executable graph, and returns the first bytes of the memory. */
  bytesAfter(exec: bigint, count?: number): number[];
}

function prepareGraph(driver: Driver): GraphParts {
  const parts = prepare(driver);
  const { address, kernel, stream } = parts;
  const graph = driver.graphCreate();
  const launchOf = (byte: number, offset = 0, length = 4) => {
    const pattern = 0x01010101 * byte;
    return fillLaunch(driver, { device: 0, kernel }, {
      address: address + BigInt(offset),
      byteLength: length,
      pattern,
    });
  };
  return {
    ...parts,
    graph,
    launchOf,
    addKernel: (byte, offset, after = []) => driver.graphAddKernelNode(graph, after, launchOf(byte, offset)),
    addFill: (byte, offset, after = []) => driver.graphAddMemsetNode(0, graph, after, fillOf(address, byte, offset)),
    instantiate: () => driver.graphInstantiate(graph, 0),
    bytesAfter(exec, count = 4) {
      driver.graphLaunch(0, exec, stream);
      driver.streamSynchronize(0, stream);
      return readBytes(driver, 0, address, count);
    },
  };
}

/** A fill of 4 bytes. */
function fillOf(address: bigint, value: number, offset = 0): GraphFill {
  return { address: address + BigInt(offset), value, elementSize: 1, width: 4, height: 1, pitch: 0 };
}

/** The error of a call about a whole graph: its code, CUDA's reason, and the place of the node among the given ones. */
function errorOf(call: () => unknown, nodes: readonly bigint[]): Answer {
  try {
    call();
    return "done";
  } catch (error) {
    if (error instanceof GraphError) {
      const { code, result, node } = error;
      return { code, result, node: node === undefined ? null : nodes.indexOf(node) };
    }
    if (error instanceof CudaError) return error.code;
    throw error;
  }
}

/** Builds a graph with `build`, makes it executable, and compares the update by a graph that `rebuild` has built. */
function updated(
  driver: Driver,
  build: (parts: GraphParts) => void,
  rebuild: (parts: GraphParts) => void,
): Answer {
  const parts = prepareGraph(driver);
  build(parts);
  const exec = parts.instantiate();
  const next = prepareGraph(driver);
  // Both graphs use the memory of the first one.
  const again: GraphParts = {
    ...parts,
    graph: next.graph,
    addKernel: (byte, offset, after = []) => driver.graphAddKernelNode(next.graph, after, parts.launchOf(byte, offset)),
    addFill: (byte, offset, after = []) =>
      driver.graphAddMemsetNode(0, next.graph, after, fillOf(parts.address, byte, offset)),
  };
  rebuild(again);
  const update = errorOf(() => driver.graphExecUpdate(exec, next.graph), driver.graphGetNodes(next.graph));
  return { update, bytes: parts.bytesAfter(exec, 8) };
}

/** Calls about graphs while a stream is captured, which name no captured stream. */
const unrelatedCalls: Readonly<Record<string, (parts: GraphParts & { exec: bigint; node: bigint }) => unknown>> = {
  "a graph created": ({ driver }) => driver.graphCreate(),
  "a kernel added to a graph": ({ addKernel }) => addKernel(1),
  "an executable graph uploaded": ({ driver, exec, other }) => driver.graphUpload(0, exec, other),
  "an executable graph launched": ({ driver, exec, other }) => driver.graphLaunch(0, exec, other),
  "a kernel of an executable graph changed": ({ driver, exec, node, launchOf }) =>
    driver.graphExecKernelNodeSetParams(exec, node, launchOf(2)),
  "an executable graph updated": ({ driver, exec, graph }) => driver.graphExecUpdate(exec, graph),
  "a node of an executable graph disabled": ({ driver, exec, node }) => driver.graphNodeSetEnabled(exec, node, false),
  "a graph cloned": ({ driver, graph }) => driver.graphClone(graph),
  "a graph described": ({ driver, graph }) => driver.graphDebugDotPrint(graph, 0).length > 0,
  "an allocation added to a graph": ({ driver, graph }) =>
    driver.graphAddMemAllocNode(graph, [], { handleTypes: 0, location: onDevice(0), maxSize: 0n }, [], byteLength),
  "the memory of graphs trimmed": ({ driver }) => driver.deviceGraphMemTrim(0),
  "the memory of graphs asked for": ({ driver }) => Number(driver.deviceGetGraphMemAttribute(0, 0)),
  "a high mark of the memory of graphs reset": ({ driver }) => driver.deviceSetGraphMemAttribute(0, 1, 0n),
};

const fills: Readonly<Record<string, Partial<GraphFill>>> = {
  "a value of 9 bits": { value: 0x1ff },
  "2 bytes": { elementSize: 2, width: 2, value: 0x0102 },
  "2 bytes with a value of 17 bits": { elementSize: 2, width: 2, value: 0x1ffff },
  "4 bytes": { elementSize: 4, width: 1, value: 0x01020304 },
  "3 bytes": { elementSize: 3 as 1 },
  "8 bytes": { elementSize: 8 as 1 },
  "no values": { width: 0 },
  "no rows": { height: 0 },
  "two rows": { width: 2, height: 2, pitch: 4 },
  "two rows that overlap": { width: 4, height: 2, pitch: 2 },
  "two rows, no distance": { width: 4, height: 2, pitch: 0 },
  "one row with a distance": { width: 4, height: 1, pitch: 2 },
};

/** The rows of this file. */
export const situations: readonly Situation[] = [
  {
    name: "an empty graph created, instantiated and launched",
    run({ driver }) {
      const { graph, instantiate, bytesAfter } = prepareGraph(driver);
      return { shape: shapeOf(driver, graph), bytes: bytesAfter(instantiate()) };
    },
  },
  {
    name: "a graph of each kind of node, built by hand and launched",
    run({ driver }) {
      const { graph, address, event, addKernel, addFill, instantiate, bytesAfter } = prepareGraph(driver);
      const kernel = addKernel(1);
      const fill = addFill(2, 4);
      const empty = driver.graphAddEmptyNode(graph, [kernel, fill]);
      const copy = { source: address + 4n, destination: address + 8n, byteLength: 4 };
      const copied = driver.graphAddMemcpyNode(0, graph, [empty], copy);
      const record = driver.graphAddEventRecordNode(graph, [copied], event);
      driver.graphAddEventWaitNode(graph, [record], event);
      const child = driver.graphCreate();
      driver.graphAddMemsetNode(0, child, [], fillOf(address, 3, 12));
      driver.graphAddChildGraphNode(graph, [empty], child);
      return { shape: shapeOf(driver, graph), bytes: bytesAfter(instantiate(), 16) };
    },
  },
  {
    name: "a node with the same dependency twice",
    run({ driver }) {
      const { graph, addKernel } = prepareGraph(driver);
      const node = addKernel(1);
      driver.graphAddEmptyNode(graph, [node, node]);
      return shapeOf(driver, graph);
    },
  },
  {
    name: "a node that depends on a node of another graph",
    run({ driver }) {
      const { addKernel } = prepareGraph(driver);
      driver.graphAddEmptyNode(driver.graphCreate(), [addKernel(1)]);
    },
  },
  {
    name: "edges added: twice, the other way around, from a node to itself, and to a node of another graph",
    run({ driver }) {
      const { graph, addKernel } = prepareGraph(driver);
      const [first, second] = [addKernel(1), addKernel(2)];
      const foreign = driver.graphAddEmptyNode(driver.graphCreate(), []);
      const answers = attemptEach({
        none: () => driver.graphAddDependencies(graph, []),
        once: () => driver.graphAddDependencies(graph, [[first, second]]),
        twice: () => driver.graphAddDependencies(graph, [[first, second]]),
        itself: () => driver.graphAddDependencies(graph, [[first, first]]),
        foreign: () => driver.graphAddDependencies(graph, [[first, foreign]]),
      });
      return { ...answers, shape: shapeOf(driver, graph) };
    },
  },
  {
    name: "edges removed: one, one that there is not, and all with a node",
    run({ driver }) {
      const { graph, addKernel } = prepareGraph(driver);
      const first = addKernel(1);
      const second = addKernel(2, 0, [first]);
      const third = addKernel(3, 0, [first, second]);
      const answers = attemptEach({
        one: () => driver.graphRemoveDependencies(graph, [[first, third]]),
        again: () => driver.graphRemoveDependencies(graph, [[first, third]]),
        reversed: () => driver.graphRemoveDependencies(graph, [[second, first]]),
        node: () => driver.graphDestroyNode(second),
      });
      return { ...answers, shape: shapeOf(driver, graph) };
    },
  },
  {
    name: "a graph whose nodes depend on each other in a circle",
    run({ driver }) {
      const { graph, addKernel } = prepareGraph(driver);
      const first = addKernel(1);
      const second = addKernel(2, 0, [first]);
      const third = addKernel(3, 0, [second]);
      const added = attemptEach({ add: () => driver.graphAddDependencies(graph, [[third, second]]) });
      const nodes = [first, second, third];
      const error = errorOf(() => driver.graphInstantiate(graph, 0), nodes);
      return { ...added, error };
    },
  },
  {
    name: "kernels added to a graph with launches that are wrong",
    run({ driver }) {
      const { graph, launchOf } = prepareGraph(driver);
      const add = (change: Partial<KernelLaunch>) => () =>
        driver.graphAddKernelNode(graph, [], Object.assign(launchOf(1), change));
      const answers = attemptEach({
        "no blocks": add({ gridX: 0 }),
        "no threads": add({ blockX: 0 }),
        "too many threads": add({ blockX: 1025 }),
        "too much shared memory": add({ sharedMemoryBytes: 2 ** 20 }),
      });
      return { ...answers, count: driver.graphGetNodes(graph).length };
    },
  },
  {
    name: "kernels with wrong launches in an executable graph",
    run({ driver }) {
      const { addKernel, launchOf, instantiate, bytesAfter } = prepareGraph(driver);
      const node = addKernel(1);
      const exec = instantiate();
      const set = (change: Partial<KernelLaunch>) => () =>
        driver.graphExecKernelNodeSetParams(exec, node, Object.assign(launchOf(2), change));
      const answers = attemptEach({
        "no blocks": set({ gridX: 0 }),
        "too many threads": set({ blockX: 1025 }),
        "too much shared memory": set({ sharedMemoryBytes: 2 ** 20 }),
      });
      return { ...answers, bytes: bytesAfter(exec) };
    },
  },
  ...Object.entries(fills).map(([name, change]): Situation => ({
    name: `a fill in a graph: ${name}`,
    run({ driver }) {
      const { graph, address, instantiate, bytesAfter } = prepareGraph(driver);
      driver.graphAddMemsetNode(0, graph, [], { ...fillOf(address, 7), ...change });
      return bytesAfter(instantiate(), 8);
    },
  })),
  {
    name: "fills in a graph: at an address that is not aligned, and at the null address",
    run({ driver }) {
      const { graph, address } = prepareGraph(driver);
      const add = (change: Partial<GraphFill>) => () =>
        driver.graphAddMemsetNode(0, graph, [], { ...fillOf(address, 7), ...change });
      return attemptEach({
        "2 bytes": add({ elementSize: 2, address: address + 1n }),
        "4 bytes": add({ elementSize: 4, address: address + 2n }),
        "the null address": add({ address: 0n }),
      });
    },
  },
  {
    name: "copies in a graph between an array of the host and a device",
    run({ driver }) {
      const { graph, address, instantiate, bytesAfter } = prepareGraph(driver);
      const [from, to] = [new Uint8Array(4096).fill(5), new Uint8Array(4096)];
      const node = driver.graphAddMemcpyNode(0, graph, [], { source: from, destination: address, byteLength: 4 });
      driver.graphAddMemcpyNode(0, graph, [node], { source: address, destination: to, byteLength: 4 });
      const exec = instantiate();
      from.fill(6);
      return { bytes: bytesAfter(exec), to: [...to.subarray(0, 5)] };
    },
  },
  {
    name: "copies in a graph: page-locked memory by its address",
    run({ driver }) {
      const { graph, address, instantiate, bytesAfter } = prepareGraph(driver);
      const host = driver.hostAlloc(64);
      const bytes = new Uint8Array(host.buffer).fill(5);
      const on = driver.hostGetDevicePointer(host);
      const node = driver.graphAddMemcpyNode(0, graph, [], { source: on, destination: address, byteLength: 4 });
      const back = { source: address, destination: on + 8n, byteLength: 4 };
      driver.graphAddMemcpyNode(0, graph, [node], back);
      const exec = instantiate();
      bytes[0] = 6;
      return { bytes: bytesAfter(exec), host: [...bytes.subarray(6, 14)] };
    },
  },
  {
    name: "copies in a graph: of nothing, and of the null address",
    run({ driver }) {
      const { graph, address } = prepareGraph(driver);
      const add = (source: bigint, length: number) => () =>
        driver.graphAddMemcpyNode(0, graph, [], { source, destination: address, byteLength: length });
      return attemptEach({ nothing: add(address + 4n, 0), null: add(0n, 4) });
    },
  },
  {
    name: "a graph to which nodes are added after it was instantiated",
    run({ driver }) {
      const { addKernel, instantiate, bytesAfter } = prepareGraph(driver);
      const node = addKernel(1);
      const exec = instantiate();
      addKernel(2, 0, [node]);
      return { before: bytesAfter(exec), after: bytesAfter(instantiate()) };
    },
  },
  {
    name: "a node destroyed in the graph of an executable graph, and the executable graph launched",
    run({ driver }) {
      const { address, stream, addKernel, instantiate, bytesAfter } = prepareGraph(driver);
      const node = addKernel(1);
      const exec = instantiate();
      driver.graphDestroyNode(node);
      const before = bytesAfter(exec);
      driver.memsetAsync(0, address, 0, byteLength, stream);
      return { before, after: bytesAfter(instantiate()) };
    },
  },
  {
    name: "a graph cloned, and the clone's nodes",
    run({ driver }) {
      const { graph, addKernel, addFill, bytesAfter } = prepareGraph(driver);
      const node = addKernel(1);
      const fill = addFill(2, 1, [node]);
      const clone = driver.graphClone(graph);
      const answers = attemptEach({
        find: () => driver.graphNodeFindInClone(fill, clone) !== fill,
        "find a node of the clone": () => driver.graphNodeFindInClone(driver.graphNodeFindInClone(fill, clone), clone),
        "find in the original": () => driver.graphNodeFindInClone(fill, graph),
        "add to the original": () => addKernel(3, 8, [fill]),
        "find a node that was added": () => driver.graphNodeFindInClone(driver.graphGetNodes(graph)[2]!, clone),
        "destroy a node of the clone": () => driver.graphDestroyNode(driver.graphNodeFindInClone(fill, clone)),
        "find it again": () => driver.graphNodeFindInClone(fill, clone),
        "destroy the original": () => driver.graphDestroy(graph),
      });
      return { ...answers, shape: shapeOf(driver, clone), bytes: bytesAfter(driver.graphInstantiate(clone, 0), 8) };
    },
  },
  {
    name: "a child graph, to whose original a node is added, and which is destroyed",
    run({ driver }) {
      const { graph, address, instantiate, bytesAfter } = prepareGraph(driver);
      const child = driver.graphCreate();
      driver.graphAddMemsetNode(0, child, [], fillOf(address, 1));
      driver.graphAddChildGraphNode(graph, [], child);
      driver.graphAddMemsetNode(0, child, [], fillOf(address, 2, 4));
      driver.graphDestroy(child);
      return bytesAfter(instantiate(), 8);
    },
  },
  {
    name: "a graph instantiated twice, one launch behind long work and one on another stream",
    run({ driver }) {
      const { stream, other, addKernel, instantiate, bytesAfter } = prepareGraph(driver);
      const { keepBusy } = prepareLongWork(driver, 0);
      addKernel(1);
      const [first, second] = [instantiate(), instantiate()];
      keepBusy(stream);
      driver.graphLaunch(0, first, stream);
      driver.graphLaunch(0, second, other);
      driver.streamSynchronize(0, other);
      return { firstWaits: !driver.streamQuery(0, stream), bytes: bytesAfter(first) };
    },
  },
  {
    name: "an executable graph uploaded and launched",
    run({ driver }) {
      const { stream, addKernel, instantiate, bytesAfter } = prepareGraph(driver);
      addKernel(1);
      const exec = instantiate();
      driver.graphUpload(0, exec, stream);
      return bytesAfter(exec);
    },
  },
  {
    name: "a kernel, a copy and a fill changed in an executable graph while its launch is pending",
    run({ driver }) {
      const { graph, stream, other, address, launchOf, addKernel, addFill, instantiate } = prepareGraph(driver);
      const { keepBusy } = prepareLongWork(driver, 0);
      const [kernel, fill] = [addKernel(1, 0), addFill(2, 4)];
      const copyOf = (from: number, to: number) => {
        return { source: address + BigInt(from), destination: address + BigInt(to), byteLength: 4 };
      };
      const copy = driver.graphAddMemcpyNode(0, graph, [kernel], copyOf(0, 8));
      const exec = instantiate();
      keepBusy(stream);
      driver.graphLaunch(0, exec, stream);
      const answers = attemptEach({
        kernel: () => driver.graphExecKernelNodeSetParams(exec, kernel, launchOf(3, 12)),
        fill: () => driver.graphExecMemsetNodeSetParams(0, exec, fill, fillOf(address, 4, 16)),
        copy: () => driver.graphExecMemcpyNodeSetParams(0, exec, copy, copyOf(12, 20)),
      });
      driver.graphLaunch(0, exec, other);
      driver.streamSynchronize(0, other);
      return { ...answers, bytes: readBytes(driver, 0, address, 24).filter((_, index) => index % 4 === 0) };
    },
  },
  {
    name: "a kernel of an executable graph changed: its size, its kernel and the kernel's module",
    run({ driver }) {
      const { address, addKernel, launchOf, instantiate, bytesAfter } = prepareGraph(driver);
      const node = addKernel(1);
      const exec = instantiate();
      const module = driver.moduleLoadData(0, kernelsPtx);
      const store = driver.createKernelLaunch(0, driver.moduleGetFunction(module, "store"), 12);
      store.parameters.setBigUint64(0, address, true);
      store.parameters.setUint32(8, 0x02020202, true);
      const set = (launch: KernelLaunch) => () => driver.graphExecKernelNodeSetParams(exec, node, launch);
      const answers = attemptEach({
        size: set(Object.assign(launchOf(3, 0, 8), { gridX: 2, blockX: 64 })),
        "bytes of the size": () => bytesAfter(exec, 8).join(),
        kernel: set(store),
      });
      return { ...answers, bytes: bytesAfter(exec, 8) };
    },
  },
  {
    name: "a copy of an executable graph changed: to other memory of each kind",
    run({ driver }) {
      const { graph, address, pooled, instantiate } = prepareGraph(driver);
      const target = driver.malloc(0, byteLength);
      const copy = { source: address, destination: target, byteLength: 4 };
      const node = driver.graphAddMemcpyNode(0, graph, [], copy);
      const exec = instantiate();
      const host = driver.hostAlloc(byteLength);
      const other = driver.mallocFromPoolAsync(0, byteLength, createPool(driver), defaultStream);
      driver.deviceSynchronize(0);
      const set = (change: object) => () => driver.graphExecMemcpyNodeSetParams(0, exec, node, { ...copy, ...change });
      return attemptEach({
        size: set({ byteLength: 8 }),
        nothing: set({ byteLength: 0 }),
        "a pool": set({ source: pooled }),
        "another pool": set({ destination: other }),
        "page-locked memory as the source": set({ source: driver.hostGetDevicePointer(host) }),
        "page-locked memory as the target": set({ destination: driver.hostGetDevicePointer(host) }),
        "an array as the source": set({ source: new Uint8Array(4096) }),
        "an array as the target": set({ destination: new Uint8Array(4096) }),
        "the null address": set({ source: 0n }),
      });
    },
  },
  {
    name: "a copy of an executable graph from an array, changed to page-locked and to device memory",
    run({ driver }) {
      const { graph, address, instantiate, bytesAfter } = prepareGraph(driver);
      const [first, second] = [new Uint8Array(4096).fill(1), new Uint8Array(4096).fill(2)];
      const copy = { source: first, destination: address, byteLength: 4 };
      const node = driver.graphAddMemcpyNode(0, graph, [], copy);
      const exec = instantiate();
      const host = driver.hostAlloc(byteLength);
      new Uint8Array(host.buffer).fill(3);
      const set = (source: bigint | Uint8Array) => () =>
        driver.graphExecMemcpyNodeSetParams(0, exec, node, { ...copy, source });
      const answers = attemptEach({
        array: set(second),
        "the array's bytes": () => bytesAfter(exec).join(),
        "page-locked memory by its address": set(driver.hostGetDevicePointer(host)),
        "its bytes": () => bytesAfter(exec).join(),
        "page-locked memory as an array": set(new Uint8Array(host.buffer)),
        "the same bytes": () => bytesAfter(exec).join(),
        "device memory": set(address + 8n),
      });
      return { ...answers, bytes: bytesAfter(exec) };
    },
  },
  {
    name: "a fill of an executable graph changed",
    run({ driver }) {
      const { address, pooled, addFill, instantiate, bytesAfter } = prepareGraph(driver);
      const node = addFill(1);
      const exec = instantiate();
      const host = driver.hostAlloc(byteLength);
      const set = (change: Partial<GraphFill>) => () =>
        driver.graphExecMemsetNodeSetParams(0, exec, node, { ...fillOf(address, 2), ...change });
      const answers = attemptEach({
        value: set({}),
        width: set({ width: 8 }),
        "the bytes": () => bytesAfter(exec, 8).join(),
        "size of the values": set({ elementSize: 4, width: 1, value: 0x01020304 }),
        "the values": () => bytesAfter(exec, 4).join(),
        "two rows": set({ width: 2, height: 2, pitch: 4 }),
        "no values": set({ width: 0 }),
        "memory of a pool": set({ address: pooled }),
        "page-locked memory": set({ address: driver.hostGetDevicePointer(host) }),
      });
      return answers;
    },
  },
  {
    name: "a fill of two rows of an executable graph changed",
    run({ driver }) {
      const { graph, address, instantiate, bytesAfter } = prepareGraph(driver);
      const fill: GraphFill = { ...fillOf(address, 1), width: 2, height: 2, pitch: 4 };
      const node = driver.graphAddMemsetNode(0, graph, [], fill);
      const exec = instantiate();
      const set = (change: Partial<GraphFill>) => () =>
        driver.graphExecMemsetNodeSetParams(0, exec, node, { ...fill, ...change });
      const answers = attemptEach({
        same: set({}),
        value: set({ value: 2 }),
        address: set({ address: address + 16n }),
        width: set({ width: 3 }),
        pitch: set({ pitch: 8 }),
        height: set({ height: 1 }),
      });
      return { ...answers, bytes: bytesAfter(exec, 24) };
    },
  },
  {
    name: "nodes of an executable graph changed by calls for other types of nodes, and by nodes of other graphs",
    run({ driver }) {
      const { graph, address, event, launchOf, addKernel, addFill, instantiate } = prepareGraph(driver);
      const [kernel, fill] = [addKernel(1), addFill(2)];
      const exec = instantiate();
      const clone = driver.graphClone(graph);
      const later = addKernel(3);
      const copy = { source: address, destination: address + 8n, byteLength: 4 };
      const ofClone = driver.graphNodeFindInClone(kernel, clone);
      return attemptEach({
        "a fill by a kernel": () => driver.graphExecKernelNodeSetParams(exec, fill, launchOf(1)),
        "a kernel by a fill": () => driver.graphExecMemsetNodeSetParams(0, exec, kernel, fillOf(address, 2)),
        "a kernel by a copy": () => driver.graphExecMemcpyNodeSetParams(0, exec, kernel, copy),
        "a kernel by an event": () => driver.graphExecEventRecordNodeSetEvent(exec, kernel, event),
        "a kernel by a graph": () => driver.graphExecChildGraphNodeSetParams(exec, kernel, graph),
        "a node of a clone": () => driver.graphExecKernelNodeSetParams(exec, ofClone, launchOf(1)),
        "a node that was added later": () => driver.graphExecKernelNodeSetParams(exec, later, launchOf(1)),
      });
    },
  },
  {
    name: "events recorded by a graph, before and after a launch and a change",
    run({ driver }) {
      const { graph, stream, event, second, addKernel, instantiate } = prepareGraph(driver);
      const { keepBusy } = prepareLongWork(driver, 0);
      const node = driver.graphAddEventRecordNode(graph, [addKernel(1)], event);
      const exec = instantiate();
      const isDone = () => [driver.eventQuery(event), driver.eventQuery(second)];
      const before = isDone();
      keepBusy(stream);
      driver.graphLaunch(0, exec, stream);
      const pending = isDone();
      driver.streamSynchronize(0, stream);
      driver.graphExecEventRecordNodeSetEvent(exec, node, second);
      keepBusy(stream);
      driver.graphLaunch(0, exec, stream);
      const changed = isDone();
      driver.streamSynchronize(0, stream);
      return { before, pending, changed, after: isDone() };
    },
  },
  {
    name: "a graph that waits for an event, launched while the event's stream is busy",
    run({ driver }) {
      const { graph, stream, other, event, second, addKernel, instantiate } = prepareGraph(driver);
      const { keepBusy } = prepareLongWork(driver, 0);
      const node = driver.graphAddEventWaitNode(graph, [], event);
      addKernel(1, 0, [node]);
      const exec = instantiate();
      keepBusy(other);
      driver.eventRecord(0, event, other);
      driver.graphLaunch(0, exec, stream);
      const waits = !driver.streamQuery(0, stream);
      driver.streamSynchronize(0, stream);
      const isOtherDone = driver.streamQuery(0, other);
      driver.graphExecEventWaitNodeSetEvent(exec, node, second);
      keepBusy(other);
      driver.eventRecord(0, event, other);
      driver.graphLaunch(0, exec, stream);
      driver.streamSynchronize(0, stream);
      return { waits, isOtherDone, isOtherDoneAfterwards: driver.streamQuery(0, other) };
    },
  },
  {
    name: "the time between two records of a graph",
    run({ driver }) {
      const { graph, stream, addKernel, instantiate } = prepareGraph(driver);
      const [start, end] = [0, 1].map(() => driver.eventCreateWithFlags(0, eventFlags.default));
      const first = driver.graphAddEventRecordNode(graph, [], start!);
      driver.graphAddEventRecordNode(graph, [addKernel(1, 0, [first])], end!);
      driver.graphLaunch(0, instantiate(), stream);
      driver.streamSynchronize(0, stream);
      return driver.eventElapsedTime(start!, end!) >= 0;
    },
  },
  {
    name: "a child graph of an executable graph changed",
    run({ driver }) {
      const { graph, address, instantiate, bytesAfter, launchOf } = prepareGraph(driver);
      const childOf = (...values: number[]) => {
        const child = driver.graphCreate();
        values.forEach((value, index) => driver.graphAddMemsetNode(0, child, [], fillOf(address, value, 4 * index)));
        return child;
      };
      const child = childOf(1);
      const inner = driver.graphGetNodes(child)[0]!;
      const node = driver.graphAddChildGraphNode(graph, [], child);
      const exec = instantiate();
      const ofKernel = driver.graphCreate();
      driver.graphAddKernelNode(ofKernel, [], launchOf(4));
      const answers = attemptEach({
        same: () => driver.graphExecChildGraphNodeSetParams(exec, node, childOf(2)),
        larger: () => driver.graphExecChildGraphNodeSetParams(exec, node, childOf(3, 3)),
        empty: () => driver.graphExecChildGraphNodeSetParams(exec, node, driver.graphCreate()),
        "other type": () => driver.graphExecChildGraphNodeSetParams(exec, node, ofKernel),
        "a node of the original child": () => driver.graphExecMemsetNodeSetParams(0, exec, inner, fillOf(address, 5)),
      });
      return { ...answers, bytes: bytesAfter(exec, 8) };
    },
  },
  {
    name: "an executable graph updated by a graph of the same shape, while a launch is pending",
    run({ driver }) {
      const parts = prepareGraph(driver);
      const { stream, other, address, launchOf, addKernel, addFill, instantiate } = parts;
      const { keepBusy } = prepareLongWork(driver, 0);
      addFill(2, 4, [addKernel(1)]);
      const exec = instantiate();
      const next = driver.graphCreate();
      const kernel = driver.graphAddKernelNode(next, [], launchOf(3, 8));
      driver.graphAddMemsetNode(0, next, [kernel], fillOf(address, 4, 12));
      keepBusy(stream);
      driver.graphLaunch(0, exec, stream);
      const update = errorOf(() => driver.graphExecUpdate(exec, next), driver.graphGetNodes(next));
      driver.graphDestroy(next);
      driver.graphLaunch(0, exec, other);
      driver.streamSynchronize(0, other);
      return { update, bytes: readBytes(driver, 0, address, 16) };
    },
  },
  {
    name: "an executable graph updated by a graph with one node more",
    run: ({ driver }) =>
      updated(driver, ({ addKernel }) => addKernel(1), ({ addKernel }) => {
        addKernel(2, 4, [addKernel(2)]);
      }),
  },
  {
    name: "an executable graph updated by a graph with one node less",
    run: ({ driver }) =>
      updated(driver, ({ addKernel }) => addKernel(1, 4, [addKernel(1)]), ({ addKernel }) => addKernel(2)),
  },
  {
    name: "an executable graph updated by an empty graph",
    run: ({ driver }) => updated(driver, ({ addKernel }) => addKernel(1), () => {}),
  },
  {
    name: "an executable graph updated by a graph with another type of node",
    run: ({ driver }) => updated(driver, ({ addKernel }) => addKernel(1), ({ addFill }) => addFill(2)),
  },
  {
    name: "an executable graph updated by a graph with another edge",
    run: ({ driver }) =>
      updated(driver, ({ addKernel }) => {
        const first = addKernel(1);
        addKernel(1, 4, [first]);
        addKernel(1, 8, [first]);
      }, ({ addKernel }) => {
        const first = addKernel(2);
        const second = addKernel(2, 4, [first]);
        addKernel(2, 8, [second]);
      }),
  },
  {
    name: "an executable graph updated by a graph whose independent nodes were added in another order",
    run: ({ driver }) =>
      updated(driver, ({ addKernel, addFill }) => (addKernel(1), addFill(1, 4)), ({ addKernel, addFill }) => {
        addFill(2, 4);
        addKernel(2);
      }),
  },
  {
    name: "an executable graph updated by a graph whose edges lead from a node that was added later",
    run: ({ driver }) =>
      updated(driver, ({ addKernel, addFill }) => addFill(1, 4, [addKernel(1)]), ({ driver: on, graph, ...other }) => {
        const fill = other.addFill(2, 4);
        on.graphAddDependencies(graph, [[other.addKernel(2), fill]]);
      }),
  },
  {
    name: "an executable graph updated by a graph with another kernel, of another module",
    run: ({ driver }) =>
      updated(driver, ({ addKernel }) => addKernel(1), ({ graph, address }) => {
        const kernel = driver.moduleGetFunction(driver.moduleLoadData(0, kernelsPtx), "store");
        const store = driver.createKernelLaunch(0, kernel, 12);
        store.parameters.setBigUint64(0, address, true);
        store.parameters.setUint32(8, 0x02020202, true);
        driver.graphAddKernelNode(graph, [], store);
      }),
  },
  {
    name: "an executable graph updated by a graph whose kernel has a priority",
    run: ({ driver }) =>
      updated(driver, ({ addKernel }) => addKernel(1), ({ graph, launchOf }) => {
        driver.graphAddKernelNode(graph, [], launchOf(2), { ...noAttributes, priority: 0 });
      }),
  },
  {
    name: "an executable graph updated by a graph with a fill of other values",
    run: ({ driver }) =>
      updated(driver, ({ addFill }) => addFill(1), ({ graph, address }) => {
        const fill: GraphFill = { address, value: 0x0203, elementSize: 2, width: 4, height: 1, pitch: 0 };
        driver.graphAddMemsetNode(0, graph, [], fill);
      }),
  },
  {
    name: "an executable graph updated by a graph with a fill of two rows",
    run: ({ driver }) =>
      updated(driver, ({ addFill }) => addFill(1), ({ graph, address }) => {
        const fill: GraphFill = { address, value: 2, elementSize: 1, width: 2, height: 2, pitch: 4 };
        driver.graphAddMemsetNode(0, graph, [], fill);
      }),
  },
  {
    name: "an executable graph updated by a graph with a copy from the host instead of one from the device",
    run: ({ driver }) =>
      updated(driver, ({ graph, address }) => {
        driver.graphAddMemcpyNode(0, graph, [], { source: address + 8n, destination: address, byteLength: 4 });
      }, ({ graph, address }) => {
        const source = new Uint8Array(4096).fill(2);
        driver.graphAddMemcpyNode(0, graph, [], { source, destination: address, byteLength: 4 });
      }),
  },
  {
    name: "an executable graph updated by a graph with another event",
    run: ({ driver }) =>
      updated(
        driver,
        ({ graph, event }) => driver.graphAddEventRecordNode(graph, [], event),
        ({ graph, second }) => driver.graphAddEventRecordNode(graph, [], second),
      ),
  },
  {
    name: "an executable graph updated by a graph with a larger child graph",
    run({ driver }) {
      const add = ({ graph, address }: GraphParts, values: number[]) => {
        const child = driver.graphCreate();
        values.forEach((value, index) => driver.graphAddMemsetNode(0, child, [], fillOf(address, value, 4 * index)));
        driver.graphAddChildGraphNode(graph, [], child);
      };
      return updated(driver, (parts) => add(parts, [1]), (parts) => add(parts, [2, 2]));
    },
  },
  {
    name: "an executable graph updated by a graph with another child graph of the same shape",
    run({ driver }) {
      const add = ({ graph, address }: GraphParts, value: number) => {
        const child = driver.graphCreate();
        driver.graphAddMemsetNode(0, child, [], fillOf(address, value));
        driver.graphAddChildGraphNode(graph, [], child);
      };
      return updated(driver, (parts) => add(parts, 1), (parts) => add(parts, 2));
    },
  },
  {
    name: "an executable graph updated by a capture of the same work",
    run({ driver }) {
      const { stream, other, event, second, address, fill, bytesAfter, ...parts } = prepareGraph(driver);
      const capture = (value: number) => {
        driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
        fill(stream);
        forkAndJoin({ ...parts, stream, other, event, second, address, fill }, () => {
          driver.memsetAsync(0, address + 4n, value, 4, other);
        });
        driver.memsetAsync(0, address, value, 2, stream);
        return driver.streamEndCapture(0, stream);
      };
      const exec = driver.graphInstantiate(capture(1), 0);
      const next = capture(2);
      const update = errorOf(() => driver.graphExecUpdate(exec, next), driver.graphGetNodes(next));
      return { update, bytes: bytesAfter(exec, 12) };
    },
  },
  {
    name: "a node of the updating graph, and one of the original, changed after an update",
    run({ driver }) {
      const { addKernel, instantiate, launchOf, bytesAfter } = prepareGraph(driver);
      const node = addKernel(1);
      const exec = instantiate();
      const next = driver.graphCreate();
      const other = driver.graphAddKernelNode(next, [], launchOf(2));
      driver.graphExecUpdate(exec, next);
      const answers = attemptEach({
        updating: () => driver.graphExecKernelNodeSetParams(exec, other, launchOf(3)),
        original: () => driver.graphExecKernelNodeSetParams(exec, node, launchOf(4)),
      });
      return { ...answers, bytes: bytesAfter(exec) };
    },
  },
  {
    name: "nodes of each type disabled in an executable graph, and asked whether they are enabled",
    run({ driver }) {
      const { graph, address, event, addKernel, addFill, instantiate } = prepareGraph(driver);
      const child = driver.graphCreate();
      driver.graphAddMemsetNode(0, child, [], fillOf(address, 1));
      const nodes = {
        kernel: addKernel(1),
        fill: addFill(1),
        copy: driver.graphAddMemcpyNode(0, graph, [], { source: address, destination: address + 8n, byteLength: 4 }),
        empty: driver.graphAddEmptyNode(graph, []),
        event: driver.graphAddEventRecordNode(graph, [], event),
        wait: driver.graphAddEventWaitNode(graph, [], event),
        child: driver.graphAddChildGraphNode(graph, [], child),
      };
      const exec = instantiate();
      const answers: Record<string, Attempts> = {};
      for (const [name, node] of Object.entries(nodes)) {
        answers[name] = attemptEach({
          before: () => driver.graphNodeGetEnabled(exec, node),
          disable: () => driver.graphNodeSetEnabled(exec, node, false),
          after: () => driver.graphNodeGetEnabled(exec, node),
        });
      }
      return answers;
    },
  },
  {
    name: "a node disabled, launched, changed, updated and enabled again",
    run({ driver }) {
      const { stream, address, addKernel, launchOf, instantiate, bytesAfter } = prepareGraph(driver);
      const node = addKernel(1);
      addKernel(2, 4, [node]);
      const exec = instantiate();
      driver.graphNodeSetEnabled(exec, node, false);
      const disabled = bytesAfter(exec, 8);
      driver.graphExecKernelNodeSetParams(exec, node, launchOf(3));
      const changed = { isEnabled: driver.graphNodeGetEnabled(exec, node), bytes: bytesAfter(exec, 8) };
      const next = driver.graphCreate();
      driver.graphAddKernelNode(next, [driver.graphAddKernelNode(next, [], launchOf(4))], launchOf(5, 4));
      driver.graphExecUpdate(exec, next);
      const updatedState = { isEnabled: driver.graphNodeGetEnabled(exec, node), bytes: bytesAfter(exec, 8) };
      driver.memsetAsync(0, address, 0, byteLength, stream);
      driver.graphNodeSetEnabled(exec, node, true);
      return { disabled, changed, updated: updatedState, enabled: bytesAfter(exec, 8) };
    },
  },
  {
    name: "a node disabled while a launch is pending",
    run({ driver }) {
      const { stream, address, addKernel, instantiate } = prepareGraph(driver);
      const { keepBusy } = prepareLongWork(driver, 0);
      const node = addKernel(1);
      const exec = instantiate();
      keepBusy(stream);
      driver.graphLaunch(0, exec, stream);
      driver.graphNodeSetEnabled(exec, node, false);
      driver.streamSynchronize(0, stream);
      return readBytes(driver, 0, address, 4);
    },
  },
  {
    name: "a graph described in DOT",
    run({ driver }) {
      const { graph, addKernel, addFill } = prepareGraph(driver);
      addFill(2, 4, [addKernel(1)]);
      const text = driver.graphDebugDotPrint(graph, 0);
      return {
        begins: text.startsWith("digraph"),
        ends: text.trimEnd().endsWith("}"),
        edges: text.split("->").length - 1,
      };
    },
  },
  {
    name: "an executable graph with a kernel on freed memory of a pool",
    run({ driver }) {
      const { graph, pooled, stream, instantiate } = prepareGraph(driver);
      driver.graphAddMemsetNode(0, graph, [], fillOf(pooled, 1));
      driver.freeAsync(0, pooled, stream);
      driver.streamSynchronize(0, stream);
      return attemptEach({ instantiate });
    },
  },
  {
    name: "kernels with each attribute in a graph",
    run({ driver }) {
      const answers: Record<string, Answer> = {};
      for (const [name, attributes] of Object.entries(eachAttribute)) {
        const { graph, launchOf, instantiate, bytesAfter } = prepareGraph(driver);
        let node = 0n, exec = 0n;
        answers[name] = attemptEach({
          add: () => node = driver.graphAddKernelNode(graph, [], launchOf(1), { ...noAttributes, ...attributes }),
          count: () => driver.graphGetNodes(graph).length,
          instantiate: () => exec = instantiate(),
          change: () => driver.graphExecKernelNodeSetParams(exec, node, launchOf(3)),
          bytes: () => bytesAfter(exec).join(),
        });
      }
      return answers;
    },
  },
  {
    name: "kernels with each attribute captured behind another one",
    run({ driver }) {
      const answers: Record<string, Answer> = {};
      for (const [name, attributes] of Object.entries(eachAttribute)) {
        const { stream, fill, launchOf, bytesAfter } = prepareGraph(driver);
        let graph = 0n, exec = 0n;
        answers[name] = attemptEach({
          begin: () => driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed),
          first: () => fill(stream),
          launch: () =>
            driver.launchKernelEx(Object.assign(launchOf(3), { stream }), { ...noAttributes, ...attributes }),
          end: () => graph = driver.streamEndCapture(0, stream),
          nodes: () => driver.graphGetNodes(graph).length,
          edges: () => driver.graphGetEdges(graph).length,
          clone: () => driver.graphClone(graph),
          instantiate: () => exec = driver.graphInstantiate(graph, 0),
          bytes: () => bytesAfter(exec).join(),
        });
      }
      return answers;
    },
  },
  {
    name: "an executable graph changed, updated and launched after its graph was destroyed",
    run({ driver }) {
      const { graph, launchOf, addKernel, address, instantiate, bytesAfter } = prepareGraph(driver);
      const node = addKernel(3), fill = driver.graphAddMemsetNode(0, graph, [node], fillOf(address, 5, 4));
      const exec = instantiate();
      const other = driver.graphClone(graph);
      driver.graphDestroy(graph);
      const answers = attemptEach({
        kernel: () => driver.graphExecKernelNodeSetParams(exec, node, launchOf(2)),
        fill: () => driver.graphExecMemsetNodeSetParams(0, exec, fill, fillOf(address, 6, 4)),
        disable: () => driver.graphNodeSetEnabled(exec, node, false),
        "is enabled": () => String(driver.graphNodeGetEnabled(exec, node)),
        update: () => driver.graphExecUpdate(exec, other),
      });
      return { ...answers, bytes: bytesAfter(exec, 8) };
    },
  },
  ...Object.entries(actionsOnFreedMemory).map(([name, act]): Situation => ({
    name: `${name} in freed memory`,
    run({ driver }) {
      const { graph, pooled, address, stream } = prepareGraph(driver);
      const unpooled = driver.malloc(0, byteLength);
      driver.graphAddMemcpyNode(0, graph, [], { source: unpooled, destination: address, byteLength: 4 });
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      driver.memsetAsync(0, pooled, 1, 4, stream);
      const captured = driver.streamEndCapture(0, stream);
      const exec = driver.graphInstantiate(captured, 0);
      const other = prepareGraph(driver);
      const node = other.addFill(1);
      const otherExec = other.instantiate();
      driver.free(0, unpooled);
      driver.freeAsync(0, pooled, stream);
      driver.streamSynchronize(0, stream);
      return errorOf(
        () => act(driver, { graph, captured, exec, otherExec, node, pooled, unpooled, address }),
        driver.graphGetNodes(captured),
      );
    },
  })),
  {
    name: "copies of executable graphs between pools, changed to other memory of each kind",
    run({ driver }) {
      const { graph, address, pooled, instantiate } = prepareGraph(driver);
      const pool = createPool(driver);
      const [first, second] = [0, 1].map(() => driver.mallocFromPoolAsync(0, byteLength, pool, defaultStream));
      driver.deviceSynchronize(0);
      const host = driver.hostGetDevicePointer(driver.hostAlloc(byteLength));
      const fromPool = { source: pooled, destination: first!, byteLength: 4 };
      const fromHost = { source: host, destination: address, byteLength: 4 };
      const node = driver.graphAddMemcpyNode(0, graph, [], fromPool);
      const hostNode = driver.graphAddMemcpyNode(0, graph, [], fromHost);
      const exec = instantiate();
      const set = (change: object) => () =>
        driver.graphExecMemcpyNodeSetParams(0, exec, node, { ...fromPool, ...change });
      const setHost = (change: object) => () =>
        driver.graphExecMemcpyNodeSetParams(0, exec, hostNode, { ...fromHost, ...change });
      return attemptEach({
        "memory of another pool": set({ source: second! }),
        "memory of the same pool": set({ destination: second! }),
        "memory of no pool": set({ source: address }),
        "page-locked memory": set({ source: host }),
        "other page-locked memory": setHost({ source: driver.hostGetDevicePointer(driver.hostAlloc(byteLength)) }),
        "device memory instead of page-locked memory": setHost({ source: address + 8n }),
        "pool memory instead of page-locked memory": setHost({ source: pooled }),
      });
    },
  },
  {
    name: "a stream captured into a graph with nodes, twice",
    run({ driver }) {
      const { graph, stream, address, fill, addKernel, addFill, instantiate, bytesAfter } = prepareGraph(driver);
      const [kernel] = [addKernel(9, 8), addFill(9, 12)];
      const capture = (dependencies: readonly bigint[]) => {
        driver.streamBeginCaptureToGraph(0, stream, graph, dependencies, streamCaptureMode.relaxed);
        driver.memsetAsync(0, address, dependencies.length + 3, 4, stream);
        return driver.streamEndCapture(0, stream) === graph;
      };
      const answers = attemptEach({ first: () => capture([kernel!]), second: () => capture([]) });
      driver.streamBeginCaptureToGraph(0, stream, graph, driver.graphGetNodes(graph), streamCaptureMode.relaxed);
      const { dependencies, graph: known } = driver.streamGetCaptureInfo(0, stream);
      fill(stream);
      driver.streamEndCapture(0, stream);
      return {
        ...answers,
        count: dependencies.length,
        isSame: known === graph,
        shape: shapeOf(driver, graph),
        bytes: bytesAfter(instantiate(), 16),
      };
    },
  },
  {
    name: "a stream captured into a graph after a node of another graph, and the default stream",
    run({ driver }) {
      const { graph, stream } = prepareGraph(driver);
      const foreign = driver.graphAddEmptyNode(driver.graphCreate(), []);
      const begin = (on: bigint, nodes: readonly bigint[], mode: number) => () =>
        driver.streamBeginCaptureToGraph(0, on, graph, nodes, mode);
      return attemptEach({
        "the default stream": begin(defaultStream, [], streamCaptureMode.relaxed),
        "a mode that there is not": begin(stream, [], 3),
        "a node of another graph": begin(stream, [foreign], streamCaptureMode.relaxed),
        state: () => nameOfStatus(driver.streamGetCaptureInfo(0, stream).status),
      });
    },
  },
  {
    name: "a node added to the graph of a capture, and the capture's dependencies replaced",
    run({ driver }) {
      const { stream, address, fill, launchOf, bytesAfter } = prepareGraph(driver);
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      fill(stream);
      const { graph, dependencies } = driver.streamGetCaptureInfo(0, stream);
      const node = driver.graphAddKernelNode(graph, dependencies, launchOf(2));
      driver.streamUpdateCaptureDependencies(0, stream, [node]);
      driver.memsetAsync(0, address + 8n, 3, 4, stream);
      const ended = driver.streamEndCapture(0, stream);
      return {
        isSame: ended === graph,
        shape: shapeOf(driver, ended),
        bytes: bytesAfter(driver.graphInstantiate(ended, 0), 16),
      };
    },
  },
  {
    name: "a capture whose dependencies are replaced by none",
    run({ driver }) {
      const { stream, fill } = prepareGraph(driver);
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      fill(stream);
      driver.streamUpdateCaptureDependencies(0, stream, []);
      const count = driver.streamGetCaptureInfo(0, stream).dependencies.length;
      fill(stream);
      return { count, end: endOf(driver, stream) };
    },
  },
  {
    name: "a capture whose dependencies are replaced by none, ended at once",
    run({ driver }) {
      const { stream, fill } = prepareGraph(driver);
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      fill(stream);
      driver.streamUpdateCaptureDependencies(0, stream, []);
      return endOf(driver, stream);
    },
  },
  {
    name: "a node added to the graph of a capture, and not joined",
    run({ driver }) {
      const { stream, fill, launchOf } = prepareGraph(driver);
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      fill(stream);
      driver.graphAddKernelNode(driver.streamGetCaptureInfo(0, stream).graph, [], launchOf(2));
      return endOf(driver, stream);
    },
  },
  {
    name: "the dependencies of a capture replaced: by a node of another graph, on a stream that is not captured",
    run({ driver }) {
      const { stream, other, fill } = prepareGraph(driver);
      const foreign = driver.graphAddEmptyNode(driver.graphCreate(), []);
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      fill(stream);
      const answers = attemptEach({
        foreign: () => driver.streamUpdateCaptureDependencies(0, stream, [foreign]),
        other: () => driver.streamUpdateCaptureDependencies(0, other, []),
        default: () => driver.streamUpdateCaptureDependencies(0, defaultStream, []),
        state: () => nameOfStatus(driver.streamGetCaptureInfo(0, stream).status),
      });
      return { ...answers, end: endOf(driver, stream) };
    },
  },
  {
    name: "an external record and an external wait of a capture, which other graphs change",
    run({ driver }) {
      const { stream, event, second, fill } = prepareGraph(driver);
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      driver.streamWaitEvent(0, stream, event, externalEvent);
      fill(stream);
      driver.eventRecordWithFlags(0, second, stream, externalEvent);
      const graph = driver.streamEndCapture(0, stream);
      const exec = driver.graphInstantiate(graph, 0);
      const nodeOf = (type: number) =>
        driver.graphGetNodes(graph).find((node) => driver.graphNodeGetType(node) === type)!;
      return attemptEach({
        wait: () => driver.graphExecEventWaitNodeSetEvent(exec, nodeOf(graphNodeType.waitEvent), second),
        record: () => driver.graphExecEventRecordNodeSetEvent(exec, nodeOf(graphNodeType.eventRecord), event),
        "wait by a record": () =>
          driver.graphExecEventRecordNodeSetEvent(exec, nodeOf(graphNodeType.waitEvent), second),
      });
    },
  },
  ...modes.flatMap((mode) =>
    Object.entries(unrelatedCalls).map(([name, call]): Situation => ({
      name: `${name} while a stream is captured, ${mode}`,
      run({ driver }) {
        const parts = prepareGraph(driver);
        const node = parts.addKernel(1);
        const exec = parts.instantiate();
        driver.streamBeginCapture(0, parts.stream, streamCaptureMode[mode]);
        const answers = attemptEach({
          call: () => call({ ...parts, exec, node }),
          state: () => nameOfStatus(driver.streamGetCaptureInfo(0, parts.stream).status),
        });
        return { ...answers, end: endOf(driver, parts.stream) };
      },
    }))
  ),
];
