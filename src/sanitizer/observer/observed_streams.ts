/**
 * Observes streams, each of which is a timeline, and the host's synchronization with them.
 *
 * @module
 */
import {
  areOrderedByDefaultStream,
  defaultStream,
  type Driver,
  legacyStream,
  type QueryOptions,
  streamFlags,
} from "../../driver.ts";
import { callSiteHere } from "../reporting/call_sites.ts";
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
interface Parts {
  readonly reports: Reports;
  readonly order: StreamOrder;
  /** Called after each synchronization of the host, before the records of other processes are read. */
  readonly beforeWait: () => void;
  /** Called with the host's clock after the records of other processes were read. */
  readonly afterWait: (now: Point) => void;
}

/** Returns whether the program learns the result of a query: `peek` and the library's own queries do not count. */
export function isVisibleToProgram(options: QueryOptions | undefined): boolean {
  return !options?.peek && !options?.forLibrary;
}

/** The timelines of the streams of all devices, and of the host. */
export class ObservedStreams {
  readonly host: Timeline = new Timeline("the host");
  readonly processes: OtherProcesses;
  readonly #parts: Parts;
  /** The streams of each device, by handle. */
  readonly #streams = new Map<number, Map<bigint, Timeline>>();
  /** The destroyed streams of each device whose work may be pending. */
  readonly #destroyed = new Map<number, Set<Timeline>>();
  #streamCount = 0;
  readonly communicators: ObservedCommunicators = new ObservedCommunicators();
  /** For each stream, the last collective that involves ranks of other processes and may still be pending. */
  readonly #pendingCollectives = new Map<Timeline, Point>();
  /**
   * The clock of the work that is assumed to precede later operations, because of interprocess events. The map is
   * replaced, but never mutated.
   */
  #assumed: Clock = new Map();
  /** A cache of the last lookup: programs mostly use the same stream again. */
  #last: { readonly device: number; readonly handle: bigint; readonly timeline: Timeline } | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
    const { reports, order } = parts;
    this.processes = new OtherProcesses({
      reports,
      order,
      host: this.host,
      forget: (timeline) => this.#forget(timeline),
    });
  }

  /** The clock of the work that is assumed to precede every operation enqueued now. The map does not change. */
  get assumed(): Clock {
    return this.#assumed;
  }

  /** The ordinals of the devices that the program has used so far. */
  get devices(): Iterable<number> {
    return this.#streams.keys();
  }

  /** Returns the observed versions of the driver's calls. */
  calls(driver: Driver): Partial<Driver> {
    return {
      streamCreateWithPriority: (device, flags, priority) => {
        const stream = driver.streamCreateWithPriority(device, flags, priority);
        const name = `stream ${++this.#streamCount} of device ${device}`;
        const isBlocking = flags !== streamFlags.nonBlocking;
        this.#last = undefined;
        this.#streamsOf(device).set(stream, new Timeline(name, { device, isBlocking, created: callSiteHere() }));
        return stream;
      },
      streamDestroy: (device, stream) => {
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

  /** Begins the next operation of a stream, and returns its point. */
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
   * Orders a group of collectives: each rank's writes come after the reads of all ranks.
   *
   * @param add adds the reads of the collectives, and then the writes
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

  /** Begins the next operation of the host, and returns its point. */
  nextOfHost(): Point {
    this.host.position++;
    return lastPoint(this.host);
  }

  /** Returns the timeline of a stream. */
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

  /** Returns the streams of a device, including destroyed ones whose work may be pending. */
  allOf(device: number): Timeline[] {
    return [...this.#streamsOf(device).values(), ...this.#destroyedOf(device)];
  }

  /** Returns whether the host knows that a stream has completed its work up to a point. */
  isKnown({ timeline, position }: Point): boolean {
    return timeline.isRetired || (this.host.known().get(timeline) ?? 0) >= position;
  }

  /** Call when all work of a stream is complete: orders the host after that work. */
  syncHostWith(timeline: Timeline): void {
    this.host.joinTimeline(timeline);
    const all = timeline.isDefault ? this.allOf(timeline.device!) : [];
    for (const other of all) if (areOrderedByDefaultStream(timeline, other)) this.host.joinTimeline(other);
    this.afterHostSync();
  }

  /** Call when all work of a device is complete: orders the host after that work. */
  syncHostWithDevice(device: number): void {
    for (const stream of this.allOf(device)) this.host.joinTimeline(stream);
    this.afterHostSync();
  }

  /** Call when the host's clock has advanced, so that copies and destroyed streams may be known to be complete. */
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

  /** Assumes that a point, and all work ordered before it, precedes every operation enqueued from now on. */
  assume({ timeline, position, clock }: Point): void {
    const assumed = new Map(this.#assumed);
    for (const [other, known] of [...clock, [timeline, position] as const]) {
      // Streams of other processes need no assumption: those processes publish their order.
      if (other instanceof PeerTimeline || other.isRetired) continue;
      assumed.set(other, Math.max(assumed.get(other) ?? 0, known));
    }
    this.#assumed = assumed;
    this.afterHostSync();
  }

  /**
   * Retires destroyed streams whose work the host knows to be complete: a program may use a new stream for each task.
   */
  #retire(): void {
    for (const destroyed of this.#destroyed.values()) {
      for (const timeline of destroyed) {
        if (timeline.position > 0 && this.#knownPosition(timeline) < timeline.position) continue;
        destroyed.delete(timeline);
        // Deferred, because operations that were enqueued earlier must not count as ordered after the stream's work.
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
   * Returns the position up to which the host knows a stream's work to be complete. Includes assumptions, unless this
   * process publishes the position to others.
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
