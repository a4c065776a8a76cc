/**
 * A rank's place among the ranks of a communicator: how they find each other by a key, and notice who has gone.
 *
 * A rank takes its place in a roster and says there how to open its mailbox. Once it has opened the mailboxes of all
 * others, it is connected. When all are, the communicator is ready and the roster has no name any more. From then on,
 * a rank can leave at any time: the others have what it posted.
 *
 * @module
 */
import { type PlaceState, Roster, RosterFullError } from "../../../ffi/native/shim/roster.ts";
import { errno, SystemError } from "../../../ffi/native/shim/system_error.ts";
import { ipcHandleByteLength } from "../../driver.ts";
import { SharingError } from "../../support/errors.ts";
import { sharedMemoryRefusal } from "../memory/shared_file.ts";
import { Mailbox, OwnMailbox } from "./mailbox.ts";

/** How far a rank is, or how it has ended. Whoever has a later one has been connected, or is told of as gone. */
export const phases = {
  absent: 0,
  present: 1,
  connected: 2,
  finished: 3,
  aborted: 4,
  lost: 5,
  failed: 6,
  gaveUp: 7,
} as const;

/** A rank's record: the handle of its mailbox, its phase, and how many ranks it expects (u32 each). */
const recordByteLength = ipcHandleByteLength + 8;
/** What is left to do where a rank is gone. */
const canDoNoMore = ": the communicator can do no more; shrink it to go on without that rank, or abort it";
const cannotMeet = ": not all can come any more; create another communicator, with an id of its own";
/** Milliseconds between looks at who has gone. */
const lookInterval = 2;

/** Who takes part, and as what. */
export interface MembershipOptions {
  /** All ranks have the same, and no other communicator has it. */
  readonly key: string;
  readonly rank: number;
  readonly size: number;
  readonly deviceUuid: Uint8Array;
  /** Where the ranks come from, if they were in another communicator. */
  readonly origin?: Origin | undefined;
}

/** The communicator whose ranks form another one. */
export interface Origin {
  readonly membership: Membership;
  /** The ranks there, by rank in the new communicator. */
  readonly ranks: readonly number[];
}

interface RankRecord {
  readonly handle: Uint8Array;
  readonly phase: number;
  readonly size: number;
}

/** A rank among others. */
export class Membership {
  readonly key: string;
  readonly rank: number;
  readonly size: number;
  readonly own: OwnMailbox;
  readonly #roster: Roster;
  readonly #origin: Origin | undefined;
  /** The mailboxes that were opened, by rank. */
  readonly #mailboxes: Mailbox[] = [];
  #connected = 0;
  /** Why the communicator can do no more, when it was last looked. */
  #gone: SharingError | undefined;
  /** The ranks that left when they were done. */
  readonly #left = new Set<number>();
  #nextLook = 0;

  /**
   * Takes a place.
   *
   * @throws {SharingError} `"not-supported"` if processes cannot find each other here, `"limit-exceeded"` if there is no
   * memory for that
   */
  static join(options: MembershipOptions): Membership {
    const { key, rank, size, deviceUuid } = options;
    let roster: ReturnType<typeof Roster.join>;
    try {
      roster = Roster.join(key, rank, { places: size, recordByteLength, entryByteLength: 0 });
    } catch (error) {
      throw described(error, `Cannot create a communicator: rank ${rank} of ${size} could not take its place`);
    }
    if (roster === undefined) throw notSupported();
    if (roster === "taken") {
      throw new RangeError(
        `Cannot create a communicator: rank ${rank} of ${size} is taken; give each rank its own number, and each ` +
          `communicator its own id`,
      );
    }
    let own: OwnMailbox | undefined;
    try {
      own = OwnMailbox.create(size, deviceUuid);
      return new Membership(options, roster, own);
    } catch (error) {
      own?.close();
      roster.leave();
      throw described(error, `Cannot create a communicator: rank ${rank} of ${size} could not make its mailbox`);
    }
  }

  private constructor({ key, rank, size, origin }: MembershipOptions, roster: Roster, own: OwnMailbox) {
    this.key = key;
    this.rank = rank;
    this.size = size;
    this.own = own;
    this.#roster = roster;
    this.#origin = origin;
    roster.write(own.handle());
    roster.write(new Uint8Array(Uint32Array.of(size).buffer), ipcHandleByteLength + 4);
    // The phase is written last: whoever sees it sees the rest.
    this.publish(phases.present);
  }

  get isReady(): boolean {
    return this.#connected === this.size;
  }

  get hasLeft(): boolean {
    return this.#roster.hasLeft;
  }

  /** The ranks that have not come yet. */
  get absentRanks(): number[] {
    if (this.hasLeft) return [];
    return Array.from({ length: this.size }, (_, rank) => rank).filter((rank) =>
      this.#record(rank).phase === phases.absent
    );
  }

  /** The mailbox of any rank, once the communicator is ready. */
  mailbox(rank: number): Mailbox {
    return this.#mailboxes[rank]!;
  }

  /** Goes on to meet the others. Returns whether all are connected. Throws if they can no longer meet. */
  advance(): boolean {
    if (this.isReady) return true;
    while (this.#mailboxes.length < this.size && this.#meet(this.#mailboxes.length));
    if (this.#mailboxes.length === this.size) {
      if (this.#record(this.rank).phase === phases.present) this.publish(phases.connected);
      while (!this.isReady && this.#record(this.#connected).phase >= phases.connected) this.#connected++;
      if (this.isReady) this.#roster.close();
    }
    if (this.isReady) return true;
    const gone = this.findGone();
    if (gone !== undefined) throw gone;
    return false;
  }

  /** Opens the mailbox of a rank. Returns false if it has not come yet. */
  #meet(rank: number): boolean {
    if (rank === this.rank) {
      this.#mailboxes.push(this.own);
      return true;
    }
    const { phase, size, handle } = this.#record(rank);
    if (phase === phases.absent) return false;
    if (size !== this.size) {
      throw new Error(
        `Cannot create a communicator: rank ${rank} says that there are ${size} ranks, and rank ${this.rank} that ` +
          `there are ${this.size}; give all ranks the same size`,
      );
    }
    const what = `Cannot create a communicator: the mailbox of rank ${rank} (${this.#processOf(rank)})`;
    let opened: ReturnType<typeof Mailbox.open>;
    try {
      opened = Mailbox.open(handle, size);
    } catch (error) {
      throw described(error, `${what} could not be opened`);
    }
    if (opened === "not a handle") throw new SharingError("bad-message", `${what} is not one of poolpass's`);
    if (opened === "unseen") {
      throw new SharingError("not-supported", `${what} cannot be seen; all ranks must be in one PID namespace`);
    }
    // A process that ends closes one file after another: soon its place shows that it has gone.
    if (!(opened instanceof Mailbox)) return false;
    this.#mailboxes.push(opened);
    return true;
  }

  /**
   * Whether a rank has gone that should be there, as of a moment ago.
   *
   * @param needed a rank that may not have left, even if its work is done
   */
  findGone(needed?: number): SharingError | undefined {
    const now = performance.now();
    if (now >= this.#nextLook) {
      this.#nextLook = now + lookInterval;
      this.#look();
    }
    return this.#gone ??
      (needed !== undefined && this.#left.has(needed) ? this.#goneError(needed, "has left") : undefined);
  }

  #look(): void {
    let gone: SharingError | undefined, gaveUp: SharingError | undefined;
    for (let rank = 0; rank < this.size; rank++) {
      if (rank === this.rank || this.#left.has(rank)) continue;
      const state = this.#roster.stateOf(rank);
      const { phase } = this.#record(rank);
      // Whoever dies is the cause, and whoever aborts for that reason is not.
      if (state === "ended" && phase !== phases.finished) {
        gone = this.#goneError(rank, "has ended");
        break;
      }
      gone ??= this.#reasonOf(rank, state, phase);
      // Nor is whoever has given up for that reason.
      if (phase === phases.gaveUp) gaveUp ??= this.#gaveUpError(rank);
      if (gone === undefined && state !== "taken" && state !== "free") this.#left.add(rank);
    }
    this.#gone = gone ?? gaveUp;
  }

  /** Why the communicator can do no more because of a rank. */
  #reasonOf(rank: number, state: PlaceState, phase: number): SharingError | undefined {
    if (state === "free") return this.#reasonNotToCome(rank);
    if (state === "ended" && phase !== phases.finished) return this.#goneError(rank, "has ended");
    if (phase === phases.aborted) return this.#goneError(rank, "has aborted");
    if (phase === phases.lost) return this.#lostError(rank);
    if (phase === phases.failed) return this.#failedError(rank);
    return state === "taken" || this.isReady ? undefined : this.#goneError(rank, "has left");
  }

  /** Why a rank will not come, which may have ended before it did. */
  #reasonNotToCome(rank: number): SharingError | undefined {
    if (this.#origin === undefined || this.#origin.membership.hasLeft) return undefined;
    const { membership, ranks } = this.#origin;
    const there = ranks[rank]!;
    const state = membership.#roster.stateOf(there);
    const reason = membership.#reasonOf(there, state, membership.#record(there).phase);
    return reason ?? (state === "taken" ? undefined : membership.#goneError(there, "has left"));
  }

  /** Tells the others how far this rank is. */
  publish(phase: number): void {
    if (!this.hasLeft) this.#roster.write(new Uint8Array(Uint32Array.of(phase).buffer), ipcHandleByteLength);
  }

  /** Gives up the place, and closes everything. */
  leave(phase: number): void {
    if (this.hasLeft) return;
    this.publish(phase);
    this.#roster.leave();
    for (const mailbox of new Set([this.own, ...this.#mailboxes])) mailbox.close();
  }

  #record(rank: number): RankRecord {
    const bytes = new Uint8Array(recordByteLength);
    this.#roster.readInto(bytes, rank);
    const words = new Uint32Array(bytes.buffer, ipcHandleByteLength);
    const phase = words[0]!;
    // What was read beside the phase may be older.
    if (phase !== phases.absent) this.#roster.readInto(bytes, rank);
    return { handle: bytes.subarray(0, ipcHandleByteLength), phase, size: words[1]! };
  }

  #processOf(rank: number): string {
    return `process ${this.#roster.pidOf(rank)}`;
  }

  #goneError(rank: number, what: string): SharingError {
    return new SharingError(
      "peer-gone",
      `Rank ${rank} of ${this.size} ${what} (${this.#processOf(rank)})${this.isReady ? canDoNoMore : cannotMeet}`,
    );
  }

  #gaveUpError(rank: number): SharingError {
    return new SharingError(
      "timed-out",
      `Rank ${rank} of ${this.size} waits for the others no more (${this.#processOf(rank)})${canDoNoMore}`,
    );
  }

  #lostError(rank: number): SharingError {
    return new SharingError(
      "device-lost",
      `Rank ${rank} of ${this.size} has lost its device (${this.#processOf(rank)})${canDoNoMore}`,
    );
  }

  #failedError(rank: number): SharingError {
    return new SharingError(
      "internal-error",
      `Rank ${rank} of ${this.size} has failed (${this.#processOf(rank)}): the communicator can do no more; see that ` +
        `rank's own error`,
    );
  }
}

function notSupported(): SharingError {
  const reason = sharedMemoryRefusal() ?? "the system has no named memory, or another user has taken the name";
  return new SharingError("not-supported", `Cannot create a communicator: processes cannot find each other: ${reason}`);
}

/** An error of the system, with what could not be done. */
function described(error: unknown, what: string): unknown {
  if (error instanceof RosterFullError) {
    return new SharingError("limit-exceeded", `${what}: ${error.message}`, { cause: error.cause });
  }
  if (!(error instanceof SystemError)) return error;
  const isOfDescriptors = error.errno === errno.EMFILE || error.errno === errno.ENFILE;
  return new SharingError(isOfDescriptors ? "out-of-descriptors" : "not-permitted", `${what} (${error.message})`, {
    cause: error,
  });
}
