/** The largest number that fits the field of a message. */
const maximum = 2 ** 32 - 1;

/** Allocates identifiers, from 1. A released number is reused only after all others. */
export class Identifiers {
  readonly #used = new Set<number>();
  #latest = 0;

  /** Returns an unused number. */
  take(): number {
    do {
      this.#latest = this.#latest % maximum + 1;
    } while (this.#used.has(this.#latest));
    this.#used.add(this.#latest);
    return this.#latest;
  }

  /** Makes a number available again. */
  release(identifier: number): void {
    this.#used.delete(identifier);
  }
}
