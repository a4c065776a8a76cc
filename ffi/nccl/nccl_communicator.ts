/**
 * A communicator of NCCL: the phase of its creation, and the roster of its ranks on this machine.
 *
 * @module
 */
import type { CommunicatorExtent, ValidPrefix } from "../../src/collective_library.ts";
import { SharingError } from "../../src/support/errors.ts";
import { sha256 } from "../../src/support/sha256.ts";
import { pause } from "../../src/support/waiting/timer.ts";
import { Roster, RosterFullError } from "../native/shim/roster.ts";

/**
 * The value of the first word (u32) of the record in a rank's roster slot if the rank has aborted the communicator.
 * Otherwise, the word is 0. The rest of the record has a byte for each rank of the communicator: whether the slot's
 * owner sends to that rank (1), receives from that rank (2), or does both (3).
 */
const aborted = Uint32Array.of(1);
const linksOffset = aborted.byteLength;
/** The reasons why a rank aborts its work, as numbers in roster entries. */
const reasons = { "peer-gone": 1, "timed-out": 2 } as const;
/**
 * The layout of the roster entry of a rank that aborts its work: whether all of its messages were complete, the reason
 * (u32 each), and the number of its completed collectives (f64).
 */
const entry = { messages: 0, reason: 4, collectives: 8, byteLength: 16 } as const;
/** Milliseconds that a rank waits between publishing its roster entry and aborting its work. */
const graceMilliseconds = 10;
/**
 * If a rank has found no aborting rank in the roster entries, it does not read them again for this number of
 * milliseconds: reading them takes a tenth of the time of a small collective. Must be less than `graceMilliseconds`.
 */
const trustedMilliseconds = 5;
/** A flag of a link: this rank sends to the peer. */
export const sendFlag = 1;
/** A flag of a link: this rank receives from the peer. */
export const receiveFlag = 2;
/** The interval, in milliseconds, between checks for ranks on this machine whose processes have exited. */
const rosterInterval = 10;
/**
 * The maximum delay, in milliseconds, between the moment when an exiting process's sockets are closed and the moment
 * when the roster shows that the process has exited.
 */
const exitMilliseconds = 500;
/**
 * The size in bytes of the buffer for a new communicator's handle. NCCL writes the handle from another thread, so the
 * buffer is large enough for engines not to move it.
 */
export const handleOutBytes = 256;

/**
 * The phases of creating a communicator, in order: if it has a parent, NCCL splits or shrinks the parent; the manager
 * is initialized; the worker is split from the manager and connected.
 */
type Phase = "dividing" | "initializing" | "connecting" | "ready";

/**
 * A peer, and the direction of messages to or from this peer. NCCL connects a link at its first message, and blocks
 * until both ranks have called the send or receive.
 */
export interface Link {
  readonly peer: number;
  readonly direction: typeof sendFlag | typeof receiveFlag;
}

/** A communicator of this library. It consists of two NCCL communicators: `manager` and `worker`. */
export class NcclCommunicator {
  phase: Phase;
  /**
   * The handle of the nonblocking NCCL communicator, which is used for splits and shrinks; 0 until NCCL returns the
   * handle.
   */
  manager = 0n;
  /** The handle of the blocking NCCL communicator, which runs the collectives. */
  worker = 0n;
  /**
   * The communicator that this one is split or shrunk from. The parent's state in NCCL shows whether `manager` is
   * ready.
   */
  readonly parent: NcclCommunicator | undefined;
  readonly device: number;
  readonly id: Uint8Array;
  /** The roster of the communicator's ranks on this machine. Undefined if the system lacks shared memory. */
  roster: Roster | undefined;
  failure: Error | undefined;
  /** The error that `pollForEnded` has found: a rank on this machine has exited or aborted. */
  #ended: SharingError | undefined;
  #nextPoll = 0;
  #nextPollOfParent = 0;
  /** When NCCL was first found to have lost a connection. */
  #lostConnectionAt: number | undefined;
  readonly out: BigUint64Array<ArrayBuffer> = new BigUint64Array(handleOutBytes / 8);
  /** The maximum time in milliseconds that a call blocks until other ranks take part. */
  readonly timeout: number;
  /** All possible links: for each other rank, one link in each direction. */
  readonly linksOfAll: Link[] = [];
  /** For each peer, the directions of messages that this rank has published in the roster. */
  #links = new Uint8Array(0);
  /** The roster entries of all ranks, as last read. */
  #entries = new DataView(new ArrayBuffer(0));
  #trustedUntil = 0;
  /** The links that are connected, each as `4 * peer + direction`. */
  readonly #linked = new Set<number>();
  /**
   * The excluded ranks, if this communicator was shrunk from another one. Elements from index `excludedCount` on are
   * unused.
   */
  excluded: Int32Array<ArrayBuffer> | undefined;
  excludedCount = 0;
  /** The number of communicators that were split from this one. */
  #splits = 0;
  /** The number of communicators that were shrunk from this one, keyed by the list of excluded ranks. */
  readonly #shrinks = new Map<string, number>();
  /**
   * The communicators whose split from this one is pending. NCCL writes their handles even if nobody waits for them.
   */
  readonly dividing: Set<NcclCommunicator> = new Set();

  constructor(device: number, id: Uint8Array, { timeout, parent }: { timeout: number; parent?: NcclCommunicator }) {
    this.device = device;
    this.id = id;
    this.phase = parent === undefined ? "initializing" : "dividing";
    this.parent = parent;
    this.timeout = timeout;
  }

  /**
   * Returns the id of the next communicator split from this one. All ranks make their splits in the same order, so they
   * compute the same id.
   */
  idOfSplit(color: number | undefined): Uint8Array {
    return derivedId(this.id, `split ${++this.#splits} ${color}`);
  }

  /**
   * Returns the id of the next communicator shrunk from this one without the given ranks. Each attempt has a different
   * id, because a rank may have left the communicator of the previous attempt.
   */
  idOfShrink(excluded: readonly number[]): Uint8Array {
    const names = [...excluded].sort((one, other) => one - other).join(" ");
    const count = (this.#shrinks.get(names) ?? 0) + 1;
    this.#shrinks.set(names, count);
    return derivedId(this.id, `shrink ${count} ${names}`);
  }

  /** Claims a rank's slot in the roster of this machine. */
  join(rank: number, size: number): void {
    const shape = { places: size, recordByteLength: linksOffset + size, entryByteLength: entry.byteLength };
    let roster: ReturnType<typeof Roster.join>;
    try {
      roster = Roster.join(sha256(this.id).toHex(), rank, shape);
    } catch (error) {
      if (!(error instanceof RosterFullError)) throw error;
      const message = `Cannot create a communicator of rank ${rank}: ${error.message}`;
      throw new SharingError("limit-exceeded", message, { cause: error.cause });
    }
    if (roster === "taken") {
      throw new RangeError(`Cannot create a communicator of rank ${rank}: another one has that rank already`);
    }
    this.roster = roster;
    this.#links = new Uint8Array(size);
    this.#entries = new DataView(new ArrayBuffer(size * entry.byteLength));
    for (let peer = 0; peer < size; peer++) {
      if (peer !== rank) this.linksOfAll.push({ peer, direction: sendFlag }, { peer, direction: receiveFlag });
    }
  }

  /** Publishes in the roster that this rank sends to a peer, or receives from the peer. */
  offerLink({ peer, direction }: Link): void {
    const { roster } = this;
    if (roster === undefined || roster.hasLeft || (this.#links[peer]! & direction) !== 0) return;
    this.#links[peer]! |= direction;
    roster.write(this.#links.subarray(peer, peer + 1), linksOffset + peer);
  }

  /** Waits until the peer has published the opposite direction, if the peer is on this machine. */
  awaitLink({ peer, direction }: Link): void {
    const key = 4 * peer + direction;
    const { roster } = this;
    if (this.#linked.has(key) || roster === undefined || roster.hasLeft) return;
    const opposite = direction === sendFlag ? receiveFlag : sendFlag;
    const links = new Uint8Array(1);
    const deadline = performance.now() + this.timeout;
    for (let state = roster.stateOf(peer); state !== "free"; state = roster.stateOf(peer)) {
      roster.readInto(links, peer, linksOffset + roster.place);
      if ((links[0]! & opposite) !== 0) break;
      const ended = this.pollForEnded();
      if (ended !== undefined) throw this.failure = ended;
      // The peer has disposed of its communicator, and makes no more calls.
      if (state === "left" && !hasAborted(roster, peer)) throw goneError(roster, peer, "has left");
      if (performance.now() > deadline) throw this.#unlinked(peer, direction);
      pause();
    }
    this.#linked.add(key);
  }

  #unlinked(peer: number, direction: number): SharingError {
    const [what, opposite] = direction === sendFlag ? ["send to", "receives"] : ["receive from", "sends"];
    return new SharingError(
      "timed-out",
      `Cannot ${what} rank ${peer}: it ${opposite} nothing in ${this.timeout} ms; in one thread, call both in ` +
        "Communicator.group",
    );
  }

  /**
   * Publishes how much of this rank's work is complete, and waits for `graceMilliseconds` so that other ranks read it.
   * Call before aborting the work: aborted NCCL kernels send incomplete data to the other ranks, which would use it as
   * the result.
   */
  publishExtent({ collectives, messages }: CommunicatorExtent, why: Error): void {
    const { roster } = this;
    if (roster === undefined || roster.hasLeft || roster.places === 1) return;
    const own = new DataView(new ArrayBuffer(entry.byteLength));
    own.setUint32(entry.messages, messages ? 1 : 0, true);
    own.setFloat64(entry.collectives, collectives, true);
    roster.writeEntry(new Uint8Array(own.buffer));
    // Write the reason last: it makes the entry valid.
    const isLate = why instanceof SharingError && why.code === "timed-out";
    own.setUint32(entry.reason, isLate ? reasons["timed-out"] : reasons["peer-gone"], true);
    roster.writeEntry(new Uint8Array(own.buffer, entry.reason, 4), entry.reason);
    pause(graceMilliseconds);
  }

  /**
   * If other ranks of this machine have aborted their work, returns the part of the completed work whose results are
   * valid. Undefined if none has aborted.
   */
  validPrefix(): ValidPrefix | undefined {
    const now = performance.now();
    if (now < this.#trustedUntil) return undefined;
    const { roster } = this;
    if (roster === undefined || roster.hasLeft || roster.places === 1) return undefined;
    const entries = this.#entries;
    roster.readEntriesInto(new Uint8Array(entries.buffer));
    let least: { place: number; collectives: number } | undefined;
    let messages = true;
    for (let place = 0; place < roster.places; place++) {
      const offset = place * entry.byteLength;
      if (place === roster.place || entries.getUint32(offset + entry.reason, true) === 0) continue;
      const collectives = entries.getFloat64(offset + entry.collectives, true);
      if (least === undefined || !(collectives >= least.collectives)) least = { place, collectives };
      messages &&= entries.getUint32(offset + entry.messages, true) === 1;
    }
    if (least === undefined) {
      this.#trustedUntil = now + trustedMilliseconds;
      return undefined;
    }
    const { place, collectives } = least;
    this.#nextPoll = 0;
    return { collectives, messages, error: this.pollForEnded() ?? this.#cutBy(place) };
  }

  #cutBy(place: number): SharingError {
    const isLate = this.#entries.getUint32(place * entry.byteLength + entry.reason, true) === reasons["timed-out"];
    const who = `Rank ${place} (${processOf(this.roster!, place)})`;
    return new SharingError(
      isLate ? "timed-out" : "peer-gone",
      isLate
        ? `${who} has revoked the collectives: not all ranks took part in its timeout`
        : `${who} has revoked the collectives: they cannot be finished there`,
    );
  }

  /** Returns the error to report if a rank on this machine has exited or aborted. */
  pollForEnded(): Error | undefined {
    const { roster } = this;
    if (this.#ended !== undefined) return this.#ended;
    if (roster === undefined || roster.hasLeft || performance.now() < this.#nextPoll) return undefined;
    this.#nextPoll = performance.now() + rosterInterval;
    let abortError: SharingError | undefined;
    for (let place = 0; place < roster.places; place++) {
      if (place === roster.place) continue;
      const state = roster.stateOf(place);
      // Prefer a rank that has died: other ranks may have aborted because of it.
      if (state === "ended") return this.#ended = goneError(roster, place, "has ended");
      if (state === "left" && hasAborted(roster, place)) abortError ??= goneError(roster, place, "has aborted");
    }
    return this.#ended = abortError;
  }

  /**
   * Returns the error to report when NCCL has lost a connection. If the roster shows that a rank on this machine has
   * exited or aborted, the error names this rank. Returns undefined as long as the roster may still be about to show
   * it.
   */
  causeOf(error: Error): Error | undefined {
    this.#nextPoll = 0;
    const ended = this.pollForEnded();
    const { roster } = this;
    if (ended !== undefined) return ended;
    if (this.phase !== "ready" || roster === undefined || roster.hasLeft || !roster.hasOthers()) return error;
    const now = performance.now();
    this.#lostConnectionAt ??= now;
    return now - this.#lostConnectionAt < exitMilliseconds ? undefined : error;
  }

  /**
   * Returns an error if a rank of the parent on this machine has exited, so that splitting or shrinking the parent can
   * never complete.
   */
  pollForEndedInParent(): Error | undefined {
    const { excluded, excludedCount } = this;
    const roster = this.parent?.roster;
    if (roster === undefined || roster.hasLeft || performance.now() < this.#nextPollOfParent) return undefined;
    // Once a split is complete, a rank of the parent that exits may belong to a different child.
    if (excluded === undefined && this.phase !== "dividing") return undefined;
    this.#nextPollOfParent = performance.now() + rosterInterval;
    for (let place = 0; place < roster.places; place++) {
      if (place === roster.place || excluded?.subarray(0, excludedCount).includes(place)) continue;
      // Ignore ranks that have aborted: they may have done so after completing their part of the split or shrink.
      if (roster.stateOf(place) === "ended") return goneError(roster, place, "has ended");
    }
    return undefined;
  }

  /** Removes this rank from the roster. */
  leave({ isAborted = false }: { isAborted?: boolean } = {}): void {
    if (this.roster === undefined || this.roster.hasLeft) return;
    if (isAborted) this.roster.write(new Uint8Array(aborted.buffer));
    this.roster.leave();
  }
}

/** Returns whether a rank that has left the roster had aborted the communicator. */
function hasAborted(roster: Roster, place: number): boolean {
  const record = new Uint32Array(1);
  roster.readInto(new Uint8Array(record.buffer), place);
  return record[0] === aborted[0];
}

function goneError(roster: Roster, place: number, what: string): SharingError {
  return new SharingError("peer-gone", `Rank ${place} ${what}: ${processOf(roster, place)}`);
}

function processOf(roster: Roster, place: number): string {
  return `process ${roster.pidOf(place)}`;
}

/** Returns the id of a communicator that is split or shrunk from another one. All of its ranks compute the same id. */
function derivedId(id: Uint8Array, how: string): Uint8Array {
  return sha256(new Uint8Array([...id, ...new TextEncoder().encode(how)]));
}

/** The version of the `ncclConfig_t` layout used here: that of NCCL 2.18, which newer versions accept. */
const configVersion = 2_18_00;
const configByteLength = 48;
const configMagic = 0xcafebeef;
/** `NCCL_CONFIG_UNDEF_INT`: the value of an option that is not set. */
const undefinedInt = -(2 ** 31);

/**
 * Returns an encoded `ncclConfig_t`. A nonblocking communicator runs no collectives, so it gets a single channel to
 * save memory.
 */
export function configOf({ isBlocking }: { readonly isBlocking: boolean }): Uint8Array {
  const config = new Uint8Array(handleOutBytes);
  const view = new DataView(config.buffer);
  const channels = isBlocking ? undefinedInt : 1;
  view.setBigUint64(0, BigInt(configByteLength), true);
  view.setUint32(8, configMagic, true);
  view.setUint32(12, configVersion, true);
  view.setInt32(16, isBlocking ? 1 : 0, true);
  view.setInt32(20, undefinedInt, true); // cgaClusterSize
  view.setInt32(24, channels, true); // minCTAs
  view.setInt32(28, channels, true); // maxCTAs
  view.setInt32(40, undefinedInt, true); // splitShare
  return config;
}
