/** Rows about the parameters of captured nodes, changed in an executable graph one by one, and about external events. */
import {
  defaultStream,
  type Driver,
  eventFlags,
  externalEvent,
  graphNodeType,
  streamCaptureMode,
} from "../../../src/driver.ts";
import { attemptEach } from "../attempts.ts";
import { byteLength, endOf, type Parts, prepare } from "../graph_parts.ts";
import { fillLaunch, readBytes } from "../launch.ts";
import { createPool } from "../pools.ts";
import type { Situation } from "../situation.ts";

/** What the rows use, and a graph of one captured node. */
interface CapturedNode extends Parts {
  readonly node: bigint;
  readonly exec: bigint;
  /** Launches the executable graph, and returns the first bytes of the rows' memory. */
  bytesAfter(count?: number): string;
}

/** Captures a graph, and makes it executable. `capture` adds one node. */
function captured(driver: Driver, parts: Parts, capture: (stream: bigint) => void): CapturedNode {
  const { stream, address } = parts;
  driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
  capture(stream);
  const { dependencies } = driver.streamGetCaptureInfo(0, stream);
  const graph = driver.streamEndCapture(0, stream);
  const exec = driver.graphInstantiate(graph, 0);
  return {
    ...parts,
    node: dependencies[0]!,
    exec,
    bytesAfter(count = 4) {
      driver.graphLaunch(0, exec, stream);
      driver.streamSynchronize(0, stream);
      return readBytes(driver, 0, address, count).join();
    },
  };
}

/** The rows about parameters and external events. */
export const situations: readonly Situation[] = [
  {
    name: "a captured kernel of an executable graph changed: its parameters, its size and its attributes",
    run({ driver }) {
      const parts = prepare(driver);
      const { address, kernel } = parts;
      const launchOf = (byte: number, place: bigint) => {
        const options = { address: place, byteLength: 4, pattern: 0x01010101 * byte, stream: parts.stream };
        return fillLaunch(driver, { device: 0, kernel }, options);
      };
      const { node, exec, bytesAfter } = captured(driver, parts, () => driver.launchKernel(launchOf(1, address)));
      return attemptEach({
        before: () => bytesAfter(),
        value: () => driver.graphExecKernelNodeSetParams(exec, node, launchOf(2, address)),
        "its bytes": () => bytesAfter(),
        address: () => driver.graphExecKernelNodeSetParams(exec, node, launchOf(3, address + 4n)),
        "the bytes of the address": () => bytesAfter(8),
        size: () =>
          driver.graphExecKernelNodeSetParams(
            exec,
            node,
            Object.assign(launchOf(4, address), { gridX: 3, blockX: 64, sharedMemoryBytes: 1024 }),
          ),
        "its bytes of the size": () => bytesAfter(8),
      });
    },
  },
  {
    name: "captured copies from page-locked memory changed: their source, their target and their size",
    run({ driver }) {
      const parts = prepare(driver);
      const { address, pooled } = parts;
      const [host, second] = [1, 2].map((byte) => {
        const memory = driver.hostAlloc(byteLength);
        const bytes = new Uint8Array(memory.buffer).fill(byte);
        return bytes;
      });
      const { node, exec, bytesAfter } = captured(driver, parts, (stream) => {
        driver.memcpyHtoDAsync(0, address, host!.subarray(0, 4), stream);
      });
      const copy = { source: host!.subarray(0, 4), destination: address, byteLength: 4 };
      const set = (change: object) => () => driver.graphExecMemcpyNodeSetParams(0, exec, node, { ...copy, ...change });
      return attemptEach({
        before: () => bytesAfter(),
        same: set({}),
        source: set({ source: second!.subarray(8, 12) }),
        "its bytes": () => bytesAfter(),
        target: set({ destination: address + 4n }),
        "the target's bytes": () => bytesAfter(8),
        size: set({ source: second!.subarray(0, 8), byteLength: 8 }),
        "the size's bytes": () => bytesAfter(8),
        "memory of a pool as the target": set({ destination: pooled }),
        "page-locked memory by its address": set({ source: driver.hostGetDevicePointer(driver.hostAlloc(64)) }),
      });
    },
  },
  {
    name: "captured copies to page-locked memory changed: their source and their target",
    run({ driver }) {
      const parts = prepare(driver);
      const { address, pooled, stream } = parts;
      const host = new Uint8Array(driver.hostAlloc(byteLength).buffer);
      const second = new Uint8Array(driver.hostAlloc(byteLength).buffer);
      driver.memsetAsync(0, address, 5, 4, stream);
      driver.memsetAsync(0, pooled, 6, 4, stream);
      driver.streamSynchronize(0, stream);
      const { node, exec, bytesAfter } = captured(driver, parts, () => {
        driver.memcpyDtoHAsync(0, host.subarray(0, 4), address, stream);
      });
      const copy = { source: address, destination: host.subarray(0, 4), byteLength: 4 };
      const set = (change: object) => () => driver.graphExecMemcpyNodeSetParams(0, exec, node, { ...copy, ...change });
      const launch = (memory: Uint8Array) => () => {
        bytesAfter();
        return memory.subarray(0, 8).join();
      };
      return attemptEach({
        before: launch(host),
        same: set({}),
        target: set({ destination: second.subarray(4, 8) }),
        "its bytes": launch(second),
        source: set({ source: address + 4n }),
        "the source's bytes": launch(host),
        "memory of a pool as the source": set({ source: pooled }),
      });
    },
  },
  {
    name: "captured copies between addresses changed: in the memory of one pool, of two pools and of none",
    run({ driver }) {
      const parts = prepare(driver);
      const { address, pool, pooled, stream } = parts;
      const [first, second] = [0, 1].map(() => driver.mallocFromPoolAsync(0, byteLength, pool, defaultStream));
      const other = driver.mallocFromPoolAsync(0, byteLength, createPool(driver), defaultStream);
      driver.deviceSynchronize(0);
      for (const [index, source] of [pooled, first!, second!, other].entries()) {
        driver.memsetAsync(0, source, index + 1, byteLength, stream);
      }
      driver.streamSynchronize(0, stream);
      const inPool = captured(driver, parts, () => driver.memcpyAsync(0, first!, pooled, 4, stream));
      const outside = captured(driver, parts, () => driver.memcpyAsync(0, address + 32n, address, 4, stream));
      const toNone = captured(driver, parts, () => driver.memcpyAsync(0, address, pooled, 4, stream));
      const setterOf = ({ exec, node }: CapturedNode, copy: { source: bigint; destination: bigint }) => {
        return (change: object) => () =>
          driver.graphExecMemcpyNodeSetParams(0, exec, node, { ...copy, byteLength: 4, ...change });
      };
      const setInPool = setterOf(inPool, { source: pooled, destination: first! });
      const setOutside = setterOf(outside, { source: address, destination: address + 32n });
      const setToNone = setterOf(toNone, { source: pooled, destination: address });
      return attemptEach({
        "the same in a pool": setInPool({}),
        "another source in the pool": setInPool({ source: second! }),
        "another target in the pool": setInPool({ destination: second! + 4n }),
        "a source in another pool": setInPool({ source: other }),
        "a target in another pool": setInPool({ destination: other }),
        "a source of no pool": setInPool({ source: address }),
        "a size": setInPool({ byteLength: 8 }),
        "the same of no pool": setOutside({}),
        "another source of no pool": setOutside({ source: driver.malloc(0, byteLength) }),
        "a source in a pool": setOutside({ source: pooled }),
        "before the changes from a pool": () => toNone.bytesAfter(),
        "the source from another pool": setToNone({ source: other }),
        "its bytes": () => toNone.bytesAfter(),
        "the source from the same pool": setToNone({ source: second! }),
        "the same pool's bytes": () => toNone.bytesAfter(),
        "the source of no pool": setToNone({ source: address + 8n }),
      });
    },
  },
  {
    name: "captured copies between page-locked and device memory by their addresses, changed",
    run({ driver }) {
      const parts = prepare(driver);
      const { address, pooled, stream } = parts;
      const [host, second] = [1, 2].map((byte) => {
        const memory = driver.hostAlloc(byteLength);
        new Uint8Array(memory.buffer).fill(byte);
        return driver.hostGetDevicePointer(memory);
      });
      const { node, exec, bytesAfter } = captured(driver, parts, () => {
        driver.memcpyAsync(0, address, host!, 4, stream);
      });
      const copy = { source: host!, destination: address, byteLength: 4 };
      const set = (change: object) => () => driver.graphExecMemcpyNodeSetParams(0, exec, node, { ...copy, ...change });
      return attemptEach({
        same: set({}),
        source: set({ source: second! }),
        "its bytes": () => bytesAfter(),
        "device memory as the source": set({ source: address + 8n }),
        "memory of a pool as the target": set({ destination: pooled }),
      });
    },
  },
  {
    name: "captured fills changed: their value, their target and their size",
    run({ driver }) {
      const parts = prepare(driver);
      const { address, pooled, stream } = parts;
      const bytes = captured(driver, parts, () => driver.memsetAsync(0, address, 1, 4, stream));
      const words = captured(driver, parts, () => driver.memsetD32Async(0, address, 0x02020202, 2, stream));
      const rows = captured(driver, parts, () => driver.memsetD2D32Async(0, address, 8, 0x03030303, 1, 2, stream));
      const setterOf = ({ exec, node }: CapturedNode, fill: { value: number; elementSize: 1 | 4; width: number }) => {
        const all = { address, height: 1, pitch: 0, ...fill };
        return (change: object) => () => driver.graphExecMemsetNodeSetParams(0, exec, node, { ...all, ...change });
      };
      const setBytes = setterOf(bytes, { value: 1, elementSize: 1, width: 4 });
      const setWords = setterOf(words, { value: 0x02020202, elementSize: 4, width: 2 });
      const row = { height: 2, pitch: 8 };
      const setRows = setterOf(rows, { value: 0x03030303, elementSize: 4, width: 1 });
      return attemptEach({
        "the same bytes": setBytes({}),
        "another byte": setBytes({ value: 7 }),
        "its bytes": () => bytes.bytesAfter(),
        "another target": setBytes({ address: address + 4n }),
        "a target in a pool": setBytes({ address: pooled }),
        "another number of bytes": setBytes({ width: 8 }),
        "another size of elements": setBytes({ elementSize: 4, width: 1 }),
        "the same words": setWords({}),
        "another word": setWords({ value: 0x04040404 }),
        "the word's bytes": () => words.bytesAfter(),
        "the same rows": setRows({ ...row }),
        "other rows": setRows({ ...row, value: 0x05050505 }),
        "the rows' bytes": () => rows.bytesAfter(),
        "rows in a pool": setRows({ ...row, address: pooled }),
        "fewer rows": setRows({ ...row, height: 1 }),
      });
    },
  },
  {
    name: "parameters of captured nodes changed while a launch is pending, and set back",
    run({ driver }) {
      const parts = prepare(driver);
      const { address, stream } = parts;
      const { node, exec, bytesAfter } = captured(driver, parts, () => driver.memsetAsync(0, address, 1, 4, stream));
      const set = (value: number) => () =>
        driver.graphExecMemsetNodeSetParams(0, exec, node, {
          ...{ address, value, elementSize: 1, width: 4, height: 1, pitch: 0 },
        });
      const set2 = set(2), set1 = set(1);
      driver.graphLaunch(0, exec, stream);
      set2();
      const second = bytesAfter();
      set1();
      return { second, first: bytesAfter() };
    },
  },
  {
    name: "a captured stream used to record an external event that other processes can open",
    run({ driver }) {
      const { stream } = prepare(driver);
      const event = driver.eventCreateWithFlags(0, eventFlags.disableTiming | eventFlags.interprocess);
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      const answers = attemptEach({
        record: () => driver.eventRecordWithFlags(0, event, stream, externalEvent),
        wait: () => driver.streamWaitEvent(0, stream, event, externalEvent),
        "the event's handle": () => driver.ipcGetEventHandle(event).byteLength,
      });
      return { ...answers, end: endOf(driver, stream) };
    },
  },
  {
    name: "an external wait of a capture for an event that was never recorded, and the time between external records",
    run({ driver }) {
      const parts = prepare(driver);
      const { stream, second, address } = parts;
      const [begin, end] = [0, 1].map(() => driver.eventCreateWithFlags(0, eventFlags.default));
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      driver.streamWaitEvent(0, stream, second, externalEvent);
      driver.eventRecordWithFlags(0, begin!, stream, externalEvent);
      parts.fill(stream);
      driver.eventRecordWithFlags(0, end!, stream, externalEvent);
      const graph = driver.streamEndCapture(0, stream);
      const exec = driver.graphInstantiate(graph, 0);
      const before = attemptEach({ elapsed: () => driver.eventElapsedTime(begin!, end!) >= 0 });
      driver.graphLaunch(0, exec, stream);
      driver.streamSynchronize(0, stream);
      return {
        types: driver.graphGetNodes(graph).map((node) => driver.graphNodeGetType(node) === graphNodeType.kernel).length,
        before,
        after: attemptEach({ elapsed: () => driver.eventElapsedTime(begin!, end!) >= 0 }),
        bytes: readBytes(driver, 0, address, 4),
      };
    },
  },
];
