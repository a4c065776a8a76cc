/**
 * Rows about memory that graphs allocate and free.
 *
 * @module
 */
import {
  type Driver,
  graphInstantiateFlags,
  graphMemAttribute,
  memHandleType,
  memLocationType,
  type MemPoolProps,
  streamCaptureMode,
} from "../../../src/driver.ts";
import { GraphError } from "../../../src/support/graph_errors.ts";
import { attemptEach } from "../attempts.ts";
import { byteLength, endOf, type Parts, prepare, shapeOf } from "../graph_parts.ts";
import { readBytes } from "../launch.ts";
import { prepareLongWork } from "../long_work.ts";
import { createPool, mebibyte, onDevice, onFirstNode } from "../pools.ts";
import type { Answer, Situation } from "../situation.ts";

const { autoFreeOnLaunch } = graphInstantiateFlags;
const props: MemPoolProps = { handleTypes: memHandleType.none, location: onDevice(0), maxSize: 0n };
/** More than any device has. */
const tooMuch = 2 ** 42;

/** A graph that allocates memory and fills it. */
interface GraphWithMemory extends Parts {
  readonly graph: bigint;
  readonly allocation: bigint;
  readonly memory: bigint;
  /** The node that fills the memory. */
  readonly fillNode: bigint;
  launch(exec: bigint): void;
  finish(): void;
}

/** Creates a graph that allocates memory, fills it, and frees it if that is asked for. */
function prepareMemory(
  driver: Driver,
  { isFreed = false, size = mebibyte }: { isFreed?: boolean; size?: number } = {},
): GraphWithMemory {
  const parts = prepare(driver);
  const graph = driver.graphCreate();
  const { node: allocation, address: memory } = driver.graphAddMemAllocNode(graph, [], props, [], size);
  const fillNode = addFill(driver, { graph, after: [allocation], address: memory, value: 5 });
  if (isFreed) driver.graphAddMemFreeNode(graph, [fillNode], memory);
  return {
    ...parts,
    graph,
    allocation,
    memory,
    fillNode,
    launch: (exec) => driver.graphLaunch(0, exec, parts.stream),
    finish: () => driver.streamSynchronize(0, parts.stream),
  };
}

function addFill(
  driver: Driver,
  { graph, after, address, value }: { graph: bigint; after: readonly bigint[]; address: bigint; value: number },
): bigint {
  return driver.graphAddMemsetNode(0, graph, after, { address, value, elementSize: 1, width: 64, height: 1, pitch: 0 });
}

/** Returns what graphs of device 0 use and have reserved. */
function usageOf(driver: Driver): Record<keyof typeof graphMemAttribute, number> {
  const get = (name: keyof typeof graphMemAttribute) =>
    Number(driver.deviceGetGraphMemAttribute(0, graphMemAttribute[name])) / mebibyte;
  return {
    usedCurrent: get("usedCurrent"),
    usedHigh: get("usedHigh"),
    reservedCurrent: get("reservedCurrent"),
    reservedHigh: get("reservedHigh"),
  };
}

/** Returns what graphs of device 0 use after each step, in mebibytes. */
function usageAfter(driver: Driver, steps: Readonly<Record<string, () => void>>): Answer {
  const answer: Record<string, Answer> = {};
  for (const [name, step] of Object.entries(steps)) {
    step();
    const { usedCurrent, usedHigh, reservedCurrent, reservedHigh } = usageOf(driver);
    answer[name] = [usedCurrent, usedHigh, reservedCurrent, reservedHigh];
  }
  return answer;
}

/** The rows of this file. */
export const situations: readonly Situation[] = [
  {
    name: "a graph that allocates, fills, copies and frees memory, launched twice",
    run({ driver }) {
      const { graph, allocation, memory, address, fillNode, launch: run, finish } = prepareMemory(driver);
      const copy = { source: memory, destination: address, byteLength: 4 };
      const copied = driver.graphAddMemcpyNode(0, graph, [fillNode], copy);
      driver.graphAddMemFreeNode(graph, [copied], memory);
      const exec = driver.graphInstantiate(graph, 0);
      run(exec);
      run(exec);
      finish();
      return { allocated: allocation !== 0n, shape: shapeOf(driver, graph), bytes: readBytes(driver, 0, address, 4) };
    },
  },
  {
    name: "allocations added to a graph with properties that are wrong",
    run({ driver }) {
      const graph = driver.graphCreate();
      const add = (change: Partial<MemPoolProps>, size = byteLength, location = onDevice(0)) => () =>
        driver.graphAddMemAllocNode(graph, [], { ...props, ...change }, [{ location, flags: 3 }], size);
      const { device, host } = memLocationType;
      const answers = attemptEach({
        "no bytes": add({}, 0),
        "exportable as a descriptor": add({ handleTypes: memHandleType.posixFileDescriptor }),
        "exportable to other nodes": add({ handleTypes: memHandleType.fabric }),
        "on a device that there is not": add({ location: { type: device, id: 99 } }),
        "in host memory": add({ location: { type: host, id: 0 } }),
        "on a NUMA node": add({ location: onFirstNode }),
        "with access of a device that there is not": add({}, byteLength, { type: device, id: 99 }),
        "with access of the host": add({}, byteLength, { type: host, id: 0 }),
        "with access of its device": add({}),
      });
      return { ...answers, count: driver.graphGetNodes(graph).length };
    },
  },
  {
    name: "frees added to a graph: twice, of other memory, of an address within, and of nothing",
    run({ driver }) {
      const { graph, memory, pooled, address } = prepareMemory(driver);
      const free = (what: bigint) => () => driver.graphAddMemFreeNode(graph, [], what);
      const answers = attemptEach({
        within: free(memory + 256n),
        once: free(memory),
        twice: free(memory),
        pool: free(pooled),
        unpooled: free(address),
        null: free(0n),
      });
      return { ...answers, shape: shapeOf(driver, graph) };
    },
  },
  {
    name: "memory of a graph that is not launched: asked for, and freed",
    run({ driver }) {
      const { memory, stream } = prepareMemory(driver);
      return attemptEach({
        attributes: () => driver.pointerGetAttributes(0, memory).byteLength,
        range: () => driver.memGetAddressRange(0, memory + 16n).byteLength,
        freeAsync: () => driver.freeAsync(0, memory, stream),
      });
    },
  },
  {
    name: "memory of a graph that was launched: asked for, exported and freed twice",
    run({ driver }) {
      const { graph, memory, stream, other, event, launch: run, finish } = prepareMemory(driver);
      run(driver.graphInstantiate(graph, 0));
      finish();
      driver.eventRecord(0, event, stream);
      driver.streamWaitEvent(0, other, event);
      return attemptEach({
        attributes: () => driver.pointerGetAttributes(0, memory).byteLength,
        type: () => driver.pointerGetAttributes(0, memory).type,
        range: () => driver.memGetAddressRange(0, memory + 16n).byteLength,
        bytes: () => readBytes(driver, 0, memory, 4).join(),
        "export of a pool's pointer": () => driver.memPoolExportPointer(memory),
        "handle for other processes": () => driver.ipcGetMemHandle(0, memory),
        "free on another stream": () => driver.freeAsync(0, memory, other),
        "free again": () => driver.freeAsync(0, memory, other),
        "attributes of the freed": () => driver.pointerGetAttributes(0, memory).byteLength,
      });
    },
  },
  {
    name: "memory of a graph that was launched, freed with cudaFree",
    run({ driver }) {
      const { graph, memory, launch: run, finish } = prepareMemory(driver);
      const exec = driver.graphInstantiate(graph, 0);
      run(exec);
      finish();
      return attemptEach({
        free: () => driver.free(0, memory),
        again: () => driver.free(0, memory),
        launch: () => run(exec),
      });
    },
  },
  {
    name: "memory that a graph frees itself, freed after a launch",
    run({ driver }) {
      const { graph, memory, stream, launch: run, finish } = prepareMemory(driver, { isFreed: true });
      run(driver.graphInstantiate(graph, 0));
      finish();
      return attemptEach({ free: () => driver.freeAsync(0, memory, stream) });
    },
  },
  {
    name: "a graph whose memory is not freed launched again, before and after a free",
    run({ driver }) {
      const { graph, memory, stream, launch: run, finish } = prepareMemory(driver);
      const exec = driver.graphInstantiate(graph, 0);
      return attemptEach({
        launch: () => run(exec),
        again: () => run(exec),
        upload: () => driver.graphUpload(0, exec, stream),
        free: () => driver.freeAsync(0, memory, stream),
        afterwards: () => run(exec),
        finish,
        bytes: () => readBytes(driver, 0, memory, 4).join(),
      });
    },
  },
  {
    name: "a graph that frees its memory at the next launch",
    run({ driver }) {
      const { graph, memory, stream, launch: run, finish } = prepareMemory(driver);
      const exec = driver.graphInstantiate(graph, autoFreeOnLaunch);
      run(exec);
      run(exec);
      finish();
      return attemptEach({
        bytes: () => readBytes(driver, 0, memory, 4).join(),
        free: () => driver.freeAsync(0, memory, stream),
        launch: () => run(exec),
      });
    },
  },
  {
    name: "memory of a graph that is alive when the graph and the executable graph are destroyed",
    run({ driver }) {
      const { graph, memory, stream, launch: run, finish } = prepareMemory(driver);
      const exec = driver.graphInstantiate(graph, 0);
      run(exec);
      driver.graphExecDestroy(exec);
      driver.graphDestroy(graph);
      finish();
      const bytes = readBytes(driver, 0, memory, 4);
      driver.memsetAsync(0, memory, 6, 4, stream);
      finish();
      const after = readBytes(driver, 0, memory, 4);
      return {
        bytes,
        after,
        ...attemptEach({
          free: () => driver.freeAsync(0, memory, stream),
          again: () => driver.freeAsync(0, memory, stream),
        }),
      };
    },
  },
  {
    name: "what a graph with memory of its own does not allow",
    run({ driver }) {
      const { graph, allocation, memory, fillNode, address } = prepareMemory(driver);
      const answers = attemptEach({
        "an edge removed": () => driver.graphRemoveDependencies(graph, [[allocation, fillNode]]),
        "a node destroyed": () => driver.graphDestroyNode(fillNode),
        "the allocation destroyed": () => driver.graphDestroyNode(allocation),
        clone: () => driver.graphClone(graph),
        child: () => driver.graphAddChildGraphNode(driver.graphCreate(), [], graph),
        "a node added": () => addFill(driver, { graph, after: [fillNode], address: memory, value: 1 }),
        "an edge added": () => {
          const node = addFill(driver, { graph, after: [], address, value: 1 });
          driver.graphAddDependencies(graph, [[fillNode, node]]);
        },
        instantiate: () => driver.graphInstantiate(graph, 0),
        "instantiate again": () => driver.graphInstantiate(graph, 0),
        "clone after that": () => driver.graphClone(graph),
      });
      return answers;
    },
  },
  {
    name: "a graph with memory of its own moved into another one as a child",
    run({ driver }) {
      const { graph: child, memory, address, fillNode, stream } = prepareMemory(driver);
      driver.graphAddMemFreeNode(child, [fillNode], memory);
      const graph = driver.graphCreate();
      let node = 0n, exec = 0n;
      const answers = attemptEach({
        move: () => node = driver.graphAddChildGraphNode(graph, [], child, true),
        "move again": () => driver.graphAddChildGraphNode(driver.graphCreate(), [], child, true),
        "copy it": () => driver.graphAddChildGraphNode(driver.graphCreate(), [], child),
        "add a fill to it": () => addFill(driver, { graph: child, after: [], address, value: 8 }),
        "add an allocation to it": () => driver.graphAddMemAllocNode(child, [], props, [], byteLength).node,
        "instantiate it": () => driver.graphInstantiate(child, 0),
        clone: () => driver.graphClone(graph),
        "destroy the node": () => driver.graphDestroyNode(node),
        instantiate: () => exec = driver.graphInstantiate(graph, 0),
        "instantiate again": () => driver.graphInstantiate(graph, 0),
        launch: () => driver.graphLaunch(0, exec, stream),
        finish: () => driver.streamSynchronize(0, stream),
        update: () => driver.graphExecUpdate(exec, graph),
      });
      return { ...answers, bytes: readBytes(driver, 0, address, 4) };
    },
  },
  {
    name: "a graph that frees memory of another one: what it does not allow",
    run({ driver }) {
      const { memory } = prepareMemory(driver);
      const graph = driver.graphCreate();
      const node = driver.graphAddEmptyNode(graph, []);
      driver.graphAddMemFreeNode(graph, [node], memory);
      return attemptEach({
        clone: () => driver.graphClone(graph),
        child: () => driver.graphAddChildGraphNode(driver.graphCreate(), [], graph),
        destroy: () => driver.graphDestroyNode(node),
        instantiate: () => driver.graphInstantiate(graph, 0),
        "instantiate again": () => driver.graphInstantiate(graph, 0),
        "another free in another graph": () => driver.graphAddMemFreeNode(driver.graphCreate(), [], memory),
      });
    },
  },
  {
    name: "a graph with memory of its own instantiated again after the first executable graph was destroyed",
    run({ driver }) {
      const { graph, memory, stream, launch: run, finish } = prepareMemory(driver);
      const exec = driver.graphInstantiate(graph, 0);
      run(exec);
      finish();
      driver.graphExecDestroy(exec);
      let second = 0n;
      return attemptEach({
        instantiate: () => second = driver.graphInstantiate(graph, 0),
        launch: () => run(second),
        free: () => driver.freeAsync(0, memory, stream),
        "launch afterwards": () => run(second),
        finish,
      });
    },
  },
  {
    name: "a graph that frees what another one allocates, launched in turn",
    run({ driver }) {
      const { graph, memory, address, launch: run, finish, stream } = prepareMemory(driver);
      const freeing = driver.graphCreate();
      const copy = { source: memory, destination: address, byteLength: 4 };
      const node = driver.graphAddMemcpyNode(0, freeing, [], copy);
      driver.graphAddMemFreeNode(freeing, [node], memory);
      const exec = driver.graphInstantiate(graph, 0);
      const execOfFree = driver.graphInstantiate(freeing, 0);
      const answers = attemptEach({
        allocate: () => run(exec),
        free: () => run(execOfFree),
        "allocate again": () => run(exec),
        "allocate once more": () => run(exec),
        "free outside": () => driver.freeAsync(0, memory, stream),
        "allocate afterwards": () => run(exec),
        "free again": () => run(execOfFree),
        finish,
      });
      return { ...answers, bytes: readBytes(driver, 0, address, 4) };
    },
  },
  {
    name: "an executable graph with memory of its own updated by a graph that was built in the same way",
    run({ driver }) {
      const { graph, address } = prepareMemory(driver, { isFreed: true });
      const exec = driver.graphInstantiate(graph, 0);
      const { graph: next } = prepareMemory(driver, { isFreed: true });
      const nodes = driver.graphGetNodes(next);
      const plain = driver.graphCreate();
      addFill(driver, { graph: plain, after: [], address, value: 1 });
      const execOfPlain = driver.graphInstantiate(plain, 0);
      const updateOf = (updated: bigint, by: bigint): Answer => {
        try {
          driver.graphExecUpdate(updated, by);
          return "done";
        } catch (error) {
          if (!(error instanceof GraphError)) throw error;
          const { code, result, node } = error;
          return { code, result, node: node === undefined ? null : nodes.indexOf(node) };
        }
      };
      return { same: updateOf(exec, graph), other: updateOf(exec, next), plain: updateOf(execOfPlain, next) };
    },
  },
  {
    name: "nodes that allocate and free disabled, and their kernels and fills changed, in an executable graph",
    run({ driver }) {
      const { graph, allocation, memory, address, fillNode } = prepareMemory(driver, { isFreed: true });
      const free = driver.graphGetNodes(graph)[2]!;
      const exec = driver.graphInstantiate(graph, 0);
      const fill = { value: 1, elementSize: 1, width: 4, height: 1, pitch: 0 } as const;
      return attemptEach({
        "disable the allocation": () => driver.graphNodeSetEnabled(exec, allocation, false),
        "disable the free": () => driver.graphNodeSetEnabled(exec, free, false),
        "ask the allocation": () => driver.graphNodeGetEnabled(exec, allocation),
        "fill the memory": () => driver.graphExecMemsetNodeSetParams(0, exec, fillNode, { ...fill, address: memory }),
        "fill other memory": () => driver.graphExecMemsetNodeSetParams(0, exec, fillNode, { ...fill, address }),
      });
    },
  },
  {
    name: "a fill of memory of a graph in another graph, and in a capture",
    run({ driver }) {
      const { graph, memory, stream, other, launch: run, finish } = prepareMemory(driver);
      const using = driver.graphCreate();
      const added = attemptEach({
        add: () => addFill(driver, { graph: using, after: [], address: memory, value: 9 }),
        capture: () => {
          driver.streamBeginCapture(0, other, streamCaptureMode.relaxed);
          driver.memsetAsync(0, memory, 9, 4, other);
        },
      });
      const end = endOf(driver, other);
      const execOfUse = driver.graphInstantiate(using, 0);
      run(driver.graphInstantiate(graph, 0));
      driver.graphLaunch(0, execOfUse, stream);
      finish();
      return { ...added, end, bytes: readBytes(driver, 0, memory, 4) };
    },
  },
  {
    name: "the memory of graphs at each step of a graph that does not free it",
    run({ driver }) {
      const { graph, memory, stream, launch: run, finish } = prepareMemory(driver, { size: 8 * mebibyte });
      let exec = 0n;
      return usageAfter(driver, {
        added: () => {},
        instantiated: () => exec = driver.graphInstantiate(graph, 0),
        uploaded: () => driver.graphUpload(0, exec, stream),
        launched: () => (run(exec), finish()),
        "trimmed while alive": () => driver.deviceGraphMemTrim(0),
        freed: () => (driver.freeAsync(0, memory, stream), finish()),
        trimmed: () => driver.deviceGraphMemTrim(0),
        "launched again": () => (run(exec), finish()),
        "freed again": () => (driver.freeAsync(0, memory, stream), finish()),
        "executable graph destroyed": () => driver.graphExecDestroy(exec),
        "trimmed again": () => driver.deviceGraphMemTrim(0),
        "graph destroyed": () => driver.graphDestroy(graph),
      });
    },
  },
  {
    name: "the memory of graphs at each step of a graph that frees it",
    run({ driver }) {
      const { graph, launch: run, finish } = prepareMemory(driver, { isFreed: true, size: 8 * mebibyte });
      let exec = 0n;
      return usageAfter(driver, {
        added: () => {},
        instantiated: () => exec = driver.graphInstantiate(graph, 0),
        launched: () => (run(exec), finish()),
        "launched again": () => (run(exec), finish()),
        trimmed: () => driver.deviceGraphMemTrim(0),
        "executable graph destroyed": () => driver.graphExecDestroy(exec),
        "trimmed again": () => driver.deviceGraphMemTrim(0),
      });
    },
  },
  {
    name: "the memory of a graph that frees it, trimmed while a launch is pending",
    run({ driver }) {
      const { graph, address, memory, fillNode, stream, launch: run, finish } = prepareMemory(driver, {
        size: 8 * mebibyte,
      });
      const { keepBusy } = prepareLongWork(driver, 0);
      const copy = { source: memory, destination: address, byteLength: 4 };
      const copied = driver.graphAddMemcpyNode(0, graph, [fillNode], copy);
      driver.graphAddMemFreeNode(graph, [copied], memory);
      const exec = driver.graphInstantiate(graph, 0);
      keepBusy(stream);
      run(exec);
      driver.deviceGraphMemTrim(0);
      const isPending = !driver.streamQuery(0, stream);
      const { reservedCurrent } = usageOf(driver);
      finish();
      return { isPending, isReserved: reservedCurrent > 0, bytes: readBytes(driver, 0, address, 4) };
    },
  },
  {
    name: "the memory of two graphs on one stream, and of two allocations in a row in one graph",
    run({ driver }) {
      const size = 64 * mebibyte;
      const first = prepareMemory(driver, { isFreed: true, size });
      const second = prepareMemory(driver, { isFreed: true, size });
      const execs = [first, second].map(({ graph }) => driver.graphInstantiate(graph, 0));
      for (const exec of execs) first.launch(exec);
      first.finish();
      const two = usageOf(driver).reservedCurrent;
      for (const exec of execs) driver.graphExecDestroy(exec);
      driver.deviceGraphMemTrim(0);
      const { graph, memory, fillNode } = prepareMemory(driver, { size });
      const freed = driver.graphAddMemFreeNode(graph, [fillNode], memory);
      const { node, address } = driver.graphAddMemAllocNode(graph, [freed], props, [], size);
      driver.graphAddMemFreeNode(graph, [addFill(driver, { graph, after: [node], address, value: 1 })], address);
      first.launch(driver.graphInstantiate(graph, 0));
      first.finish();
      const oneGraph = usageOf(driver).reservedCurrent;
      return { two: two / 64, oneGraph: oneGraph / 64 };
    },
  },
  {
    name: "the addresses of allocations in a row in one graph, in a capture, and of another size or order",
    run({ driver }) {
      const { stream, pool } = prepare(driver);
      const addressesOf = (sizes: readonly number[], isOrdered: boolean) => {
        const graph = driver.graphCreate();
        let after: bigint[] = [];
        return sizes.map((size) => {
          const { node, address } = driver.graphAddMemAllocNode(graph, isOrdered ? after : [], props, [], size);
          after = [driver.graphAddMemFreeNode(graph, [node], address)];
          return address;
        });
      };
      const areSame = ([first, second]: readonly bigint[]) => first === second;
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      const captured = [0, 1].map(() => {
        const address = driver.mallocFromPoolAsync(0, mebibyte, pool, stream);
        driver.freeAsync(0, address, stream);
        return address;
      });
      driver.streamEndCapture(0, stream);
      return {
        same: areSame(addressesOf([mebibyte, mebibyte], true)),
        captured: areSame(captured),
        smaller: areSame(addressesOf([mebibyte, mebibyte / 2], true)),
        larger: areSame(addressesOf([mebibyte, 2 * mebibyte], true)),
        "a byte less": areSame(addressesOf([mebibyte, mebibyte - 1], true)),
        unordered: areSame(addressesOf([mebibyte, mebibyte], false)),
      };
    },
  },
  {
    name: "attributes of the memory of graphs set, and one that there is not",
    run({ driver }) {
      const { graph, launch: run, finish } = prepareMemory(driver, { isFreed: true });
      const exec = driver.graphInstantiate(graph, 0);
      run(exec);
      finish();
      driver.graphExecDestroy(exec);
      driver.deviceGraphMemTrim(0);
      const set = (attribute: number, value: bigint) => () => driver.deviceSetGraphMemAttribute(0, attribute, value);
      const { usedCurrent, usedHigh, reservedCurrent, reservedHigh } = graphMemAttribute;
      const answers = attemptEach({
        "used, current": set(usedCurrent, 0n),
        "used, high, to 1": set(usedHigh, 1n),
        "used, high": set(usedHigh, 0n),
        "reserved, current": set(reservedCurrent, 0n),
        "reserved, high, to 1": set(reservedHigh, 1n),
        "reserved, high": set(reservedHigh, 0n),
        "none of them": set(4, 0n),
        "asked for none of them": () => driver.deviceGetGraphMemAttribute(0, 4),
        "of a device that there is not": () => driver.deviceGetGraphMemAttribute(99, 0),
      });
      return { ...answers, ...usageOf(driver) };
    },
  },
  {
    name: "more memory than there is allocated by a graph",
    run({ driver }) {
      const { stream, pool, finish } = prepareMemory(driver);
      const graph = driver.graphCreate();
      let captured = 0n, exec = 0n;
      const answers = attemptEach({
        add: () => driver.graphAddMemAllocNode(graph, [], props, [], tooMuch),
        instantiate: () => exec = driver.graphInstantiate(graph, 0),
        upload: () => driver.graphUpload(0, exec, stream),
        launch: () => driver.graphLaunch(0, exec, stream),
        finish,
        begin: () => driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed),
        capture: () => driver.mallocFromPoolAsync(0, tooMuch, pool, stream),
        end: () => captured = driver.streamEndCapture(0, stream),
      });
      return { ...answers, captured: captured !== 0n };
    },
  },
  {
    name: "memory of a pool in host memory allocated in a capture",
    run({ driver }) {
      const { stream } = prepare(driver);
      const pool = createPool(driver, { location: onFirstNode });
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      const answers = attemptEach({ allocate: () => driver.mallocFromPoolAsync(0, byteLength, pool, stream) });
      return { ...answers, end: endOf(driver, stream) };
    },
  },
  {
    name: "memory of a pool allocated in a capture, used and freed there, and launched twice",
    run({ driver }) {
      const { stream, pool, address } = prepare(driver);
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      const memory = driver.mallocFromPoolAsync(0, byteLength, pool, stream);
      driver.memsetAsync(0, memory, 4, 4, stream);
      driver.memcpyAsync(0, address, memory, 4, stream);
      driver.freeAsync(0, memory, stream);
      const graph = driver.streamEndCapture(0, stream);
      const exec = driver.graphInstantiate(graph, 0);
      for (let count = 0; count < 2; count++) driver.graphLaunch(0, exec, stream);
      driver.streamSynchronize(0, stream);
      return { shape: shapeOf(driver, graph), bytes: readBytes(driver, 0, address, 4) };
    },
  },
  {
    name: "a graph with memory of its own launched in a capture",
    run({ driver }) {
      const { graph, other } = prepareMemory(driver, { isFreed: true });
      const exec = driver.graphInstantiate(graph, 0);
      driver.streamBeginCapture(0, other, streamCaptureMode.relaxed);
      const answers = attemptEach({ launch: () => driver.graphLaunch(0, exec, other) });
      return { ...answers, end: endOf(driver, other) };
    },
  },
  {
    name: "memory that a capture has allocated when the capture is invalidated",
    run({ driver }) {
      const { stream, pool } = prepare(driver);
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      const memory = driver.mallocFromPoolAsync(0, byteLength, pool, stream);
      const answers = attemptEach({
        query: () => driver.streamQuery(0, stream),
        end: () => driver.streamEndCapture(0, stream),
        free: () => driver.freeAsync(0, memory, stream),
        attributes: () => driver.pointerGetAttributes(0, memory).byteLength,
      });
      return answers;
    },
  },
  {
    name: "memory of a graph after the graph was destroyed, never launched",
    run({ driver }) {
      const { graph, memory, stream } = prepareMemory(driver);
      driver.graphDestroy(graph);
      return attemptEach({
        attributes: () => driver.pointerGetAttributes(0, memory).byteLength,
        free: () => driver.freeAsync(0, memory, stream),
      });
    },
  },
];
