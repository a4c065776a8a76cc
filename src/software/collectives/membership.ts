/**
 * A rank's membership in a communicator: how the ranks find each other by a key, and notice which ones are gone.
 *
 * A rank takes its place in a roster, a named shared memory file, and writes the handle of its mailbox there. Once it has
 * opened the mailboxes of all other ranks, it is connected. When all ranks are, the communicator is ready, and the
 * roster's name is removed. From then on, a rank may leave at any time: the others can still read what it has posted.
 *
 * @module
 */
import { type PlaceState, Roster, RosterFullError } from "../../../ffi/native/shim/roster.ts";
import { errno, SystemError } from "../../../ffi/native/shim/shim.ts";
import { ipcHandleByteLength } from "../../driver.ts";
import { SharingError } from "../../support/errors.ts";
import { sha256 } from "../../support/sha256.ts";
import { sharedMemoryRefusal } from "../memory/shared_file.ts";
import { Mailbox, OwnMailbox } from "./mailbox.ts";

const idByteLength = 128;
/** The first bytes of every id that `createId` returns. They distinguish the ids from NCCL's, which are rejected. */
const magic = new TextEncoder().encode("poolpass collectives 1 ");

/** Creates the id of a new communicator. */
export function createId(): Uint8Array<ArrayBuffer> {
  const id = crypto.getRandomValues(new Uint8Array(idByteLength));
  id.set(magic);
  return id;
}

/**
 * Returns a communicator's key, derived from its id: 64 hexadecimal digits. Throws if `createId` did not create the id.
 */
export function keyOfId(id: Uint8Array): string {
  if (id.byteLength !== idByteLength) {
    throw new RangeError(
      `Cannot create a communicator: an id has ${idByteLength} bytes, and this one ${id.byteLength}; give all ranks the ` +
        `id that one of them has created`,
    );
  }
  if (magic.some((byte, index) => id[index] !== byte)) {
    throw new RangeError(
      `Cannot create a communicator: the id is not one of the software device's; all ranks must be on software devices, ` +
        `and one of them must create the id`,
    );
  }
  return sha256(id).toHex();
}

/**
 * Returns the key of a communicator that is split or shrunk from the communicator with `key`. `which` distinguishes the
 * splits and shrinks of that communicator.
 */
export function derivedKey(key: string, which: string): string {
  return sha256(new TextEncoder().encode(`${key} ${which}`)).toHex();
}

/**
 * The phases of a rank, which it publishes in its roster record. A rank whose phase is at least `connected` has opened
 * the mailboxes of all ranks. A rank that leaves before it has reached this phase is reported as gone.
 */
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

/**
 * The size in bytes of a rank's roster record: the handle of the rank's mailbox, the rank's phase, and the number of
 * ranks that it expects in the communicator (u32 each).
 */
const recordByteLength = ipcHandleByteLength + 8;
/** The advice in messages of errors that occur after the communicator has become ready. */
const adviceToShrink = ": the communicator can do no more; shrink it to go on without that rank, or abort it";
/** The advice in messages of errors that occur before the communicator is ready. */
const adviceToCreateAnother = ": not all can come any more; create another communicator, with an id of its own";
/** Milliseconds between two checks for ranks that are gone. */
const checkInterval = 2;

/** A communicator, and the rank as which to join it. */
export interface MembershipOptions {
  /** A key that all ranks of the communicator share, and that no other communicator has. */
  readonly key: string;
  readonly rank: number;
  readonly size: number;
  readonly deviceUuid: Uint8Array;
  /** The parent of the communicator. Undefined if the communicator was created from an id. */
  readonly origin?: ParentRanks | undefined;
}

/** The parent of a communicator: the one from which the communicator was split or shrunk. */
export interface ParentRanks {
  readonly membership: Membership;
  /** For each rank of the child communicator, its rank in the parent. */
  readonly ranks: readonly number[];
}

interface RankRecord {
  readonly handle: Uint8Array;
  readonly phase: number;
  readonly size: number;
}

/**
 * The membership of this process's rank in a communicator: the rank's slot in the roster, and the mailboxes of all
 * ranks.
 */
export class Membership {
  readonly key: string;
  readonly rank: number;
  readonly size: number;
  readonly own: OwnMailbox;
  readonly #roster: Roster;
  readonly #origin: ParentRanks | undefined;
  /** The mailboxes that are open, indexed by rank. */
  readonly #mailboxes: Mailbox[] = [];
  #connected = 0;
  /** The error found by the last check for ranks that are gone. Undefined if the check found none. */
  #gone: SharingError | undefined;
  /** The ranks that have completed their work and have left without an error. */
  readonly #left = new Set<number>();
  #nextCheck = 0;

  /**
   * Claims the rank's slot in the roster.
   *
   * @throws {SharingError} `"not-supported"` if the system lacks named memory, `"limit-exceeded"` if there is no memory
   * for the roster
   */
  static join(options: MembershipOptions): Membership {
    const { key, rank, size, deviceUuid } = options;
    let roster: ReturnType<typeof Roster.join>;
    try {
      roster = Roster.join(key, rank, { places: size, recordByteLength, entryByteLength: 0 });
    } catch (error) {
      throw describeSystemError(
        error,
        `Cannot create a communicator: rank ${rank} of ${size} could not take its place`,
      );
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
      throw describeSystemError(
        error,
        `Cannot create a communicator: rank ${rank} of ${size} could not make its mailbox`,
      );
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
    // Write the phase last, so that a process that reads the phase also finds the rest of the record.
    this.publish(phases.present);
  }

  get isReady(): boolean {
    return this.#connected === this.size;
  }

  get hasLeft(): boolean {
    return this.#roster.hasLeft;
  }

  /** The ranks that have not joined yet. */
  get absentRanks(): number[] {
    if (this.hasLeft) return [];
    return Array.from({ length: this.size }, (_, rank) => rank).filter((rank) =>
      this.#record(rank).phase === phases.absent
    );
  }

  /** Returns the mailbox of any rank. Call only when the communicator is ready. */
  mailbox(rank: number): Mailbox {
    return this.#mailboxes[rank]!;
  }

  /**
   * Opens the mailboxes of ranks that have joined since the previous call. Returns whether all ranks are connected.
   * Throws if a rank can never connect.
   */
  progress(): boolean {
    if (this.isReady) return true;
    while (this.#mailboxes.length < this.size && this.#openMailboxOf(this.#mailboxes.length));
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

  /** Opens the mailbox of a rank. Returns false if this is not possible yet, or if the rank's process is exiting. */
  #openMailboxOf(rank: number): boolean {
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
      throw describeSystemError(error, `${what} could not be opened`);
    }
    if (opened === "not a handle") throw new SharingError("bad-message", `${what} is not one of poolpass's`);
    if (opened === "unseen") {
      throw new SharingError("not-supported", `${what} cannot be seen; all ranks must be in one PID namespace`);
    }
    // The rank's process is exiting and has closed its mailbox. Later checks of the roster find that the rank is gone.
    if (!(opened instanceof Mailbox)) return false;
    this.#mailboxes.push(opened);
    return true;
  }

  /**
   * Returns an error if a rank that the other ranks still need is gone. Checks at most once every two milliseconds.
   *
   * @param needed a rank that counts as gone even if it has completed its work and has left without an error
   */
  findGone(needed?: number): SharingError | undefined {
    const now = performance.now();
    if (now >= this.#nextCheck) {
      this.#nextCheck = now + checkInterval;
      this.#checkRanks();
    }
    return this.#gone ??
      (needed !== undefined && this.#left.has(needed) ? this.#goneError(needed, "has left") : undefined);
  }

  #checkRanks(): void {
    let gone: SharingError | undefined, gaveUp: SharingError | undefined;
    for (let rank = 0; rank < this.size; rank++) {
      if (rank === this.rank || this.#left.has(rank)) continue;
      const state = this.#roster.stateOf(rank);
      const { phase } = this.#record(rank);
      // Prefer a rank whose process has exited: other ranks may have aborted because of it.
      if (state === "ended" && phase !== phases.finished) {
        gone = this.#goneError(rank, "has ended");
        break;
      }
      gone ??= this.#reasonOf(rank, state, phase);
      // Report a rank that has merely given up waiting only if no other rank is at fault.
      if (phase === phases.gaveUp) gaveUp ??= this.#gaveUpError(rank);
      if (gone === undefined && state !== "taken" && state !== "free") this.#left.add(rank);
    }
    this.#gone = gone ?? gaveUp;
  }

  /** Returns an error if a rank has made the communicator unusable, according to the rank's slot state and phase. */
  #reasonOf(rank: number, state: PlaceState, phase: number): SharingError | undefined {
    if (state === "free") return this.#reasonNotToJoin(rank);
    if (state === "ended" && phase !== phases.finished) return this.#goneError(rank, "has ended");
    if (phase === phases.aborted) return this.#goneError(rank, "has aborted");
    if (phase === phases.lost) return this.#lostError(rank);
    if (phase === phases.failed) return this.#failedError(rank);
    return state === "taken" || this.isReady ? undefined : this.#goneError(rank, "has left");
  }

  /**
   * Returns an error if a rank that has not joined yet can no longer join, because it is gone from the parent
   * communicator.
   */
  #reasonNotToJoin(rank: number): SharingError | undefined {
    if (this.#origin === undefined || this.#origin.membership.hasLeft) return undefined;
    const { membership, ranks } = this.#origin;
    const there = ranks[rank]!;
    const state = membership.#roster.stateOf(there);
    const reason = membership.#reasonOf(there, state, membership.#record(there).phase);
    return reason ?? (state === "taken" ? undefined : membership.#goneError(there, "has left"));
  }

  /** Publishes this rank's phase in the roster. */
  publish(phase: number): void {
    if (!this.hasLeft) this.#roster.write(new Uint8Array(Uint32Array.of(phase).buffer), ipcHandleByteLength);
  }

  /** Publishes this rank's last phase, leaves the roster, and closes all mailboxes. */
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
    // Read the record again after a phase was found: the first read may have read the other fields before they were
    // written.
    if (phase !== phases.absent) this.#roster.readInto(bytes, rank);
    return { handle: bytes.subarray(0, ipcHandleByteLength), phase, size: words[1]! };
  }

  #processOf(rank: number): string {
    return `process ${this.#roster.pidOf(rank)}`;
  }

  #goneError(rank: number, what: string): SharingError {
    return new SharingError(
      "peer-gone",
      `Rank ${rank} of ${this.size} ${what} (${this.#processOf(rank)})${
        this.isReady ? adviceToShrink : adviceToCreateAnother
      }`,
    );
  }

  #gaveUpError(rank: number): SharingError {
    return new SharingError(
      "timed-out",
      `Rank ${rank} of ${this.size} waits for the others no more (${this.#processOf(rank)})${adviceToShrink}`,
    );
  }

  #lostError(rank: number): SharingError {
    return new SharingError(
      "device-lost",
      `Rank ${rank} of ${this.size} has lost its device (${this.#processOf(rank)})${adviceToShrink}`,
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

/**
 * Converts a `SystemError` or `RosterFullError` to a `SharingError`. `what` is the beginning of the message. Returns
 * any other error unchanged.
 */
function describeSystemError(error: unknown, what: string): unknown {
  if (error instanceof RosterFullError) {
    return new SharingError("limit-exceeded", `${what}: ${error.message}`, { cause: error.cause });
  }
  if (!(error instanceof SystemError)) return error;
  const isOfDescriptors = error.errno === errno.EMFILE || error.errno === errno.ENFILE;
  return new SharingError(isOfDescriptors ? "out-of-descriptors" : "not-permitted", `${what} (${error.message})`, {
    cause: error,
  });
}
