/**
 * What rows about captures and graphs share.
 *
 * @module
 */
import {
  defaultStream,
  type Driver,
  eventFlags,
  graphNodeType,
  type streamCaptureMode,
  streamCaptureStatus,
  streamFlags,
} from "../../src/driver.ts";
import { attemptEach } from "./attempts.ts";
import { kernelsPtx } from "./kernels.ts";
import { fillLaunch, loadFill } from "./launch.ts";
import { createPool } from "./pools.ts";
import type { Answer } from "./situation.ts";

/** The size of the rows' memory in bytes. */
export const byteLength: number = 64;

/** The name of a mode of captures. */
export type Mode = keyof typeof streamCaptureMode;

/** What the rows use, created before any capture begins. */
export interface Parts {
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
  readonly kernel: bigint;
  readonly module: bigint;
  fill(stream: bigint): void;
}

/** Creates what the rows use. */
export function prepare(driver: Driver, { isBlocking = false }: { isBlocking?: boolean } = {}): Parts {
  const create = (flags: number) => driver.streamCreateWithPriority(0, flags, 0);
  const createEvent = () => driver.eventCreateWithFlags(0, eventFlags.disableTiming);
  const { nonBlocking, default: blockingFlag } = streamFlags;
  const pool = createPool(driver);
  const module = driver.moduleLoadData(0, kernelsPtx);
  const address = driver.malloc(0, byteLength);
  const kernel = loadFill(driver, 0);
  const parts: Parts = {
    driver,
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
  driver.deviceSynchronize(0);
  return parts;
}

/** Returns the name of a capture's status. */
export const nameOfStatus = (status: number): string =>
  Object.entries(streamCaptureStatus).find(([, value]) => value === status)?.[0] ?? String(status);

/** Returns the name of a node's type. */
export const nameOfType = (type: number): string =>
  Object.entries(graphNodeType).find(([, value]) => value === type)?.[0] ?? String(type);

/** The types of a graph's nodes, and its edges as pairs of the types of nodes. */
export function shapeOf(driver: Driver, graph: bigint): Answer {
  const typeOf = (node: bigint) => nameOfType(driver.graphNodeGetType(node));
  return {
    nodes: driver.graphGetNodes(graph).map(typeOf).sort(),
    edges: driver.graphGetEdges(graph).map((edge) => edge.map(typeOf).join(" before ")).sort(),
  };
}

/** The shape of the graph that ending a capture returns, or the error. */
export function endOf(driver: Driver, stream: bigint): Answer {
  let shape: Answer = null;
  const ended = attemptEach({ end: () => shape = shapeOf(driver, driver.streamEndCapture(0, stream)) });
  return shape ?? ended["end"]!;
}

/** Joins `other` to the capture, and back. `work` is enqueued on `other` between the two. */
export function forkAndJoin({ driver, stream, other, event, second }: Parts, work: () => void): void {
  driver.eventRecord(0, event, stream);
  driver.streamWaitEvent(0, other, event);
  work();
  driver.eventRecord(0, second, other);
  driver.streamWaitEvent(0, stream, second);
}

/** The modes of captures. */
export const modes: readonly Mode[] = ["relaxed", "threadLocal", "global"];
