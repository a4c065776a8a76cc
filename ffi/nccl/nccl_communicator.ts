/**
 * A communicator of NCCL: the phase of its creation, and the roster of its ranks on this machine.
 *
 * @module
 */
import type { Extent, ValidPrefix } from "../../src/collective_library.ts";
import { SharingError } from "../../src/support/errors.ts";
import { sha256 } from "../../src/support/sha256.ts";
import { pause } from "../../src/support/waiting/timer.ts";
import { Roster, RosterFullError } from "../native/shim/roster.ts";

/**
 * A rank's record in the roster: first whether it has aborted (u32), which ends the communicator; then for each rank (u8)
 * whether it sends to that one (1), receives from it (2), or both (3).
 */
const aborted = Uint32Array.of(1);
const linksOffset = aborted.byteLength;
/**
 * The entry of a rank that aborts its work: whether all messages were complete and one of these reasons (u32 each), and how
 * many collectives were complete (f64).
 */
const reasons = { "peer-gone": 1, "timed-out": 2 } as const;
const entry = { messages: 0, reason: 4, collectives: 8, byteLength: 16 } as const;
/**
 * Milliseconds between the publication of such an entry and the abort. For as long, ranks that have found no entry need not
 * read the entries again: that takes a tenth of a small collective.
 */
const graceMilliseconds = 10;
const trustedMilliseconds = 5;
/** The bit of a link to a rank that this one sends to. */
export const sends = 1;
/** The bit of a link to a rank that this one receives from. */
export const receives = 2;
/** Milliseconds between two checks for ranks of this machine that have ended. */
const rosterInterval = 10;
/**
 * The size of the buffer for a new communicator's handle, in bytes. NCCL writes it in a thread of its own, so the buffer is
 * large enough for engines not to move it.
 */
export const handleOutBytes = 256;

/** The phases of a creation, in order: the manager is created, then the worker is split from it and connects. */
type Phase = "dividing" | "initializing" | "connecting" | "ready";

/** A link for messages: NCCL connects it at the first one, and blocks until both ranks have called. */
export interface Link {
  readonly peer: number;
  readonly direction: typeof sends | typeof receives;
}

/** A communicator of this library: two of NCCL's. */
export class NcclCommunicator {
  phase: Phase;
  /** The handle of the nonblocking communicator; 0 until it is known. */
  manager = 0n;
  /** The handle of the blocking communicator, for collectives. */
  worker = 0n;
  /** The communicator that this one is split from, whose state says whether `manager` is ready. */
  readonly parent: NcclCommunicator | undefined;
  readonly device: number;
  readonly id: Uint8Array;
  /** The ranks of this machine. Undefined if the system lacks shared memory. */
  roster: Roster | undefined;
  failure: Error | undefined;
  /** The error of a rank of this machine that has ended, once it was found. */
  #ended: SharingError | undefined;
  #nextPoll = 0;
  #nextPollOfParent = 0;
  readonly out: BigUint64Array<ArrayBuffer> = new BigUint64Array(handleOutBytes / 8);
  /** Milliseconds for which a call may block until other ranks take part. */
  readonly timeout: number;
  /** The links to and from all other ranks. */
  readonly linksOfAll: Link[] = [];
  /** The links that this rank has published in the roster, by rank. */
  #links = new Uint8Array(0);
  /** The entries of all ranks. */
  #entries = new DataView(new ArrayBuffer(0));
  #trustedUntil = 0;
  /** The links that are connected. */
  readonly #linked = new Set<number>();
  /** If it was shrunk from another one: the excluded ranks, which may be fewer than the array has elements. */
  excluded: Int32Array<ArrayBuffer> | undefined;
  excludedCount = 0;
  /** The number of communicators that were split from it. */
  #splits = 0;
  /** How often it was shrunk without the same ranks, by their numbers. */
  readonly #shrinks = new Map<string, number>();
  /** The communicators that are being split from it: NCCL writes their handles even if nobody waits for them. */
  readonly dividing: Set<NcclCommunicator> = new Set();

  constructor(device: number, id: Uint8Array, { timeout, parent }: { timeout: number; parent?: NcclCommunicator }) {
    this.device = device;
    this.id = id;
    this.phase = parent === undefined ? "initializing" : "dividing";
    this.parent = parent;
    this.timeout = timeout;
  }

  /** The id of a communicator that is split from this one. All ranks divide it in the same order. */
  idOfSplit(color: number | undefined): Uint8Array {
    return derivedId(this.id, `split ${++this.#splits} ${color}`);
  }

  /** The id of a communicator of all ranks but some: another one each time, as a rank may have left the last one. */
  idOfShrink(excluded: readonly number[]): Uint8Array {
    const names = [...excluded].sort((one, other) => one - other).join(" ");
    const count = (this.#shrinks.get(names) ?? 0) + 1;
    this.#shrinks.set(names, count);
    return derivedId(this.id, `shrink ${count} ${names}`);
  }

  /** Takes the rank's place in the roster of this machine. */
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
      if (peer !== rank) this.linksOfAll.push({ peer, direction: sends }, { peer, direction: receives });
    }
  }

  /** Publishes that this rank sends to another one, or receives from it. */
  offerLink({ peer, direction }: Link): void {
    const { roster } = this;
    if (roster === undefined || roster.hasLeft || (this.#links[peer]! & direction) !== 0) return;
    this.#links[peer]! |= direction;
    roster.write(this.#links.subarray(peer, peer + 1), linksOffset + peer);
  }

  /** Waits until the other rank has published the opposite direction, if that rank is on this machine. */
  awaitLink({ peer, direction }: Link): void {
    const key = 4 * peer + direction;
    const { roster } = this;
    if (this.#linked.has(key) || roster === undefined || roster.hasLeft) return;
    const opposite = direction === sends ? receives : sends;
    const links = new Uint8Array(1);
    const deadline = performance.now() + this.timeout;
    for (let state = roster.stateOf(peer); state !== "free"; state = roster.stateOf(peer)) {
      roster.readInto(links, peer, linksOffset + roster.place);
      if ((links[0]! & opposite) !== 0) break;
      const ended = this.pollForEnded();
      if (ended !== undefined) throw this.failure = ended;
      // It has disposed of its communicator, and makes no more calls.
      if (state === "left" && !hasAborted(roster, peer)) throw goneError(roster, peer, "has left");
      if (performance.now() > deadline) throw this.#unlinked(peer, direction);
      pause();
    }
    this.#linked.add(key);
  }

  #unlinked(peer: number, direction: number): SharingError {
    const [what, opposite] = direction === sends ? ["send to", "receives"] : ["receive from", "sends"];
    return new SharingError(
      "timed-out",
      `Cannot ${what} rank ${peer}: it ${opposite} nothing in ${this.timeout} ms; in one thread, call both in ` +
        "Communicator.group",
    );
  }

  /**
   * Publishes how much of this rank's work is complete, and waits for a moment. Call before aborting the work: NCCL's
   * kernels then send the other ranks whatever they have, which those would take for the result.
   */
  publishExtent({ collectives, messages }: Extent, why: Error): void {
    const { roster } = this;
    if (roster === undefined || roster.hasLeft || roster.places === 1) return;
    const own = new DataView(new ArrayBuffer(entry.byteLength));
    own.setUint32(entry.messages, messages ? 1 : 0, true);
    own.setFloat64(entry.collectives, collectives, true);
    roster.writeEntry(new Uint8Array(own.buffer));
    // The reason is written last: it makes the entry valid.
    const isLate = why instanceof SharingError && why.code === "timed-out";
    own.setUint32(entry.reason, isLate ? reasons["timed-out"] : reasons["peer-gone"], true);
    roster.writeEntry(new Uint8Array(own.buffer, entry.reason, 4), entry.reason);
    pause(graceMilliseconds);
  }

  /** The valid prefix of the work that is complete by now, if other ranks of this machine have aborted theirs. */
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

  /** The error of a rank of this machine that has ended, or has aborted. */
  pollForEnded(): Error | undefined {
    const { roster } = this;
    if (this.#ended !== undefined) return this.#ended;
    if (roster === undefined || roster.hasLeft || performance.now() < this.#nextPoll) return undefined;
    this.#nextPoll = performance.now() + rosterInterval;
    let abortError: SharingError | undefined;
    for (let place = 0; place < roster.places; place++) {
      if (place === roster.place) continue;
      const state = roster.stateOf(place);
      // A rank that died is the cause, and comes before ranks that aborted because of it.
      if (state === "ended") return this.#ended = goneError(roster, place, "has ended");
      if (state === "left" && hasAborted(roster, place)) abortError ??= goneError(roster, place, "has aborted");
    }
    return this.#ended = abortError;
  }

  /** The error of a rank of this machine that has ended, and that the division of its communicator waits for. */
  pollForEndedInParent(): Error | undefined {
    const { excluded, excludedCount } = this;
    const roster = this.parent?.roster;
    if (roster === undefined || roster.hasLeft || performance.now() < this.#nextPollOfParent) return undefined;
    // A rank that ends after a split may be in another part.
    if (excluded === undefined && this.phase !== "dividing") return undefined;
    this.#nextPollOfParent = performance.now() + rosterInterval;
    for (let place = 0; place < roster.places; place++) {
      if (place === roster.place || excluded?.subarray(0, excludedCount).includes(place)) continue;
      // A rank that has aborted may have done so after its part of the division.
      if (roster.stateOf(place) === "ended") return goneError(roster, place, "has ended");
    }
    return undefined;
  }

  /** Leaves the roster. */
  leave({ isAborted = false }: { isAborted?: boolean } = {}): void {
    if (this.roster === undefined || this.roster.hasLeft) return;
    if (isAborted) this.roster.write(new Uint8Array(aborted.buffer));
    this.roster.leave();
  }
}

/** Whether a rank that has left its place has aborted the communicator. */
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

/** The id of a communicator that is split or shrunk from another one: all its ranks derive the same one. */
function derivedId(id: Uint8Array, how: string): Uint8Array {
  return sha256(new Uint8Array([...id, ...new TextEncoder().encode(how)]));
}

/** `ncclConfig_t` as it was in NCCL 2.18: newer ones read what it has. */
const configVersion = 2_18_00;
const configByteLength = 48;
const configMagic = 0xcafebeef;
/** `NCCL_CONFIG_UNDEF_INT`. */
const undefinedInt = -(2 ** 31);

/** An `ncclConfig_t`. Nonblocking communicators get a single channel, the least memory, as they make no collectives. */
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
