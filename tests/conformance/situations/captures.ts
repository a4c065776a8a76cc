/**
 * Rows about capturing streams into graphs: what a capture records, what it forbids, and what ends it.
 *
 * @module
 */
import {
  allocationGranularity,
  defaultStream,
  type Driver,
  eventFlags,
  externalEvent,
  functionAttribute,
  graphNodeType,
  type HostAllocation,
  memAccessFlags,
  memHandleType,
  memPoolAttribute,
  streamCaptureMode,
  streamCaptureStatus,
  streamFlags,
} from "../../../src/driver.ts";
import { deviceAttributes } from "../../../src/support/device_attributes.ts";
import { attemptEach, type Attempts } from "../attempts.ts";
import { kernelsPtx } from "../kernels.ts";
import { fillLaunch, loadFill, readBytes } from "../launch.ts";
import { prepareLongWork } from "../long_work.ts";
import { createPool, createShareablePool, mebibyte, onDevice } from "../pools.ts";
import type { Answer, Situation } from "../situation.ts";

const byteLength = 64;
type Mode = keyof typeof streamCaptureMode;

/** What the rows use, created before any capture begins. */
interface Parts {
  readonly driver: Driver;
  /** The stream to be captured. */
  readonly stream: bigint;
  /** Streams of the same device that are not captured. */
  readonly other: bigint;
  readonly blocking: bigint;
  readonly address: bigint;
  readonly event: bigint;
  readonly second: bigint;
  /** An event that was recorded on `other`, whose work is done. */
  readonly earlier: bigint;
  readonly pool: bigint;
  readonly pooled: bigint;
  readonly shareable: bigint;
  readonly shared: bigint;
  readonly host: HostAllocation;
  readonly interprocess: bigint;
  readonly timed: bigint;
  readonly memory: bigint;
  readonly range: bigint;
  /** The size of `memory` and of `range` in bytes. */
  readonly granule: number;
  /** An executable graph of an empty capture, and its graph. */
  readonly exec: bigint;
  readonly graph: bigint;
  readonly kernel: bigint;
  readonly module: bigint;
  fill(stream: bigint): void;
}

function prepare(driver: Driver, { isBlocking = false } = {}): Parts {
  const create = (flags: number) => driver.streamCreateWithPriority(0, flags, 0);
  const createEvent = () => driver.eventCreateWithFlags(0, eventFlags.disableTiming);
  const { nonBlocking, default: blockingFlag } = streamFlags;
  const pool = createPool(driver);
  const module = driver.moduleLoadData(0, kernelsPtx);
  const address = driver.malloc(0, byteLength);
  const kernel = loadFill(driver, 0);
  const shareable = createShareablePool(driver);
  const properties = { handleTypes: memHandleType.none, location: onDevice(0) };
  const granule = driver.memGetAllocationGranularity(properties, allocationGranularity.minimum);
  const idle = create(nonBlocking);
  driver.streamBeginCapture(0, idle, streamCaptureMode.relaxed);
  const graph = driver.streamEndCapture(0, idle);
  const parts: Parts = {
    driver,
    shareable,
    shared: driver.mallocFromPoolAsync(0, byteLength, shareable, defaultStream),
    host: driver.hostAlloc(byteLength),
    interprocess: driver.eventCreateWithFlags(0, eventFlags.disableTiming | eventFlags.interprocess),
    timed: driver.eventCreateWithFlags(0, eventFlags.default),
    memory: driver.memCreate(properties, granule),
    range: driver.memAddressReserve(granule, 0),
    granule,
    graph,
    exec: driver.graphInstantiate(graph, 0),
    stream: create(isBlocking ? blockingFlag : nonBlocking),
    other: create(nonBlocking),
    blocking: create(blockingFlag),
    address,
    event: createEvent(),
    second: createEvent(),
    earlier: createEvent(),
    pool,
    pooled: driver.mallocFromPoolAsync(0, byteLength, pool, defaultStream),
    kernel,
    module,
    fill: (stream) => driver.launchKernel(fillLaunch(driver, { device: 0, kernel }, { address, byteLength, stream })),
  };
  driver.memsetAsync(0, address, 9, byteLength, defaultStream);
  parts.fill(defaultStream);
  driver.memsetAsync(0, address, 0, byteLength, defaultStream);
  driver.eventRecord(0, parts.earlier, parts.other);
  driver.eventRecord(0, parts.timed, parts.other);
  driver.deviceSynchronize(0);
  return parts;
}

const nameOfStatus = (status: number) =>
  Object.entries(streamCaptureStatus).find(([, value]) => value === status)?.[0] ?? String(status);
const nameOfType = (type: number) =>
  Object.entries(graphNodeType).find(([, value]) => value === type)?.[0] ?? String(type);

/** The types of a graph's nodes, and its edges as pairs of the types of nodes. */
function shapeOf(driver: Driver, graph: bigint): Answer {
  const typeOf = (node: bigint) => nameOfType(driver.graphNodeGetType(node));
  return {
    nodes: driver.graphGetNodes(graph).map(typeOf).sort(),
    edges: driver.graphGetEdges(graph).map((edge) => edge.map(typeOf).join(" before ")).sort(),
  };
}

/** What a call in a capture returns, what the capture's state is then, and what ending it returns. */
function inCapture(
  driver: Driver,
  calls: Readonly<Record<string, (parts: Parts) => unknown>>,
  { mode = "relaxed", isBlocking = false, prepare: before }: {
    mode?: Mode;
    isBlocking?: boolean;
    prepare?: (parts: Parts) => unknown;
  } = {},
): Attempts {
  const parts = prepare(driver, { isBlocking });
  before?.(parts);
  driver.streamBeginCapture(0, parts.stream, streamCaptureMode[mode]);
  const answers = attemptEach({
    ...Object.fromEntries(Object.entries(calls).map(([name, call]) => [name, () => call(parts)])),
    "the state": () => nameOfStatus(driver.streamGetCaptureInfo(0, parts.stream).status),
  });
  answers["the end"] = endOf(driver, parts.stream);
  return answers;
}

/** The shape of the graph that ending a capture returns, or the error. */
function endOf(driver: Driver, stream: bigint): Answer {
  let shape: Answer = null;
  const ended = attemptEach({ end: () => shape = shapeOf(driver, driver.streamEndCapture(0, stream)) });
  return shape ?? ended["end"]!;
}

/** Captures what `body` enqueues, launches the graph as often as given, and returns the first bytes of the memory. */
function bytesAfter(driver: Driver, body: (parts: Parts) => void, launches = 1): Answer {
  const parts = prepare(driver);
  driver.streamBeginCapture(0, parts.stream, streamCaptureMode.relaxed);
  body(parts);
  const graph = driver.streamEndCapture(0, parts.stream);
  const before = readBytes(driver, 0, parts.address, 4);
  const exec = driver.graphInstantiate(graph, 0);
  for (let launch = 0; launch < launches; launch++) driver.graphLaunch(0, exec, parts.stream);
  driver.streamSynchronize(0, parts.stream);
  return { shape: shapeOf(driver, graph), before, after: readBytes(driver, 0, parts.address, 4) };
}

/** Joins `other` to the capture, and back. `work` is enqueued on `other` between the two. */
function forkAndJoin({ driver, stream, other, event, second }: Parts, work: () => void): void {
  driver.eventRecord(0, event, stream);
  driver.streamWaitEvent(0, other, event);
  work();
  driver.eventRecord(0, second, other);
  driver.streamWaitEvent(0, stream, second);
}

const modes: readonly Mode[] = ["relaxed", "threadLocal", "global"];

/** Calls that name no captured stream, and what they are called in the names of rows. */
const unrelatedCalls: Readonly<Record<string, (parts: Parts) => unknown>> = {
  "memory allocated with cudaMalloc": ({ driver }) => driver.malloc(0, byteLength),
  "memory freed with cudaFree": ({ driver, address }) => driver.free(0, address),
  "page-locked memory allocated": ({ driver }) => driver.hostAlloc(byteLength),
  "a pool created": ({ driver }) => createPool(driver),
  "a pool's attribute read": ({ driver, pool }) =>
    Number(driver.memPoolGetAttribute(pool, memPoolAttribute.releaseThreshold)),
  "a pool's attribute set": ({ driver, pool }) =>
    driver.memPoolSetAttribute(pool, memPoolAttribute.releaseThreshold, 1n),
  "a pool trimmed": ({ driver, pool }) => driver.memPoolTrimTo(pool, 0n),
  "access to a pool set": ({ driver, pool }) => driver.memPoolSetAccess(pool, [{ location: onDevice(0), flags: 3 }]),
  "a module loaded": ({ driver }) => driver.moduleLoadData(0, kernelsPtx),
  "a module unloaded": ({ driver, module }) => driver.moduleUnload(0, module),
  "a kernel looked up": ({ driver, module }) => driver.moduleGetFunction(module, "nothing"),
  "memory's attributes read": ({ driver, address }) => driver.pointerGetAttributes(0, address).byteLength,
  "free memory read": ({ driver }) => driver.memGetInfo(0).total > 0,
  "a stream created": ({ driver }) => driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0),
  "an event created": ({ driver }) => driver.eventCreateWithFlags(0, eventFlags.disableTiming),
  "an event destroyed": ({ driver, second }) => driver.eventDestroy(0, second),
  "the device synchronized": ({ driver }) => driver.deviceSynchronize(0),
  "an event recorded for the device": ({ driver, second }) => driver.ctxRecordEvent(0, second),
  "another stream queried": ({ driver, other }) => driver.streamQuery(0, other),
  "another stream synchronized": ({ driver, other }) => driver.streamSynchronize(0, other),
  "an event from before queried": ({ driver, earlier }) => driver.eventQuery(earlier),
  "an event from before synchronized": ({ driver, earlier }) => driver.eventSynchronize(earlier),
  "memory of a pool allocated on another stream": ({ driver, pool, other }) =>
    driver.mallocFromPoolAsync(0, byteLength, pool, other),
  "memory of a pool freed on another stream": ({ driver, pooled, other }) => driver.freeAsync(0, pooled, other),
  "a kernel launched on another stream": ({ fill, other }) => fill(other),
  "page-locked memory freed": ({ driver, host }) => driver.freeHost(host),
  "the device's address of page-locked memory read": ({ driver, host }) => driver.hostGetDevicePointer(host),
  "a pool destroyed": ({ driver, pool }) => driver.memPoolDestroy(pool),
  "access to a pool read": ({ driver, pool }) => driver.memPoolGetAccess(pool, onDevice(0)),
  "the default pool read": ({ driver }) => driver.deviceGetDefaultMemPool(0),
  "the current pool read": ({ driver }) => driver.deviceGetMemPool(0),
  "the current pool set": ({ driver, pool }) => driver.deviceSetMemPool(0, pool),
  "a pool exported": ({ driver, shareable }) =>
    driver.memPoolExportToShareableHandle(shareable, memHandleType.posixFileDescriptor) as number >= 0,
  "a pool exported and imported": ({ driver, shareable }) =>
    driver.memPoolImportFromShareableHandle(
      0,
      driver.memPoolExportToShareableHandle(shareable, memHandleType.posixFileDescriptor),
      memHandleType.posixFileDescriptor,
    ),
  "memory of a pool exported": ({ driver, shared }) => driver.memPoolExportPointer(shared).byteLength,
  "memory's handle exported": ({ driver, address }) => driver.ipcGetMemHandle(0, address).byteLength,
  "an event's handle exported": ({ driver, interprocess }) => driver.ipcGetEventHandle(interprocess).byteLength,
  "an address's range read": ({ driver, address }) => driver.memGetAddressRange(0, address).byteLength,
  "physical memory created": ({ driver, granule }) =>
    driver.memCreate({ handleTypes: memHandleType.none, location: onDevice(0) }, granule),
  "physical memory released": ({ driver, memory }) => driver.memRelease(memory),
  "addresses reserved": ({ driver, granule }) => driver.memAddressReserve(granule, 0),
  "addresses freed": ({ driver, range, granule }) => driver.memAddressFree(range, granule),
  "memory mapped": ({ driver, range, granule, memory }) => driver.memMap(range, granule, memory),
  "memory mapped and accessed": ({ driver, range, granule, memory }) => {
    driver.memMap(range, granule, memory);
    driver.memSetAccess(range, granule, [{ location: onDevice(0), flags: memAccessFlags.readWrite }]);
  },
  "memory mapped and unmapped": ({ driver, range, granule, memory }) => {
    driver.memMap(range, granule, memory);
    driver.memUnmap(range, granule);
  },
  "a kernel's attribute read": ({ driver, kernel }) =>
    driver.funcGetAttribute(kernel, functionAttribute.maxThreadsPerBlock) > 0,
  "a kernel's attribute set": ({ driver, kernel }) =>
    driver.funcSetAttribute(kernel, functionAttribute.maxDynamicSharedSizeBytes, 1024),
  "a kernel's occupancy read": ({ driver, kernel }) =>
    driver.occupancyMaxActiveBlocksPerMultiprocessor(kernel, 32, 0) > 0,
  "modules linked": ({ driver }) => driver.linkModules(0, [{ name: "kernels", image: kernelsPtx }]),
  "a device's attribute read": ({ driver }) => driver.deviceGetAttribute(0, deviceAttributes.warpSize),
  "the range of priorities read": ({ driver }) => driver.deviceGetStreamPriorityRange(0).least,
  "another stream's flags read": ({ driver, other }) => driver.streamGetFlags(0, other),
  "another stream's priority read": ({ driver, other }) => driver.streamGetPriority(0, other),
  "another stream destroyed": ({ driver, other }) => driver.streamDestroy(0, other),
  "another stream made to wait for an event": ({ driver, other, earlier }) => driver.streamWaitEvent(0, other, earlier),
  "an event recorded on another stream": ({ driver, other, second }) => driver.eventRecord(0, second, other),
  "the time between events from before read": ({ driver, timed }) => driver.eventElapsedTime(timed, timed),
  "pageable memory copied on another stream": ({ driver, address, other }) =>
    driver.memcpyHtoDAsync(0, address, new Uint8Array(byteLength), other),
  "memory copied to pageable memory on another stream": ({ driver, address, other }) =>
    driver.memcpyDtoHAsync(0, new Uint8Array(byteLength), address, other),
  "a graph launched on another stream": ({ driver, exec, other }) => driver.graphLaunch(0, exec, other),
  "a graph uploaded on another stream": ({ driver, exec, other }) => driver.graphUpload(0, exec, other),
  "another stream captured": ({ driver, other }) => {
    driver.streamBeginCapture(0, other, streamCaptureMode.relaxed);
    driver.graphDestroy(driver.streamEndCapture(0, other));
  },
  "an event recorded on a new blocking stream": ({ driver, second }) =>
    driver.eventRecord(0, second, driver.streamCreateWithPriority(0, streamFlags.default, 0)),
};

/** Calls that use the default stream. */
const defaultStreamCalls: Readonly<Record<string, (parts: Parts) => unknown>> = {
  "a kernel launched": ({ fill }) => fill(defaultStream),
  "memory filled": ({ driver, address }) => driver.memsetAsync(0, address, 1, byteLength, defaultStream),
  "the stream queried": ({ driver }) => driver.streamQuery(0, defaultStream),
  "the stream synchronized": ({ driver }) => driver.streamSynchronize(0, defaultStream),
  "an event recorded": ({ driver, second }) => driver.eventRecord(0, second, defaultStream),
  "an event waited for": ({ driver, earlier }) => driver.streamWaitEvent(0, defaultStream, earlier),
  "memory of a pool allocated": ({ driver, pool }) => driver.mallocFromPoolAsync(0, byteLength, pool, defaultStream),
  "memory of a pool freed": ({ driver, pooled }) => driver.freeAsync(0, pooled, defaultStream),
  "whether it is being captured": ({ driver }) => driver.streamIsCapturing(0, defaultStream),
  "the capture's state": ({ driver }) => nameOfStatus(driver.streamGetCaptureInfo(0, defaultStream).status),
};

/** Calls that use the captured stream, or an event that was recorded on it. */
const ownCalls: Readonly<Record<string, (parts: Parts) => unknown>> = {
  "queried": ({ driver, stream }) => driver.streamQuery(0, stream),
  "synchronized": ({ driver, stream }) => driver.streamSynchronize(0, stream),
  "captured once more": ({ driver, stream }) => driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed),
  "asked for its flags": ({ driver, stream }) => driver.streamGetFlags(0, stream),
  "asked for its priority": ({ driver, stream }) => driver.streamGetPriority(0, stream),
  "asked for its device": ({ driver, stream }) => driver.streamGetDevice(0, stream) ?? "unknown",
  "made to wait for an event from before": ({ driver, stream, earlier }) => driver.streamWaitEvent(0, stream, earlier),
  "made to wait for an event that was never recorded": ({ driver, stream, second }) =>
    driver.streamWaitEvent(0, stream, second),
  "made to wait for an external event from before": ({ driver, stream, earlier }) =>
    driver.streamWaitEvent(0, stream, earlier, externalEvent),
  "used to record an event": ({ driver, stream, event }) => driver.eventRecord(0, event, stream),
  "used to record an external event": ({ driver, stream, event }) =>
    driver.eventRecordWithFlags(0, event, stream, externalEvent),
  "used to allocate memory of a pool": ({ driver, stream, pool }) =>
    driver.mallocFromPoolAsync(0, byteLength, pool, stream),
  "used to allocate memory of a pool that can be exported": ({ driver, stream }) =>
    driver.mallocFromPoolAsync(0, byteLength, createShareablePool(driver), stream),
  "used to free memory from before": ({ driver, stream, pooled }) => driver.freeAsync(0, pooled, stream),
  "used to allocate and free memory of a pool": ({ driver, stream, pool }) =>
    driver.freeAsync(0, driver.mallocFromPoolAsync(0, byteLength, pool, stream), stream),
  "used to free memory twice": ({ driver, stream, pool }) => {
    const address = driver.mallocFromPoolAsync(0, byteLength, pool, stream);
    driver.freeAsync(0, address, stream);
    driver.freeAsync(0, address, stream);
  },
  "used to copy from pageable memory": ({ driver, stream, address }) =>
    driver.memcpyHtoDAsync(0, address, new Uint8Array(byteLength), stream),
  "used to copy to pageable memory": ({ driver, stream, address }) =>
    driver.memcpyDtoHAsync(0, new Uint8Array(byteLength), address, stream),
  "used to copy, fill and launch": ({ driver, stream, address, fill }) => {
    driver.memcpyAsync(0, address, address + 32n, 32, stream);
    driver.memsetAsync(0, address, 1, byteLength, stream);
    driver.memsetD32Async(0, address, 1, byteLength / 4, stream);
    fill(stream);
  },
  "used to copy between devices": ({ driver, stream, address }) =>
    driver.memcpyPeerAsync(0, address, 0, address + 32n, 0, 32, stream),
};

/** Calls about an event that was recorded in the capture. */
const eventCalls: Readonly<Record<string, (parts: Parts) => unknown>> = {
  "queried": ({ driver, event }) => driver.eventQuery(event),
  "synchronized": ({ driver, event }) => driver.eventSynchronize(event),
  "waited for by another stream, which is not joined": ({ driver, other, event }) =>
    driver.streamWaitEvent(0, other, event),
  "waited for by another stream, which works and is not joined": ({ driver, other, event, fill }) => {
    driver.streamWaitEvent(0, other, event);
    fill(other);
  },
  "waited for by the default stream": ({ driver, event }) => driver.streamWaitEvent(0, defaultStream, event),
  "recorded on another stream": ({ driver, other, event }) => driver.eventRecord(0, event, other),
  "destroyed": ({ driver, event }) => driver.eventDestroy(0, event),
};

/** The rows of this file. */
export const situations: readonly Situation[] = [
  ...modes.flatMap((mode) =>
    Object.entries(unrelatedCalls).map(([name, call]): Situation => ({
      name: `${name} while a stream is captured, ${mode}`,
      run: ({ driver }) => inCapture(driver, { call }, { mode }),
    }))
  ),
  ...Object.entries(unrelatedCalls).map(([name, call]): Situation => ({
    name: `${name} by a thread whose mode is relaxed while a stream is captured, global`,
    run: ({ driver }) =>
      inCapture(driver, { call }, {
        mode: "global",
        prepare: () => driver.threadExchangeStreamCaptureMode(streamCaptureMode.relaxed),
      }),
  })),
  ...["blocking", "nonblocking"].flatMap((kind) =>
    Object.entries(defaultStreamCalls).map(([name, call]): Situation => ({
      name: `the default stream while a ${kind} stream is captured: ${name}`,
      run: ({ driver }) => inCapture(driver, { call }, { isBlocking: kind === "blocking" }),
    }))
  ),
  ...Object.entries(ownCalls).map(([name, call]): Situation => ({
    name: `a captured stream ${name}`,
    run: ({ driver }) => inCapture(driver, { call }),
  })),
  ...Object.entries(eventCalls).map(([name, call]): Situation => ({
    name: `an event recorded in a capture ${name}`,
    run: ({ driver }) =>
      inCapture(driver, {
        work: ({ fill, stream }) => fill(stream),
        record: ({ event, stream }) => driver.eventRecord(0, event, stream),
        call,
      }),
  })),
  {
    name: "captures begun on the default stream, in each mode",
    run: ({ driver }) =>
      attemptEach(
        Object.fromEntries(
          modes.map((mode) => [mode, () => driver.streamBeginCapture(0, defaultStream, streamCaptureMode[mode])]),
        ),
      ),
  },
  {
    name: "a capture begun in a mode that there is not",
    run: ({ driver }) => driver.streamBeginCapture(0, prepare(driver).stream, 3),
  },
  {
    name: "a capture begun on a busy stream, and a busy stream that joins a capture",
    run({ driver }) {
      const parts = prepare(driver);
      const { keepBusy } = prepareLongWork(driver, 0);
      keepBusy(parts.stream);
      keepBusy(parts.other);
      const begun = attemptEach({ begin: () => driver.streamBeginCapture(0, parts.stream, streamCaptureMode.relaxed) });
      forkAndJoin(parts, () => parts.fill(parts.other));
      return { ...begun, end: endOf(driver, parts.stream) };
    },
  },
  {
    name: "a capture ended that was not begun",
    run: ({ driver }) => driver.streamEndCapture(0, prepare(driver).stream),
  },
  {
    name: "a stream that was never captured asked for its capture",
    run({ driver }) {
      const { status, id, dependencies } = driver.streamGetCaptureInfo(0, prepare(driver).stream);
      return { status: nameOfStatus(status), id: Number(id), dependencies: dependencies.length };
    },
  },
  {
    name: "how many nodes a captured stream's next work depends on",
    run({ driver }) {
      const parts = prepare(driver);
      const { stream, other, fill } = parts;
      const count = () => driver.streamGetCaptureInfo(0, stream).dependencies.length;
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      const counts = [count()];
      fill(stream);
      counts.push(count());
      forkAndJoin(parts, () => {
        fill(other);
        fill(stream);
      });
      counts.push(count());
      fill(stream);
      return [...counts, count()];
    },
  },
  {
    name: "an empty capture ended, instantiated and launched",
    run: ({ driver }) => bytesAfter(driver, () => {}),
  },
  {
    name: "a kernel captured and launched",
    run: ({ driver }) => bytesAfter(driver, ({ fill, stream }) => fill(stream)),
  },
  {
    name: "a fill, a copy and a fill captured and launched",
    run: ({ driver }) =>
      bytesAfter(driver, ({ address, stream }) => {
        driver.memsetAsync(0, address + 32n, 7, 4, stream);
        driver.memcpyAsync(0, address, address + 32n, 4, stream);
        driver.memsetAsync(0, address, 8, 1, stream);
      }),
  },
  {
    name: "a capture of a stream that another one joined with work, launched",
    run: ({ driver }) =>
      bytesAfter(driver, (parts) => {
        const { address, stream, other, fill } = parts;
        fill(stream);
        forkAndJoin(parts, () => driver.memsetAsync(0, address, 7, 2, other));
        driver.memsetAsync(0, address + 3n, 8, 1, stream);
      }),
  },
  {
    name: "a capture of a stream that another one joined without work",
    run: ({ driver }) => bytesAfter(driver, (parts) => forkAndJoin(parts, () => {})),
  },
  {
    name: "a capture of bytes of pageable memory that change before the launch",
    run({ driver }) {
      const bytes = new Uint8Array(byteLength).fill(3);
      return bytesAfter(driver, ({ address, stream }) => {
        driver.memcpyHtoDAsync(0, address, bytes, stream);
        bytes.fill(4);
      });
    },
  },
  {
    name: "a capture of bytes of page-locked memory that change before the launch",
    run({ driver }) {
      const bytes = new Uint8Array(driver.hostAlloc(byteLength).buffer).fill(3);
      return bytesAfter(driver, ({ address, stream }) => {
        driver.memcpyHtoDAsync(0, address, bytes, stream);
        bytes.fill(4);
      });
    },
  },
  {
    name: "an external record of a capture, before and after a launch",
    run({ driver }) {
      const parts = prepare(driver);
      const { stream, event, fill } = parts;
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      fill(stream);
      driver.eventRecordWithFlags(0, event, stream, externalEvent);
      const exec = driver.graphInstantiate(driver.streamEndCapture(0, stream), 0);
      const before = driver.eventQuery(event);
      driver.graphLaunch(0, exec, stream);
      driver.eventSynchronize(event);
      return { before, after: driver.eventQuery(event), bytes: readBytes(driver, 0, parts.address, 4) };
    },
  },
  {
    name: "an event with an external flag recorded and waited for outside of captures",
    run({ driver }) {
      const { stream, event } = prepare(driver);
      return attemptEach({
        record: () => driver.eventRecordWithFlags(0, event, stream, externalEvent),
        wait: () => driver.streamWaitEvent(0, stream, event, externalEvent),
      });
    },
  },
  {
    name: "an event of a capture that has ended queried, waited for, recorded and queried",
    run({ driver }) {
      const { stream, other, event, fill } = prepare(driver);
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      fill(stream);
      driver.eventRecord(0, event, stream);
      driver.streamEndCapture(0, stream);
      return attemptEach({
        query: () => driver.eventQuery(event),
        synchronize: () => driver.eventSynchronize(event),
        wait: () => driver.streamWaitEvent(0, other, event),
        record: () => driver.eventRecord(0, event, other),
        "query again": () => {
          driver.streamSynchronize(0, other);
          return driver.eventQuery(event);
        },
      });
    },
  },
  {
    name: "two captures, of which one waits for an event of the other",
    run({ driver }) {
      const { stream, other, event, fill } = prepare(driver);
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      driver.streamBeginCapture(0, other, streamCaptureMode.relaxed);
      fill(stream);
      driver.eventRecord(0, event, stream);
      const answers = attemptEach({ wait: () => driver.streamWaitEvent(0, other, event) });
      return { ...answers, first: endOf(driver, stream), second: endOf(driver, other) };
    },
  },
  {
    name: "a capture ended on a stream that joined it, and then on its own",
    run({ driver }) {
      const parts = prepare(driver);
      const { stream, other, fill } = parts;
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      forkAndJoin(parts, () => fill(other));
      return { other: endOf(driver, other), own: endOf(driver, stream) };
    },
  },
  {
    name: "a stream that joined a capture after the capture's end",
    run({ driver }) {
      const parts = prepare(driver);
      const { stream, other, fill } = parts;
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      forkAndJoin(parts, () => fill(other));
      const during = driver.streamIsCapturing(0, other);
      driver.streamEndCapture(0, stream);
      return { during, after: driver.streamIsCapturing(0, other), query: driver.streamQuery(0, other) };
    },
  },
  {
    name: "an invalidated capture: what its streams answer before its end and after it",
    run({ driver }) {
      const parts = prepare(driver);
      const { stream, other, address, event, fill } = parts;
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      forkAndJoin(parts, () => fill(other));
      const calls = (on: bigint) => ({
        query: () => driver.streamQuery(0, on),
        launch: () => fill(on),
        fill: () => driver.memsetAsync(0, address, 1, 4, on),
        record: () => driver.eventRecord(0, event, on),
        wait: () => driver.streamWaitEvent(0, on, parts.earlier),
        captured: () => driver.streamIsCapturing(0, on),
        begin: () => driver.streamBeginCapture(0, on, streamCaptureMode.relaxed),
      });
      const invalidating = attemptEach({ query: () => driver.streamQuery(0, stream) });
      const before = { own: attemptEach(calls(stream)), joined: attemptEach(calls(other)) };
      const end = endOf(driver, stream);
      return {
        invalidating,
        before,
        end,
        after: attemptEach({ query: () => driver.streamQuery(0, other), launch: () => fill(stream) }),
      };
    },
  },
  {
    name: "a stream that joined a capture destroyed during the capture",
    run: ({ driver }) =>
      inCapture(driver, {
        call: (parts) => forkAndJoin(parts, () => parts.fill(parts.other)),
        destroy: ({ other }) => driver.streamDestroy(0, other),
      }),
  },
  {
    name: "two kernels on two blocking streams, of which one is captured",
    run: ({ driver }) =>
      inCapture(driver, { call: ({ fill, stream, blocking }) => (fill(stream), fill(blocking)) }, { isBlocking: true }),
  },
  {
    name: "the mode of a thread exchanged, and unsafe calls in a global capture then",
    run: ({ driver }) =>
      inCapture(driver, {
        exchange: () => driver.threadExchangeStreamCaptureMode(streamCaptureMode.relaxed),
        call: () => driver.malloc(0, byteLength),
        back: () => driver.threadExchangeStreamCaptureMode(streamCaptureMode.global),
      }, { mode: "global" }),
  },
  {
    name: "the mode of a thread exchanged for one that there is not",
    run: ({ driver }) => driver.threadExchangeStreamCaptureMode(3),
  },
  {
    name: "a graph instantiated with each flag that CUDA knows and does not know",
    run({ driver }) {
      const { stream, fill } = prepare(driver);
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      fill(stream);
      const graph = driver.streamEndCapture(0, stream);
      const flags = [0, 1, 8, 9, 16, 1024];
      return attemptEach(Object.fromEntries(flags.map((flag) => [flag, () => driver.graphInstantiate(graph, flag)])));
    },
  },
  {
    name: "a graph launched in a capture of another one",
    run({ driver }) {
      const { stream, other, fill } = prepare(driver);
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      fill(stream);
      const exec = driver.graphInstantiate(driver.streamEndCapture(0, stream), 0);
      driver.streamBeginCapture(0, other, streamCaptureMode.relaxed);
      const launched = attemptEach({
        launch: () => driver.graphLaunch(0, exec, other),
        upload: () => driver.graphUpload(0, exec, other),
      });
      return { ...launched, end: endOf(driver, other) };
    },
  },
  {
    name: "an executable graph launched twice, and destroyed while both launches are pending",
    run({ driver }) {
      const { stream, other, address, fill } = prepare(driver);
      const { keepBusy } = prepareLongWork(driver, 0);
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      fill(stream);
      const graph = driver.streamEndCapture(0, stream);
      const exec = driver.graphInstantiate(graph, 0);
      driver.graphDestroy(graph);
      keepBusy(stream);
      driver.graphLaunch(0, exec, stream);
      driver.graphLaunch(0, exec, other);
      driver.graphExecDestroy(exec);
      const otherWaits = !driver.streamQuery(0, other);
      driver.streamSynchronize(0, stream);
      driver.streamSynchronize(0, other);
      return { otherWaits, bytes: readBytes(driver, 0, address, 4) };
    },
  },
  {
    name: "an executable graph launched on the default stream",
    run({ driver }) {
      const { stream, address, fill } = prepare(driver);
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      fill(stream);
      const exec = driver.graphInstantiate(driver.streamEndCapture(0, stream), 0);
      driver.graphLaunch(0, exec, defaultStream);
      return readBytes(driver, 0, address, 4);
    },
  },
  {
    name: "memory of a pool allocated in a capture, and the pool's usage",
    run({ driver }) {
      const { stream, pool, pooled } = prepare(driver);
      driver.freeAsync(0, pooled, defaultStream);
      driver.deviceSynchronize(0);
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      const answers = attemptEach({
        allocate: () => driver.mallocFromPoolAsync(0, mebibyte, pool, stream),
        used: () => Number(driver.memPoolGetAttribute(pool, memPoolAttribute.usedMemCurrent)),
      });
      return { ...answers, end: endOf(driver, stream) };
    },
  },
];
