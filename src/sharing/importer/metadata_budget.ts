import { limitExceeded } from "../protocol/messages.ts";

/** The maximum number of bytes of names and metadata of all exporters, unless one importer allows more. */
const maximumInAll = 256 * 2 ** 20;

/** The bytes of the importers of this thread. */
let inAll = 0;

/** The bytes of names and metadata that an exporter's offers occupy here: it decides how many there are. */
export class MetadataBudget {
  readonly #maximum: number;
  #used = 0;
  #isClosed = false;

  /** @param maximum the limit for this exporter */
  constructor(maximum: number) {
    this.#maximum = maximum;
  }

  /**
   * Adds an offer's bytes.
   *
   * @throws {SharingError} `limit-exceeded`
   */
  add(byteLength: number): void {
    const exceeding = `accept another offer, with ${byteLength} bytes of name and metadata`;
    if (this.#used + byteLength > this.#maximum) {
      const limit = `${this.#maximum} bytes for all offers of an exporter (maximumMetadata)`;
      throw limitExceeded(exceeding, `${limit}, of which ${this.#used} are used`);
    }
    const maximum = Math.max(maximumInAll, this.#maximum);
    if (inAll + byteLength > maximum) {
      throw limitExceeded(exceeding, `${maximum} bytes for the offers of all exporters, of which ${inAll} are used`);
    }
    this.#used += byteLength;
    if (!this.#isClosed) inAll += byteLength;
  }

  /** Removes the bytes of an offer that was withdrawn. */
  remove(byteLength: number): void {
    this.#used -= byteLength;
    if (!this.#isClosed) inAll -= byteLength;
  }

  /** The connection has ended: nothing more arrives, and what is left counts no more toward the total. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    inAll -= this.#used;
  }
}
