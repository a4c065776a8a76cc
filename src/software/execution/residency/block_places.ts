/**
 * Memory for blocks that run side by side: each has its own shared memory, thread records, saved registers and local
 * memory; and the workspaces where the blocks of a cooperative launch count who has arrived at the grid's barrier.
 *
 * @module
 */
import { sharedSpan } from "../../abi/addresses.ts";
import type { CompiledKernel } from "../../compiler/compile.ts";
import { threadRecordByteLength } from "../../abi/launch_record.ts";
import {
  granuleByteLength,
  type LinearMemory,
  pageByteLength,
  scratch,
  wholePages,
} from "../../memory/linear_memory.ts";

/** The offsets of a block's memory. */
export interface BlockPlace {
  /** The block's shared memory, which the reserved part precedes. */
  readonly shared: number;
  readonly threads: number;
  readonly local: number;
  readonly saved: number;
}

/** The bytes of a block's memory. */
interface BlockMemorySizes {
  readonly shared: number;
  readonly threads: number;
  /** Of all threads together. */
  readonly local: number;
  readonly saved: number;
}

/** Parts of a place begin at a multiple of it, so that no alignment is lost. */
const alignment = 1024;

/**
 * Larger pieces of memory are returned to the system. Smaller ones are not: most likely the next launch takes the same
 * pages again, and getting them anew would take longer than a short kernel.
 */
const mostKeptBytes = 2 ** 24;

function aligned(byteLength: number): number {
  return Math.ceil(byteLength / alignment) * alignment;
}

/**
 * The places of a launch's blocks. The first is in the scratch ranges, where blocks run that never wait for others. The
 * others are reserved as they are needed, each time as many as there are.
 */
export class BlockPlaces {
  readonly #linearMemory: LinearMemory;
  readonly #sizes: BlockMemorySizes;
  readonly #first: BlockPlace;
  readonly #most: number;
  readonly #free: BlockPlace[];
  readonly #reserved: { readonly begin: number; readonly byteLength: number }[] = [];
  /** A copy of the scratch ranges from before another launch used them. */
  #saved: readonly Uint8Array[] | undefined;
  #count = 1;

  /** @param most the number of blocks that fit on the device at once */
  constructor(
    linearMemory: LinearMemory,
    { sizes, first, most }: { sizes: BlockMemorySizes; first: BlockPlace; most: number },
  ) {
    this.#linearMemory = linearMemory;
    this.#sizes = sizes;
    this.#first = first;
    this.#most = most;
    this.#free = [first];
  }

  /** How many blocks have a place, running or not. */
  get count(): number {
    return this.#count;
  }

  /** Returns a free place, or undefined if no more fit on the device or in linear memory. */
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
        const sharedBegin = begin + index * own + aligned(sharedSpan.reserved);
        const threadsBegin = sharedBegin + aligned(shared);
        const localBegin = threadsBegin + aligned(threads);
        const place = { shared: sharedBegin, threads: threadsBegin, local: localBegin };
        this.#free.push({ ...place, saved: localBegin + aligned(local) });
      }
      return;
    }
  }

  /** Saves the block in the scratch ranges, if there is one. */
  saveScratch(): void {
    if (this.#free.includes(this.#first)) return;
    const { bytes } = this.#linearMemory;
    this.#saved = this.#scratchRanges().map(({ begin, byteLength }) => bytes.slice(begin, begin + byteLength));
  }

  /** Puts the saved block back into the scratch ranges. */
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
    // Large local memory is the launch's own.
    if (local !== scratch.local.begin) return ranges;
    return [...ranges, { begin: local, byteLength: sizes.local }, { begin: saved, byteLength: sizes.saved }];
  }

  /** Releases the memory. */
  close(): void {
    this.#saved = undefined;
    for (const { begin, byteLength } of this.#reserved.splice(0)) {
      if (byteLength > mostKeptBytes) this.#linearMemory.discard(begin, byteLength);
      this.#linearMemory.release(begin, byteLength);
    }
  }
}

/** The memory of a block of a kernel. */
export function blockMemorySizes(
  { sharedBytes, localBytes, savedBytes }: Pick<CompiledKernel, "sharedBytes" | "localBytes" | "savedBytes">,
  { threads, sharedMemoryBytes }: { threads: number; sharedMemoryBytes: number },
): BlockMemorySizes {
  return {
    shared: sharedBytes + sharedMemoryBytes,
    threads: threads * threadRecordByteLength,
    local: threads * localBytes,
    saved: threads * savedBytes,
  };
}

/** Whether there is memory for some more blocks beside the first. */
export function hasRoomFor(linearMemory: LinearMemory, blocks: number, sizes: BlockMemorySizes): boolean {
  const byteLength = wholePages(blocks * placeBytes(sizes));
  if (byteLength === 0) return true;
  const begin = linearMemory.reserve(byteLength);
  if (begin !== undefined) linearMemory.release(begin, byteLength);
  return begin !== undefined;
}

/** The bytes between two places. */
function placeBytes({ shared, threads, local, saved }: BlockMemorySizes): number {
  return aligned(sharedSpan.reserved) + aligned(shared) + aligned(threads) + aligned(local) + aligned(saved);
}

/** The workspaces of a driver's devices. Each takes one granule. Their pages are reserved until the driver is closed. */
export class GridWorkspaces {
  readonly #linearMemory: LinearMemory;
  readonly #free: number[] = [];
  readonly #pages: number[] = [];

  constructor(linearMemory: LinearMemory) {
    this.#linearMemory = linearMemory;
  }

  /**
   * Returns the offset of a workspace that the device's kernels may access, or undefined without free memory. It is 0
   * but for its first word, which is its size.
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
