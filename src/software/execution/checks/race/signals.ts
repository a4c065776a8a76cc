/** The most places in memory by which blocks are seen to tell each other something, and the most pairs of blocks. */
const mostPlaces = 256;
const mostPairs = 4096;
const blockShift = 2 ** 26;

/** Which blocks have seen what another one has written by an atomic, volatile or ordered access, as flags are. */
export class Signals {
  /** The last writer, by offsets. */
  readonly #writers = new Map<number, number>();
  readonly #pairs = new Set<number>();

  /** Whether nothing more will be noted. */
  get isFull(): boolean {
    return this.#pairs.size >= mostPairs;
  }

  /** Notes a strong read of a block. */
  read(offset: number, block: number): void {
    const writer = this.#writers.get(offset);
    const isSeen = writer !== undefined && writer !== block && !this.isFull;
    if (isSeen) this.#pairs.add(writer * blockShift + block);
  }

  /** Notes a strong write of a block. */
  write(offset: number, block: number): void {
    const writer = this.#writers.get(offset);
    if (writer === block || writer === undefined && this.#writers.size >= mostPlaces) return;
    this.#writers.set(offset, block);
  }

  /** Whether a block has seen what another one has written. */
  has(writer: number, reader: number): boolean {
    return this.#pairs.has(writer * blockShift + reader);
  }
}
