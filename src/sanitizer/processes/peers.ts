/**
 * The state of other processes: their streams, the memory that they share, and the events that they have recorded.
 *
 * @module
 */
import { type Clock, Timeline } from "../order/timelines.ts";
import type { BoardPeer, BoardSlot } from "./board.ts";
import type { SentPoint } from "./records.ts";

/** A stream of another process. */
export class PeerTimeline extends Timeline {
  readonly peer: PeerState;
  /** The number that the process has given the stream. */
  readonly number: number;

  constructor(peer: PeerState, number: number) {
    super(`a stream of process ${peer.pid}`, { pid: peer.pid });
    this.peer = peer;
    this.number = number;
  }
}

/** Memory that another process shares by one or several handles. */
interface PeerMemory {
  readonly handles: readonly string[];
  readonly byteLength: number;
}

/**
 * The maximum number of streams kept per peer. If a peer exceeds this or one of the limits below, all of its operations
 * count as ordered.
 */
const maximumTimelines = 4096;
/** The maximum number of handles to shared memory kept per peer. */
const maximumMemory = 65_536;
/** The maximum number of events kept per peer. */
const maximumEvents = 16_384;
/** The maximum number of connected processes kept per peer, and of publishing processes in `publishers`. */
const maximumConnected = 4096;

/** The pids of processes that publish their work, or did so before they ended. */
const publishers = new Set<number>();

/** Returns whether a process publishes its work, or did so before it ended. */
export function publishes(pid: number): boolean {
  return publishers.has(pid);
}

/** The state of another process, as its records describe it. */
export class PeerState implements BoardPeer {
  readonly slot: number;
  readonly generation: number;
  readonly pid: number;
  /** The peer's operations up to this sequence number count as ordered with all other operations. */
  horizon = 0;
  /** Whether the peer has collectives with ranks of other processes pending: enqueued, and not known to be complete. */
  hasCollectives = false;
  /** The peer's streams, by number. */
  readonly timelines: Map<number, PeerTimeline> = new Map();
  /** The peer's shared memory, by number. */
  readonly #memory: Map<number, PeerMemory> = new Map();
  /** The number of the peer's shared memory, by handle. */
  readonly #shares: Map<string, number> = new Map();
  /** The processes that the peer is connected to, without those that it knows to publish their work. */
  readonly connected: Set<number> = new Set();
  /** The clock of each event's last record, by handle. Undefined if all work counts as ordered before the record. */
  readonly events: Map<string, Clock | undefined> = new Map();

  constructor({ slot, generation, pid }: BoardPeer) {
    this.slot = slot;
    this.generation = generation;
    this.pid = pid;
  }

  /** Returns the stream with a number. Undefined if the peer has too many streams. */
  timeline(number: number): PeerTimeline | undefined {
    let timeline = this.timelines.get(number);
    if (timeline === undefined && this.#hasPlaceIn(this.timelines, maximumTimelines)) {
      this.timelines.set(number, timeline = new PeerTimeline(this, number));
    }
    return timeline;
  }

  /** Adds memory that the peer has shared, or another handle to such memory. */
  addMemory({ share, handle, byteLength }: { share: number; handle: string; byteLength: number }): void {
    if (!this.#hasPlaceIn(this.#shares, maximumMemory)) return;
    this.#shares.set(handle, share);
    this.#memory.set(share, { handles: [...this.#memory.get(share)?.handles ?? [], handle], byteLength });
  }

  /** Removes shared memory that the peer has freed. */
  deleteMemory(share: number): void {
    for (const handle of this.#memory.get(share)?.handles ?? []) this.#shares.delete(handle);
    this.#memory.delete(share);
  }

  /** Returns the peer's memory with a handle, or an empty array if the handle is unknown. */
  memoryOf(handle: string): { readonly peer: PeerState; readonly share: number; readonly byteLength: number }[] {
    const share = this.#shares.get(handle);
    return share === undefined ? [] : [{ peer: this, share, byteLength: this.#memory.get(share)!.byteLength }];
  }

  /** Adds a record of an event. */
  addEvent(handle: string, clock: Clock | undefined): void {
    if (this.events.has(handle) || this.#hasPlaceIn(this.events, maximumEvents)) this.events.set(handle, clock);
  }

  /** Adds processes that the peer is connected to. `pids` is undefined if there are too many to list. */
  addConnected(pids: readonly number[] | undefined): void {
    if (pids === undefined) this.horizon = Infinity;
    for (const pid of pids ?? []) if (this.#hasPlaceIn(this.connected, maximumConnected)) this.connected.add(pid);
  }

  #hasPlaceIn({ size }: { readonly size: number }, maximum: number): boolean {
    if (size < maximum) return true;
    this.horizon = Infinity;
    return false;
  }
}

/** The other processes on the board. */
export class Peers implements Iterable<PeerState> {
  readonly #states = new Map<string, PeerState>();
  readonly #own: BoardPeer;
  readonly #ownTimeline: (number: number) => Timeline | undefined;

  /**
   * @param own this process's slot on the board
   * @param ownTimeline finds a stream of this process by number
   */
  constructor(own: BoardPeer, ownTimeline: (number: number) => Timeline | undefined) {
    this.#own = own;
    this.#ownTimeline = ownTimeline;
  }

  [Symbol.iterator](): Iterator<PeerState> {
    return this.#states.values();
  }

  /** Returns the state of a process, which is created on first use. */
  of(peer: BoardPeer): PeerState {
    const key = keyOf(peer);
    let state = this.#states.get(key);
    if (state === undefined) {
      this.#states.set(key, state = new PeerState(peer));
      if (publishers.size < maximumConnected) publishers.add(peer.pid);
    }
    return state;
  }

  /** Returns whether every one of the given processes publishes its work. */
  include(pids: Iterable<number>): boolean {
    return [...pids].every((pid) => pid === this.#own.pid || publishes(pid));
  }

  /** Removes the state of a process. */
  delete(peer: BoardSlot): void {
    this.#states.delete(keyOf(peer));
  }

  /** Decodes a clock. Omits unknown streams. */
  clockOf(points: readonly SentPoint[]): Map<Timeline, number> {
    const clock = new Map<Timeline, number>();
    for (const [slot, generation, stream, position] of points) {
      const isOwn = slot === this.#own.slot && generation === this.#own.generation;
      const timeline = isOwn
        ? this.#ownTimeline(stream)
        : this.#states.get(keyOf({ slot, generation }))?.timeline(stream);
      if (timeline === undefined) continue;
      // Clamp: a malformed record may claim more operations of this process than were enqueued.
      const limit = isOwn ? timeline.position : Infinity;
      clock.set(timeline, Math.max(clock.get(timeline) ?? 0, Math.min(position, limit)));
    }
    return clock;
  }
}

function keyOf({ slot, generation }: BoardSlot): string {
  return `${slot} ${generation}`;
}
