/**
 * The happens-before order of operations, by vector clocks: each stream is a timeline, and so is the host. A timeline's
 * clock says, for every other timeline, how much of its work comes before the next operation here. A wait joins the
 * clock of what is waited for into the clock of the waiter.
 *
 * @see Leslie Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System" (1978)
 * @see Friedemann Mattern, "Virtual Time and Global States of Distributed Systems" (1989), for vector clocks
 *
 * @module
 */
import type { CallSite } from "../reporting/call_sites.ts";

/** A vector clock: for each other timeline, the position up to which its work comes before. */
export type Clock = ReadonlyMap<Timeline, number>;

/** The waits that are kept: kernels run, and are checked, long after they were enqueued. */
const maximumWaits = 8;

/** A wait of a timeline for an event that another one recorded. */
export interface EventWait {
  /** The position of the record in the other timeline. */
  readonly recordedAt: number;
  /** Where the program recorded it. */
  readonly recorded: CallSite;
  /** The position of the waiting timeline before the wait. */
  readonly waitsAfter: number;
}

/** The operations of a stream, or of the host, in order. */
export class Timeline {
  /** Its name in messages: `"stream 1 of device 0"`. */
  name: string;
  readonly device: number | undefined;
  /** Whether its work and that of the device's default stream wait for each other. */
  readonly isBlocking: boolean;
  readonly isDefault: boolean;
  /** Whether unobserved code may enqueue and order work on it, too, as on a wrapped stream. */
  readonly isForeign: boolean;
  /** The process that it belongs to, if that is another one. */
  readonly pid: number | undefined;
  /** Where the program created the stream. Undefined for a default stream and for the host. */
  readonly created: CallSite | undefined;
  /** The number of its operations. */
  position = 0;
  /** Whether it gets no more operations, and those that it had come before everything that follows. */
  isRetired = false;
  #known = new Map<Timeline, number>();
  /** Whether `known` has returned the map, which must then be copied before it changes. */
  #isShared = false;
  /** The last waits for each other timeline, for the advice of reports. */
  readonly #waits = new Map<Timeline, EventWait[]>();
  /** The clock that `joinTimeline` joined last: joining it again would change nothing. */
  #lastJoined: Clock | undefined;

  constructor(
    name: string,
    { device, pid, created, isBlocking = false, isDefault = false, isForeign = false }: {
      device?: number;
      pid?: number;
      created?: CallSite;
      isBlocking?: boolean;
      isDefault?: boolean;
      isForeign?: boolean;
    } = {},
  ) {
    this.name = name;
    this.device = device;
    this.isBlocking = isBlocking;
    this.isDefault = isDefault;
    this.isForeign = isForeign;
    this.pid = pid;
    this.created = created;
  }

  /** The clock of its next operation, without its own position. The returned map does not change. */
  known(): Clock {
    this.#isShared = true;
    return this.#known;
  }

  /** Orders its next operation after those of another timeline, up to a position. */
  joinPoint(other: Timeline, position: number): void {
    if (other === this || other.isRetired || position === 0 || (this.#known.get(other) ?? 0) >= position) return;
    if (this.#isShared) this.#known = new Map(this.#known);
    this.#isShared = false;
    this.#known.set(other, position);
  }

  /** Keeps a wait of its next operation for an event of another timeline, for the advice of reports. */
  recordWait(record: Pick<Point, "timeline" | "position">, recorded: CallSite): void {
    const { timeline, position: recordedAt } = record;
    let waits = this.#waits.get(timeline);
    if (waits === undefined) this.#waits.set(timeline, waits = []);
    if ((waits.at(-1)?.recordedAt ?? 0) >= recordedAt) return;
    waits.push({ recordedAt, recorded, waitsAfter: this.position });
    if (waits.length > maximumWaits) waits.shift();
  }

  /** The last wait before a position for an event that was recorded too early: before `earlier` in its timeline. */
  waitFor(earlier: Point, before: number): EventWait | undefined {
    return this.#waits.get(earlier.timeline)?.findLast(({ recordedAt, waitsAfter }) => {
      return recordedAt < earlier.position && waitsAfter < before;
    });
  }

  /** Removes a retired timeline. */
  forget(other: Timeline): void {
    this.#waits.delete(other);
    if (!this.#known.has(other)) return;
    if (this.#isShared) this.#known = new Map(this.#known);
    this.#isShared = false;
    this.#known.delete(other);
  }

  /** Joins a clock: orders its next operation after what the clock says. */
  join(clock: Clock): void {
    if (clock === this.#known) return;
    for (const [other, position] of clock) this.joinPoint(other, position);
  }

  /** Orders its next operation after all operations of another timeline so far. */
  joinTimeline(other: Timeline): void {
    const clock = other.known();
    if (clock !== this.#lastJoined) this.join(clock);
    this.#lastJoined = clock;
    this.joinPoint(other, other.position);
  }
}

/** An operation's place in its timeline, with its clock. */
export interface Point {
  readonly timeline: Timeline;
  readonly position: number;
  readonly clock: Clock;
  /** A clock that is assumed to come before, too, because unobserved processes may have synchronized it. */
  readonly assumed?: Clock;
}

/** The point of a timeline's last operation. */
export function lastPoint(timeline: Timeline): Point {
  return { timeline, position: timeline.position, clock: timeline.known() };
}

/** Whether one point happens before another, or is assumed to. */
export function isBefore(a: Point, b: Point): boolean {
  if (a.timeline === b.timeline) return a.position <= b.position;
  if (a.timeline.isRetired || a.timeline.isForeign || b.timeline.isForeign) return true;
  return (b.clock.get(a.timeline) ?? 0) >= a.position || (b.assumed?.get(a.timeline) ?? 0) >= a.position;
}

/** An operation of a stream or of the host that accesses, allocates or frees memory. */
export interface Operation extends Point {
  /** `"kernel saxpy"`, `"copyFrom"`, `"free"` and so on. */
  readonly name: string;
  /** Where the program called it. */
  readonly site: CallSite;
  /** Its number in the order in which its process enqueued operations. */
  readonly sequence: number;
}
