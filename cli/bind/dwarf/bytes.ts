/** Thrown if debug information cannot be read. */
export class DwarfError extends Error {
  override readonly name: "DwarfError" = "DwarfError";
}

/** Reads numbers and strings sequentially from the bytes of a section. */
export class ByteReader {
  readonly #view: DataView;
  readonly #bytes: Uint8Array;
  offset: number;
  readonly end: number;

  constructor(bytes: Uint8Array, { begin = 0, end = bytes.length }: { begin?: number; end?: number } = {}) {
    if (begin < 0 || begin > bytes.length || end > bytes.length) {
      throw new DwarfError(`bytes ${begin} to ${end} are outside of a section of ${bytes.length}`);
    }
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.offset = begin;
    this.end = end;
  }

  get isAtEnd(): boolean {
    return this.offset >= this.end;
  }

  u8(): number {
    return this.#view.getUint8(this.skip(1));
  }

  u16(): number {
    return this.#view.getUint16(this.skip(2), true);
  }

  u32(): number {
    return this.#view.getUint32(this.skip(4), true);
  }

  u64(): bigint {
    return this.#view.getBigUint64(this.skip(8), true);
  }

  /** Reads an unsigned number of 1 to 8 bytes. */
  unsigned(size: number): number {
    let value = 0;
    const begin = this.skip(size);
    for (let index = size; index-- > 0;) value = value * 256 + this.#bytes[begin + index]!;
    return value;
  }

  /** Reads an unsigned number in the variable-length encoding LEB128. */
  uleb(): number {
    let value = 0;
    for (let factor = 1;; factor *= 128) {
      const byte = this.u8();
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  }

  /** Reads a signed number in the variable-length encoding LEB128. */
  sleb(): number {
    let value = 0;
    for (let factor = 1;; factor *= 128) {
      const byte = this.u8();
      value += (byte & 127) * factor;
      if (byte < 128) return (byte & 64) === 0 ? value : value - 128 * factor;
    }
  }

  /** Reads a zero-terminated string. */
  string(): string {
    const end = this.#bytes.indexOf(0, this.offset);
    if (end < 0 || end >= this.end) throw new DwarfError(`the string at byte ${this.offset} has no end`);
    const begin = this.offset;
    this.offset = end + 1;
    return new TextDecoder().decode(this.#bytes.subarray(begin, end));
  }

  /** Reads `size` bytes. */
  block(size: number): Uint8Array {
    const begin = this.skip(size);
    return this.#bytes.subarray(begin, begin + size);
  }

  /** Skips `size` bytes, and returns the offset of the first skipped byte. */
  skip(size: number): number {
    const begin = this.offset;
    if (size > this.end - begin) throw new DwarfError(`${size} bytes at byte ${begin} are past the end`);
    this.offset += size;
    return begin;
  }
}
