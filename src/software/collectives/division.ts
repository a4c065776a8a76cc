/**
 * The division of a communicator by the colors and keys that its ranks tell each other.
 *
 * @module
 */
import { SharingError } from "../../support/errors.ts";
import { derivedKey } from "./communicator_id.ts";
import { commonRings, ringLength } from "./mailbox.ts";
import type { Membership, MembershipOptions } from "./membership.ts";

/** How many divisions of a communicator can be incomplete. Then no rank's entry is overwritten before all have it. */
export const divisionLimit: number = ringLength / 2;

/** The color of a rank that is in no part, in its entry. */
const noColor = -1;

/** What a rank tells the others. */
interface DivisionOptions {
  readonly number: number;
  /** Undefined if the rank is in no part. */
  readonly color: number | undefined;
  readonly key: number;
}

/** One rank's place in the part that it is in. */
export type Part = Required<Omit<MembershipOptions, "deviceUuid">>;

/** A division of a communicator, which is complete when all ranks have told their colors. */
export class Division {
  /** Whether this rank is in no part, so that only the communicator itself can say when the others know. */
  readonly isAwaitedHere: boolean;
  readonly #membership: Membership;
  readonly #number: number;
  readonly #color: number;
  /** The colors and keys of the ranks so far. */
  readonly #told: { readonly rank: number; readonly color: number; readonly key: number }[] = [];

  constructor(membership: Membership, { number, color, key }: DivisionOptions) {
    this.isAwaitedHere = color === undefined;
    this.#membership = membership;
    this.#number = number;
    this.#color = color ?? noColor;
    const nothing = { operation: 0, type: 0, reduction: 0, root: 0, byteLength: 0 };
    membership.own.post(commonRings.divisions, number, { ...nothing, count: this.#color, offset: key });
  }

  /** Looks who has told their colors. Returns whether all have. */
  advance(): boolean {
    const { size } = this.#membership;
    while (this.#told.length < size) {
      const rank = this.#told.length;
      if (this.#membership.hasLeft) {
        throw new Error("Cannot divide the communicator: it was destroyed before it was divided");
      }
      const mailbox = this.#membership.mailbox(rank);
      if (!mailbox.has(commonRings.divisions, this.#number)) {
        const gone = this.#membership.findGone(rank);
        if (gone === undefined) return false;
        // It may have told its color before it left.
        if (!mailbox.has(commonRings.divisions, this.#number)) throw gone;
      }
      const { count: color, offset: key } = mailbox.entry(commonRings.divisions, this.#number);
      if (!Number.isSafeInteger(color) || !Number.isSafeInteger(key)) {
        throw new SharingError("bad-message", `Cannot divide the communicator: rank ${rank} has told no valid color`);
      }
      this.#told.push({ rank, color, key });
    }
    return true;
  }

  /** This rank's part, once the division is complete. */
  part(): Part | undefined {
    if (!this.advance()) return undefined;
    const ranks = this.#told.filter(({ color }) => color === this.#color)
      .sort((one, other) => one.key - other.key || one.rank - other.rank);
    return {
      key: derivedKey(this.#membership.key, `division ${this.#number} color ${this.#color}`),
      rank: ranks.findIndex(({ rank }) => rank === this.#membership.rank),
      size: ranks.length,
      origin: { membership: this.#membership, ranks: ranks.map(({ rank }) => rank) },
    };
  }
}
