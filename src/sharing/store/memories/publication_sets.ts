/**
 * Sets of allocations that are published together, one by each rank.
 *
 * @module
 */
import { SharingError } from "../../../support/errors.ts";
import { RangeError, TypeError } from "../../../support/program_errors.ts";
import { whatIs } from "../../../support/validation.ts";
import type { PartOfSet, Stored } from "./store_table.ts";

/** The maximum number of ranks of a set. */
export const maximumRanks = 4096;

/** Called when a set was published, or with the error if it never will be. */
type OnEnd = (error?: SharingError) => void;

/** A set that is not published yet. */
interface OpenSet {
  readonly key: string;
  readonly count: number;
  /** The allocation of each rank. Undefined while it waits for room. */
  readonly members: Map<number, Stored | undefined>;
  /** The allocations whose writers wait for the others. */
  readonly ready: Map<Stored, OnEnd>;
}

/** The properties of a request for an allocation of a set. */
interface PartRequest {
  readonly name: string;
  /** The ID of the user that requests the allocation. A set consists of allocations of one user. */
  readonly uid: number;
  readonly set: PartOfSet;
}

/** The sets of a store that are not published yet. */
export class PublicationSets {
  readonly #sets = new Map<string, OpenSet>();
  readonly #setOf = new Map<Stored, OpenSet>();

  /**
   * Reserves a rank of a set for an allocation that is being created.
   *
   * @throws {SharingError} `in-use` if another process writes the memory of this rank
   */
  reserve(request: PartRequest): void {
    const { name, set: { rank, count } } = request;
    const set = this.#open(request);
    if (set.members.has(rank)) {
      const writer = set.members.get(rank)?.writer?.peer.pid;
      throw new SharingError(
        "in-use",
        `Cannot create ${JSON.stringify(name)} for rank ${rank} of ${count}: ${
          writer === undefined ? "another process" : `process ${writer}`
        } writes it; give each group of processes that publishes another set`,
      );
    }
    set.members.set(rank, undefined);
  }

  /** Ends the reservation of a rank whose allocation could not be created. */
  unreserve(request: PartRequest): void {
    const set = this.#sets.get(keyOf(request));
    if (set === undefined || set.members.get(request.set.rank) !== undefined) return;
    set.members.delete(request.set.rank);
    if (set.members.size === 0) this.#sets.delete(set.key);
  }

  /** Adds an unpublished allocation to its set, if it is part of one. */
  add(memory: Stored): void {
    if (memory.set === undefined) return;
    const set = this.#open({ ...memory, set: memory.set });
    if (set.members.get(memory.set.rank) !== undefined) return;
    set.members.set(memory.set.rank, memory);
    this.#setOf.set(memory, set);
  }

  /**
   * Marks an allocation as written.
   *
   * @param onEnd called when the set was published, or cannot be published any more
   * @returns the allocations of the set in the order of their ranks, if all of them are written now
   * @throws {SharingError} `peer-gone` if an allocation of the set is gone; `bad-message` if this one was marked already
   */
  markWritten(memory: Stored, onEnd: OnEnd): readonly Stored[] | undefined {
    const set = this.#setOf.get(memory);
    if (set === undefined) throw goneError(memory);
    if (set.ready.has(memory)) throw new SharingError("bad-message", `Memory ${memory.id} is being published already`);
    set.ready.set(memory, onEnd);
    if (set.ready.size < set.count) return undefined;
    return [...set.ready.keys()].sort((one, other) => one.set!.rank - other.set!.rank);
  }

  /** Undoes `markWritten`, because the client no longer waits. */
  unmark(memory: Stored): void {
    this.#setOf.get(memory)?.ready.delete(memory);
  }

  /** Ends the set of a published allocation. */
  complete(memory: Stored): void {
    this.#end(memory, undefined);
  }

  /** Called when an unpublished allocation is gone, or cannot be published: its set will never be published. */
  break(memory: Stored, error: SharingError = goneError(memory)): void {
    this.#end(memory, error);
  }

  #open(request: PartRequest): OpenSet {
    const key = keyOf(request);
    let set = this.#sets.get(key);
    if (set === undefined) {
      this.#sets.set(key, set = { key, count: request.set.count, members: new Map(), ready: new Map() });
    }
    return set;
  }

  #end(memory: Stored, error: SharingError | undefined): void {
    const set = this.#setOf.get(memory);
    if (set === undefined) return;
    if (this.#sets.get(set.key) === set) this.#sets.delete(set.key);
    for (const member of set.members.values()) if (member !== undefined) this.#setOf.delete(member);
    for (const onEnd of set.ready.values()) onEnd(error);
  }
}

/** A set is identified by its name, its user, its number of ranks and its ID. Names contain no NUL. */
function keyOf({ name, uid, set: { id, count } }: PartRequest): string {
  return `${name}\0${uid}\0${count}\0${id}`;
}

function goneError({ name, set }: Stored): SharingError {
  return new SharingError(
    "peer-gone",
    `Cannot publish ${JSON.stringify(name)}: of its ${set?.count} ranks, one has ended or has given its memory up ` +
      "before all had published",
  );
}

/** Throws unless an array consists of a rank and the number of ranks. */
export function checkRankOfSet(rank: readonly [number, number]): void {
  if (!Array.isArray(rank) || rank.length !== 2 || !rank.every((each) => typeof each === "number")) {
    throw new TypeError(`Cannot use ${whatIs(rank)} as rank: give the rank and the number of ranks, such as [0, 4]`);
  }
  const [number, count] = rank;
  if (Number.isInteger(number) && Number.isInteger(count) && number >= 0 && number < count && count <= maximumRanks) {
    return;
  }
  throw new RangeError(`Cannot use [${rank}] as rank: of at most ${maximumRanks} ranks, the first is 0`);
}
