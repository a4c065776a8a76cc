/**
 * Page-locked memory of the host. It lies in linear memory, so that kernels and copies of every device reach it by its
 * address; where FFI is not permitted nothing could show it there in place, and it is memory that copies alone know.
 *
 * @module
 */
import { ffiRefusal } from "../../../ffi/host.ts";
import type { Allocation } from "./allocations.ts";
import { type LinearMemory, wholePages } from "./linear_memory.ts";

/** Page-locked memory in linear memory. */
export class LockedMemory implements Allocation {
  readonly kind = "locked";
  readonly begin: number;
  readonly byteLength: number;
  /** Shows the memory. */
  readonly buffer: ArrayBuffer;

  constructor({ begin, byteLength, buffer }: Allocation & { readonly buffer: ArrayBuffer }) {
    this.begin = begin;
    this.byteLength = byteLength;
    this.buffer = buffer;
  }
}

/** One driver's page-locked memory. */
export class HostMemory {
  readonly #linearMemory: LinearMemory;
  /** By what shows it: its place in linear memory, undefined where it has none. */
  readonly #allocated = new Map<ArrayBufferLike, LockedMemory | undefined>();

  constructor(linearMemory: LinearMemory) {
    this.#linearMemory = linearMemory;
  }

  /** Memory in linear memory, or a plain buffer where there is no way to show that; undefined where there is no room. */
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

  /** Whether a buffer shows page-locked memory. */
  has(buffer: ArrayBufferLike): boolean {
    return this.#allocated.has(buffer);
  }

  /** Linear memory's bytes that a view of page-locked memory shows; any other view as it is. */
  bytesOf(view: Uint8Array): Uint8Array {
    const memory = this.#allocated.get(view.buffer);
    if (memory === undefined) return view;
    const begin = memory.begin + view.byteOffset;
    return this.#linearMemory.bytes.subarray(begin, begin + view.byteLength);
  }

  /** Gives back what a buffer shows, and says where in linear memory it lay. */
  free(buffer: ArrayBuffer): LockedMemory | undefined {
    const memory = this.#allocated.get(buffer);
    this.#allocated.delete(buffer);
    if (memory !== undefined) this.#release(memory);
    return memory;
  }

  /** Gives everything back at once: the driver goes. */
  close(): void {
    for (const memory of this.#allocated.values()) if (memory !== undefined) this.#release(memory);
    this.#allocated.clear();
  }

  #release({ begin, byteLength }: LockedMemory): void {
    this.#linearMemory.denyAll(begin, byteLength);
    this.#linearMemory.giveBack(begin, wholePages(byteLength), { isShared: false });
  }
}
