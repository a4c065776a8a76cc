/**
 * Streams as timelines, and what the host knows of their work.
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

/** A stream, by its device's ordinal and its handle. */
export interface StreamHandle {
  readonly device: number;
  readonly stream: bigint;
}

/** What it works with. */
interface Parts {
  readonly reports: Reports;
  readonly order: StreamOrder;
  /** Called when the host has waited, before what other processes do is looked at. */
  readonly beforeWait: () => void;
  /** Called then, with what the host knows to be done. */
  readonly afterWait: (now: Point) => void;
}

/** Whether the program gets to know what a driver is asked. */
export function isVisibleToProgram(options: QueryOptions | undefined): boolean {
  return !options?.peek && !options?.forLibrary;
}

/** The streams of all devices, and the host. */
export class ObservedStreams {
  readonly host: Timeline = new Timeline("the host");
  readonly processes: OtherProcesses;
  readonly #parts: Parts;
  /** The streams of each device, by handle. */
  readonly #streams = new Map<number, Map<bigint, Timeline>>();
  /** Streams that were destroyed, and may have work. */
  readonly #destroyed = new Map<number, Set<Timeline>>();
  #streamCount = 0;
  readonly communicators: ObservedCommunicators = new ObservedCommunicators();
  /** The last collective of each stream with ranks of other processes that the host does not know to be done. */
  readonly #pendingCollectives = new Map<Timeline, Point>();
  /** What the records of interprocess events are taken to order. The map does not change. */
  #assumed: Clock = new Map();
  /** The stream that was used last: programs mostly use it again. */
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

  /** What is taken to come before all that is asked for. The map does not change. */
  get assumed(): Clock {
    return this.#assumed;
  }

  /** The ordinals of the devices that were used. */
  get devices(): Iterable<number> {
    return this.#streams.keys();
  }

  /** The calls to make instead of the driver's own. */
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

  /** The next work of a stream. */
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
   * Notes that streams were given collectives together, by which other processes may order what they do.
   *
   * @param add Adds what they read, and what they write then.
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

  /** What the host does next. */
  nextOfHost(): Point {
    this.host.position++;
    return lastPoint(this.host);
  }

  /** The stream of a handle. */
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

  /** The streams of a device, and those that were destroyed and may have work. */
  allOf(device: number): Timeline[] {
    return [...this.#streamsOf(device).values(), ...this.#destroyedOf(device)];
  }

  /** Whether the host knows a point to be reached. */
  isKnown({ timeline, position }: Point): boolean {
    return timeline.isRetired || (this.host.known().get(timeline) ?? 0) >= position;
  }

  /** Notes that the host knows the work of a stream to be done. */
  syncHostWith(timeline: Timeline): void {
    this.host.joinTimeline(timeline);
    const all = timeline.isDefault ? this.allOf(timeline.device!) : [];
    for (const other of all) if (areOrderedByDefaultStream(timeline, other)) this.host.joinTimeline(other);
    this.afterHostSync();
  }

  /** Notes that the host knows the work of all streams of a device to be done. */
  syncHostWithDevice(device: number): void {
    for (const stream of this.allOf(device)) this.host.joinTimeline(stream);
    this.afterHostSync();
  }

  /** Notes that the host knows more than before: copies may be done, and streams that were destroyed. */
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

  /** Takes all that comes before a point, and the point, to be known to the host. */
  assume({ timeline, position, clock }: Point): void {
    const assumed = new Map(this.#assumed);
    for (const [other, known] of [...clock, [timeline, position] as const]) {
      // What comes before others is known: they tell.
      if (other instanceof PeerTimeline || other.isRetired) continue;
      assumed.set(other, Math.max(assumed.get(other) ?? 0, known));
    }
    this.#assumed = assumed;
    this.afterHostSync();
  }

  /** Forgets the destroyed streams whose work the host knows to be done: a program may use a new stream for each task. */
  #retire(): void {
    for (const destroyed of this.#destroyed.values()) {
      for (const timeline of destroyed) {
        if (timeline.position > 0 && this.#knownPosition(timeline) < timeline.position) continue;
        destroyed.delete(timeline);
        // What was asked for before must not be taken to come after it.
        const then = () => {
          timeline.isRetired = true;
          this.processes.retired(timeline);
          this.#forget(timeline);
        };
        this.#parts.order.add({ then, accesses: [] });
      }
    }
  }

  /** How much of a stream's work the host knows to be done. Only what it knows for sure is told to other processes. */
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
