/**
 * Page-locked host memory. It is located in linear memory, so that kernels and copies of every device can access it.
 * Without permission to use FFI, an `ArrayBuffer` cannot point into linear memory: page-locked memory is then a plain
 * buffer outside of linear memory, which only copies can use.
 *
 * @module
 */
import { ffiRefusal } from "../../../ffi/native/host.ts";
import { cudaErrorNumbers, explainedError } from "../../support/errors.ts";
import type { SoftwareAllocation } from "./allocations.ts";
import { type LinearMemory, wholePages } from "./linear_memory.ts";

/** Page-locked host memory that is located in linear memory. */
export class LockedMemory implements SoftwareAllocation {
  readonly kind = "locked";
  readonly begin: number;
  readonly byteLength: number;
  /** The buffer through which JavaScript accesses the memory. */
  readonly buffer: ArrayBuffer;

  constructor({ begin, byteLength, buffer }: SoftwareAllocation & { readonly buffer: ArrayBuffer }) {
    this.begin = begin;
    this.byteLength = byteLength;
    this.buffer = buffer;
  }
}

/** The page-locked host memory of a driver. */
export class HostMemory {
  readonly #linearMemory: LinearMemory;
  /** The page-locked memory of each buffer. Undefined for plain buffers, which are located outside of linear memory. */
  readonly #allocated = new Map<ArrayBufferLike, LockedMemory | undefined>();

  constructor(linearMemory: LinearMemory) {
    this.#linearMemory = linearMemory;
  }

  /**
   * Allocates page-locked memory. Returns a plain buffer if FFI is not permitted, and undefined if there is no memory
   * left.
   */
  allocate(byteLength: number): LockedMemory | ArrayBuffer | undefined {
    if (ffiRefusal() !== undefined) return this.#allocatePlain(byteLength);
    const begin = this.#linearMemory.reserve(wholePages(byteLength));
    if (begin === undefined) return undefined;
    const buffer = this.#linearMemory.view(begin, byteLength);
    const memory = new LockedMemory({ begin, byteLength, buffer });
    this.#linearMemory.allowAll(begin, byteLength);
    this.#allocated.set(buffer, memory);
    return memory;
  }

  #allocatePlain(byteLength: number): ArrayBuffer | undefined {
    try {
      const buffer = new ArrayBuffer(byteLength);
      this.#allocated.set(buffer, undefined);
      return buffer;
    } catch (error) {
      if (error instanceof RangeError) return undefined;
      throw error;
    }
  }

  /** Returns whether a buffer is page-locked memory that has not been freed. */
  has(buffer: ArrayBufferLike): boolean {
    return this.#allocated.has(buffer);
  }

  /**
   * Converts a view of page-locked memory to a view of the same bytes in linear memory. Returns other views unchanged.
   */
  bytesOf(view: Uint8Array): Uint8Array {
    const memory = this.#allocated.get(view.buffer);
    if (memory === undefined) return view;
    const begin = memory.begin + view.byteOffset;
    return this.#linearMemory.bytes.subarray(begin, begin + view.byteLength);
  }

  /** Frees the memory of a buffer. Returns the freed memory, or undefined for a plain buffer. */
  free(buffer: ArrayBuffer): LockedMemory | undefined {
    const memory = this.#allocated.get(buffer);
    this.#allocated.delete(buffer);
    if (memory !== undefined) this.#release(memory);
    return memory;
  }

  /** Frees all page-locked memory when the driver closes. */
  close(): void {
    for (const memory of this.#allocated.values()) if (memory !== undefined) this.#release(memory);
    this.#allocated.clear();
  }

  #release({ begin, byteLength }: LockedMemory): void {
    this.#linearMemory.denyAll(begin, byteLength);
    this.#linearMemory.discardAndRelease(begin, wholePages(byteLength), { isShared: false });
  }
}

/**
 * Throws the error of a call that would let kernels access page-locked memory, if that memory is a plain buffer, which
 * kernels cannot access.
 */
export function refusePlainMemory(call: string): never {
  const why = `kernels of the software device cannot access page-locked memory here: ${ffiRefusal()}`;
  throw explainedError(cudaErrorNumbers.cudaErrorNotSupported, call, why);
}
