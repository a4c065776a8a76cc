/**
 * Page-locked host memory. It is located in linear memory, so that kernels and copies of every device can access it.
 * Without permission to use FFI, an `ArrayBuffer` cannot point into linear memory: page-locked memory is then a plain
 * buffer outside of linear memory, which only copies can use.
 *
 * @module
 */
import { addressOf, ffiRefusal } from "../../../ffi/native/host.ts";
import { cudaErrorNumbers, explainedError } from "../../support/errors.ts";
import type { SoftwareAllocation } from "./allocations.ts";
import type { LinearMemory } from "./linear_memory.ts";
import { wholePages } from "./memory_layout.ts";
import { RegisteredMemory } from "./registered_memory.ts";
import { StagingMemory } from "./staging_memory.ts";

const pageByteLength = 4096n;
/** The first of the addresses for memory whose own cannot be found: no address of a program. */
const firstInventedAddress = 1n << 56n;

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
  /** The memory for copies of arrays that are not page-locked. */
  readonly staging: StagingMemory;
  readonly #linearMemory: LinearMemory;
  /** The page-locked memory of each buffer. Undefined for plain buffers, which are located outside of linear memory. */
  readonly #allocated = new Map<ArrayBufferLike, LockedMemory | undefined>();
  /** The registered memory of the program, by the offset of its copy. */
  readonly #registered = new Map<number, RegisteredMemory>();
  /** The addresses of buffers whose own cannot be found. */
  readonly #bases = new WeakMap<ArrayBufferLike, bigint>();
  #nextBase = firstInventedAddress;

  constructor(linearMemory: LinearMemory) {
    this.#linearMemory = linearMemory;
    this.staging = new StagingMemory(linearMemory);
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

  /** Returns whether a view begins in registered memory and ends behind it. */
  endsBehindRegistered(view: Uint8Array): boolean {
    for (const memory of this.#registered.values()) if (memory.isLeftBy(view)) return true;
    return false;
  }

  /** Returns whether a view is of page-locked memory, or of registered memory. */
  isLocked(view: Uint8Array): boolean {
    if (this.#allocated.has(view.buffer)) return true;
    for (const memory of this.#registered.values()) if (memory.has(view)) return true;
    return false;
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

  /**
   * Registers memory of the program, which kernels and copies then use in stream order.
   *
   * @returns the memory; "registered" or "allocated" if a byte of it is page-locked already, and "full" if linear memory
   *   is full
   */
  register(bytes: Uint8Array): RegisteredMemory | "registered" | "allocated" | "full" {
    const hostAddress = ffiRefusal() === undefined ? addressOf(bytes) : this.#inventedAddress(bytes);
    const end = hostAddress + BigInt(bytes.byteLength);
    // Two registrations may share a page.
    for (const { hostAddress: other, byteLength } of this.#registered.values()) {
      if (other < end && hostAddress < other + BigInt(byteLength)) return "registered";
    }
    if (this.#allocated.has(bytes.buffer)) return "allocated";
    const begin = this.#linearMemory.reserve(wholePages(bytes.byteLength));
    if (begin === undefined) return "full";
    const copy = this.#linearMemory.bytes.subarray(begin, begin + bytes.byteLength);
    const memory = new RegisteredMemory({ begin, bytes, hostAddress, copy });
    this.#linearMemory.allowAll(begin, bytes.byteLength);
    this.#registered.set(begin, memory);
    return memory;
  }

  /** The memory that is registered. */
  get registered(): ReadonlyMap<number, RegisteredMemory> {
    return this.#registered;
  }

  unregister(memory: RegisteredMemory): void {
    memory.exchange();
    this.#registered.delete(memory.begin);
    this.#release(memory);
  }

  /** Gives what the program or a device has changed in registered memory to the other. */
  exchange(): void {
    for (const memory of this.#registered.values()) memory.exchange();
  }

  /** Returns an address for memory whose own cannot be found. Ranges of one buffer have addresses in their order. */
  #inventedAddress({ buffer, byteOffset }: Uint8Array): bigint {
    let base = this.#bases.get(buffer);
    if (base === undefined) {
      base = this.#nextBase;
      this.#nextBase += (BigInt(buffer.byteLength) / pageByteLength + 1n) * pageByteLength;
      this.#bases.set(buffer, base);
    }
    return base + BigInt(byteOffset);
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
    for (const memory of this.#registered.values()) this.#release(memory);
    this.#registered.clear();
  }

  #release({ begin, byteLength }: SoftwareAllocation): void {
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
