/**
 * Which bytes of linear memory nothing has written: the shadow that kernels with the check `initialization` keep, as the
 * rest of the driver changes it.
 *
 * @module
 */
import { shadowOffset } from "../abi/addresses.ts";
import type { MemoryRange } from "../../driver.ts";
import type { GlobalAccesses } from "../../kernel_checker.ts";
import { type LinearMemory, offsetOfAddress, scratch } from "./linear_memory.ts";

/** Where the memory begins that programs can allocate. */
const firstOffset = scratch.local.begin + scratch.local.byteLength;

/** The shadow of linear memory. A bit of it is 1 where the bit that it describes is uninitialized. */
export class MemoryShadow {
  readonly #bytes: Uint8Array;
  readonly #words: Int32Array;
  readonly #isShared: (offset: number) => boolean;

  private constructor(linearMemory: LinearMemory, isShared: (offset: number) => boolean) {
    this.#bytes = linearMemory.bytes;
    this.#words = new Int32Array(linearMemory.memory.buffer);
    this.#isShared = isShared;
  }

  /**
   * Opens the shadow. Returns undefined if linear memory has no room for it.
   *
   * @param isShared whether others than the devices may write the memory at an offset, which is initialized then
   */
  static open(linearMemory: LinearMemory, isShared: (offset: number) => boolean): MemoryShadow | undefined {
    return linearMemory.openShadow() ? new MemoryShadow(linearMemory, isShared) : undefined;
  }

  /** Marks bytes that nothing has written. */
  markUninitialized(begin: number, byteLength: number): void {
    this.#bytes.fill(0xff, begin + shadowOffset, begin + shadowOffset + byteLength);
  }

  /** Marks memory that was allocated, unless others may write it. */
  noteAllocation(begin: number, byteLength: number): void {
    if (!this.#isShared(begin)) this.markUninitialized(begin, byteLength);
  }

  /** Marks bytes that have been written. */
  markInitialized(begin: number, byteLength: number): void {
    this.#bytes.fill(0, begin + shadowOffset, begin + shadowOffset + byteLength);
  }

  /**
   * Whether all memory that a launch reads is initialized now. Then marks what it will write: kernels that run at the
   * same time may wait for it, and read it.
   */
  admit({ reads, writes }: GlobalAccesses): boolean {
    const isInside = [...reads, ...writes].every(({ address, byteLength }) => {
      const begin = offsetOfAddress(address);
      return begin !== undefined && begin >= firstOffset && begin + byteLength <= shadowOffset;
    });
    if (!isInside || !reads.every((range) => this.#isInitialized(range))) return false;
    for (const { address, byteLength } of writes) this.markInitialized(offsetOfAddress(address)!, byteLength);
    return true;
  }

  #isInitialized({ address, byteLength }: MemoryRange): boolean {
    const begin = offsetOfAddress(address)! + shadowOffset;
    const end = begin + byteLength;
    const [first, last] = [Math.min(Math.ceil(begin / 32) * 32, end), Math.max(Math.floor(end / 32) * 32, begin)];
    return first < last
      ? areZero(this.#bytes, begin, first) && this.#areWordsZero(first / 4, last / 4) &&
        areZero(this.#bytes, last, end)
      : areZero(this.#bytes, begin, end);
  }

  /** Takes eight words at once. */
  #areWordsZero(begin: number, end: number): boolean {
    const words = this.#words;
    for (let at = begin; at < end; at += 8) {
      const bits = words[at]! | words[at + 1]! | words[at + 2]! | words[at + 3]! |
        words[at + 4]! | words[at + 5]! | words[at + 6]! | words[at + 7]!;
      if (bits !== 0) return false;
    }
    return true;
  }

  /** Forgets what a kernel has stored, if others may write the memory too. */
  noteStore(begin: number, byteLength: number): void {
    if (this.#isShared(begin)) this.markInitialized(begin, byteLength);
  }

  /** Records that bytes of any memory, or a fill, have been written to others. */
  noteCopy(to: Uint8Array, from: Uint8Array | undefined): void {
    const begin = this.#offsetOf(to);
    if (begin === undefined) return;
    const source = from === undefined ? undefined : this.#offsetOf(from);
    if (source === undefined || this.#isShared(source) || this.#isShared(begin)) {
      return this.markInitialized(begin, to.byteLength);
    }
    const first = source + shadowOffset;
    this.#bytes.copyWithin(begin + shadowOffset, first, first + to.byteLength);
  }

  /** The first of some bytes that is not wholly initialized, counted from their begin. Undefined if all are. */
  firstUninitialized(bytes: Uint8Array): number | undefined {
    const begin = this.#offsetOf(bytes);
    if (begin === undefined || this.#isShared(begin)) return undefined;
    const shadow = this.#bytes.subarray(begin + shadowOffset, begin + shadowOffset + bytes.byteLength);
    const first = shadow.findIndex((byte) => byte !== 0);
    return first < 0 ? undefined : first;
  }

  /** Where bytes lie in linear memory. Undefined for other memory. */
  #offsetOf({ buffer, byteOffset }: Uint8Array): number | undefined {
    return buffer === this.#bytes.buffer ? byteOffset : undefined;
  }
}

function areZero(bytes: Uint8Array, begin: number, end: number): boolean {
  for (let at = begin; at < end; at++) if (bytes[at] !== 0) return false;
  return true;
}
