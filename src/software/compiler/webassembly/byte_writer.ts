/** As many bytes are copied faster one by one than by the engine. */
const fewBytes = 64;

/** A growing buffer, with the encodings of numbers and names in WebAssembly binaries. */
export class ByteWriter {
  #bytes = new Uint8Array(64);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = value;
  }

  bytes(values: ArrayLike<number>): void {
    const { length } = values;
    this.#reserve(length);
    if (length > fewBytes) this.#bytes.set(values, this.#length);
    else for (let index = 0; index < length; index++) this.#bytes[this.#length + index] = values[index]!;
    this.#length += length;
  }

  /** The bytes of an array from one index to another. */
  slice(values: Uint8Array, { begin, end }: { readonly begin: number; readonly end: number }): void {
    if (end - begin > fewBytes) return this.bytes(values.subarray(begin, end));
    this.#reserve(end - begin);
    for (let index = begin; index < end; index++) this.#bytes[this.#length++] = values[index]!;
  }

  /** Copies what has been written to an array, and forgets it. */
  moveTo(target: Uint8Array, begin: number): void {
    if (this.#length > fewBytes) target.set(this.#bytes.subarray(0, this.#length), begin);
    else for (let index = 0; index < this.#length; index++) target[begin + index] = this.#bytes[index]!;
    this.#length = 0;
  }

  unsigned(value: number): void {
    while (value >= 0x80) {
      this.byte(value % 0x80 | 0x80);
      value = Math.floor(value / 0x80);
    }
    this.byte(value);
  }

  /** A number of at most 32 bits. */
  signed32(value: number): void {
    while (value < -64 || value > 63) {
      this.byte(value & 0x7f | 0x80);
      value >>= 7;
    }
    this.byte(value & 0x7f);
  }

  signed(value: bigint): void {
    while (value < -64n || value > 63n) {
      this.byte(Number(value & 0x7fn) | 0x80);
      value >>= 7n;
    }
    this.byte(Number(value & 0x7fn));
  }

  littleEndian(value: bigint, byteLength: number): void {
    for (let i = 0; i < byteLength; i++) this.byte(Number((value >> BigInt(8 * i)) & 0xffn));
  }

  name(text: string): void {
    const utf8 = new TextEncoder().encode(text);
    this.unsigned(utf8.length);
    this.bytes(utf8);
  }

  sized(content: ByteWriter): void {
    this.unsigned(content.length);
    this.bytes(content.finish());
  }

  finish(): Uint8Array<ArrayBuffer> {
    return this.#bytes.slice(0, this.#length);
  }

  #reserve(count: number): void {
    if (this.#length + count <= this.#bytes.length) return;
    const larger = new Uint8Array(Math.max(this.#bytes.length * 2, this.#length + count));
    larger.set(this.#bytes);
    this.#bytes = larger;
  }
}
