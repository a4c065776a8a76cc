/**
 * The happens-before order of operations, by vector clocks: each stream is a timeline, and so is the host. A timeline's
 * clock has, for every other timeline, the position up to which the work there happens before the next operation here.
 * A wait joins the clock of the awaited work into the clock of the waiting timeline.
 *
 * @see Leslie Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System" (1978)
 * @see Friedemann Mattern, "Virtual Time and Global States of Distributed Systems" (1989), for vector clocks
 *
 * @module
 */
import type { CallStack } from "../reporting/call_stacks.ts";

/**
 * The vector clock of an operation. For each other timeline, all operations up to the given position happen before the
 * operation.
 */
export type Clock = ReadonlyMap<Timeline, number>;

/**
 * The maximum number of waits stored for each pair of timelines. The last wait does not suffice for reports, because a
 * kernel may be checked long after it was enqueued.
 */
const maximumWaits = 8;

/** One timeline's wait for an event that was recorded on another timeline. */
export interface EventWait {
  /** The other timeline's position when it recorded the event. */
  readonly recordedAt: number;
  /** The call site in the program at which the event was recorded. */
  readonly recorded: CallStack;
  /** The waiting timeline's position before the wait. */
  readonly waitsAfter: number;
}

/** A stream, or the host, as a sequence of operations with a vector clock. */
export class Timeline {
  /** The timeline's name in messages: `"stream 1 of device 0"`. */
  name: string;
  readonly device: number | undefined;
  /** Whether this stream and the device's default stream implicitly wait for each other. */
  readonly isBlocking: boolean;
  readonly isDefault: boolean;
  /** Whether code that is not observed may enqueue or order work on the stream, as is the case for a wrapped stream. */
  readonly isForeign: boolean;
  /** The process ID of the stream's owner. Undefined for streams of this process. */
  readonly pid: number | undefined;
  /** The call site at which the program created the stream. Undefined for a default stream and for the host. */
  readonly created: CallStack | undefined;
  /** The number of operations added so far, which is the position of the last one. */
  position = 0;
  /**
   * Whether the stream was destroyed and all of its work is complete. If so, its work precedes all later operations.
   */
  isRetired = false;
  /** The clock that the next operation will have. */
  #known = new Map<Timeline, number>();
  /** Whether `known` has returned the map. If so, the map must be copied before it is changed. */
  #isShared = false;
  /** For each other timeline, this timeline's last waits for its events. Used for advice in reports. */
  readonly #waits = new Map<Timeline, EventWait[]>();
  /** The last clock passed to `join` by `joinTimeline`. Joining the same clock again has no effect. */
  #lastJoined: Clock | undefined;

  constructor(
    name: string,
    { device, pid, created, isBlocking = false, isDefault = false, isForeign = false }: {
      device?: number;
      pid?: number;
      created?: CallStack;
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

  /**
   * Returns the clock that the next operation will have, without this timeline's own position. The returned map never
   * changes.
   */
  known(): Clock {
    this.#isShared = true;
    return this.#known;
  }

  /** Orders the next operation after the operations of another timeline up to a position. */
  joinPoint(other: Timeline, position: number): void {
    if (other === this || other.isRetired || position === 0 || (this.#known.get(other) ?? 0) >= position) return;
    if (this.#isShared) this.#known = new Map(this.#known);
    this.#isShared = false;
    this.#known.set(other, position);
  }

  /** Orders the next operation after a point, and what precedes it. */
  joinEnd({ timeline, position, clock }: Point): void {
    this.join(clock);
    this.joinPoint(timeline, position);
  }

  /** Records, for advice in reports, that the next operation waits for an event of another timeline. */
  recordWait(record: Pick<Point, "timeline" | "position">, recorded: CallStack): void {
    const { timeline, position: recordedAt } = record;
    let waits = this.#waits.get(timeline);
    if (waits === undefined) this.#waits.set(timeline, waits = []);
    if ((waits.at(-1)?.recordedAt ?? 0) >= recordedAt) return;
    waits.push({ recordedAt, recorded, waitsAfter: this.position });
    if (waits.length > maximumWaits) waits.shift();
  }

  /**
   * Looks for waits that do not order the operation `earlier`, because their event was recorded on its timeline before
   * that operation. Returns the last one ahead of position `before`, or undefined.
   */
  waitFor(earlier: Point, before: number): EventWait | undefined {
    return this.#waits.get(earlier.timeline)?.findLast(({ recordedAt, waitsAfter }) => {
      return recordedAt < earlier.position && waitsAfter < before;
    });
  }

  /** Removes a retired timeline from this timeline's clock. */
  forget(other: Timeline): void {
    this.#waits.delete(other);
    if (!this.#known.has(other)) return;
    if (this.#isShared) this.#known = new Map(this.#known);
    this.#isShared = false;
    this.#known.delete(other);
  }

  /** Orders the next operation after all operations that a clock includes. */
  join(clock: Clock): void {
    if (clock === this.#known) return;
    for (const [other, position] of clock) this.joinPoint(other, position);
  }

  /** Orders the next operation after all operations added to another timeline so far. */
  joinTimeline(other: Timeline): void {
    const clock = other.known();
    if (clock !== this.#lastJoined) this.join(clock);
    this.#lastJoined = clock;
    this.joinPoint(other, other.position);
  }
}

/** An operation's position in its timeline, and the operation's clock. */
export interface Point {
  readonly timeline: Timeline;
  readonly position: number;
  readonly clock: Clock;
  /**
   * The clock of work that is assumed to happen before this point although no observed call orders it, because
   * processes may synchronize by other means.
   */
  readonly assumed?: Clock;
}

/** Returns the point of a timeline's last operation. */
export function lastPoint(timeline: Timeline): Point {
  return { timeline, position: timeline.position, clock: timeline.known() };
}

/** Returns whether point `a` happens before point `b`, or is assumed to happen before it. */
export function isBefore(a: Point, b: Point): boolean {
  if (a.timeline === b.timeline) return a.position <= b.position;
  if (a.timeline.isRetired || a.timeline.isForeign || b.timeline.isForeign) return true;
  return (b.clock.get(a.timeline) ?? 0) >= a.position || (b.assumed?.get(a.timeline) ?? 0) >= a.position;
}

/** An operation of a stream or of the host that accesses, allocates or frees memory. */
export interface Operation extends Point {
  /** The operation's name in messages: `"kernel saxpy"`, `"copyFrom"`, `"free"` and so on. */
  readonly name: string;
  /** The site in the program of the call that enqueued the operation. */
  readonly site: CallStack;
  /** The operation's number in the order in which its process enqueued operations. */
  readonly sequence: number;
  /** The launch of the graph that the operation is a part of. `site` is then where the operation was captured. */
  readonly graph?: LaunchedGraph;
}

/** A launch of a graph. */
export interface LaunchedGraph {
  /** The name of the stream. */
  readonly stream: string;
  /** The call site in the program. */
  readonly launched: CallStack;
}
