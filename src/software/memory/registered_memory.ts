/**
 * Memory of the program that is page-locked. The kernels of the software device can only access linear memory, so the
 * memory has a copy there, and the two exchange their changes before and after each slice of work.
 *
 * @module
 */
import type { SoftwareAllocation } from "./allocations.ts";

const wordByteLength = 4;

/** Memory of the program, and its copy in linear memory. */
export class RegisteredMemory implements SoftwareAllocation {
  readonly kind = "locked";
  readonly begin: number;
  readonly byteLength: number;
  /** The program's memory. */
  readonly bytes: Uint8Array;
  /** The address of the program's memory in its process. */
  readonly hostAddress: bigint;
  /** The copy in linear memory. */
  readonly #copy: Uint8Array;
  /** What both had in common after the last exchange. */
  readonly #common: Uint8Array;

  constructor(
    { begin, bytes, hostAddress, copy }: {
      readonly begin: number;
      readonly bytes: Uint8Array;
      readonly hostAddress: bigint;
      readonly copy: Uint8Array;
    },
  ) {
    this.begin = begin;
    this.byteLength = bytes.byteLength;
    this.bytes = bytes;
    this.hostAddress = hostAddress;
    this.#copy = copy;
    this.#common = Uint8Array.from(bytes);
    copy.set(bytes);
  }

  /** Returns whether the memory has all bytes of a view. */
  has(view: Uint8Array): boolean {
    const begin = view.byteOffset - this.bytes.byteOffset;
    return view.buffer === this.bytes.buffer && begin >= 0 && begin + view.byteLength <= this.byteLength;
  }

  /** Returns whether a view begins in the memory, and ends behind it. */
  isLeftBy(view: Uint8Array): boolean {
    const begin = view.byteOffset - this.bytes.byteOffset;
    return view.buffer === this.bytes.buffer && begin >= 0 && begin < this.byteLength &&
      begin + view.byteLength > this.byteLength;
  }

  /** Gives the bytes that either the program or a device has changed to the other. The program's changes win. */
  exchange(): void {
    // The program has transferred the memory.
    if (this.bytes.byteLength === 0) return;
    const rest = this.byteLength % wordByteLength;
    if (this.bytes.byteOffset % wordByteLength === 0) this.#exchangeWords();
    else this.#exchangeBytes(0, this.byteLength - rest);
    this.#exchangeBytes(this.byteLength - rest, this.byteLength);
  }

  #exchangeWords(): void {
    const length = Math.floor(this.byteLength / wordByteLength);
    const [program, device, common] = [this.bytes, this.#copy, this.#common].map(({ buffer, byteOffset }) =>
      new Int32Array(buffer, byteOffset, length)
    ) as [Int32Array, Int32Array, Int32Array];
    for (let index = 0; index < length; index++) {
      if (program[index] === common[index] && device[index] === common[index]) continue;
      this.#exchangeBytes(index * wordByteLength, (index + 1) * wordByteLength);
    }
  }

  #exchangeBytes(begin: number, end: number): void {
    const [program, device, common] = [this.bytes, this.#copy, this.#common];
    for (let index = begin; index < end; index++) {
      if (program[index] !== common[index]) device[index] = common[index] = program[index]!;
      else if (device[index] !== common[index]) program[index] = common[index] = device[index]!;
    }
  }
}
