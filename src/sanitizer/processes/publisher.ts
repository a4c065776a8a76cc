/**
 * What this process tells the others.
 *
 * @module
 */
import { hasEnded } from "../../../ffi/native/shim/processes.ts";
import { connectedProcesses, connectionCount, endedProcesses, hasManyConnections } from "../notifications.ts";
import { stackOf } from "../reporting/call_sites.ts";
import type { MemoryAccess } from "../memory_history.ts";
import type { Clock, Operation, Point, Timeline } from "../order/timelines.ts";
import type { Board, Bystander } from "./board.ts";
import { PeerTimeline, publishes } from "./peers.ts";
import { encodeRecord, maximumPoints, type SentPoint, type SentRecord, type ShareName } from "./records.ts";

/** A kernel that accesses every other element has more pieces of memory than others should be told. */
const maximumPieces = 64;

/** The streams of this process by numbers, and what others were told of them. */
export class Publisher {
  /** Counts the work that was asked for. */
  asked = 0;
  readonly #host: Timeline;
  #board: Board | undefined;
  #bystander: Bystander | undefined;
  readonly #numbers = new Map<Timeline, number>();
  readonly #timelines = new Map<number, Timeline>();
  #timelineCount = 0;
  /** What others were told to be done, or have told. */
  readonly #published = new Map<Timeline, number>();
  /** The operation that was told last, and how many pieces of memory that it accesses. */
  #lastOperation: Operation | undefined;
  #pieceCount = 0;
  /** How many connections there were when others were told of them last. */
  #connectionCount = 0;
  /** The processes that others were told this one is connected to. */
  readonly #publishedConnections = new Set<number>();
  /** How many that have ended others were told of. */
  #endedCount = 0;

  constructor(host: Timeline) {
    this.#host = host;
  }

  /** Begins to tell others. */
  begin(board: Board): void {
    this.#board = board;
    this.publishKnown();
  }

  /** Ends it: others take this process to order everything from now on. */
  end(): void {
    this.#board?.leave();
    this.#board = undefined;
    this.#bystander?.leave();
    this.#bystander = undefined;
  }

  /** Notes that it cannot tell others. */
  setBystander(bystander: Bystander): void {
    this.#bystander = bystander;
  }

  /** Ends it because others cannot be told, or what they tell cannot be read, and lets them know. */
  fail(): void {
    try {
      this.#bystander = this.#board?.abandon();
      this.#board = undefined;
    } catch {
      this.end();
    }
  }

  /** Where it tells. Undefined if it does not. */
  get board(): Board | undefined {
    return this.#board;
  }

  /** The stream of a number. */
  timelineOf(number: number): Timeline | undefined {
    return this.#timelines.get(number);
  }

  /** Tells a record. */
  publish(record: SentRecord): void {
    try {
      this.#board?.append(encodeRecord(record), this.asked);
    } catch {
      // There is no memory, or the record is too long.
      this.fail();
    }
  }

  /** Tells what comes before the record of an event. */
  publishEventRecord(handle: string, points: readonly Point[], clock: Clock): void {
    if (this.#board === undefined) return;
    const all = new Map(clock);
    for (const { timeline, position } of points) all.set(timeline, position);
    const isUnknown = [...all.keys()].some(({ isForeign }) => isForeign);
    const sent = isUnknown ? undefined : this.#sentClock(all);
    this.publish({ type: "event", handle, ...sent === undefined ? {} : { clock: sent } });
  }

  /** Tells what the host knows to be done. */
  publishKnown(): void {
    if (this.#board === undefined) return;
    const changed = new Map<Timeline, number>();
    for (const [timeline, position] of this.#host.known()) {
      if (this.#published.get(timeline) === position) continue;
      changed.set(timeline, position);
      this.#published.set(timeline, position);
    }
    const points = this.#pointsOf(changed);
    for (let at = 0; at < points.length; at += maximumPoints) {
      this.publish({ type: "known", clock: points.slice(at, at + maximumPoints) });
    }
  }

  /** Notes what the host knows because others have told it. */
  addReceived(timeline: Timeline): void {
    const position = this.#host.known().get(timeline);
    if (position !== undefined) this.#published.set(timeline, position);
  }

  /** Notes that a stream is retired, and tells if it is one of this process. */
  retire(timeline: Timeline): void {
    this.#published.delete(timeline);
    const number = this.#numbers.get(timeline);
    if (number === undefined) return;
    this.#numbers.delete(timeline);
    this.#timelines.delete(number);
    this.publish({ type: "retired", stream: number });
  }

  /**
   * Tells which processes may order what this one does, and which do not any more. Returns whether one has ended that
   * did not tell what it did.
   */
  publishConnections(): boolean {
    const ended = endedProcesses({ isLeftOut: publishes, hasEnded });
    const isNew = ended.length > this.#endedCount;
    for (const pid of ended.slice(this.#endedCount)) {
      if (this.#publishedConnections.delete(pid)) this.publish({ type: "ended", pid });
    }
    this.#endedCount = ended.length;
    if (connectionCount() !== this.#connectionCount) {
      this.#connectionCount = connectionCount();
      this.#publishNewConnections();
    }
    return isNew;
  }

  /**
   * Tells an access to shared memory, even if the host knows it to be done by now: others have asked for work before
   * they were told that.
   */
  publishAccess(share: ShareName, { operation, kind, begin, end, source }: MemoryAccess): void {
    if (this.#board === undefined || begin >= end || operation.timeline.isRetired) return;
    if (operation !== this.#lastOperation) this.#pieceCount = 0;
    this.#lastOperation = operation;
    if (++this.#pieceCount > maximumPieces) return;
    const clock = this.#sentClock(new Map([...operation.clock].filter(([each]) => each instanceof PeerTimeline)));
    const [point] = this.#pointsOf(new Map([[operation.timeline, operation.position]]));
    // Without its whole clock, others would take it for unordered.
    if (clock === undefined || point === undefined) return;
    this.publish({
      type: "access",
      share,
      access: kind,
      begin,
      end,
      stream: point[2],
      position: point[3],
      asked: operation.asked,
      clock,
      operation: operation.name,
      streamName: operation.timeline.name,
      source: source ?? "",
      stack: stackOf(operation.site),
    });
  }

  #publishNewConnections(): void {
    if (hasManyConnections()) return this.publish({ type: "connected" });
    const pids = [...connectedProcesses()].filter((pid) => !publishes(pid) && !this.#publishedConnections.has(pid));
    for (const pid of pids) this.#publishedConnections.add(pid);
    for (let at = 0; at < pids.length; at += maximumPoints) {
      this.publish({ type: "connected", pids: pids.slice(at, at + maximumPoints) });
    }
  }

  /** A clock for others. Undefined if it is too long. */
  #sentClock(clock: Clock): SentPoint[] | undefined {
    const points = this.#pointsOf(clock);
    return points.length > maximumPoints ? undefined : points;
  }

  #pointsOf(clock: Clock): SentPoint[] {
    const points: SentPoint[] = [];
    const { slot, generation } = this.#board!.own;
    for (const [timeline, position] of clock) {
      // Hosts are taken to know of each other, and everything comes after what is retired.
      if (timeline === this.#host || timeline.isRetired || timeline.isForeign) continue;
      if (timeline instanceof PeerTimeline) {
        points.push([timeline.peer.slot, timeline.peer.generation, timeline.number, position]);
      } else points.push([slot, generation, this.#numberOf(timeline), position]);
    }
    return points;
  }

  #numberOf(timeline: Timeline): number {
    let number = this.#numbers.get(timeline);
    if (number === undefined) {
      this.#numbers.set(timeline, number = ++this.#timelineCount);
      this.#timelines.set(number, timeline);
    }
    return number;
  }
}
