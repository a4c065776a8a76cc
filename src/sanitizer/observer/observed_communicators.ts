/**
 * What collectives order, as far as the ranks of their communicator are in this process.
 *
 * @module
 */
import { lastPoint, type Point, Timeline } from "../order/timelines.ts";

/** How many calls are remembered that ranks of this process have made one after another. */
const maximumLateCalls = 32;

/** A call of a communicator. */
export interface RankCall {
  readonly rank: CommunicatorRank;
  /** The other rank of a message. */
  readonly peer: { readonly rank: number; readonly isReceiver: boolean } | undefined;
}

/** A call, and the stream that was given its work. */
type TimelineCall = RankCall & { readonly timeline: Timeline };

/** A call that several ranks of this process make together. */
interface Rendezvous {
  /** What the ranks that have called it had before, and what it reads of them. It has no work of its own. */
  readonly before: Timeline;
  /** The calls so far. */
  readonly calls: Point[];
  readonly name: string;
  /** How many ranks of this process make it. */
  readonly rankCount: number;
}

/** Calls that streams are given together. */
interface JointCalls {
  /** Whether all their ranks are in this process. */
  readonly isLocal: boolean;
  /** Notes that what is added then comes after what was added so far in all ranks. */
  wait(): void;
  /** Notes that all was added. */
  end(): void;
}

/** A rank of a communicator in this process. */
export class CommunicatorRank {
  /** What the communicators of all its ranks have in common, and no other one has. */
  readonly key: string;
  readonly rank: number;
  readonly size: number;
  /** What comes before its next call: a communicator does one after another. It has no work of its own. */
  readonly before: Timeline;
  /** How many collectives it has made, and how many messages to and from each rank. */
  readonly #isReportable = new Map<string, number>();

  constructor(key: string, rank: number, size: number) {
    this.key = key;
    this.rank = rank;
    this.size = size;
    this.before = new Timeline(`rank ${rank} of ${size}`);
  }

  /** The name of the next call, the same in all ranks that make it together. */
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
  /** The ranks of this process, by key. */
  readonly #ranks = new Map<string, Set<CommunicatorRank>>();
  /** The calls that not all of them have made yet, by name. */
  readonly #rendezvous = new Map<string, Rendezvous>();
  /** The last calls that one rank has made after another one had been given more work, perhaps. */
  readonly #lateCalls: Rendezvous[] = [];

  /** Adds a rank. */
  join(key: string, rank: number, size: number): CommunicatorRank {
    const joined = new CommunicatorRank(key, rank, size);
    const ranks = this.#ranks.get(key);
    if (ranks === undefined) this.#ranks.set(key, new Set([joined]));
    else ranks.add(joined);
    return joined;
  }

  /** Forgets a rank, which makes no more calls. */
  leave(rank: CommunicatorRank): void {
    const ranks = this.#ranks.get(rank.key);
    if (ranks === undefined || !ranks.delete(rank) || ranks.size > 1) return;
    for (const name of this.#rendezvous.keys()) if (name.startsWith(`${rank.key} `)) this.#rendezvous.delete(name);
    if (ranks.size === 0) this.#ranks.delete(rank.key);
  }

  /** Notes that streams are given calls together: each waits for what comes before the others. */
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
   * Notes that a timeline's next work comes after what another rank was given before a call that this timeline is known
   * to come after, although the other rank has called later.
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

  /** Forgets a timeline that is retired. */
  forget(timeline: Timeline): void {
    for (const ranks of this.#ranks.values()) for (const { before } of ranks) before.forget(timeline);
    for (const { before } of [...this.#rendezvous.values(), ...this.#lateCalls]) before.forget(timeline);
  }

  /** The call that a rank makes next, if others of this process make it, too. */
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
