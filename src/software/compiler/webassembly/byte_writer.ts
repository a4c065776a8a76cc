/** A growing buffer, with the encodings of numbers and names in WebAssembly binaries. */
export class ByteWriter {
  // Engines keep small arrays in their own heap. There is a writer for each block of a kernel.
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
    this.#reserve(values.length);
    this.#bytes.set(values, this.#length);
    this.#length += values.length;
  }

  unsigned(value: number): void {
    while (value >= 0x80) {
      this.byte(value % 0x80 | 0x80);
      value = Math.floor(value / 0x80);
    }
    this.byte(value);
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
