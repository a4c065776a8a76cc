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

/** The services of the software driver that collectives use. */
export interface CollectiveServices {
  readonly scheduler: Scheduler;
  /**
   * The shadow memory that tracks which bytes are initialized. Undefined if the sanitizer does not check
   * initialization.
   */
  readonly shadow: MemoryShadow | undefined;
  /** Throws if `device` is not the ordinal of a device, or if the devices were lost. */
  checkDevice(device: number, call: string): void;
  /** Returns whether the devices were lost. */
  areLost(): boolean;
  deviceUuid(device: number): Uint8Array;
  /** Returns the stream with the given handle. Throws if the device has no such stream. */
  stream(device: number, handle: bigint, call: string): Stream;
  /**
   * Returns the memory at a range of device addresses. Throws if the device may not access that memory as requested.
   */
  range(address: bigint, byteLength: number, access: AccessRequest): Uint8Array;
}

/**
 * A request for memory access: the accessing device, the kind of access, and the name of the call for error messages.
 */
export interface AccessRequest {
  readonly device: number;
  /** The kind of access, as in `memAccessFlags`. */
  readonly flags: number;
  readonly call: string;
}

/** A collective that this rank has posted, and whose data other ranks may still read. */
interface UnreadEntry {
  readonly number: number;
  readonly entry: MailboxEntry;
}

/**
 * The entries that this rank's work waits for: each of `ranks` must post the entry with sequence number `number` in
 * ring `ring` of its mailbox.
 */
export interface AwaitedPosts {
  readonly ranks: readonly number[];
  readonly ring: number;
  readonly number: number;
}

/** One rank's instance of a communicator of the software device. */
export class SoftwareCommunicator {
  readonly device: number;
  readonly services: CollectiveServices;
  /**
   * Joins the communicator. Returns undefined if this is not possible yet, because the communicator results from a
   * split for which some ranks have not posted their color.
   */
  readonly #join: () => Membership | undefined;
  #membership: Membership | undefined;
  #failure: unknown;
  /** Whether the communicator's unfinished work was revoked. */
  #isStopped = false;
  #isFinalizing = false;
  #isDestroyed = false;
  #hasGivenUp = false;
  #awaited: AwaitedPosts | undefined;
  /** For each stream, the communicator's last work on it. */
  readonly #work = new Map<Stream, Work>();
  /** The number of collectives that this rank has completed. */
  #completedCollectives = 0;
  /** The number of sends and receives that this rank has enqueued and not completed. */
  #unfinishedMessages = 0;
  /**
   * For each ring, the last sequence number that this rank has used, either for its own entry or for an entry that it
   * expects from a peer.
   */
  readonly #numbers = new Map<number, number>();
  /** The collectives whose data in this rank's mailbox other ranks may still read, oldest first. */
  readonly #unread: UnreadEntry[] = [];
  readonly #divisions = new Set<Division>();
  /** The number of communicators that were shrunk from this one, keyed by the list of excluded ranks. */
  readonly #shrinks = new Map<string, number>();

  /**
   * @param joined the membership, or a function that joins the communicator, and that returns undefined while joining
   * is not possible yet
   */
  constructor(services: CollectiveServices, device: number, joined: Membership | (() => Membership | undefined)) {
    this.services = services;
    this.device = device;
    this.#join = typeof joined === "function" ? joined : () => joined;
    this.#membership = typeof joined === "function" ? undefined : joined;
  }

  /** Returns the membership for an action. Throws unless the communicator is ready, or was ready before it failed. */
  membershipFor(action: string): Membership {
    if (this.#membership !== undefined && (this.#membership.isReady || this.state === "ready")) return this.#membership;
    if (this.#failure !== undefined) throw this.#failure;
    throw new Error(
      `Cannot ${action}: the communicator is not ready yet; wait until commGetAsyncError says that it is`,
    );
  }

  /** Like `membershipFor`, but also throws if the communicator has failed or was revoked or finalized. */
  usableFor(action: string): Membership {
    const membership = this.membershipFor(action);
    if (this.#failure !== undefined) throw this.#failure;
    if (!this.#isStopped && !this.#isFinalizing) return membership;
    const why = this.#isFinalizing ? "finalized" : "revoked";
    throw new Error(`Cannot ${action}: the communicator was ${why}; create another one`);
  }

  /** The state of the communicator. Reading this property makes progress with pending joins, splits and finalization. */
  get state(): CommunicatorState {
    if (this.#failure === undefined && !this.#isDestroyed) {
      try {
        if (this.services.areLost()) this.failByDeviceLoss();
        else if (!this.#progress()) return "in-progress";
      } catch (error) {
        this.fail(error);
      }
    }
    return this.stateOfWork;
  }

  /** The error with which the communicator has failed, or else "ready". Reading this property makes no progress. */
  get stateOfWork(): CommunicatorState {
    return this.#failure as Error | undefined ?? "ready";
  }

  /**
   * The work that this rank had completed before the communicator failed. Undefined if the communicator has not failed.
   */
  get validPrefix(): ValidPrefix | undefined {
    const error = this.#failure as Error | undefined;
    return error && { collectives: this.#completedCollectives, messages: this.#unfinishedMessages === 0, error };
  }

  onMessageEnqueued(): void {
    this.#unfinishedMessages++;
  }

  /**
   * Counts a completed operation.
   *
   * @param collective the collective's sequence number (collectives complete in order); undefined for a send or receive
   */
  onComplete(collective: number | undefined): void {
    if (collective === undefined) this.#unfinishedMessages--;
    else this.#completedCollectives = collective;
  }

  #progress(): boolean {
    this.#membership ??= this.#join();
    if (this.#membership === undefined || !this.#membership.progress()) return false;
    const gone = this.#membership.findGone();
    if (gone !== undefined) throw gone;
    this.releaseRead();
    let areDivided = true;
    // Wait only for splits in which this rank joins no new communicator. For other splits, callers learn from the new
    // communicator's state whether the split is complete.
    for (const division of this.#divisions) if (!division.progress() && division.isAwaitedHere) areDivided = false;
    return areDivided && !(this.#isFinalizing && this.hasWork);
  }

  /** Whether the communicator's unfinished work must not run, because it was revoked or has failed. */
  get hasEnded(): boolean {
    return this.#isStopped || this.#failure !== undefined;
  }

  /** Whether the communicator has unfinished work on streams. */
  get hasWork(): boolean {
    return this.#work.values().some(({ done }) => !done);
  }

  /** Fails the communicator with an error. Later calls have no effect. */
  fail(error: unknown): void {
    if (this.#failure !== undefined || this.#isDestroyed) return;
    this.#failure = error;
  }

  /**
   * Like `fail`, but also publishes that this rank has failed. Use for errors that other ranks do not detect by
   * themselves.
   */
  failAndPublish(error: unknown, phase: number = phases.failed): void {
    if (this.#failure === undefined && !this.#isDestroyed) this.#membership?.publish(phase);
    this.fail(error);
  }

  /**
   * Fails the communicator because the devices were lost, and the communicator's work with them. Also publishes the
   * failure.
   */
  failByDeviceLoss(): void {
    const message = "The communicator can do no more: its device was lost; see the error of the stream";
    this.failAndPublish(new SharingError("device-lost", message), phases.lost);
  }

  /** The last work on each stream. The communicator's next work runs after all of it. */
  get earlierWork(): readonly Work[] {
    return [...this.#work.values()];
  }

  onWorkEnqueued(work: Work): void {
    for (const [stream, { done }] of this.#work) if (done) this.#work.delete(stream);
    this.#work.set(work.stream, work);
  }

  /** Increments the sequence number of a ring, and returns it for the next entry. */
  nextNumber(ring: number): number {
    const number = (this.#numbers.get(ring) ?? 0) + 1;
    this.#numbers.set(ring, number);
    return number;
  }

  /** A condition to wait for: the ring of collectives has room for another entry. */
  get room(): Awaited {
    // deno-lint-ignore no-this-alias
    const communicator = this;
    return {
      get done() {
        return communicator.hasEnded || communicator.#unread.length < ringLength || communicator.releaseRead();
      },
    };
  }

  /** Keeps the data of a posted collective in the mailbox until all ranks have read it. */
  keep(posted: UnreadEntry): void {
    this.releaseRead();
    this.#unread.push(posted);
  }

  /**
   * Releases the data of collectives that all ranks have read. Returns whether the ring has room for another
   * collective.
   */
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

  /** Begins a split, by posting this rank's color and key. */
  divide(color: number | undefined, key: number): Division {
    const membership = this.usableFor("divide the communicator");
    for (const division of this.#divisions) if (division.progress()) this.#divisions.delete(division);
    if (this.#divisions.size === divisionLimit) {
      throw new RangeError(
        `Cannot divide the communicator: ${divisionLimit} divisions of it are not complete yet; wait for some of them`,
      );
    }
    const division = new Division(membership, { number: this.nextNumber(commonRings.divisions), color, key });
    this.#divisions.add(division);
    return division;
  }

  /**
   * Counts a shrink, and returns how many shrinks have excluded the same ranks, so that each derives a different key.
   */
  nextShrink(excluded: string): number {
    const count = (this.#shrinks.get(excluded) ?? 0) + 1;
    this.#shrinks.set(excluded, count);
    return count;
  }

  /**
   * The ranks that have not joined, or, once all have joined, those that have not posted the entry that this rank waits
   * for.
   */
  get lateRanks(): readonly number[] {
    const membership = this.#membership;
    if (membership?.isReady !== true) return membership?.absentRanks ?? [];
    const { ranks = [], ring = 0, number = 0 } = this.#awaited ?? {};
    return ranks.filter((rank) => !membership.mailbox(rank).has(ring, number));
  }

  setAwaited(posts: AwaitedPosts): void {
    this.#awaited = posts;
  }

  /** Revokes the communicator's work. From now on, the communicator rejects new work. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Like `stop`, but also publishes that this rank has given up waiting for the other ranks. */
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

  /**
   * Revokes the communicator's work and leaves the roster. Other ranks fail if they still need an entry of this rank,
   * or in any case if `isAborted` is set.
   */
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

  /** Resolves when the streams have no unfinished work of the communicator. */
  async whenWorkIsGone(): Promise<void> {
    await waitUntil(() => !this.hasWork);
  }
}

/**
 * The maximum number of incomplete splits of a communicator. The limit ensures that an entry in the ring of splits is
 * overwritten only after all ranks have read it.
 */
export const divisionLimit: number = ringLength / 2;

/** The color that a rank posts if it joins no new communicator. */
const noColor = -1;

/** The color and key that this rank posts for a split, and the split's sequence number. */
interface DivisionOptions {
  readonly number: number;
  /** The color. Undefined if the rank joins no new communicator. */
  readonly color: number | undefined;
  readonly key: number;
}

/** The options with which this rank joins a communicator that results from a split. */
export type DivisionPlace = Required<Omit<MembershipOptions, "deviceUuid">>;

/**
 * A split of a communicator into one communicator per color. The split is complete when all ranks have posted their
 * colors.
 */
export class Division {
  /**
   * Whether this rank joins no new communicator. Callers then learn from the parent's state whether the split is
   * complete.
   */
  readonly isAwaitedHere: boolean;
  readonly #membership: Membership;
  readonly #number: number;
  readonly #color: number;
  /** The colors and keys read so far, in rank order. */
  readonly #colors: { readonly rank: number; readonly color: number; readonly key: number }[] = [];

  constructor(membership: Membership, { number, color, key }: DivisionOptions) {
    this.isAwaitedHere = color === undefined;
    this.#membership = membership;
    this.#number = number;
    this.#color = color ?? noColor;
    const nothing = { operation: 0, type: 0, reduction: 0, root: 0, byteLength: 0 };
    membership.own.post(commonRings.divisions, number, { ...nothing, count: this.#color, offset: key });
  }

  /** Reads the colors that were posted since the previous call. Returns whether all ranks have posted their colors. */
  progress(): boolean {
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
        // Check again: the rank may have posted its color just before it left.
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

  /** Returns the options with which this rank joins its new communicator. Undefined until the split is complete. */
  part(): DivisionPlace | undefined {
    if (!this.progress()) return undefined;
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
