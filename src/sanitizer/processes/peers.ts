/**
 * The state of other processes: their streams, the memory that they share, and the events that they have recorded.
 *
 * @module
 */
import { type Clock, Timeline } from "../order/timelines.ts";
import type { BoardPeer, BoardSlot } from "./board.ts";
import type { SentPoint } from "./records.ts";

/** The timeline of a stream of another process. */
export class PeerTimeline extends Timeline {
  readonly peer: PeerState;
  /** The stream's number in the records of its process. */
  readonly number: number;

  constructor(peer: PeerState, number: number) {
    super(`a stream of process ${peer.pid}`, { pid: peer.pid });
    this.peer = peer;
    this.number = number;
  }
}

/** Memory that another process has exported, with one or more handles. */
interface PeerMemory {
  readonly handles: readonly string[];
  readonly byteLength: number;
}

/**
 * The maximum number of streams stored for each peer. If a peer exceeds this limit or one of the limits below, all of
 * its operations are assumed to be ordered, so that no conflicts with them are reported.
 */
const maximumTimelines = 4096;
/** The maximum number of memory handles stored for each peer. */
const maximumMemory = 65_536;
/** The maximum number of events stored for each peer. */
const maximumEvents = 16_384;
/** The maximum number of connected processes stored for each peer, and the maximum size of `publishers`. */
const maximumConnected = 4096;

/** The process IDs of all processes that publish their work or did so before they exited. */
const publishers = new Set<number>();

/** Returns whether a process publishes its work or did so before it exited. */
export function isPublisher(pid: number): boolean {
  return publishers.has(pid);
}

/** The state of another process, according to the records that it has published. */
export class PeerState implements BoardPeer {
  readonly slot: number;
  readonly generation: number;
  readonly pid: number;
  /** The sequence number up to which the peer's operations are assumed to be ordered with all other operations. */
  horizon = 0;
  /**
   * Whether the peer has enqueued collectives with ranks of other processes, and does not yet know all of them to be
   * complete.
   */
  hasCollectives = false;
  /** The timelines of the peer's streams, keyed by the stream's number. */
  readonly timelines: Map<number, PeerTimeline> = new Map();
  /** The peer's exported memory, keyed by the memory's number. */
  readonly #memory: Map<number, PeerMemory> = new Map();
  /** For each handle of exported memory, the memory's number. */
  readonly #shares: Map<string, number> = new Map();
  /**
   * The IDs of the processes that the peer is connected to, except processes that, as far as the peer knows, publish
   * their work.
   */
  readonly connected: Set<number> = new Set();
  /**
   * For each handle of an event, the clock of the event's last record by the peer. Undefined if all work is assumed to
   * be ordered before the record.
   */
  readonly events: Map<string, Clock | undefined> = new Map();

  constructor({ slot, generation, pid }: BoardPeer) {
    this.slot = slot;
    this.generation = generation;
    this.pid = pid;
  }

  /**
   * Returns the timeline of the stream with the given number, creating it if needed. Undefined if the peer has too many
   * streams.
   */
  timeline(number: number): PeerTimeline | undefined {
    let timeline = this.timelines.get(number);
    if (timeline === undefined && this.#hasPlaceIn(this.timelines, maximumTimelines)) {
      this.timelines.set(number, timeline = new PeerTimeline(this, number));
    }
    return timeline;
  }

  /** Adds memory that the peer has exported, or another handle to memory that was added before. */
  addMemory({ share, handle, byteLength }: { share: number; handle: string; byteLength: number }): void {
    if (!this.#hasPlaceIn(this.#shares, maximumMemory)) return;
    this.#shares.set(handle, share);
    this.#memory.set(share, { handles: [...this.#memory.get(share)?.handles ?? [], handle], byteLength });
  }

  /** Removes exported memory that the peer has freed. */
  deleteMemory(share: number): void {
    for (const handle of this.#memory.get(share)?.handles ?? []) this.#shares.delete(handle);
    this.#memory.delete(share);
  }

  /**
   * Returns a list with the memory that the peer has exported with a handle. The list is empty if the handle is
   * unknown.
   */
  memoryOf(handle: string): { readonly peer: PeerState; readonly share: number; readonly byteLength: number }[] {
    const share = this.#shares.get(handle);
    return share === undefined ? [] : [{ peer: this, share, byteLength: this.#memory.get(share)!.byteLength }];
  }

  /** Stores the clock of the last record of a shared event. */
  addEvent(handle: string, clock: Clock | undefined): void {
    if (this.events.has(handle) || this.#hasPlaceIn(this.events, maximumEvents)) this.events.set(handle, clock);
  }

  /**
   * Adds processes that the peer is connected to. `pids` is undefined if the peer has too many connections to list
   * them.
   */
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

/** The states of the other processes that hold slots on the board. */
export class Peers implements Iterable<PeerState> {
  readonly #states = new Map<string, PeerState>();
  readonly #own: BoardPeer;
  readonly #ownTimeline: (number: number) => Timeline | undefined;

  /**
   * @param own this process's slot on the board
   * @param ownTimeline returns the timeline of this process's stream with the given number
   */
  constructor(own: BoardPeer, ownTimeline: (number: number) => Timeline | undefined) {
    this.#own = own;
    this.#ownTimeline = ownTimeline;
  }

  [Symbol.iterator](): Iterator<PeerState> {
    return this.#states.values();
  }

  /** Returns the state of a process, creating it on the first call. */
  of(peer: BoardPeer): PeerState {
    const key = keyOf(peer);
    let state = this.#states.get(key);
    if (state === undefined) {
      this.#states.set(key, state = new PeerState(peer));
      if (publishers.size < maximumConnected) publishers.add(peer.pid);
    }
    return state;
  }

  /** Returns whether all of the given processes publish their work. */
  include(pids: Iterable<number>): boolean {
    return [...pids].every((pid) => pid === this.#own.pid || isPublisher(pid));
  }

  /** Removes the state of a process. */
  delete(peer: BoardSlot): void {
    this.#states.delete(keyOf(peer));
  }

  /** Decodes a published clock. Omits streams that this process does not know. */
  clockOf(points: readonly SentPoint[]): Map<Timeline, number> {
    const clock = new Map<Timeline, number>();
    for (const [slot, generation, stream, position] of points) {
      const isOwn = slot === this.#own.slot && generation === this.#own.generation;
      const timeline = isOwn
        ? this.#ownTimeline(stream)
        : this.#states.get(keyOf({ slot, generation }))?.timeline(stream);
      if (timeline === undefined) continue;
      // Clamp the position: a malformed record may contain a position that a stream of this process has not reached.
      const limit = isOwn ? timeline.position : Infinity;
      clock.set(timeline, Math.max(clock.get(timeline) ?? 0, Math.min(position, limit)));
    }
    return clock;
  }
}

function keyOf({ slot, generation }: BoardSlot): string {
  return `${slot} ${generation}`;
}
