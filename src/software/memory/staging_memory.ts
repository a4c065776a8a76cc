/**
 * Copies of the program's arrays in linear memory, which all threads share, until a stream has copied them to a device.
 *
 * @module
 */
import { RangeAllocator } from "./allocations.ts";
import type { LinearMemory, PageHolder } from "./linear_memory.ts";

/** The size in bytes of the memory. Larger arrays, and more of them at once, are copied by the main thread. */
const byteLength = 2 ** 25;
/** The alignment of each copy. */
const alignment = 64;

/** A copy of an array, which is kept until it is released. */
export interface StagedArray {
  readonly bytes: Uint8Array;
  release(): void;
}

/** The memory for copies of arrays. */
export class StagingMemory implements PageHolder {
  readonly #linearMemory: LinearMemory;
  #begin: number | undefined;
  #free = new RangeAllocator();
  /** The number of copies that were not released. */
  #staged = 0;

  constructor(linearMemory: LinearMemory) {
    this.#linearMemory = linearMemory;
  }

  /** Copies an array. Returns undefined if there is no room. */
  stage(array: Uint8Array): StagedArray | undefined {
    const length = Math.ceil(array.byteLength / alignment) * alignment;
    if (length === 0 || length > byteLength || !this.#reserve()) return undefined;
    const begin = this.#free.allocate(length);
    if (begin === undefined) return undefined;
    this.#staged++;
    const bytes = this.#linearMemory.bytes.subarray(begin, begin + array.byteLength);
    bytes.set(array);
    return {
      bytes,
      release: () => {
        this.#staged--;
        this.#free.free(begin, length);
      },
    };
  }

  /** Reserves the memory. Returns false if linear memory has no room for it. */
  #reserve(): boolean {
    if (this.#begin !== undefined) return true;
    const begin = this.#linearMemory.reserveFree(byteLength);
    if (begin === undefined) return false;
    this.#begin = begin;
    this.#free = new RangeAllocator({ begin, end: begin + byteLength });
    this.#linearMemory.addPageHolder(this);
    return true;
  }

  /** The size of the memory, which counts as free also while arrays are in it. */
  get unusedBytes(): number {
    return this.#begin === undefined ? 0 : byteLength;
  }

  /** Releases the memory if no array is in it. */
  releaseUnused(): void {
    if (this.#begin === undefined || this.#staged > 0) return;
    this.#linearMemory.removePageHolder(this);
    this.#linearMemory.discardAndRelease(this.#begin, byteLength, { isShared: false });
    this.#begin = undefined;
  }
}
