/**
 * Publishes on the board the accesses of this process to shared memory, and the work that it knows to be complete.
 *
 * @module
 */
import { hasEnded } from "../../../ffi/native/shim/processes.ts";
import { connectedProcesses, connectionCount, endedProcesses, hasManyConnections } from "../notifications.ts";
import { stackOf } from "../reporting/call_stacks.ts";
import type { TrackedAccess } from "../memory_history.ts";
import type { Clock, Operation, Point, Timeline } from "../order/timelines.ts";
import type { Board, Bystander } from "./board.ts";
import { isPublisher, PeerTimeline } from "./peers.ts";
import { encodeRecord, maximumPoints, type SentPoint, type SentRecord, type ShareName } from "./records.ts";

/**
 * The maximum number of accessed ranges published for one operation. A kernel may access many ranges, for example every
 * other element of an array.
 */
const maximumPieces = 64;

/** Publishes this process's records on the board, and numbers the streams for them. */
export class Publisher {
  /** The number of operations that this process has enqueued so far. */
  sequence = 0;
  readonly #host: Timeline;
  #board: Board | undefined;
  #bystander: Bystander | undefined;
  /** The number of each of this process's streams that records mention. */
  readonly #numbers = new Map<Timeline, number>();
  /** The timelines of this process's streams, keyed by the stream's number. */
  readonly #timelines = new Map<number, Timeline>();
  #timelineCount = 0;
  /**
   * For each timeline, the position up to which all processes can already know the work to be complete: this process
   * has published the position, or has received it in another process's record.
   */
  readonly #published = new Map<Timeline, number>();
  /** The operation whose access was published last. */
  #lastOperation: Operation | undefined;
  /** The number of accessed ranges of `#lastOperation` published so far. */
  #pieceCount = 0;
  /** The value of `connectionCount()` when this process last published its connections. */
  #connectionCount = 0;
  /** The IDs of the processes that were published as connected to this process. */
  readonly #publishedConnections = new Set<number>();
  /** The number of elements of `endedProcesses` that were processed so far. */
  #endedCount = 0;

  constructor(host: Timeline) {
    this.#host = host;
  }

  /** Starts to publish this process's records on a board. */
  start(board: Board): void {
    this.#board = board;
    this.publishKnown();
  }

  /** Leaves the board. From now on, other processes assume that this process may synchronize any work. */
  stop(): void {
    this.#board?.leave();
    this.#board = undefined;
    this.#bystander?.leave();
    this.#bystander = undefined;
  }

  /** Stores the `Bystander` that represents this process if the board is full. `stop` releases it. */
  setBystander(bystander: Bystander): void {
    this.#bystander = bystander;
  }

  /**
   * Makes this process a bystander. Called if this process cannot publish records or cannot read other processes'
   * records.
   */
  becomeBystander(): void {
    try {
      this.#bystander = this.#board?.abandon();
      this.#board = undefined;
    } catch {
      this.stop();
    }
  }

  /** The board that this process publishes on. Undefined if this process does not publish. */
  get board(): Board | undefined {
    return this.#board;
  }

  /** Returns the timeline of this process's stream with the given number. */
  timelineOf(number: number): Timeline | undefined {
    return this.#timelines.get(number);
  }

  /** Appends a record to the board, if this process publishes. */
  publish(record: SentRecord): void {
    try {
      this.#board?.append(encodeRecord(record), this.sequence);
    } catch {
      // The record is too long, or the memory of the board is exhausted.
      this.becomeBystander();
    }
  }

  /**
   * Publishes a record of a shared event. `points` and the work that `clock` includes are ordered before the record.
   */
  publishEventRecord(handle: string, points: readonly Point[], clock: Clock): void {
    if (this.#board === undefined) return;
    const all = new Map(clock);
    for (const { timeline, position } of points) all.set(timeline, position);
    const isUnknown = [...all.keys()].some(({ isForeign }) => isForeign);
    const sent = isUnknown ? undefined : this.#sentClock(all);
    this.publish({ type: "event", handle, ...sent === undefined ? {} : { clock: sent } });
  }

  /**
   * Publishes, for each stream, the position up to which the work precedes the host's current point. Omits streams for
   * which this position is already published.
   */
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

  /**
   * Call when another process's record has advanced the host's clock for a timeline. Marks the new position as
   * published, so that this process does not publish it again.
   */
  addReceived(timeline: Timeline): void {
    const position = this.#host.known().get(timeline);
    if (position !== undefined) this.#published.set(timeline, position);
  }

  /** Removes a retired timeline. If it is a stream of this process, publishes that the stream is retired. */
  retire(timeline: Timeline): void {
    this.#published.delete(timeline);
    const number = this.#numbers.get(timeline);
    if (number === undefined) return;
    this.#numbers.delete(timeline);
    this.#timelines.delete(number);
    this.publish({ type: "retired", stream: number });
  }

  /**
   * Publishes new connections of this process, because connected processes may synchronize its work. Also publishes
   * which connected processes have exited. Returns whether a process that never published its own work has exited since
   * the previous call.
   */
  publishConnections(): boolean {
    const ended = endedProcesses({ isLeftOut: isPublisher, hasEnded });
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
   * Publishes an access to shared memory, even if the host already knows that the access is complete. Another process
   * may have enqueued conflicting work before it could learn of the completion.
   */
  publishAccess(share: ShareName, { operation, kind, begin, end, source }: TrackedAccess): void {
    if (this.#board === undefined || begin >= end || operation.timeline.isRetired) return;
    if (operation !== this.#lastOperation) this.#pieceCount = 0;
    this.#lastOperation = operation;
    if (++this.#pieceCount > maximumPieces) return;
    const clock = this.#sentClock(new Map([...operation.clock].filter(([each]) => each instanceof PeerTimeline)));
    const [point] = this.#pointsOf(new Map([[operation.timeline, operation.position]]));
    // Do not publish an access with an incomplete clock. Other processes would report conflicts with operations that
    // the complete clock shows to be ordered.
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
    const pids = [...connectedProcesses()].filter((pid) => !isPublisher(pid) && !this.#publishedConnections.has(pid));
    for (const pid of pids) this.#publishedConnections.add(pid);
    for (let at = 0; at < pids.length; at += maximumPoints) {
      this.publish({ type: "connected", pids: pids.slice(at, at + maximumPoints) });
    }
  }

  /** Encodes a clock. Returns undefined if the clock has too many points for a record. */
  #sentClock(clock: Clock): SentPoint[] | undefined {
    const points = this.#pointsOf(clock);
    return points.length > maximumPoints ? undefined : points;
  }

  #pointsOf(clock: Clock): SentPoint[] {
    const points: SentPoint[] = [];
    const { slot, generation } = this.#board!.own;
    for (const [timeline, position] of clock) {
      // Omit the host, because hosts are assumed to be ordered with each other. Omit retired streams, because their
      // work precedes all later work.
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
