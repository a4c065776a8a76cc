/**
 * The live allocations of a pool, and their description in out-of-memory errors.
 *
 * @module
 */
import { coarseTime } from "../../../ffi/native/clock.ts";
import type { MemoryPiece, UnfreedMemory } from "../../objects/opened_objects.ts";
import { originOf } from "../../support/leaks.ts";
import type { AllocationSites } from "./memory_registry.ts";
import { CudaError, cudaErrorNumbers } from "../../support/errors.ts";
import { countOf, formatSeconds } from "../../support/printing.ts";

/**
 * The allocations of a pool that were not released. Stored in typed arrays instead of as objects: references from the
 * pool, an old object, to new allocation objects would cost the garbage collector more time than the rest of an
 * allocation takes.
 */
export class PoolContents {
  /** Bytes of all allocations. */
  byteLength = 0;
  /** The address of each allocation, by index; 0 for an unused index. */
  #addresses = new BigUint64Array(16);
  #byteLengths = new Float64Array(16);
  /** The time at which each large buffer was allocated; 0 for small buffers. */
  #times = new Float64Array(16);
  /** Free indices below `#end`, to be reused. */
  #freed = new Int32Array(16);
  #freedCount = 0;
  /** All indices below this number are, or have been, in use. */
  #end = 0;
  /** The call site and time of each buffer's allocation, by address; undefined without POOLPASS_DEBUG=1. */
  readonly #origins: Map<bigint, PoolOrigin> | undefined;
  /**
   * Allocations that are not leaks, with their sizes in bytes by address: slabs, and freed buffers whose memory is
   * still in use, by a read for example.
   */
  readonly #notLeaked = new Map<bigint, number>();

  readonly #sites: AllocationSites | undefined;

  /**
   * @param sites records the call sites at which buffers are allocated and freed; undefined without POOLPASS_DEBUG=1
   */
  constructor({ sites }: { readonly sites: AllocationSites | undefined }) {
    this.#sites = sites;
    if (sites !== undefined) this.#origins = new Map();
  }

  /** The number of allocations. */
  get count(): number {
    return this.#end - this.#freedCount;
  }

  /** Iterates over the addresses of the allocations. */
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

  /** Deletes the allocation at an index. */
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

  /** Records that an allocation is not a leak: it is a slab, or a freed buffer whose memory is still in use. */
  addNotLeaked(address: bigint, byteLength: number): void {
    this.#notLeaked.set(address, byteLength);
  }

  /** Returns the buffers that the user has not freed. */
  unfreed(): UnfreedMemory {
    return {
      kind: "buffer",
      count: this.count - this.#notLeaked.size,
      byteLength: [...this.#notLeaked.values()].reduce((sum, byteLength) => sum - byteLength, this.byteLength),
      origins: this.#buffersOrigins().map(({ stack }) => stack),
      pieces: () => this.#buffers(),
    };
  }

  /**
   * Returns the buffers grouped by size or, with POOLPASS_DEBUG=1, by call site. Leaves out slabs and freed buffers.
   */
  holders(): HolderGroup[] {
    if (this.#origins !== undefined) return holdersByOrigin(this.#buffersOrigins());
    return holdersBySize(this.#buffers());
  }

  /** Lists the allocations. */
  *allocations(): Generator<ListedAllocation> {
    for (const [index, at] of this.#addresses.entries()) {
      if (at === 0n) continue;
      const isKept = this.#notLeaked.has(at);
      const stack = this.#origins?.get(at)?.stack;
      yield { at, byteLength: this.#byteLengths[index]!, time: this.#times[index]!, isKept, stack };
    }
  }

  #buffers(): Iterable<ListedAllocation> {
    return this.allocations().filter(({ isKept }) => !isKept);
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
    // The new array starts empty: the arrays only grow when there is no unused index, so `#freed` has no entries to
    // copy.
    this.#freed = new Int32Array(2 * length);
  }

  #buffersOrigins(): PoolOrigin[] {
    return [...this.#origins ?? []].filter(([address]) => !this.#notLeaked.has(address)).map(([, origin]) => origin);
  }
}

/** The data that POOLPASS_DEBUG=1 records about an allocation. */
export interface PoolOrigin {
  readonly byteLength: number;
  /** The call stack of the allocation. */
  readonly stack: string;
  /** The `performance.now()` time of the allocation. */
  readonly time: number;
}

/** A group of buffers of the same size, or allocated at the same call site. */
export interface HolderGroup {
  count: number;
  /** The total size of the buffers in bytes. */
  byteLength: number;
  /** The call site of the allocations, if it was recorded. */
  readonly place?: string | undefined;
  /** The `performance.now()` time at which the oldest buffer was allocated; undefined if it was not recorded. */
  since?: number | undefined;
}

/** The size and the age of a buffer, for messages that list the buffers in use. */
export interface HeldBuffer {
  readonly byteLength: number;
  /** The `performance.now()` time of the allocation; 0 if it was not recorded. */
  readonly time: number;
}

/** An allocation of a pool. */
export interface ListedAllocation extends HeldBuffer, MemoryPiece {
  /** The address. */
  readonly at: bigint;
  /** Whether the allocation is a slab, or a freed buffer whose memory is still in use. */
  readonly isKept: boolean;
  /** The call stack of the allocation, with POOLPASS_DEBUG=1. */
  readonly stack: string | undefined;
}

/**
 * The minimum size in bytes of allocations whose time is recorded. Reading even a coarse clock takes a tenth of the
 * time of a small allocation, but is negligible compared with the work that fills a large one.
 */
const timedByteLength = 2 ** 24;
/** Maximum number of groups that a message lists. */
const maximumListed = 4;
/** Matches a line of a call stack that ends with a path, a line and a column. */
const isInFile = /[/\\].*:\d+:\d+\)?$/;
/** The path of this file in the source tree. In a package, the whole library is one file with another name. */
const sourceFile = "src/memory/pools/pool_contents.ts";

/** The reason why an allocation of some size can never succeed, and advice. */
export interface SizeRefusal {
  readonly why: string;
  readonly advice: string;
}

/** Returns the refusal for a size above the maxSize of a pool or an allocator. */
export function refusalOfMaxSize(maxSize: number): SizeRefusal {
  return { why: `its maxSize is ${maxSize} bytes`, advice: "ask for less, or create it with a larger maxSize" };
}

/**
 * Returns an out-of-memory error, for when the library itself detects the condition; it looks like the driver's own.
 */
export function outOfMemory(why: string, call = "cudaMallocFromPoolAsync"): CudaError {
  return new CudaError(cudaErrorNumbers.cudaErrorMemoryAllocation, call, why);
}

/** Returns whether an error means that too little memory is left. */
export function isOutOfMemory(error: unknown): error is CudaError {
  return error instanceof CudaError && error.code === "cudaErrorMemoryAllocation";
}

/** Groups buffers by the call site of their allocation. */
export function holdersByOrigin(origins: Iterable<PoolOrigin>): HolderGroup[] {
  const holders = new Map<string, HolderGroup>();
  for (const { byteLength, stack, time } of origins) {
    const found = holders.get(stack) ?? { count: 0, byteLength: 0, place: placeIn(stack), since: Infinity };
    found.count++;
    found.byteLength += byteLength;
    found.since = Math.min(found.since!, time);
    holders.set(stack, found);
  }
  return [...holders.values()];
}

/**
 * Returns the time to record for an allocation of `byteLength` bytes; 0 if the allocation is too small for its time to
 * be recorded.
 */
export function timeOfAllocation(byteLength: number): number {
  return byteLength < timedByteLength ? 0 : coarseTime();
}

/** Groups buffers by their sizes. */
export function holdersBySize(buffers: Iterable<HeldBuffer>): HolderGroup[] {
  const holders = new Map<number, HolderGroup>();
  for (const { byteLength, time } of buffers) {
    const found: HolderGroup = holders.get(byteLength) ?? { count: 0, byteLength: 0 };
    found.count++;
    found.byteLength += byteLength;
    if (time > 0) found.since = Math.min(found.since ?? Infinity, time);
    holders.set(byteLength, found);
  }
  return [...holders.values()];
}

/** Describes the groups with the most bytes: `"12 buffers, 805306368 bytes, the oldest for 3.2 s, at main.ts:7:9"`. */
export function describeHolders(holders: readonly HolderGroup[]): string {
  const sorted = [...holders].sort((one, other) => other.byteLength - one.byteLength);
  const listed = sorted.slice(0, maximumListed).map(describe);
  const rest = sorted.slice(maximumListed);
  if (rest.length > 0) {
    const count = rest.reduce((sum, each) => sum + each.count, 0);
    listed.push(`${count} more, ${rest.reduce((sum, each) => sum + each.byteLength, 0)} bytes`);
  }
  return listed.join("; ");
}

function describe({ count, byteLength, place, since }: HolderGroup): string {
  const age = since === undefined
    ? ""
    : `, ${count === 1 ? "" : "the oldest "}for ${formatSeconds(performance.now() - since)}`;
  return `${countOf(count, "buffer")}, ${byteLength} bytes${age}${place === undefined ? "" : `, allocated ${place}`}`;
}

/** Returns the first line of a call stack that names a file outside of the library. */
export function placeIn(stack: string): string | undefined {
  const library = libraryPath();
  return stack.split("\n").slice(1).find((line) => isInFile.test(line) && !line.includes(library))?.trim();
}

/**
 * Returns a string that occurs in the library's own lines of a call stack. A bundled library cannot use `import.meta`.
 */
function libraryPath(): string {
  const line = new Error().stack!.split("\n").find((line) => isInFile.test(line))!;
  const file = line.replace(/:\d+:\d+\)?$/, "").replace(/^.*[(@ ]/, "");
  return file.endsWith(sourceFile) ? file.slice(0, -sourceFile.length) + "src/" : file;
}
