/**
 * Observes streams, each of which is a timeline, and the host's synchronization with them.
 *
 * @module
 */
import {
  areOrderedByDefaultStream,
  defaultStream,
  type Driver,
  type KernelLaunch,
  legacyStream,
  type QueryOptions,
  streamFlags,
} from "../../driver.ts";
import type { CallEffects } from "../../call_effects.ts";
import { captureCallStack } from "../reporting/call_stacks.ts";
import { OtherProcesses } from "../processes/other_processes.ts";
import { PeerTimeline } from "../processes/peers.ts";
import type { Reports } from "../reporting/reports.ts";
import type { StreamOrder } from "../order/stream_order.ts";
import { type Clock, lastPoint, type Point, Timeline } from "../order/timelines.ts";
import { ObservedCommunicators, type RankCall } from "./observed_communicators.ts";

/** A stream, identified by the ordinal of its device and its handle. */
export interface StreamHandle {
  readonly device: number;
  readonly stream: bigint;
}

/** The parts of the sanitizer that `ObservedStreams` uses. */
interface ObservedStreamsParts {
  readonly reports: Reports;
  readonly order: StreamOrder;
  /** Called after each synchronization of the host, before the published records of other processes are read. */
  readonly beforeWait: () => void;
  /** Called with the host's current point, after the published records of other processes have been read. */
  readonly afterWait: (now: Point) => void;
}

/**
 * Returns whether the program sees the result of a query. False for `peek`, and for queries that the library makes for
 * its own purposes.
 */
export function isVisibleToProgram(options: QueryOptions | undefined): boolean {
  return !options?.peek && !options?.forLibrary;
}

/** Observes the calls that create, destroy and wait for streams. Holds the timelines of all streams and of the host. */
export class ObservedStreams {
  readonly host: Timeline = new Timeline("the host");
  readonly processes: OtherProcesses;
  readonly #parts: ObservedStreamsParts;
  /** For each device, the timelines of the streams, keyed by handle. */
  readonly #streams = new Map<number, Map<bigint, Timeline>>();
  /** For each device, the timelines of destroyed streams whose work may be pending. */
  readonly #destroyed = new Map<number, Set<Timeline>>();
  /** The handles of the streams that are being captured: the calls that use them enqueue nothing. */
  readonly #captured = new Set<bigint>();
  #streamCount = 0;
  readonly communicators: ObservedCommunicators = new ObservedCommunicators();
  /** For each stream, the point of its last collective with ranks of other processes, while it may be pending. */
  readonly #pendingCollectives = new Map<Timeline, Point>();
  /**
   * The clock of work that is assumed to precede later operations: the work before records of events that other
   * processes may wait for. Each change replaces the map, which is never mutated.
   */
  #assumed: Clock = new Map();
  /** The result of the last lookup. Cached, because programs mostly use the same stream again. */
  #last: { readonly device: number; readonly handle: bigint; readonly timeline: Timeline } | undefined;

  constructor(parts: ObservedStreamsParts) {
    this.#parts = parts;
    const { reports, order } = parts;
    this.processes = new OtherProcesses({
      reports,
      order,
      host: this.host,
      forget: (timeline) => this.#forget(timeline),
    });
  }

  /**
   * The clock of work that is assumed to precede every operation that is enqueued now. The returned map never changes.
   */
  get assumed(): Clock {
    return this.#assumed;
  }

  /** The ordinals of the devices that the program has used. */
  get devices(): Iterable<number> {
    return this.#streams.keys();
  }

  /** Whether a call with these effects and parameters adds to a graph, and enqueues nothing. */
  isCaptured({ stream, enqueues }: CallEffects, parameters: readonly unknown[]): boolean {
    if (this.#captured.size === 0 || enqueues === undefined) return false;
    const handle = stream === "launch" ? (parameters[0] as KernelLaunch).stream : parameters[stream as number];
    return this.#captured.has(handle as bigint);
  }

  /** Call when a stream waits for an event. Returns whether this has made it a part of a capture. */
  joinsCapture(driver: Driver, device: number, stream: bigint): boolean {
    if (this.#captured.size === 0 || !driver.streamIsCapturing(device, stream)) return false;
    this.#captured.add(stream);
    return true;
  }

  /** Returns wrappers of the driver's stream calls that observe and forward each call. */
  calls(driver: Driver): Partial<Driver> {
    return {
      streamCreateWithPriority: (device, flags, priority) => {
        const stream = driver.streamCreateWithPriority(device, flags, priority);
        const name = `stream ${++this.#streamCount} of device ${device}`;
        const isBlocking = flags !== streamFlags.nonBlocking;
        this.#last = undefined;
        this.#streamsOf(device).set(stream, new Timeline(name, { device, isBlocking, created: captureCallStack() }));
        return stream;
      },
      streamBeginCapture: (device, stream, mode) => {
        driver.streamBeginCapture(device, stream, mode);
        this.#captured.add(stream);
      },
      streamBeginCaptureToGraph: (device, stream, graph, dependencies, mode) => {
        driver.streamBeginCaptureToGraph(device, stream, graph, dependencies, mode);
        this.#captured.add(stream);
      },
      streamEndCapture: (device, stream) => {
        try {
          return driver.streamEndCapture(device, stream);
        } finally {
          for (const other of this.#captured) {
            if (!driver.streamIsCapturing(device, other)) this.#captured.delete(other);
          }
        }
      },
      streamDestroy: (device, stream) => {
        this.#captured.delete(stream);
        driver.streamDestroy(device, stream);
        const streams = this.#streamsOf(device);
        const timeline = streams.get(stream);
        this.#last = undefined;
        streams.delete(stream);
        if (timeline !== undefined) this.#destroyedOf(device).add(timeline);
        this.#retire();
      },
      streamQuery: (device, stream, options) => {
        const isDone = driver.streamQuery(device, stream, options);
        if (isDone && isVisibleToProgram(options)) this.syncHostWith(this.streamOf(device, stream));
        return isDone;
      },
      streamSynchronize: (device, stream) => {
        driver.streamSynchronize(device, stream);
        this.syncHostWith(this.streamOf(device, stream));
      },
      deviceSynchronize: (device) => {
        driver.deviceSynchronize(device);
        this.syncHostWithDevice(device);
      },
    };
  }

  /** Begins the next operation of a stream. Returns the operation's point. */
  next(device: number, stream: bigint): Point {
    this.processes.beginOperation();
    const timeline = this.streamOf(device, stream);
    timeline.joinTimeline(this.host);
    if (timeline.isBlocking) {
      for (const other of this.allOf(device)) {
        if (areOrderedByDefaultStream(timeline, other)) timeline.joinTimeline(other);
      }
    }
    this.communicators.joinLateCalls(timeline);
    timeline.position++;
    return lastPoint(timeline);
  }

  /**
   * Adds the operations of a group of collectives. Orders each rank's writes after the reads of all ranks.
   *
   * @param add functions that add the reads and the writes of the collectives
   */
  onCollectives(
    calls: readonly (StreamHandle & RankCall)[],
    add: { readonly read: () => void; readonly write: () => void },
  ): void {
    const rendezvous = this.communicators.beginCollectives(calls.map(({ device, stream, rank, peer }) => {
      return { rank, peer, timeline: this.streamOf(device, stream) };
    }));
    add.read();
    rendezvous.wait();
    add.write();
    rendezvous.end();
    if (rendezvous.isLocal) return;
    for (const { device, stream } of calls) {
      const point = lastPoint(this.streamOf(device, stream));
      this.#pendingCollectives.set(point.timeline, point);
    }
    this.processes.onCollectiveEnqueued();
  }

  /** Call when a branch of graphs runs no more work. */
  dropBranch(branch: Timeline): void {
    this.#destroyedOf(branch.device!).add(branch);
    this.#retire();
  }

  /** Begins the next operation of the host. Returns the operation's point. */
  nextOfHost(): Point {
    this.host.position++;
    return lastPoint(this.host);
  }

  /** Returns the timeline of a stream, creating it for a wrapped stream that is used for the first time. */
  streamOf(device: number, handle: bigint): Timeline {
    const last = this.#last;
    if (last !== undefined && last.handle === handle && last.device === device) return last.timeline;
    const streams = this.#streamsOf(device);
    const stream = handle === legacyStream ? defaultStream : handle;
    let timeline = streams.get(stream);
    if (timeline === undefined) {
      timeline = new Timeline(`a wrapped stream of device ${device}`, { device, isForeign: true });
      streams.set(stream, timeline);
    }
    this.#last = { device, handle, timeline };
    return timeline;
  }

  /** Returns the timelines of a device's streams, including destroyed streams whose work may be pending. */
  allOf(device: number): Timeline[] {
    return [...this.#streamsOf(device).values(), ...this.#destroyedOf(device)];
  }

  /** Returns whether a point in a stream is ordered before the host's current point. */
  isKnown({ timeline, position }: Point): boolean {
    return timeline.isRetired || (this.host.known().get(timeline) ?? 0) >= position;
  }

  /** Call when a wait has shown that all work of a stream is complete. Orders the host after the stream's work. */
  syncHostWith(timeline: Timeline): void {
    this.host.joinTimeline(timeline);
    const all = timeline.isDefault ? this.allOf(timeline.device!) : [];
    for (const other of all) if (areOrderedByDefaultStream(timeline, other)) this.host.joinTimeline(other);
    this.afterHostSync();
  }

  /**
   * Call when a wait has shown that all work of a device is complete. Orders the host after the work of all its
   * streams.
   */
  syncHostWithDevice(device: number): void {
    for (const stream of this.allOf(device)) this.host.joinTimeline(stream);
    this.afterHostSync();
  }

  /**
   * Call when the host's clock has advanced. Checks which copies are complete, and drops destroyed streams without
   * pending work.
   */
  afterHostSync(): void {
    this.communicators.joinLateCalls(this.host);
    this.#parts.beforeWait();
    this.processes.publishKnown();
    this.processes.read();
    this.#retireCollectives();
    this.#parts.afterWait({ ...lastPoint(this.host), assumed: this.#assumed });
    this.#retire();
  }

  #retireCollectives(): void {
    if (this.#pendingCollectives.size === 0) return;
    for (const [timeline, point] of this.#pendingCollectives) {
      if (this.isKnown(point)) this.#pendingCollectives.delete(timeline);
    }
    if (this.#pendingCollectives.size === 0) this.processes.onCollectivesCompleted();
  }

  /** Assumes from now on that a point, and all work ordered before that point, precedes every operation. */
  assume({ timeline, position, clock }: Point): void {
    const assumed = new Map(this.#assumed);
    for (const [other, known] of [...clock, [timeline, position] as const]) {
      // Streams of other processes need no assumption: those processes publish the order of their work.
      if (other instanceof PeerTimeline || other.isRetired) continue;
      assumed.set(other, Math.max(assumed.get(other) ?? 0, known));
    }
    this.#assumed = assumed;
    this.afterHostSync();
  }

  /**
   * Drops the timelines of destroyed streams that have no pending work: a program may create a new stream for each
   * task.
   */
  #retire(): void {
    for (const destroyed of this.#destroyed.values()) {
      for (const timeline of destroyed) {
        if (timeline.position > 0 && this.#knownPosition(timeline) < timeline.position) continue;
        destroyed.delete(timeline);
        // Queue this step: operations that were enqueued earlier but are not checked yet must not count as ordered
        // after this stream's work.
        const then = () => {
          timeline.isRetired = true;
          this.processes.retired(timeline);
          this.#forget(timeline);
        };
        this.#parts.order.add({ then, accesses: [] });
      }
    }
  }

  /**
   * Returns the position up to which a stream's work precedes the host's current point. Includes work that is only
   * assumed to precede the point, unless this process publishes to other processes.
   */
  #knownPosition(timeline: Timeline): number {
    const known = this.host.known().get(timeline) ?? 0;
    return this.processes.hasJoined ? known : Math.max(known, this.#assumed.get(timeline) ?? 0);
  }

  #forget(timeline: Timeline): void {
    for (const streams of this.#streams.values()) {
      for (const stream of streams.values()) stream.forget(timeline);
    }
    this.host.forget(timeline);
    this.communicators.forget(timeline);
    if (!this.#assumed.has(timeline)) return;
    const assumed = new Map(this.#assumed);
    assumed.delete(timeline);
    this.#assumed = assumed;
  }

  #streamsOf(device: number): Map<bigint, Timeline> {
    let streams = this.#streams.get(device);
    if (streams === undefined) {
      const name = `the default stream of device ${device}`;
      const timeline = new Timeline(name, { device, isBlocking: true, isDefault: true });
      this.#streams.set(device, streams = new Map([[defaultStream, timeline]]));
    }
    return streams;
  }

  #destroyedOf(device: number): Set<Timeline> {
    let destroyed = this.#destroyed.get(device);
    if (destroyed === undefined) this.#destroyed.set(device, destroyed = new Set());
    return destroyed;
  }
}
