/**
 * The order that collectives establish among the ranks of this process.
 *
 * @module
 */
import { lastPoint, type Point, Timeline } from "../order/timelines.ts";

/** The maximum length of the list of late calls. */
const maximumLateCalls = 32;

/** A rank's call of a collective, or of a send or receive. */
export interface RankCall {
  readonly rank: CommunicatorRank;
  /** The other rank of a send or receive. Undefined for a collective. */
  readonly peer: { readonly rank: number; readonly isReceiver: boolean } | undefined;
}

/** A call with the stream that it was enqueued on. */
type TimelineCall = RankCall & { readonly timeline: Timeline };

/**
 * A collective or a message between several ranks of this process: each rank waits for the other ranks' work before it.
 */
interface Rendezvous {
  /**
   * A timeline that has no operations and serves as a clock: it joins the clocks of the ranks that have called, which
   * include their work before the call and the reads of the call.
   */
  readonly before: Timeline;
  /** The calls so far, one per rank. */
  readonly calls: Point[];
  readonly name: string;
  /** The number of participating ranks in this process. */
  readonly rankCount: number;
}

/** A group of calls that are enqueued together. */
interface JointCalls {
  /** Whether all ranks of the calls' communicators are in this process. */
  readonly isLocal: boolean;
  /**
   * Orders the operations that are added from now on after the operations that all ranks of the calls have added so
   * far.
   */
  wait(): void;
  /** Call when all operations of the group were added. */
  end(): void;
}

/** A rank of a communicator in this process. */
export class CommunicatorRank {
  /** The identity of the communicator, the same for all of its ranks. */
  readonly key: string;
  readonly rank: number;
  readonly size: number;
  /**
   * A timeline that has no operations and serves as a clock: the clock of the rank's next call. A communicator runs its
   * calls in order.
   */
  readonly before: Timeline;
  /** The number of this rank's calls so far, by kind: collectives, and messages to and from each other rank. */
  readonly #isReportable = new Map<string, number>();

  constructor(key: string, rank: number, size: number) {
    this.key = key;
    this.rank = rank;
    this.size = size;
    this.before = new Timeline(`rank ${rank} of ${size}`);
  }

  /** Counts the rank's next call, and returns its name, which is the same for all participating ranks. */
  nextCall(peer: RankCall["peer"]): string {
    const ranks = peer === undefined
      ? "all"
      : peer.isReceiver
      ? `${this.rank} ${peer.rank}`
      : `${peer.rank} ${this.rank}`;
    const kind = `${this.key} ${ranks}`;
    const count = this.#isReportable.get(kind) ?? 0;
    this.#isReportable.set(kind, count + 1);
    return `${kind} ${count}`;
  }
}

/** The communicators of a process. */
export class ObservedCommunicators {
  /** The ranks in this process, by the key of their communicator. */
  readonly #ranks = new Map<string, Set<CommunicatorRank>>();
  /** The rendezvous that some participating ranks have not called yet, by name. */
  readonly #rendezvous = new Map<string, Rendezvous>();
  /**
   * The last rendezvous with a late call: a rank called separately, after another rank that may have enqueued more work
   * in between.
   */
  readonly #lateCalls: Rendezvous[] = [];

  /** Adds a rank. */
  join(key: string, rank: number, size: number): CommunicatorRank {
    const joined = new CommunicatorRank(key, rank, size);
    const ranks = this.#ranks.get(key);
    if (ranks === undefined) this.#ranks.set(key, new Set([joined]));
    else ranks.add(joined);
    return joined;
  }

  /** Removes a rank that makes no more calls. */
  leave(rank: CommunicatorRank): void {
    const ranks = this.#ranks.get(rank.key);
    if (ranks === undefined || !ranks.delete(rank) || ranks.size > 1) return;
    for (const name of this.#rendezvous.keys()) if (name.startsWith(`${rank.key} `)) this.#rendezvous.delete(name);
    if (ranks.size === 0) this.#ranks.delete(rank.key);
  }

  /** Begins a group of calls. Orders each call after the earlier work of the other participating ranks. */
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
   * Orders a timeline after the work of ranks that have called a rendezvous late. That work was enqueued after a call
   * that the timeline made or is ordered after, but nevertheless precedes the result of that call.
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

  /** Removes a retired timeline from all clocks. */
  forget(timeline: Timeline): void {
    for (const ranks of this.#ranks.values()) for (const { before } of ranks) before.forget(timeline);
    for (const { before } of [...this.#rendezvous.values(), ...this.#lateCalls]) before.forget(timeline);
  }

  /** Returns the rendezvous of a rank's next call. Undefined if no other rank of this process participates. */
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
