/**
 * Budgets that the users of a store share.
 *
 * @module
 */
import { limitExceeded } from "../../protocol/messages.ts";

/** What a budget limits, for the error of a user who would exceed it. */
export interface ShareDescription {
  /** Such as `"bytes of metadata (maximumMetadata)"`. */
  readonly unit: string;
  /** Whether several users share it. */
  readonly isShared: boolean;
}

/**
 * A budget of all users. If several users share it, each may take more as long as the rest stays at least as large as
 * its own share: a single user gets half, and later users always get something, without knowing how many there will be.
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

  /** The amount that a user has taken. */
  usedBy(uid: number): number {
    return this.#used.get(uid) ?? 0;
  }

  /** Whether a user may take this much more. */
  fits(uid: number, amount: number): boolean {
    const left = this.#maximum - this.#total - amount;
    return left >= (this.#description.isShared ? this.usedBy(uid) + amount : 0);
  }

  /**
   * Throws if a user may not take this much more.
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
   * Adds to the amounts of users, without a check. Negative amounts subtract.
   *
   * @param uids the users, each of whom is charged the whole amount; if empty, only the total is charged
   */
  add(uids: readonly number[], amount: number): void {
    this.#total += amount;
    for (const uid of uids) addTo(this.#used, uid, amount);
  }
}

/** Adds to a number in a map, from which zeros are removed. */
export function addTo<Key>(sums: Map<Key, number>, key: Key, amount: number): void {
  const sum = (sums.get(key) ?? 0) + amount;
  if (sum === 0) sums.delete(key);
  else sums.set(key, sum);
}
