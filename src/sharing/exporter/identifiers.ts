/** As many as fit a message's field. */
const last = 2 ** 32 - 1;

/** Numbers from 1 for what peers are told of. They come again only after all others have been taken. */
export class Identifiers {
  readonly #used = new Set<number>();
  #latest = 0;

  /** A number that nothing has. */
  take(): number {
    do {
      this.#latest = this.#latest % last + 1;
    } while (this.#used.has(this.#latest));
    this.#used.add(this.#latest);
    return this.#latest;
  }

  /** Nothing has the number any more. */
  giveBack(identifier: number): void {
    this.#used.delete(identifier);
  }
}
