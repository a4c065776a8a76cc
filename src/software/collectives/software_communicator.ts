/**
 * A rank of a communicator on a software device: its state, its error, its work on streams, and its divisions into others.
 *
 * @module
 */
import type { CommunicatorState, ValidPrefix } from "../../collective_library.ts";
import { SharingError } from "../../support/errors.ts";
import { waitUntil } from "../../support/waiting/waiting.ts";
import type { Awaited, Scheduler, Stream, Work } from "../execution/streams.ts";
import { commonRings, type MailboxEntry, ringLength } from "./mailbox.ts";
import { derivedKey, type Membership, type MembershipOptions, phases } from "./membership.ts";
import type { MemoryShadow } from "../memory/check_memory.ts";

/** The parts of the software driver that collectives use. */
export interface CollectiveServices {
  readonly scheduler: Scheduler;
  /** The record of initialized memory, if the sanitizer keeps one. */
  readonly shadow: MemoryShadow | undefined;
  /** Throws if there is no such device, or if the devices were lost. */
  checkDevice(device: number, call: string): void;
  /** Whether the devices were lost. */
  areLost(): boolean;
  deviceUuid(device: number): Uint8Array;
  /** The stream of a device that has a handle. Throws if there is none. */
  stream(device: number, handle: bigint, call: string): Stream;
  /** The bytes of a range. Throws if the device may not access them so. */
  range(address: bigint, byteLength: number, access: AccessRequest): Uint8Array;
}

/** The device that accesses a range of memory, how, and in which call. */
export interface AccessRequest {
  readonly device: number;
  /** One of `memAccessFlags`. */
  readonly flags: number;
  readonly call: string;
}

/** A posted collective whose bytes other ranks may still read. */
interface UnreadEntry {
  readonly number: number;
  readonly entry: MailboxEntry;
}

/** Entries that work waits for: the ranks that post them, their ring, and their number. */
export interface AwaitedPosts {
  readonly ranks: readonly number[];
  readonly ring: number;
  readonly number: number;
}

/** A rank of a communicator. */
export class SoftwareCommunicator {
  readonly device: number;
  readonly services: CollectiveServices;
  /** Joins the ranks of a division, once all of its colors are known. */
  readonly #join: () => Membership | undefined;
  #membership: Membership | undefined;
  #failure: unknown;
  /** Whether its unfinished work was revoked. */
  #isStopped = false;
  #isFinalizing = false;
  #isDestroyed = false;
  #hasGivenUp = false;
  #awaited: AwaitedPosts | undefined;
  /** The last work on each stream. */
  readonly #work = new Map<Stream, Work>();
  /** The number of collectives that are complete, and of messages that are not. */
  #completedCollectives = 0;
  #unfinishedMessages = 0;
  /** The number of the last entry of each ring that was posted, or expected from another rank. */
  readonly #numbers = new Map<number, number>();
  /** The collectives whose bytes other ranks may still read, oldest first. */
  readonly #unread: UnreadEntry[] = [];
  readonly #divisions = new Set<Division>();
  /** The number of communicators shrunk from it, by the excluded ranks. */
  readonly #shrinks = new Map<string, number>();

  /** @param joined the membership, or a function that joins and returns undefined as long as it cannot */
  constructor(services: CollectiveServices, device: number, joined: Membership | (() => Membership | undefined)) {
    this.services = services;
    this.device = device;
    this.#join = typeof joined === "function" ? joined : () => joined;
    this.#membership = typeof joined === "function" ? undefined : joined;
  }

  /** The membership. Throws unless the communicator is ready, or was before it failed. */
  membershipFor(action: string): Membership {
    if (this.#membership !== undefined && (this.#membership.isReady || this.state === "ready")) return this.#membership;
    if (this.#failure !== undefined) throw this.#failure;
    throw new Error(
      `Cannot ${action}: the communicator is not ready yet; wait until commGetAsyncError says that it is`,
    );
  }

  /** As `membershipFor`. Throws also if the communicator has failed, or was revoked or finalized. */
  usableFor(action: string): Membership {
    const membership = this.membershipFor(action);
    if (this.#failure !== undefined) throw this.#failure;
    if (!this.#isStopped && !this.#isFinalizing) return membership;
    const why = this.#isFinalizing ? "finalized" : "revoked";
    throw new Error(`Cannot ${action}: the communicator was ${why}; create another one`);
  }

  /** Advances joining, divisions and finalization, and returns the state after that. */
  get state(): CommunicatorState {
    if (this.#failure === undefined && !this.#isDestroyed) {
      try {
        if (this.services.areLost()) this.failByDeviceLoss();
        else if (!this.#advance()) return "in-progress";
      } catch (error) {
        this.fail(error);
      }
    }
    return this.stateOfWork;
  }

  /** The state without advancing anything: the error that has ended its work, or "ready". */
  get stateOfWork(): CommunicatorState {
    return this.#failure as Error | undefined ?? "ready";
  }

  /** The work that was complete before the error; undefined without an error. */
  get validPrefix(): ValidPrefix | undefined {
    const error = this.#failure as Error | undefined;
    return error && { collectives: this.#completedCollectives, messages: this.#unfinishedMessages === 0, error };
  }

  onMessageEnqueued(): void {
    this.#unfinishedMessages++;
  }

  /** @param collective the number of the completed collective; undefined if it is a message. They complete in order. */
  onComplete(collective: number | undefined): void {
    if (collective === undefined) this.#unfinishedMessages--;
    else this.#completedCollectives = collective;
  }

  #advance(): boolean {
    this.#membership ??= this.#join();
    if (this.#membership === undefined || !this.#membership.advance()) return false;
    const gone = this.#membership.findGone();
    if (gone !== undefined) throw gone;
    this.releaseRead();
    let areDivided = true;
    // Ranks that are in a part ask the new communicator instead.
    for (const division of this.#divisions) if (!division.advance() && division.isAwaitedHere) areDivided = false;
    return areDivided && !(this.#isFinalizing && this.hasWork);
  }

  /** Whether its unfinished work is not to be done any more. */
  get hasEnded(): boolean {
    return this.#isStopped || this.#failure !== undefined;
  }

  /** Whether it has unfinished work on streams. */
  get hasWork(): boolean {
    return this.#work.values().some(({ done }) => !done);
  }

  /** Ends its work with an error. Only the first error is kept. */
  fail(error: unknown): void {
    if (this.#failure !== undefined || this.#isDestroyed) return;
    this.#failure = error;
  }

  /** As `fail`, with an error of this rank alone: publishes that it has failed. */
  failAndPublish(error: unknown, phase: number = phases.failed): void {
    if (this.#failure === undefined && !this.#isDestroyed) this.#membership?.publish(phase);
    this.fail(error);
  }

  /** As `fail`, because the devices were lost and its work with them. */
  failByDeviceLoss(): void {
    const message = "The communicator can do no more: its device was lost; see the error of the stream";
    this.failAndPublish(new SharingError("device-lost", message), phases.lost);
  }

  /** The earlier work on all streams, which the next work comes after. */
  get earlierWork(): readonly Work[] {
    return [...this.#work.values()];
  }

  onWorkEnqueued(work: Work): void {
    for (const [stream, { done }] of this.#work) if (done) this.#work.delete(stream);
    this.#work.set(work.stream, work);
  }

  /** Counts the next entry of a ring. Returns its number. */
  nextNumber(ring: number): number {
    const number = (this.#numbers.get(ring) ?? 0) + 1;
    this.#numbers.set(ring, number);
    return number;
  }

  /** Done when the ring has room for another collective. */
  get room(): Awaited {
    // deno-lint-ignore no-this-alias
    const communicator = this;
    return {
      get done() {
        return communicator.hasEnded || communicator.#unread.length < ringLength || communicator.releaseRead();
      },
    };
  }

  /** Keeps the bytes of a collective until all ranks have read them. */
  keep(posted: UnreadEntry): void {
    this.releaseRead();
    this.#unread.push(posted);
  }

  /** Releases the bytes that all ranks have read. Returns whether the ring has room for another collective. */
  releaseRead(): boolean {
    const { own, size } = this.#membership!;
    const isRead = ({ number }: UnreadEntry): boolean => {
      for (let rank = 0; rank < size; rank++) {
        if (!this.#membership!.mailbox(rank).has(commonRings.finished, number)) return false;
      }
      return true;
    };
    while (this.#unread.length > 0 && isRead(this.#unread[0]!)) own.release(this.#unread.shift()!.entry);
    return this.#unread.length < ringLength;
  }

  /** Begins a division: posts this rank's color and key. */
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

  /** Counts the communicators without some ranks, so that each has a key of its own. */
  nextShrink(excluded: string): number {
    const count = (this.#shrinks.get(excluded) ?? 0) + 1;
    this.#shrinks.set(excluded, count);
    return count;
  }

  /** The ranks that have not joined, or not posted what its work waits for. */
  get lateRanks(): readonly number[] {
    const membership = this.#membership;
    if (membership?.isReady !== true) return membership?.absentRanks ?? [];
    const { ranks = [], ring = 0, number = 0 } = this.#awaited ?? {};
    return ranks.filter((rank) => !membership.mailbox(rank).has(ring, number));
  }

  setAwaited(posts: AwaitedPosts): void {
    this.#awaited = posts;
  }

  /** Revokes its work, and takes no more. */
  stop(): void {
    this.#isStopped = true;
  }

  /** As `stop`, and publishes that this rank no longer waits for the others. */
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

  /** Revokes its work and leaves. Ranks that need nothing from it any more fail only if it has aborted. */
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

  /** Resolves when none of its work is left on streams. */
  async whenWorkIsGone(): Promise<void> {
    await waitUntil(() => !this.hasWork);
  }
}

/** The most incomplete divisions of a communicator: no entry may be overwritten before all ranks have read it. */
export const divisionLimit: number = ringLength / 2;

/** The posted color of a rank that is in no part. */
const noColor = -1;

/** The color and key that a rank posts. */
interface DivisionOptions {
  readonly number: number;
  /** Undefined if the rank is in no part. */
  readonly color: number | undefined;
  readonly key: number;
}

/** This rank's membership in its part. */
export type DivisionPlace = Required<Omit<MembershipOptions, "deviceUuid">>;

/** A division of a communicator: complete when all ranks have posted their colors. */
export class Division {
  /** Whether this rank is in no part: then the divided communicator itself reports when the division is complete. */
  readonly isAwaitedHere: boolean;
  readonly #membership: Membership;
  readonly #number: number;
  readonly #color: number;
  /** The colors and keys of the first ranks, as far as they were read. */
  readonly #colors: { readonly rank: number; readonly color: number; readonly key: number }[] = [];

  constructor(membership: Membership, { number, color, key }: DivisionOptions) {
    this.isAwaitedHere = color === undefined;
    this.#membership = membership;
    this.#number = number;
    this.#color = color ?? noColor;
    const nothing = { operation: 0, type: 0, reduction: 0, root: 0, byteLength: 0 };
    membership.own.post(commonRings.divisions, number, { ...nothing, count: this.#color, offset: key });
  }

  /** Reads the colors that were posted by now. Returns whether all were. */
  advance(): boolean {
    const { size } = this.#membership;
    while (this.#colors.length < size) {
      const rank = this.#colors.length;
      if (this.#membership.hasLeft) {
        throw new Error("Cannot divide the communicator: it was destroyed before it was divided");
      }
      const mailbox = this.#membership.mailbox(rank);
      if (!mailbox.has(commonRings.divisions, this.#number)) {
        const gone = this.#membership.findGone(rank);
        if (gone === undefined) return false;
        // It may have posted its color before it left.
        if (!mailbox.has(commonRings.divisions, this.#number)) throw gone;
      }
      const { count: color, offset: key } = mailbox.entry(commonRings.divisions, this.#number);
      if (!Number.isSafeInteger(color) || !Number.isSafeInteger(key)) {
        throw new SharingError("bad-message", `Cannot divide the communicator: rank ${rank} has told no valid color`);
      }
      this.#colors.push({ rank, color, key });
    }
    return true;
  }

  /** This rank's place in its part, once the division is complete. */
  part(): DivisionPlace | undefined {
    if (!this.advance()) return undefined;
    const ranks = this.#colors.filter(({ color }) => color === this.#color)
      .sort((one, other) => one.key - other.key || one.rank - other.rank);
    return {
      key: derivedKey(this.#membership.key, `division ${this.#number} color ${this.#color}`),
      rank: ranks.findIndex(({ rank }) => rank === this.#membership.rank),
      size: ranks.length,
      origin: { membership: this.#membership, ranks: ranks.map(({ rank }) => rank) },
    };
  }
}
