/**
 * The order of work: what is known, at each point of a stream's work, to be done before.
 *
 * @module
 */
import type { CallSite } from "../reporting/call_sites.ts";

/** How far other timelines are known to have got. */
export type Clock = ReadonlyMap<Timeline, number>;

/** How many waits are remembered: kernels run, and are looked at, long after the program has asked for them. */
const mostWaits = 8;

/** A wait for an event. */
export interface EventWait {
  /** The position of the record in the timeline that has recorded the event. */
  readonly recordedAt: number;
  /** Where the program recorded it. */
  readonly recorded: CallSite;
  /** How much work the timeline that waits was given before. */
  readonly waitsAfter: number;
}

/** The work of a stream, in order, or what the host does. */
export class Timeline {
  /** How messages call it: `"stream 1 of device 0"`. */
  name: string;
  readonly device: number | undefined;
  /** Whether its work and that of the device's default stream wait for each other. */
  readonly isBlocking: boolean;
  readonly isDefault: boolean;
  /** Whether others, who are not observed, give it work too, and order that. */
  readonly isForeign: boolean;
  /** Its process, if that is another one. */
  readonly pid: number | undefined;
  /** Where the program created the stream, if it did. */
  readonly created: CallSite | undefined;
  /** How much work it was given. */
  position = 0;
  /** Whether it gets no more work, and everything comes after what it had. */
  isRetired = false;
  #known = new Map<Timeline, number>();
  /** Whether somebody has the map, which must then not change. */
  #isShared = false;
  /** The last waits for each other one, for what reports say. */
  readonly #waits = new Map<Timeline, EventWait[]>();
  /** What another timeline knew when this one last learned all of it. */
  #learned: Clock | undefined;

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

  /** What is done before its next work, its own work aside. The returned map does not change. */
  known(): Clock {
    this.#isShared = true;
    return this.#known;
  }

  /** Notes that its next work comes after that of another timeline, up to a position. */
  learn(other: Timeline, position: number): void {
    if (other === this || other.isRetired || position === 0 || (this.#known.get(other) ?? 0) >= position) return;
    if (this.#isShared) this.#known = new Map(this.#known);
    this.#isShared = false;
    this.#known.set(other, position);
  }

  /** Notes that its next work waits for an event of another timeline. */
  noteWait(record: Pick<Point, "timeline" | "position">, recorded: CallSite): void {
    const { timeline, position: recordedAt } = record;
    let waits = this.#waits.get(timeline);
    if (waits === undefined) this.#waits.set(timeline, waits = []);
    if ((waits.at(-1)?.recordedAt ?? 0) >= recordedAt) return;
    waits.push({ recordedAt, recorded, waitsAfter: this.position });
    if (waits.length > mostWaits) waits.shift();
  }

  /** The last wait that comes before some of its work, for an event that another one recorded before some of its own. */
  waitFor(earlier: Point, before: number): EventWait | undefined {
    return this.#waits.get(earlier.timeline)?.findLast(({ recordedAt, waitsAfter }) => {
      return recordedAt < earlier.position && waitsAfter < before;
    });
  }

  /** Forgets a timeline that is retired. */
  forget(other: Timeline): void {
    this.#waits.delete(other);
    if (!this.#known.has(other)) return;
    if (this.#isShared) this.#known = new Map(this.#known);
    this.#isShared = false;
    this.#known.delete(other);
  }

  /** Notes that its next work comes after what a clock says. */
  learnAll(clock: Clock): void {
    if (clock === this.#known) return;
    for (const [other, position] of clock) this.learn(other, position);
  }

  /** Notes that its next work comes after all work that another timeline was given, and after what that came after. */
  learnFrom(other: Timeline): void {
    const clock = other.known();
    if (clock !== this.#learned) this.learnAll(clock);
    this.#learned = clock;
    this.learn(other, other.position);
  }
}

/** A point in a timeline, with what is done before. */
export interface Point {
  readonly timeline: Timeline;
  readonly position: number;
  readonly clock: Clock;
  /** What is taken to come before, too, because nothing is known of who may order it. */
  readonly assumed?: Clock;
}

/** The point of the work that a timeline was given last. */
export function lastPoint(timeline: Timeline): Point {
  return { timeline, position: timeline.position, clock: timeline.known() };
}

/** Whether one point is known to come before another. */
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
  readonly asked: number;
}
