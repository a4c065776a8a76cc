import type { MemoryPiece, UnfreedMemory } from "../../objects/opened_objects.ts";
import { originOf } from "../../support/leaks.ts";
import type { AllocationSites } from "./allocation_sites.ts";
import {
  type HeldBuffer,
  type Holders,
  holdersByOrigin,
  holdersBySize,
  type Origin,
  timeOfAllocation,
} from "./out_of_memory.ts";

/**
 * The allocations of a pool that were not released. In typed arrays, because a reference from a pool, which is old, to an
 * allocation, which is new, would cost the garbage collector more than the rest of an allocation.
 */
export class PoolContents {
  /** Bytes of all allocations. */
  byteLength = 0;
  /** By index; the address of an index that is free is 0. */
  #addresses = new BigUint64Array(16);
  #byteLengths = new Float64Array(16);
  /** When large buffers were allocated; 0 for others. */
  #times = new Float64Array(16);
  /** Indices that were freed, to be used again. */
  #freed = new Int32Array(16);
  #freedCount = 0;
  /** The number of indices that were ever used. */
  #end = 0;
  /** Where and when each buffer was allocated, by address; undefined without POOLPASS_DEBUG=1. */
  readonly #origins: Map<bigint, Origin> | undefined;
  /**
   * Allocations that are not leaks, as byte lengths by address: slabs, and freed buffers whose memory is still in use,
   * by a read for example.
   */
  readonly #notLeaked = new Map<bigint, number>();

  readonly #sites: AllocationSites | undefined;

  /** @param sites where to record where buffers are allocated and freed; undefined without POOLPASS_DEBUG=1 */
  constructor({ sites }: { readonly sites: AllocationSites | undefined }) {
    this.#sites = sites;
    if (sites !== undefined) this.#origins = new Map();
  }

  /** The number of allocations. */
  get count(): number {
    return this.#end - this.#freedCount;
  }

  /** The addresses of the allocations. */
  [Symbol.iterator](): Iterator<bigint> {
    return this.#addresses.values().filter((address) => address !== 0n);
  }

  /** Adds an allocation. Returns its index. */
  add(address: bigint, byteLength: number): number {
    const index = this.#freedCount > 0 ? this.#freed[--this.#freedCount]! : this.#newIndex();
    this.#addresses[index] = address;
    this.#byteLengths[index] = byteLength;
    this.#times[index] = timeOfAllocation(byteLength);
    this.byteLength += byteLength;
    if (this.#origins !== undefined) {
      const stack = originOf(byteLength);
      this.#origins.set(address, { byteLength, stack, time: performance.now() });
      this.#sites!.addAllocated(address, byteLength, stack);
    }
    return index;
  }

  /** Deletes the allocation with an index. */
  delete(index: number, address: bigint, byteLength: number): void {
    this.#addresses[index] = 0n;
    this.#freed[this.#freedCount++] = index;
    this.byteLength -= byteLength;
    if (this.#origins !== undefined) {
      this.#origins.delete(address);
      this.#sites!.addFreed(address);
    }
    if (this.#notLeaked.size > 0) this.#notLeaked.delete(address);
  }

  /** Notes that an allocation is not a leak: it is a slab, or a freed buffer whose memory is still in use. */
  addNotLeaked(address: bigint, byteLength: number): void {
    this.#notLeaked.set(address, byteLength);
  }

  /** The buffers that the user has not freed. */
  unfreed(): UnfreedMemory {
    return {
      kind: "buffer",
      count: this.count - this.#notLeaked.size,
      byteLength: [...this.#notLeaked.values()].reduce((sum, byteLength) => sum - byteLength, this.byteLength),
      origins: this.#buffersOrigins().map(({ stack }) => stack),
      pieces: () => this.#buffers(),
    };
  }

  /** The buffers by size or, with POOLPASS_DEBUG=1, by origin. Leaves out slabs and freed buffers. */
  holders(): Holders[] {
    if (this.#origins !== undefined) return holdersByOrigin(this.#buffersOrigins());
    return holdersBySize(this.#buffers());
  }

  *#buffers(): Generator<HeldBuffer & MemoryPiece> {
    for (const [index, address] of this.#addresses.entries()) {
      if (address === 0n || this.#notLeaked.has(address)) continue;
      yield { at: address, byteLength: this.#byteLengths[index]!, time: this.#times[index]! };
    }
  }

  #newIndex(): number {
    if (this.#end === this.#addresses.length) this.#grow();
    return this.#end++;
  }

  #grow(): void {
    const { length } = this.#addresses;
    const addresses = new BigUint64Array(2 * length);
    addresses.set(this.#addresses);
    this.#addresses = addresses;
    const byteLengths = new Float64Array(2 * length);
    byteLengths.set(this.#byteLengths);
    this.#byteLengths = byteLengths;
    const times = new Float64Array(2 * length);
    times.set(this.#times);
    this.#times = times;
    // It is empty: otherwise a freed index would have been used.
    this.#freed = new Int32Array(2 * length);
  }

  #buffersOrigins(): Origin[] {
    return [...this.#origins ?? []].filter(([address]) => !this.#notLeaked.has(address)).map(([, origin]) => origin);
  }
}
