/**
 * Sequential reading of a file, or of a compressed member of one.
 *
 * @module
 */
import { bytesAt, type ByteSource } from "./byte_source.ts";

/** The size in bytes of the pieces of a sequential read. */
export const sequentialPieceByteLength: number = 4 * 2 ** 20;

/** A stream of bytes that is read sequentially. */
export class SequentialBytes {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #rest: Uint8Array = new Uint8Array();

  constructor(chunks: AsyncIterator<Uint8Array>) {
    this.#chunks = chunks;
  }

  /** Reads the next `byteLength` bytes. Returns fewer bytes only at the end of the stream. */
  async read(byteLength: number): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = new Uint8Array(byteLength);
    let length = 0;
    while (length < byteLength) {
      if (this.#rest.length === 0) {
        const { done, value } = await this.#chunks.next();
        if (done === true) break;
        this.#rest = value;
      }
      const taken = this.#rest.subarray(0, byteLength - length);
      bytes.set(taken, length);
      length += taken.length;
      this.#rest = this.#rest.subarray(taken.length);
    }
    return bytes.subarray(0, length);
  }
}

/** Yields the bytes of a range, one piece at a time. */
export async function* piecesOfRange(
  source: ByteSource,
  { begin, end }: { begin: number; end: number },
): AsyncGenerator<Uint8Array> {
  for (let at = begin; at < end; at += sequentialPieceByteLength) {
    yield await bytesAt(source, at, Math.min(sequentialPieceByteLength, end - at));
  }
}
