/**
 * The order that collectives establish among the ranks of this process.
 *
 * @module
 */
import { lastPoint, type Point, Timeline } from "../order/timelines.ts";

/** The maximum length of `#lateCalls`. */
const maximumLateCalls = 32;

/** A rank's call of a collective, or of a send or receive. */
export interface RankCall {
  readonly rank: CommunicatorRank;
  /** The other rank of a send or receive, and whether that rank receives. Undefined for a collective. */
  readonly peer: { readonly rank: number; readonly isReceiver: boolean } | undefined;
}

/** A rank's call, and the timeline of the stream that the call was enqueued on. */
type TimelineCall = RankCall & { readonly timeline: Timeline };

/**
 * A collective or message in which several ranks of this process take part. Each of these ranks waits for the work that
 * the other ranks have enqueued before their calls.
 */
interface Rendezvous {
  /**
   * A timeline without operations of its own, used as a clock. It joins the clocks of all ranks that have made their
   * call: the work that those ranks enqueued before the call, and the reads of the call itself.
   */
  readonly before: Timeline;
  /** The points of the calls made so far, one for each rank. */
  readonly calls: Point[];
  readonly name: string;
  /** The number of participating ranks in this process. */
  readonly rankCount: number;
}

/** A group of calls that are enqueued together. */
interface JointCalls {
  /** Whether all ranks of the calls' communicators are in this process. */
  readonly isLocal: boolean;
  /** Orders operations added from now on after all operations that any rank of these calls has added so far. */
  wait(): void;
  /** Call when all operations of the group have been added. */
  end(): void;
}

/** A rank of a communicator, if the rank belongs to this process. */
export class CommunicatorRank {
  /** The identity of the communicator, the same for all of its ranks. */
  readonly key: string;
  readonly rank: number;
  readonly size: number;
  /**
   * A timeline without operations of its own, used as a clock. It holds what precedes this rank's next call: a
   * communicator runs its calls in order.
   */
  readonly before: Timeline;
  /** The number of this rank's calls so far, keyed by kind: collectives, and messages to and from each other rank. */
  readonly #callCounts = new Map<string, number>();

  constructor(key: string, rank: number, size: number) {
    this.key = key;
    this.rank = rank;
    this.size = size;
    this.before = new Timeline(`rank ${rank} of ${size}`);
  }

  /** Counts this rank's next call. Returns the call's name, which is the same for all participating ranks. */
  nextCall(peer: RankCall["peer"]): string {
    const ranks = peer === undefined
      ? "all"
      : peer.isReceiver
      ? `${this.rank} ${peer.rank}`
      : `${peer.rank} ${this.rank}`;
    const kind = `${this.key} ${ranks}`;
    const count = this.#callCounts.get(kind) ?? 0;
    this.#callCounts.set(kind, count + 1);
    return `${kind} ${count}`;
  }
}

/** The ranks of communicators in this process, and the order that their calls establish. */
export class ObservedCommunicators {
  /** The ranks in this process, keyed by the identity of their communicator. */
  readonly #ranks = new Map<string, Set<CommunicatorRank>>();
  /** The rendezvous for which calls of some participating ranks are still missing, keyed by name. */
  readonly #rendezvous = new Map<string, Rendezvous>();
  /**
   * The most recent rendezvous with a late call, which is a call that was not grouped with the rendezvous's first call.
   * The ranks of earlier calls may have enqueued more work before the late call.
   */
  readonly #lateCalls: Rendezvous[] = [];

  /** Adds a rank of this process to a communicator. */
  join(key: string, rank: number, size: number): CommunicatorRank {
    const joined = new CommunicatorRank(key, rank, size);
    const ranks = this.#ranks.get(key);
    if (ranks === undefined) this.#ranks.set(key, new Set([joined]));
    else ranks.add(joined);
    return joined;
  }

  /** Removes a rank, which must make no more calls. */
  leave(rank: CommunicatorRank): void {
    const ranks = this.#ranks.get(rank.key);
    if (ranks === undefined || !ranks.delete(rank) || ranks.size > 1) return;
    for (const name of this.#rendezvous.keys()) if (name.startsWith(`${rank.key} `)) this.#rendezvous.delete(name);
    if (ranks.size === 0) this.#ranks.delete(rank.key);
  }

  /** Begins a group of calls. Orders each call after the earlier work of all participating ranks in this process. */
  beginCollectives(calls: readonly TimelineCall[]): JointCalls {
    const joint = calls.map(({ rank, peer }) => this.#rendezvousOf(rank, peer));
    for (const rendezvous of new Set(joint)) {
      if (rendezvous !== undefined && rendezvous.calls.length > 0) this.#addLateCall(rendezvous);
    }
    const wait = (): void => {
      for (const [index, { rank, timeline }] of calls.entries()) {
        rank.before.joinTimeline(timeline);
        joint[index]?.before.joinTimeline(timeline);
      }
      for (const [index, { rank, timeline }] of calls.entries()) {
        timeline.joinTimeline(rank.before);
        if (joint[index] !== undefined) timeline.joinTimeline(joint[index].before);
      }
    };
    const end = (): void => {
      for (const { rank, timeline } of calls) rank.before.joinTimeline(timeline);
      for (const [index, { rank, timeline }] of calls.entries()) {
        timeline.joinTimeline(rank.before);
        const rendezvous = joint[index];
        if (rendezvous === undefined) continue;
        rendezvous.calls.push(lastPoint(timeline));
        if (rendezvous.calls.length >= rendezvous.rankCount) this.#rendezvous.delete(rendezvous.name);
      }
    };
    wait();
    return { isLocal: calls.every(({ rank }) => this.#ranks.get(rank.key)?.size === rank.size), wait, end };
  }

  /**
   * Orders a timeline after the work of ranks that made a late call, if the timeline is ordered after another rank's
   * call of the same rendezvous. The rendezvous waits for the late rank's work, even though this work was enqueued
   * after the other rank's call.
   */
  joinLateCalls(timeline: Timeline): void {
    if (this.#lateCalls.length === 0) return;
    for (const { before, calls } of this.#lateCalls) {
      const known = timeline.known();
      const isAfter = calls.some((call) =>
        call.timeline === timeline || (known.get(call.timeline) ?? 0) >= call.position
      );
      if (isAfter) timeline.joinTimeline(before);
    }
  }

  /** Removes a retired timeline from the clocks of all ranks and rendezvous. */
  forget(timeline: Timeline): void {
    for (const ranks of this.#ranks.values()) for (const { before } of ranks) before.forget(timeline);
    for (const { before } of [...this.#rendezvous.values(), ...this.#lateCalls]) before.forget(timeline);
  }

  /** Counts a rank's next call, and returns its rendezvous. Undefined if no other rank of this process participates. */
  #rendezvousOf(rank: CommunicatorRank, peer: RankCall["peer"]): Rendezvous | undefined {
    const name = rank.nextCall(peer);
    const here = [...this.#ranks.get(rank.key) ?? []];
    const { length: rankCount } = peer === undefined
      ? here
      : here.filter((other) => other === rank || other.rank === peer.rank);
    if (rankCount < 2) return undefined;
    let rendezvous = this.#rendezvous.get(name);
    if (rendezvous === undefined) {
      rendezvous = { before: new Timeline(name), calls: [], name, rankCount };
      this.#rendezvous.set(name, rendezvous);
    }
    return rendezvous;
  }

  #addLateCall(rendezvous: Rendezvous): void {
    if (this.#lateCalls.includes(rendezvous)) return;
    this.#lateCalls.push(rendezvous);
    if (this.#lateCalls.length > maximumLateCalls) this.#lateCalls.shift();
  }
}
