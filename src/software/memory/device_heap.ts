/**
 * The heap from which kernels allocate memory with `malloc`.
 *
 * @module
 */
import {
  type AllocatedBlock,
  HeapAllocator,
  heapStateBytes,
  leastAlignment,
  nameOfBlock,
  pageDescriptionBytes,
} from "./heap_allocator.ts";
import type { NamedRange } from "./named_memory.ts";
import { boundsGranuleBytes, pageShift } from "../abi/addresses.ts";

/**
 * The default maximum total size in bytes of the live blocks in a device's heap. The same as CUDA's default for
 * `cudaLimitMallocHeapSize`.
 */
export const heapLimitBytes: number = 8 * 2 ** 20;

/** The minimum size in bytes of the chunks in which linear memory is reserved. */
const chunkBytes = 2 ** 20;
const pageBytes = 1 << pageShift;
/** The number of pages whose granules are described in one page. */
const describedPages = pageBytes / pageDescriptionBytes;
/** How many bytes of the heap the smallest block occupies for each byte that counts towards the limit. */
const mostOverhead = 32;
/** The part of the free linear memory that is prepared for small blocks is one of so many parts. */
const preparedShare = 4;

/** The maximum total size in bytes of freed blocks whose reuse is delayed. */
const mostFreedBytes = heapLimitBytes / 2;
/** The maximum number of freed blocks whose reuse is delayed. */
const mostFreedBlocks = 4096;

/** The linear memory that a heap uses. */
export interface HeapMemory {
  readonly memory: WebAssembly.Memory;
  /** The offset of the device's bounds table. */
  readonly bounds: number;
  /** The number of bytes that are free, or unused by the heaps that have reserved them. */
  freeBytes(): number;
  /** Reserves whole pages. Returns their offset, or undefined if linear memory is full. */
  reserve(byteLength: number): number | undefined;
  /** Reserves whole pages that are free already: no holder of unused pages releases them. */
  reserveFree(byteLength: number): number | undefined;
  /** Sets whole pages to 0. */
  clear(offset: number, byteLength: number): void;
  release(offset: number, byteLength: number): void;
}

/** The kernel and the source line that allocated a block. */
export interface HeapSite {
  readonly kernel: string;
  readonly source: string;
}

/** A block that a kernel has allocated. */
export interface HeapBlock extends AllocatedBlock {
  /** The call site that allocated the block. Undefined if it is unknown. */
  readonly site?: HeapSite | undefined;
}

/** Pages that a heap has reserved at once. The first describe the granules of the others. */
interface Chunk {
  readonly reserved: number;
  /** The first page that can contain blocks. */
  readonly begin: number;
  readonly end: number;
}

/** Keeps the memory of a heap reserved. */
export interface PreparedHeap extends Disposable {
  /** The offset of the heap's state, with which other threads create their `HeapAllocator`. */
  readonly state: number;
}

/**
 * The heap of a device, for `malloc` and `free` in kernels. A block lives until any kernel of the device frees it, or
 * until the driver is closed.
 *
 * The thread that has opened the driver owns the heap: only it reserves memory. Other threads allocate by means of
 * their own `HeapAllocator` after the owner has called `prepare`.
 */
export class DeviceHeap {
  readonly #memory: HeapMemory;
  /** The maximum total size in bytes of the live blocks. */
  readonly #limitBytes: number;
  /** The freed blocks whose reuse is delayed. Undefined if freed blocks are reused immediately. */
  readonly #freed: FreedBlocks | undefined;
  /** The call sites that allocated the live blocks, by offset. Without those that are unknown. */
  readonly #sites = new Map<number, HeapSite>();
  #chunks: Chunk[] = [];
  /** The offset of the state, and the allocator. Undefined until the heap is used. */
  #opened: { readonly state: number; readonly allocator: HeapAllocator } | undefined;
  /** The number of undisposed objects that `prepare` has returned. */
  #preparations = 0;

  /**
   * @param options `limit` is the maximum total size in bytes of the live blocks; `findsMistakes` leaves a gap after
   * each block and delays the reuse of freed blocks, so that accesses outside of live blocks are detected
   */
  constructor(
    memory: HeapMemory,
    { findsMistakes = false, limit = heapLimitBytes }: { readonly findsMistakes?: boolean; readonly limit?: number } =
      {},
  ) {
    this.#memory = memory;
    this.#limitBytes = limit;
    this.#freed = findsMistakes ? new FreedBlocks() : undefined;
  }

  #open(): HeapAllocator | undefined {
    if (this.#opened !== undefined) return this.#opened.allocator;
    const { memory, bounds } = this.#memory;
    const state = this.#memory.reserve(heapStateBytes);
    if (state === undefined) return undefined;
    this.#memory.clear(state, heapStateBytes);
    const gap = this.#freed === undefined ? 0 : 1;
    const allocator = HeapAllocator.create(memory, state, { bounds, limit: this.#limitBytes, gap });
    this.#opened = { state, allocator };
    return allocator;
  }

  /**
   * Allocates a block. Returns the offset, or undefined if the heap is full or the alignment is not supported.
   *
   * @param site the call site that allocates the block, if it is known
   */
  allocate(byteLength: number, alignment: number = leastAlignment, site?: HeapSite): number | undefined {
    const allocator = this.#opened?.allocator ?? this.#open();
    if (allocator === undefined) return undefined;
    let begin = allocator.allocate(byteLength, alignment);
    if (begin === 0) {
      // The gap, and the part of a granule that a block leaves unused, take less than two granules.
      const room = byteLength + 2 * boundsGranuleBytes + alignment;
      if (!this.#addChunk(Math.max(room, chunkBytes - pageBytes))) return undefined;
      begin = allocator.allocate(byteLength, alignment);
    }
    if (begin !== undefined && site !== undefined) this.#sites.set(begin, site);
    return begin;
  }

  /** Frees a block. Returns false if no live block begins at the offset. */
  free(begin: number): boolean {
    const allocator = this.#opened?.allocator;
    if (allocator === undefined) return false;
    if (this.#freed !== undefined) return this.#freeLater(this.#freed, allocator, begin);
    const isFreed = allocator.free(begin);
    if (isFreed && this.#sites.size > 0) this.#sites.delete(begin);
    return isFreed;
  }

  #freeLater(freed: FreedBlocks, allocator: HeapAllocator, begin: number): boolean {
    const byteLength = allocator.revoke(begin);
    if (byteLength === undefined) return false;
    const site = this.#sites.get(begin);
    this.#sites.delete(begin);
    for (const oldest of freed.add({ begin, byteLength, site })) allocator.recycle(oldest);
    return true;
  }

  /** Returns the size in bytes of the live block that begins at an offset, or 0 if there is none. */
  byteLengthAt(begin: number): number {
    return this.#opened?.allocator.byteLengthAt(begin) ?? 0;
  }

  /** The live blocks. */
  *blocks(): Generator<HeapBlock> {
    for (const block of this.#opened?.allocator.blocks() ?? []) {
      yield { ...block, site: this.#sites.get(block.begin) };
    }
  }

  /** Yields the live blocks and, with `findsMistakes`, the freed blocks whose reuse is delayed. */
  *ranges(): Generator<NamedRange> {
    for (const { begin, byteLength, site } of this.blocks()) {
      yield { begin, byteLength, name: nameOfBlock(byteLength, site?.source) };
    }
    for (const { begin, byteLength, site } of this.#freed?.blocks ?? []) {
      const name = `${nameOfBlock(byteLength, site?.source)}, and that was freed`;
      yield { begin, byteLength, name, mistake: "use-after-free" };
    }
  }

  /**
   * Reserves memory for what a launch allocates on other threads, which cannot reserve any: enough for blocks of any
   * size until the limit is reached, or a part of linear memory for small blocks. Until the result is disposed, none of
   * it is released. Returns undefined if linear memory is full.
   */
  prepare(): PreparedHeap | undefined {
    const allocator = this.#open();
    if (allocator === undefined) return undefined;
    this.#preparations++;
    this.#reserveRoom(allocator);
    let isDisposed = false;
    return {
      state: this.#opened!.state,
      [Symbol.dispose]: () => {
        if (!isDisposed) this.#preparations--;
        isDisposed = true;
      },
    };
  }

  #reserveRoom(allocator: HeapAllocator): void {
    const remaining = allocator.remainingBytes;
    const least = Math.min(remaining + chunkBytes, mostOverhead * remaining) - allocator.freeBytes;
    if (least > 0) this.#addChunk(least);
    const most = mostOverhead * remaining - allocator.freeBytes;
    if (most < chunkBytes) return;
    let missing = Math.min(most, this.#memory.freeBytes() / preparedShare - allocator.freeBytes);
    let byteLength = missing;
    while (byteLength >= chunkBytes) {
      if (this.#addChunk(byteLength, { mayReclaim: false })) {
        missing -= byteLength;
        byteLength = Math.min(byteLength, missing);
      } else byteLength /= 2;
    }
  }

  /** The number of bytes that `releaseUnused` can release when no thread needs them. */
  get unusedBytes(): number {
    let unused = 0;
    for (const chunk of this.#chunks) {
      const unusedFrom = this.#opened!.allocator.unusedFrom(chunk);
      unused += chunk.end - (unusedFrom === chunk.begin ? chunk.reserved : unusedFrom);
    }
    return unused;
  }

  /** Releases unused pages at the ends of chunks, unless other threads may need them. */
  releaseUnused(): void {
    if (this.#preparations > 0) return;
    const chunks = this.#chunks;
    this.#chunks = [];
    for (const chunk of chunks) {
      const end = this.#opened!.allocator.removeUnused(chunk);
      const unused = end === chunk.begin ? chunk.reserved : end;
      if (unused < chunk.end) this.#memory.release(unused, chunk.end - unused);
      if (end > chunk.begin) this.#chunks.push({ ...chunk, end });
    }
  }

  /** Releases all memory. */
  close(): void {
    if (this.#opened === undefined) return;
    const { allocator, state } = this.#opened;
    for (const { begin } of allocator.blocks()) allocator.revoke(begin);
    for (const { reserved, end } of this.#chunks) this.#memory.release(reserved, end - reserved);
    this.#memory.release(state, heapStateBytes);
    this.#opened = undefined;
    this.#sites.clear();
    this.#chunks = [];
  }

  /** Reserves memory for blocks. Returns false if linear memory is full. */
  #addChunk(byteLength: number, { mayReclaim = true }: { readonly mayReclaim?: boolean } = {}): boolean {
    const pages = Math.ceil(byteLength / pageBytes);
    const descriptionBytes = Math.ceil(pages / describedPages) * pageBytes;
    const reservedBytes = descriptionBytes + pages * pageBytes;
    const reserved = mayReclaim ? this.#memory.reserve(reservedBytes) : this.#memory.reserveFree(reservedBytes);
    if (reserved === undefined) return false;
    const chunk = { reserved, begin: reserved + descriptionBytes, end: reserved + reservedBytes };
    this.#opened!.allocator.addPages(chunk, reserved);
    this.#chunks.push(chunk);
    return true;
  }
}

/** The most recently freed blocks, whose reuse is delayed. */
class FreedBlocks {
  /** The blocks in the order in which they were freed. */
  readonly blocks = new Set<HeapBlock>();
  #bytes = 0;

  /** Adds a freed block. Yields the oldest freed blocks, which may now be reused. */
  *add(added: HeapBlock): Generator<HeapBlock> {
    this.blocks.add(added);
    this.#bytes += countedBytes(added);
    for (const block of this.blocks) {
      if (this.#bytes <= mostFreedBytes && this.blocks.size <= mostFreedBlocks) return;
      this.blocks.delete(block);
      this.#bytes -= countedBytes(block);
      yield block;
    }
  }
}

function countedBytes({ byteLength }: HeapBlock): number {
  return Math.max(1, Math.ceil(byteLength / leastAlignment)) * leastAlignment;
}
