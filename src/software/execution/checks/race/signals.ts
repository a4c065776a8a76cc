/** Limits on the memory locations that are tracked as signals between blocks, and on the pairs of blocks. */
const mostPlaces = 256;
const mostPairs = 4096;
const blockShift = 2 ** 26;

/** Which blocks have read what another block wrote by an atomic, volatile or ordered access, such as a flag. */
export class Signals {
  /** The block that wrote last, by offset. */
  readonly #writers = new Map<number, number>();
  readonly #pairs = new Set<number>();

  /** Whether the limits are reached, so that nothing more is recorded. */
  get isFull(): boolean {
    return this.#pairs.size >= mostPairs;
  }

  /** Records a strong read of a block. */
  read(offset: number, block: number): void {
    const writer = this.#writers.get(offset);
    const isSeen = writer !== undefined && writer !== block && !this.isFull;
    if (isSeen) this.#pairs.add(writer * blockShift + block);
  }

  /** Records a strong write of a block. */
  write(offset: number, block: number): void {
    const writer = this.#writers.get(offset);
    if (writer === block || writer === undefined && this.#writers.size >= mostPlaces) return;
    this.#writers.set(offset, block);
  }

  /** Whether a block has read what another block wrote. */
  has(writer: number, reader: number): boolean {
    return this.#pairs.has(writer * blockShift + reader);
  }
}
