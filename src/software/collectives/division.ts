/**
 * The division of a communicator by colors and keys, which each rank posts in its mailbox.
 *
 * @module
 */
import { SharingError } from "../../support/errors.ts";
import { derivedKey, type Membership, type MembershipOptions } from "./membership.ts";
import { commonRings, ringLength } from "./mailbox.ts";

/** How many divisions of a communicator may be incomplete, so that no entry is overwritten before all ranks read it. */
export const divisionLimit: number = ringLength / 2;

/** The posted color of a rank that is in no part. */
const noColor = -1;

/** What a rank posts. */
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
