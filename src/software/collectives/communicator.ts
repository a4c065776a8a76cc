/**
 * A rank of a communicator on a software device: how far it is, why it can do no more, and its work on streams.
 *
 * @module
 */
import type { CommunicatorState, ValidPrefix } from "../../collective_library.ts";
import { SharingError } from "../../support/errors.ts";
import { waitUntil } from "../../support/waiting/waiting.ts";
import type { Awaited, Stream, Work } from "../execution/streams/streams.ts";
import { Division, divisionLimit } from "./division.ts";
import { commonRings, type Entry, ringLength } from "./mailbox.ts";
import { type Membership, phases } from "./membership.ts";
import type { CollectiveServices } from "./services.ts";

/** An entry that others may still read the bytes of. */
interface Posted {
  readonly number: number;
  readonly entry: Entry;
}

/** Entries of a number in a ring, which ranks are to post. */
export interface AwaitedPosts {
  readonly ranks: readonly number[];
  readonly ring: number;
  readonly number: number;
}

/** A rank of a communicator. */
export class Communicator {
  readonly device: number;
  readonly services: CollectiveServices;
  /** Joins the others, as soon as it is known who they are. */
  readonly #join: () => Membership | undefined;
  #membership: Membership | undefined;
  #failure: unknown;
  /** Whether its work ends without having been done. */
  #isStopped = false;
  #isFinalizing = false;
  #isDestroyed = false;
  #hasGivenUp = false;
  #awaited: AwaitedPosts | undefined;
  /** The last work on each stream. */
  readonly #work = new Map<Stream, Work>();
  /** How many collectives were done, and how many messages were not. */
  #doneCollectives = 0;
  #openMessages = 0;
  /** How many entries of each ring have been posted, or expected from others. */
  readonly #numbers = new Map<number, number>();
  /** The collectives whose bytes others may still read, in order. */
  readonly #unread: Posted[] = [];
  readonly #divisions = new Set<Division>();
  /** How often it was shrunk, by the ranks that were excluded. */
  readonly #shrinks = new Map<string, number>();

  /** @param joined who takes part, or a function that joins them and returns undefined until it is known who they are */
  constructor(services: CollectiveServices, device: number, joined: Membership | (() => Membership | undefined)) {
    this.services = services;
    this.device = device;
    this.#join = typeof joined === "function" ? joined : () => joined;
    this.#membership = typeof joined === "function" ? undefined : joined;
  }

  /** Who takes part. Throws unless the communicator is ready, or has been. */
  membershipFor(action: string): Membership {
    if (this.#membership !== undefined && (this.#membership.isReady || this.state === "ready")) return this.#membership;
    if (this.#failure !== undefined) throw this.#failure;
    throw new Error(
      `Cannot ${action}: the communicator is not ready yet; wait until commGetAsyncError says that it is`,
    );
  }

  /** As `membershipFor`, for what a communicator that has failed or was revoked can no longer do. */
  usableFor(action: string): Membership {
    const membership = this.membershipFor(action);
    if (this.#failure !== undefined) throw this.#failure;
    if (!this.#isStopped && !this.#isFinalizing) return membership;
    const why = this.#isFinalizing ? "finalized" : "revoked";
    throw new Error(`Cannot ${action}: the communicator was ${why}; create another one`);
  }

  /** Makes progress with what does not happen on streams, and says how far it is. */
  get state(): CommunicatorState {
    if (this.#failure === undefined && !this.#isDestroyed) {
      try {
        if (this.services.areLost()) this.failOfLoss();
        else if (!this.#advance()) return "in-progress";
      } catch (error) {
        this.fail(error);
      }
    }
    return this.stateOfWork;
  }

  /** The error that has ended its work, if one has. */
  get stateOfWork(): CommunicatorState {
    return this.#failure as Error | undefined ?? "ready";
  }

  /** What was done before the error; undefined as long as there is none. */
  get validPrefix(): ValidPrefix | undefined {
    const error = this.#failure as Error | undefined;
    return error && { collectives: this.#doneCollectives, messages: this.#openMessages === 0, error };
  }

  /** Notes that a message was given to its stream. */
  noteMessage(): void {
    this.#openMessages++;
  }

  /** Notes that a collective was done, by its number, or else a message. They are done one after another. */
  noteDone(collective: number | undefined): void {
    if (collective === undefined) this.#openMessages--;
    else this.#doneCollectives = collective;
  }

  #advance(): boolean {
    this.#membership ??= this.#join();
    if (this.#membership === undefined || !this.#membership.advance()) return false;
    const gone = this.#membership.findGone();
    if (gone !== undefined) throw gone;
    this.reclaim();
    let areDivided = true;
    // Those who get a new communicator ask that one.
    for (const division of this.#divisions) if (!division.advance() && division.isAwaitedHere) areDivided = false;
    return areDivided && !(this.#isFinalizing && this.hasWork);
  }

  /** Whether its work is no longer to be done. */
  get hasEnded(): boolean {
    return this.#isStopped || this.#failure !== undefined;
  }

  /** Whether it has work on streams. */
  get hasWork(): boolean {
    return this.#work.values().some(({ done }) => !done);
  }

  /** Ends its work with an error. Only the first one is kept. */
  fail(error: unknown): void {
    if (this.#failure !== undefined || this.#isDestroyed) return;
    this.#failure = error;
  }

  /** As `fail`, because of something that the others cannot see. They are told. */
  failHere(error: unknown, phase: number = phases.failed): void {
    if (this.#failure === undefined && !this.#isDestroyed) this.#membership?.publish(phase);
    this.fail(error);
  }

  /** As `fail`, because the devices were lost, and with them its work. */
  failOfLoss(): void {
    const message = "The communicator can do no more: its device was lost; see the error of the stream";
    this.failHere(new SharingError("device-lost", message), phases.lost);
  }

  /** What a communicator's next work has to wait for: its earlier work on all streams. */
  get earlierWork(): readonly Work[] {
    return [...this.#work.values()];
  }

  noteWork(work: Work): void {
    for (const [stream, { done }] of this.#work) if (done) this.#work.delete(stream);
    this.#work.set(work.stream, work);
  }

  /** The number of a ring's next entry. */
  nextNumber(ring: number): number {
    const number = (this.#numbers.get(ring) ?? 0) + 1;
    this.#numbers.set(ring, number);
    return number;
  }

  /** Whether another collective can be posted. */
  get room(): Awaited {
    // deno-lint-ignore no-this-alias
    const communicator = this;
    return {
      get done() {
        return communicator.hasEnded || communicator.#unread.length < ringLength || communicator.reclaim();
      },
    };
  }

  /** Keeps the bytes of a collective until all have read them. */
  keep(posted: Posted): void {
    this.reclaim();
    this.#unread.push(posted);
  }

  /** Releases what all have read. Returns whether there is room for another collective. */
  reclaim(): boolean {
    const { own, size } = this.#membership!;
    const isRead = ({ number }: Posted): boolean => {
      for (let rank = 0; rank < size; rank++) {
        if (!this.#membership!.mailbox(rank).has(commonRings.finished, number)) return false;
      }
      return true;
    };
    while (this.#unread.length > 0 && isRead(this.#unread[0]!)) own.release(this.#unread.shift()!.entry);
    return this.#unread.length < ringLength;
  }

  /** Tells the others what this rank's color and key are, and finds out theirs. */
  divide(color: number | undefined, key: number): Division {
    const membership = this.usableFor("divide the communicator");
    for (const division of this.#divisions) if (division.advance()) this.#divisions.delete(division);
    if (this.#divisions.size === divisionLimit) {
      throw new RangeError(
        `Cannot divide the communicator: ${divisionLimit} divisions of it are not complete yet; wait for some of them`,
      );
    }
    const division = new Division(membership, { number: this.nextNumber(commonRings.divisions), color, key });
    this.#divisions.add(division);
    return division;
  }

  /** What tells the next communicator without some ranks from others without them. */
  nextShrink(excluded: string): number {
    const count = (this.#shrinks.get(excluded) ?? 0) + 1;
    this.#shrinks.set(excluded, count);
    return count;
  }

  /** The ranks that it waits for. */
  get lateRanks(): readonly number[] {
    const membership = this.#membership;
    if (membership?.isReady !== true) return membership?.absentRanks ?? [];
    const { ranks = [], ring = 0, number = 0 } = this.#awaited ?? {};
    return ranks.filter((rank) => !membership.mailbox(rank).has(ring, number));
  }

  /** Notes what its work waits for. */
  noteAwaited(posts: AwaitedPosts): void {
    this.#awaited = posts;
  }

  /** Ends its work, and takes no more. */
  stop(): void {
    this.#isStopped = true;
  }

  /** As `stop`. The other ranks are told that this one waits for them no more. */
  giveUp(): void {
    this.stop();
    if (this.#hasGivenUp || this.#isDestroyed || this.#failure !== undefined) return;
    this.#hasGivenUp = true;
    this.#membership?.publish(phases.gaveUp);
  }

  finalize(): void {
    this.membershipFor("finalize the communicator");
    this.#isFinalizing = true;
  }

  /** Ends its work and leaves. To others that need nothing of it any more, only its abortion is an error. */
  destroy({ isAborted = false }: { isAborted?: boolean } = {}): void {
    const phase = this.#hasGivenUp
      ? phases.gaveUp
      : isAborted || !this.#membership?.isReady
      ? phases.aborted
      : phases.finished;
    this.#isDestroyed = true;
    this.stop();
    this.#membership?.leave(phase);
  }

  /** Resolves when its work is gone from all streams. */
  async workIsGone(): Promise<void> {
    await waitUntil(() => !this.hasWork);
  }
}
