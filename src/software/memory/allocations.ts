/**
 * An allocator of ranges, the allocations of a program in linear memory, and the access of devices to them.
 *
 * @module
 */
import type { LinearMemory } from "./linear_memory.ts";

/** A range of integers from `begin` up to, but not including, `end`. */
export interface Range {
  readonly begin: number;
  readonly end: number;
}

/**
 * Allocates parts of a range of integers from the smallest free range that is large enough. Adjacent free ranges are
 * merged.
 */
export class RangeAllocator {
  /** The free ranges in ascending order. Two free ranges are never adjacent. */
  readonly #free: Range[];

  /** @param whole the range that is initially free. By default, nothing can be allocated until `free` adds a range */
  constructor(whole?: Range) {
    this.#free = whole === undefined ? [] : [whole];
  }

  /** The total length of the free ranges. */
  get freeLength(): number {
    return this.#free.reduce((sum, { begin, end }) => sum + end - begin, 0);
  }

  /**
   * Allocates a part of the given length. Returns the start of the part, or undefined if no free range is long enough.
   */
  allocate(length: number): number | undefined {
    let best = -1;
    let bestLength = Infinity;
    for (const [index, { begin, end }] of this.#free.entries()) {
      if (end - begin < length || end - begin >= bestLength) continue;
      best = index;
      bestLength = end - begin;
    }
    const range = this.#free[best];
    if (range === undefined) return undefined;
    if (bestLength === length) this.#free.splice(best, 1);
    else this.#free[best] = { begin: range.begin + length, end: range.end };
    return range.begin;
  }

  /**
   * Allocates the part with the given start and length. Returns false if any number in this range is already allocated.
   */
  take(begin: number, length: number): boolean {
    const index = this.#free.findIndex((range) => range.begin <= begin && begin + length <= range.end);
    const range = this.#free[index];
    if (range === undefined) return false;
    const rest = [{ begin: range.begin, end: begin }, { begin: begin + length, end: range.end }];
    this.#free.splice(index, 1, ...rest.filter(({ begin, end }) => begin < end));
    return true;
  }

  /** Frees a part, which may consist of several parts that were allocated separately. */
  free(begin: number, length: number): void {
    const end = begin + length;
    let index = 0;
    while (index < this.#free.length && this.#free[index]!.end < begin) index++;
    const joined: Range[] = [];
    while (index + joined.length < this.#free.length && this.#free[index + joined.length]!.begin <= end) {
      joined.push(this.#free[index + joined.length]!);
    }
    const first = joined[0]?.begin ?? begin;
    const last = joined.at(-1)?.end ?? end;
    this.#free.splice(index, joined.length, { begin: Math.min(begin, first), end: Math.max(end, last) });
  }
}

/** A range of linear memory that a program allocated from the driver. */
export interface SoftwareAllocation {
  readonly begin: number;
  /** The number of bytes that the program requested. */
  readonly byteLength: number;
}

/** An allocation that belongs to a device. */
export interface DeviceAllocation extends SoftwareAllocation {
  readonly device: number;
}

/** The live allocations. An allocation can be found by any offset within it. */
export class Allocations<A extends SoftwareAllocation> {
  /** The allocations, sorted by `begin`. */
  readonly #sorted: A[] = [];

  add(allocation: A): void {
    this.#sorted.splice(this.#indexAfter(allocation.begin), 0, allocation);
  }

  /** Returns the allocation that starts at `begin`. */
  at(begin: number): A | undefined {
    const found = this.#sorted[this.#indexAfter(begin) - 1];
    return found?.begin === begin ? found : undefined;
  }

  /** Returns the allocation that contains all bytes of a range. */
  containing(begin: number, byteLength: number): A | undefined {
    const found = this.#sorted[this.#indexAfter(begin) - 1];
    return found !== undefined && begin + byteLength <= found.begin + found.byteLength ? found : undefined;
  }

  /** Returns all allocations, sorted by address. */
  toArray(): readonly A[] {
    return this.#sorted;
  }

  remove(allocation: A): void {
    this.#sorted.splice(this.#indexAfter(allocation.begin) - 1, 1);
  }

  /** Removes all allocations in a range. */
  removeWithin({ begin, byteLength }: SoftwareAllocation): void {
    const first = this.#indexAfter(begin - 1);
    this.#sorted.splice(first, this.#indexAfter(begin + byteLength - 1) - first);
  }

  /** Returns the index in `#sorted` of the first allocation that starts after `offset`. */
  #indexAfter(offset: number): number {
    let low = 0;
    let high = this.#sorted.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#sorted[middle]!.begin <= offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Memory outside of pools, with the set of devices whose kernels may access it. */
export class AccessibleRange implements DeviceAllocation {
  readonly begin: number;
  readonly byteLength: number;
  /** The device that owns the memory. Even this device's kernels may access the memory only after a call of `allow`. */
  readonly device: number;
  readonly #linearMemory: LinearMemory;
  readonly #devicesWithAccess = new Set<number>();

  constructor(linearMemory: LinearMemory, { begin, byteLength, device }: DeviceAllocation) {
    this.#linearMemory = linearMemory;
    this.begin = begin;
    this.byteLength = byteLength;
    this.device = device;
  }

  /** Whether a device's kernels may access the memory. */
  isAllowed(device: number): boolean {
    return this.#devicesWithAccess.has(device);
  }

  /** Grants a device's kernels access. */
  allow(device: number): void {
    this.#devicesWithAccess.add(device);
    this.#linearMemory.allow(device, this.begin, this.byteLength);
  }

  /** Revokes the access of a device's kernels. */
  deny(device: number): void {
    if (this.#devicesWithAccess.delete(device)) this.#linearMemory.deny(device, this.begin, this.byteLength);
  }

  /** Revokes the access of the kernels of all devices. */
  denyAll(): void {
    for (const device of this.#devicesWithAccess) this.deny(device);
  }
}

/** The access of devices to each other's memory outside of pools. Each pool has its own access flags. */
export class PeerAccess {
  /** For each device, the devices whose memory its kernels may access. */
  readonly #peers = new Map<number, Set<number>>();
  readonly #ranges = new Set<AccessibleRange>();

  isEnabled(device: number, peer: number): boolean {
    return this.#peers.get(device)?.has(peer) === true;
  }

  /** Grants a device's kernels access to all memory of a peer. */
  enable(device: number, peer: number): void {
    const peers = this.#peers.get(device) ?? new Set();
    this.#peers.set(device, peers.add(peer));
    for (const range of this.#ranges) if (range.device === peer) range.allow(device);
  }

  disable(device: number, peer: number): void {
    this.#peers.get(device)?.delete(peer);
    for (const range of this.#ranges) if (range.device === peer) range.deny(device);
  }

  /**
   * Adds memory. Grants access to the kernels of the device that owns the memory, and to the kernels of each device for
   * which peer access to the owner is enabled.
   */
  add(range: AccessibleRange): void {
    this.#ranges.add(range);
    range.allow(range.device);
    for (const [device, peers] of this.#peers) if (peers.has(range.device)) range.allow(device);
  }

  /** Removes memory and revokes the access of all kernels. */
  remove(range: AccessibleRange): void {
    this.#ranges.delete(range);
    range.denyAll();
  }
}
