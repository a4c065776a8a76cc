/**
 * The memory of blocks that run concurrently, each with its own shared memory, thread records, saved registers and
 * local memory; and the workspaces in which the blocks of a cooperative launch count arrivals at the grid's barrier.
 *
 * @module
 */
import { sharedSpan } from "../../abi/addresses.ts";
import type { CompiledKernel } from "../../compiler/compile.ts";
import { threadRecordByteLength } from "../../abi/launch_record.ts";
import type { LaunchMemory, LinearMemory } from "../../memory/linear_memory.ts";
import { granuleByteLength, pageByteLength, type ScratchRanges, wholePages } from "../../memory/memory_layout.ts";

/** The offsets of a block's memory. */
export interface BlockPlace {
  /** The offset of the block's shared memory. The reserved part of shared memory is located before this offset. */
  readonly shared: number;
  readonly threads: number;
  readonly local: number;
  readonly saved: number;
}

/** The sizes of the parts of a block's memory, in bytes. */
export interface BlockMemorySizes {
  readonly shared: number;
  /** The total size of the thread records of all threads of the block. */
  readonly threads: number;
  /** The total size of the local memory of all threads of the block. */
  readonly local: number;
  /** The total size of the saved registers of all threads, and of the memory for products of matrices. */
  readonly saved: number;
}

/** The alignment of the parts of a block's memory, in bytes. A multiple of the alignment of all variables. */
const alignment = 1024;

/**
 * The maximum size in bytes of a released range whose pages are not returned to the system. The next launch most likely
 * uses the same pages, and allocating pages again would take longer than a short kernel runs.
 */
const mostKeptBytes = 2 ** 24;

/**
 * Returns the offset of the table with the shared memory of the block's cluster, which is in the part of the block's
 * shared memory that is reserved for the system.
 */
export function clusterTableOf({ shared }: BlockPlace): number {
  return shared - sharedSpan.reserved;
}

/** Rounds the size of a part of a block's memory up to the alignment of the parts. */
export function alignedBytes(byteLength: number): number {
  return Math.ceil(byteLength / alignment) * alignment;
}

/**
 * Allocates the memory of a launch's blocks. The first block uses the scratch ranges, as do blocks that never wait for
 * others. Memory for further blocks is reserved when needed. Each reservation doubles the number of blocks that have
 * memory.
 */
export class BlockPlaces {
  readonly #linearMemory: LaunchMemory;
  readonly #sizes: BlockMemorySizes;
  readonly #first: BlockPlace;
  readonly #most: number;
  /** The offset of the local memory in the scratch ranges. */
  readonly #scratchLocal: number;
  readonly #free: BlockPlace[];
  readonly #reserved: { readonly begin: number; readonly byteLength: number }[] = [];
  /** The saved contents of the scratch ranges, while another launch uses the ranges. Undefined otherwise. */
  #saved: readonly Uint8Array[] | undefined;
  #count = 1;

  /**
   * @param most the maximum number of blocks that are resident on the device at once
   * @param ranges the scratch ranges of the thread
   */
  constructor(
    linearMemory: LaunchMemory,
    { sizes, first, most, ranges }: {
      sizes: BlockMemorySizes;
      first: BlockPlace;
      most: number;
      ranges: ScratchRanges;
    },
  ) {
    this.#scratchLocal = ranges.local.begin;
    this.#linearMemory = linearMemory;
    this.#sizes = sizes;
    this.#first = first;
    this.#most = most;
    this.#free = [first];
  }

  /** The number of blocks for which memory is reserved, whether or not it is in use. */
  get count(): number {
    return this.#count;
  }

  /** Allocates memory for a block. Returns undefined if no more blocks fit on the device or in linear memory. */
  take(): BlockPlace | undefined {
    if (this.#free.length === 0 && this.#count < this.#most) this.#reserve();
    return this.#free.pop();
  }

  release(place: BlockPlace): void {
    this.#free.push(place);
  }

  #reserve(): void {
    const { shared, threads, local } = this.#sizes;
    const own = placeBytes(this.#sizes);
    const wanted = Math.min(this.#count, this.#most - this.#count);
    for (let count = wanted; count > 0; count = Math.floor(count / 2)) {
      const byteLength = wholePages(count * own);
      const begin = this.#linearMemory.reserve(byteLength);
      if (begin === undefined) continue;
      this.#reserved.push({ begin, byteLength });
      this.#count += count;
      for (let index = count - 1; index >= 0; index--) {
        const sharedBegin = begin + index * own + alignedBytes(sharedSpan.reserved);
        const threadsBegin = sharedBegin + alignedBytes(shared);
        const localBegin = threadsBegin + alignedBytes(threads);
        const place = { shared: sharedBegin, threads: threadsBegin, local: localBegin };
        this.#free.push({ ...place, saved: localBegin + alignedBytes(local) });
      }
      return;
    }
  }

  /** Saves the contents of the scratch ranges if a block of this launch uses them. */
  saveScratch(): void {
    if (this.#free.includes(this.#first)) return;
    const { bytes } = this.#linearMemory;
    this.#saved = this.#scratchRanges().map(({ begin, byteLength }) => bytes.slice(begin, begin + byteLength));
  }

  /** Restores the saved contents of the scratch ranges. */
  restoreScratch(): void {
    if (this.#saved === undefined) return;
    this.#scratchRanges().forEach(({ begin }, index) => this.#linearMemory.bytes.set(this.#saved![index]!, begin));
    this.#saved = undefined;
  }

  #scratchRanges(): { begin: number; byteLength: number }[] {
    const { shared, threads, local, saved } = this.#first;
    const sizes = this.#sizes;
    const ranges = [
      { begin: shared - sharedSpan.reserved, byteLength: sharedSpan.reserved + sizes.shared },
      { begin: threads, byteLength: sizes.threads },
    ];
    // Local memory that does not fit in the scratch ranges is reserved by the launch, so it need not be saved.
    if (local !== this.#scratchLocal) return ranges;
    return [...ranges, { begin: local, byteLength: sizes.local }, { begin: saved, byteLength: sizes.saved }];
  }

  /** Releases the memory of all blocks. */
  close(): void {
    this.#saved = undefined;
    for (const { begin, byteLength } of this.#reserved.splice(0)) {
      if (byteLength > mostKeptBytes) this.#linearMemory.discard(begin, byteLength);
      this.#linearMemory.release(begin, byteLength);
    }
  }
}

/** Returns the sizes of the memory of a kernel's block. */
export function blockMemorySizes(
  { sharedBytes, localBytes, savedBytes, productBytes }: Pick<
    CompiledKernel,
    "sharedBytes" | "localBytes" | "savedBytes" | "productBytes"
  >,
  { threads, sharedMemoryBytes }: { threads: number; sharedMemoryBytes: number },
): BlockMemorySizes {
  return {
    shared: sharedBytes + sharedMemoryBytes,
    threads: threads * threadRecordByteLength,
    local: threads * localBytes,
    saved: threads * savedBytes + productBytes,
  };
}

/** Returns whether linear memory has room for `blocks` blocks in addition to the first block. */
export function hasRoomFor(linearMemory: LinearMemory, blocks: number, sizes: BlockMemorySizes): boolean {
  const byteLength = wholePages(blocks * placeBytes(sizes));
  if (byteLength === 0) return true;
  const begin = linearMemory.reserve(byteLength);
  if (begin !== undefined) linearMemory.release(begin, byteLength);
  return begin !== undefined;
}

/** Returns the total size of a block's memory in bytes. */
export function placeBytes({ shared, threads, local, saved }: BlockMemorySizes): number {
  return alignedBytes(sharedSpan.reserved) + alignedBytes(shared) + alignedBytes(threads) + alignedBytes(local) +
    alignedBytes(saved);
}

/**
 * The workspaces for cooperative launches on a driver's devices, 512 bytes each. The pages stay reserved until the
 * driver is closed.
 */
export class GridWorkspaces {
  readonly #linearMemory: LinearMemory;
  readonly #free: number[] = [];
  readonly #pages: number[] = [];

  constructor(linearMemory: LinearMemory) {
    this.#linearMemory = linearMemory;
  }

  /**
   * Allocates a workspace that the device's kernels may access, and returns its offset. Returns undefined if linear
   * memory is full. The first word of the workspace is its size in bytes, and all other words are 0.
   */
  take(device: number): number | undefined {
    if (this.#free.length === 0 && !this.#addPage()) return undefined;
    const offset = this.#free.pop()!;
    this.#linearMemory.bytes.fill(0, offset, offset + granuleByteLength);
    new DataView(this.#linearMemory.memory.buffer).setUint32(offset, granuleByteLength, true);
    this.#linearMemory.allow(device, offset, granuleByteLength);
    return offset;
  }

  release(device: number, offset: number): void {
    this.#linearMemory.deny(device, offset, granuleByteLength);
    this.#free.push(offset);
  }

  close(): void {
    for (const page of this.#pages.splice(0)) {
      this.#linearMemory.discardAndRelease(page, pageByteLength, { isShared: false });
    }
    this.#free.length = 0;
  }

  #addPage(): boolean {
    const page = this.#linearMemory.reserve(pageByteLength);
    if (page === undefined) return false;
    this.#pages.push(page);
    for (let offset = 0; offset < pageByteLength; offset += granuleByteLength) this.#free.push(page + offset);
    return true;
  }
}
