/**
 * Publishes on the board the accesses of this process to shared memory, and the work that it knows to be complete.
 *
 * @module
 */
import { hasEnded } from "../../../ffi/native/shim/processes.ts";
import { connectedProcesses, connectionCount, endedProcesses, hasManyConnections } from "../notifications.ts";
import { stackOf } from "../reporting/call_sites.ts";
import type { TrackedAccess } from "../memory_history.ts";
import type { Clock, Operation, Point, Timeline } from "../order/timelines.ts";
import type { Board, Bystander } from "./board.ts";
import { PeerTimeline, publishes } from "./peers.ts";
import { encodeRecord, maximumPoints, type SentPoint, type SentRecord, type ShareName } from "./records.ts";

/** The maximum number of accessed ranges published per operation: a kernel may access every other element. */
const maximumPieces = 64;

/** Publishes the records of this process, in which streams are numbered. */
export class Publisher {
  /** The number of operations that this process has enqueued so far. */
  sequence = 0;
  readonly #host: Timeline;
  #board: Board | undefined;
  #bystander: Bystander | undefined;
  /** The numbers of this process's streams. */
  readonly #numbers = new Map<Timeline, number>();
  /** The streams of this process, by number. */
  readonly #timelines = new Map<number, Timeline>();
  #timelineCount = 0;
  /** For each timeline, the position that was already published or received as complete. */
  readonly #published = new Map<Timeline, number>();
  /** The operation of the last published access. */
  #lastOperation: Operation | undefined;
  /** The number of accessed ranges of `#lastOperation` that were published so far. */
  #pieceCount = 0;
  /** The value of `connectionCount()` when connections were last published. */
  #connectionCount = 0;
  /** The processes that were published as connected to this process. */
  readonly #publishedConnections = new Set<number>();
  /** The number of ended processes that were published so far. */
  #endedCount = 0;

  constructor(host: Timeline) {
    this.#host = host;
  }

  /** Starts to publish on a board. */
  start(board: Board): void {
    this.#board = board;
    this.publishKnown();
  }

  /** Leaves the board. Other processes assume from now on that this process may order everything. */
  stop(): void {
    this.#board?.leave();
    this.#board = undefined;
    this.#bystander?.leave();
    this.#bystander = undefined;
  }

  /** Stores the bystander that this process became because the board is full. `stop` releases it. */
  setBystander(bystander: Bystander): void {
    this.#bystander = bystander;
  }

  /** Makes this process a bystander. Called if it cannot publish its records or read those of others. */
  becomeBystander(): void {
    try {
      this.#bystander = this.#board?.abandon();
      this.#board = undefined;
    } catch {
      this.stop();
    }
  }

  /** The board. Undefined if this process does not publish. */
  get board(): Board | undefined {
    return this.#board;
  }

  /** Returns the stream of this process with a number. */
  timelineOf(number: number): Timeline | undefined {
    return this.#timelines.get(number);
  }

  /** Appends a record to the board, if this process publishes. */
  publish(record: SentRecord): void {
    try {
      this.#board?.append(encodeRecord(record), this.sequence);
    } catch {
      // Memory is exhausted, or the record is too long.
      this.becomeBystander();
    }
  }

  /** Publishes the work that is ordered before the record of an event: `points`, and the work up to `clock`. */
  publishEventRecord(handle: string, points: readonly Point[], clock: Clock): void {
    if (this.#board === undefined) return;
    const all = new Map(clock);
    for (const { timeline, position } of points) all.set(timeline, position);
    const isUnknown = [...all.keys()].some(({ isForeign }) => isForeign);
    const sent = isUnknown ? undefined : this.#sentClock(all);
    this.publish({ type: "event", handle, ...sent === undefined ? {} : { clock: sent } });
  }

  /** Publishes the positions up to which the host knows work to be complete, if they have changed. */
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

  /** Call when a record of another process advanced the host's clock for a timeline: no need to publish that again. */
  addReceived(timeline: Timeline): void {
    const position = this.#host.known().get(timeline);
    if (position !== undefined) this.#published.set(timeline, position);
  }

  /** Removes a retired stream, and publishes the retirement if the stream belongs to this process. */
  retire(timeline: Timeline): void {
    this.#published.delete(timeline);
    const number = this.#numbers.get(timeline);
    if (number === undefined) return;
    this.#numbers.delete(timeline);
    this.#timelines.delete(number);
    this.publish({ type: "retired", stream: number });
  }

  /**
   * Publishes new connections to processes, which may order the work of this process, and the connected processes that
   * have ended. Returns whether a process has ended that never published its own work.
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
   * Publishes an access to shared memory, even if the host knows by now that the access is complete: other processes
   * may have enqueued work before they could know that.
   */
  publishAccess(share: ShareName, { operation, kind, begin, end, source }: TrackedAccess): void {
    if (this.#board === undefined || begin >= end || operation.timeline.isRetired) return;
    if (operation !== this.#lastOperation) this.#pieceCount = 0;
    this.#lastOperation = operation;
    if (++this.#pieceCount > maximumPieces) return;
    const clock = this.#sentClock(new Map([...operation.clock].filter(([each]) => each instanceof PeerTimeline)));
    const [point] = this.#pointsOf(new Map([[operation.timeline, operation.position]]));
    // Do not publish an access without its complete clock: other processes would report it as unordered.
    if (clock === undefined || point === undefined) return;
    this.publish({
      type: "access",
      share,
      access: kind,
      begin,
      end,
      stream: point[2],
      position: point[3],
      asked: operation.sequence,
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

  /** Encodes a clock. Returns undefined if it is too long for a record. */
  #sentClock(clock: Clock): SentPoint[] | undefined {
    const points = this.#pointsOf(clock);
    return points.length > maximumPoints ? undefined : points;
  }

  #pointsOf(clock: Clock): SentPoint[] {
    const points: SentPoint[] = [];
    const { slot, generation } = this.#board!.own;
    for (const [timeline, position] of clock) {
      // Omit hosts, which are assumed to be ordered with each other, and retired streams, which precede everything.
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
