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
  /** Its number in its process. */
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

/** The most streams, memory, events and connections of a peer that are kept. A peer with more counts as ordering all. */
const maximumTimelines = 4096;
const maximumMemory = 65_536;
const maximumEvents = 16_384;
const maximumConnected = 4096;

/** The processes that publish their work, or did before they ended. */
const publishers = new Set<number>();

/** Whether a process publishes its work, or did. */
export function publishes(pid: number): boolean {
  return publishers.has(pid);
}

/** The state of another process, from its records. */
export class PeerState implements BoardPeer {
  readonly slot: number;
  readonly generation: number;
  readonly pid: number;
  /** Its operations up to this sequence number count as ordered before and after everything. */
  horizon = 0;
  /** Whether it has enqueued collectives with ranks of other processes that it does not know to be complete. */
  hasCollectives = false;
  /** Its streams, by number. */
  readonly timelines: Map<number, PeerTimeline> = new Map();
  /** Its shared memory, by number. */
  readonly #memory: Map<number, PeerMemory> = new Map();
  /** The numbers of its shared memory, by handle. */
  readonly #shares: Map<string, number> = new Map();
  /** The processes that it is connected to, without those that it has seen to publish their work. */
  readonly connected: Set<number> = new Set();
  /** The clock of each event's last record, by handle. Undefined if all work counts as before it. */
  readonly events: Map<string, Clock | undefined> = new Map();

  constructor({ slot, generation, pid }: BoardPeer) {
    this.slot = slot;
    this.generation = generation;
    this.pid = pid;
  }

  /** The stream with a number. Undefined if it has too many. */
  timeline(number: number): PeerTimeline | undefined {
    let timeline = this.timelines.get(number);
    if (timeline === undefined && this.#hasPlaceIn(this.timelines, maximumTimelines)) {
      this.timelines.set(number, timeline = new PeerTimeline(this, number));
    }
    return timeline;
  }

  /** Adds memory that it has shared, or another handle to it. */
  addMemory({ share, handle, byteLength }: { share: number; handle: string; byteLength: number }): void {
    if (!this.#hasPlaceIn(this.#shares, maximumMemory)) return;
    this.#shares.set(handle, share);
    this.#memory.set(share, { handles: [...this.#memory.get(share)?.handles ?? [], handle], byteLength });
  }

  /** Removes memory that it has freed. */
  deleteMemory(share: number): void {
    for (const handle of this.#memory.get(share)?.handles ?? []) this.#shares.delete(handle);
    this.#memory.delete(share);
  }

  /** The memory that a handle opens. */
  memoryOf(handle: string): { readonly peer: PeerState; readonly share: number; readonly byteLength: number }[] {
    const share = this.#shares.get(handle);
    return share === undefined ? [] : [{ peer: this, share, byteLength: this.#memory.get(share)!.byteLength }];
  }

  /** Adds a record of an event. */
  addEvent(handle: string, clock: Clock | undefined): void {
    if (this.events.has(handle) || this.#hasPlaceIn(this.events, maximumEvents)) this.events.set(handle, clock);
  }

  /** Adds processes that it is connected to; undefined stands for too many. */
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

  /** @param ownTimeline finds a stream of this process by number */
  constructor(own: BoardPeer, ownTimeline: (number: number) => Timeline | undefined) {
    this.#own = own;
    this.#ownTimeline = ownTimeline;
  }

  [Symbol.iterator](): Iterator<PeerState> {
    return this.#states.values();
  }

  /** The state of a process. */
  of(peer: BoardPeer): PeerState {
    const key = keyOf(peer);
    let state = this.#states.get(key);
    if (state === undefined) {
      this.#states.set(key, state = new PeerState(peer));
      if (publishers.size < maximumConnected) publishers.add(peer.pid);
    }
    return state;
  }

  /** Whether all of some processes publish their work. */
  include(pids: Iterable<number>): boolean {
    return [...pids].every((pid) => pid === this.#own.pid || publishes(pid));
  }

  /** Forgets a process. */
  delete(peer: BoardSlot): void {
    this.#states.delete(keyOf(peer));
  }

  /** Decodes a clock, without its unknown streams. */
  clockOf(points: readonly SentPoint[]): Map<Timeline, number> {
    const clock = new Map<Timeline, number>();
    for (const [slot, generation, stream, position] of points) {
      const isOwn = slot === this.#own.slot && generation === this.#own.generation;
      const timeline = isOwn
        ? this.#ownTimeline(stream)
        : this.#states.get(keyOf({ slot, generation }))?.timeline(stream);
      if (timeline === undefined) continue;
      // A record cannot claim more operations of this process than it has enqueued.
      const limit = isOwn ? timeline.position : Infinity;
      clock.set(timeline, Math.max(clock.get(timeline) ?? 0, Math.min(position, limit)));
    }
    return clock;
  }
}

function keyOf({ slot, generation }: BoardSlot): string {
  return `${slot} ${generation}`;
}
