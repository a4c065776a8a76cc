/**
 * What the users of a store share.
 *
 * @module
 */
import { limitExceeded } from "../../protocol/messages.ts";

/** What a budget is of, for the error of who would have too much. */
export interface ShareDescription {
  /** Such as `"bytes of metadata (maximumMetadata)"`. */
  readonly unit: string;
  /** Whether several users may take of it. */
  readonly isShared: boolean;
}

/**
 * A budget of all users. If there are several, each may take as long as at least as much is left for the others as it has
 * then: one user alone gets half, and whoever comes later always gets something, with no need to know how many will.
 */
export class Shares {
  readonly #maximum: number;
  readonly #description: ShareDescription;
  readonly #used = new Map<number, number>();
  #total = 0;

  constructor(maximum: number, description: ShareDescription) {
    this.#maximum = maximum;
    this.#description = description;
  }

  /** What a user has taken. */
  usedBy(uid: number): number {
    return this.#used.get(uid) ?? 0;
  }

  /** Whether a user may take so much more. */
  fits(uid: number, amount: number): boolean {
    const left = this.#maximum - this.#total - amount;
    return left >= (this.#description.isShared ? this.usedBy(uid) + amount : 0);
  }

  /**
   * Throws if a user may not take so much more.
   *
   * @param what what is refused, such as `'create "x"'`
   * @throws {SharingError} `limit-exceeded`
   */
  check(uid: number, amount: number, what: string): void {
    if (this.fits(uid, amount)) return;
    const { unit, isShared } = this.#description;
    const share = isShared
      ? `; user ${uid} has ${this.usedBy(uid)} of them, and at least as much must be left for the others`
      : "";
    throw limitExceeded(what, `${this.#maximum} ${unit}${share}`);
  }

  /**
   * Lets users have so much more, or less if it is below 0. Checks nothing.
   *
   * @param uids whose it is, each of all of it; none if it counts for nobody, and is taken all the same
   */
  add(uids: readonly number[], amount: number): void {
    this.#total += amount;
    for (const uid of uids) addTo(this.#used, uid, amount);
  }
}

/** Adds to a number in a map, which has those that are not 0. */
export function addTo<Key>(sums: Map<Key, number>, key: Key, amount: number): void {
  const sum = (sums.get(key) ?? 0) + amount;
  if (sum === 0) sums.delete(key);
  else sums.set(key, sum);
}
