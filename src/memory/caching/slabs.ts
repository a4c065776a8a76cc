import { type BlockOwner, blocksOf, largestFreeOf, type Slab, SlabBlock, usedBlocksOf } from "./block.ts";
import { blockAlignment, maximumSlabByteLengthFor, refusalOfSlab } from "./allocator_options.ts";
import { FreeList } from "./free_list.ts";
import { checkStream, type CudaStream, whenStreamDisposed } from "../../objects/streams/cuda_stream.ts";
import { allocateOptions } from "../pools/allocation_queue.ts";
import { allocationOf, type DeviceBuffer } from "../device_buffer.ts";
import { synchronizeSoonIdle } from "../freed_streams.ts";
import type { BlockSnapshot } from "../snapshots/memory_snapshot.ts";
import type { CacheMemory } from "../pools/memory_registry.ts";
import { isOutOfMemory, outOfMemory, type SizeRefusal } from "../pools/pool_contents.ts";
import type { CudaError } from "../../support/errors.ts";
import { ignoreLoss } from "../../support/driver_errors.ts";
import { roundUp } from "../../support/rounding.ts";
import type { MemoryPool } from "../pools/memory_pool.ts";
import type { Session } from "../../session.ts";

/**
 * The operations of a pool that an allocator uses. An interface, because importing the pool's class here would create
 * an import cycle.
 */
export interface SlabSource {
  readonly pool: MemoryPool;
  /** Allocates memory that the user may not free, and that the pool does not report as leaked. */
  allocateSlab(byteLength: number, stream: CudaStream): DeviceBuffer;
  /** Returns `stream` without checking it, or the default stream of the pool's device if `stream` is undefined. */
  allocationStream(stream: CudaStream | undefined): CudaStream;
  /** Returns why an allocation of `byteLength` bytes from the pool can never succeed; undefined if it can. */
  refusal(byteLength: number): SizeRefusal | undefined;
  /** Returns the maximum number of bytes that the pool can provide, if known. */
  limit(): number;
  /**
   * Describes the memory of the device's other pools, for the error of an allocation of `byteLength` bytes. Returns
   * undefined if they have none, or if the allocation would exceed the pool's own limit.
   */
  describeOthers(byteLength: number): string | undefined;
  /**
   * Reclaims unused memory for an allocation of `byteLength` bytes, including that of other caching allocators. Returns
   * whether more may be available now. With `mayBlock`, the host may wait for streams.
   */
  reclaim(byteLength: number, options: { except: CacheMemory; mayBlock: boolean }): boolean;
  /** Calls `callback` once when the user disposes the pool. Returns a function that cancels the callback. */
  whenDisposed(callback: () => void): () => void;
}

/** Options of the slabs of an allocator. */
export interface SlabsOptions {
  readonly source: SlabSource;
  /** The usual size of a slab in bytes, a multiple of `blockAlignment`. */
  readonly slabByteLength: number;
  /** Whether slabs may be smaller than `slabByteLength` while little memory is needed. */
  readonly isSlabSizeAdaptive: boolean;
  /** Maximum number of bytes of all slabs together; Infinity for no maximum. */
  readonly maxSize: number;
  readonly blockOwner: BlockOwner;
}

/** Number of times that a stream may take memory freed by other streams before it gets a slab of its own. */
const maximumTakesFromOthers = 8;
/**
 * Once the pool has refused an allocation, the allocator does not ask it for memory for this number of further
 * allocations, unless memory is returned to the pool.
 */
const skippedRequests = 64;
/**
 * The fraction of the memory limit above which memory is scarce. Large buffers then get slabs of their own: otherwise,
 * long-lived buffers would leave no slab that can be released, and no free piece that is large enough.
 */
const scarceFraction = 1 / 4;
/** Buffers are large if they have at least this many bytes, or at least this fraction of the memory limit. */
const large = { byteLength: 2 ** 20, fraction: 1 / 256 };
/** When memory is scarce, the maximum size of a slab for small buffers as a fraction of the memory limit. */
const scarceSlabFraction = 1 / 64;
/** Slab sizes are multiples of this many bytes if space permits, because CUDA maps memory in units of 2 MiB. */
const slabAlignment = 2 * 2 ** 20;

/** The slabs of an allocator, and the search for free blocks in them. */
export class Slabs implements CacheMemory {
  /** Bytes of all slabs. */
  reserved = 0;
  /** The maximum of `reserved` since the last reset. */
  reservedHigh = 0;
  /** Bytes of the blocks that buffers use. */
  used = 0;
  /** The maximum of `used` since the last reset. */
  usedHigh = 0;
  readonly #session: Session;
  readonly #source: SlabSource;
  readonly #slabByteLength: number;
  readonly #isSlabSizeAdaptive: boolean;
  readonly #maxSize: number;
  readonly #blockOwner: BlockOwner;
  readonly #slabs = new Set<Slab>();
  /** The maximum number of bytes that the allocator can have. Determined when it first grows. */
  #limit: number | undefined;
  /** The free blocks of each stream that is not disposed. */
  readonly #listByStream = new Map<CudaStream, FreeList>();
  /** The free blocks of disposed streams whose work may not be complete. */
  readonly #disposedLists = new Set<FreeList>();
  readonly #cancelByStream = new Map<CudaStream, () => void>();
  /** Blocks that any stream may use, because the work that used them is complete. */
  readonly #completed: FreeList;
  #lastStream: CudaStream | undefined;
  #lastList: FreeList | undefined;
  /**
   * Size in bytes of the buffer for which the pool last refused to allocate a slab. Infinity if a slab has been
   * allocated from the pool or freed to it since.
   */
  #refusedByteLength = Infinity;
  /** Whether there may be slabs that no buffer uses and that `limitUnused` has not yet released. */
  #mayHaveIdle = true;
  /**
   * Number of upcoming allocations for which the pool is not tried, on the assumption that it is still out of memory.
   */
  #requestsToSkip = 0;

  constructor(session: Session, options: SlabsOptions) {
    this.#session = session;
    this.#source = options.source;
    this.#slabByteLength = options.slabByteLength;
    this.#isSlabSizeAdaptive = options.isSlabSizeAdaptive;
    this.#maxSize = options.maxSize;
    this.#blockOwner = options.blockOwner;
    this.#completed = new FreeList(session, undefined);
  }

  get pool(): MemoryPool {
    return this.#source.pool;
  }

  get count(): number {
    return this.#slabs.size;
  }

  [Symbol.iterator](): Iterator<Slab> {
    return this.#slabs.values();
  }

  *slabBlocks(): Generator<{ address: bigint; blocks: BlockSnapshot[] }> {
    for (const slab of this.#slabs) {
      const blocks = Array.from(blocksOf(slab), ({ byteOffset, byteLength, freeList }): BlockSnapshot => {
        return { byteOffset, byteLength, state: freeList === undefined ? "used" : "free" };
      });
      yield { address: slab.address, blocks };
    }
  }

  buffers(): Iterable<SlabBlock> {
    return usedBlocksOf(this);
  }

  /** Returns the free list of a stream. */
  listOf(stream: CudaStream): FreeList {
    return stream === this.#lastStream ? this.#lastList! : this.#otherListOf(stream);
  }

  /**
   * Finds a block of `byteLength` bytes for a stream. `list` is the stream's free list, which has no unmerged block of
   * exactly this size.
   *
   * @param options.mayBlock Whether the host may wait for streams. Defaults to true.
   * @throws {CudaError} `cudaErrorMemoryAllocation` if neither the slabs nor the pool have enough memory left
   */
  search(byteLength: number, list: FreeList, { mayBlock = true }: { mayBlock?: boolean } = {}): SlabBlock {
    if (byteLength > this.#maxSize) throw outOfMemory(`its maxSize is ${this.#maxSize} bytes`);
    const refusal = refusalOfSlab(byteLength, this.pool);
    if (refusal !== undefined) throw outOfMemory(refusal.why);
    return list.takeBestFit(byteLength) ?? this.#takeFromOthers(byteLength, list) ??
      this.#takeNew(byteLength, list, mayBlock);
  }

  /**
   * Releases slabs until at most `byteLength` bytes are held. Resets the record of how much memory each stream needs.
   */
  trimTo(byteLength: number): void {
    this.#collectCompleted();
    this.#releaseIdle(byteLength);
    for (const list of this.#listByStream.values()) list.usedHigh = list.used;
  }

  /** Releases all slabs without used blocks. Returns the streams on which they are freed. */
  releaseUnused(): Set<CudaStream> {
    this.#collectCompleted();
    return this.#releaseIdle(0);
  }

  /**
   * Releases slabs without used blocks until at most `maxUnused` bytes are unused. `freed` is the slab whose block was
   * just freed.
   */
  limitUnused(maxUnused: number, freed: Slab): void {
    if (this.reserved - this.used <= maxUnused) {
      this.#mayHaveIdle = true;
    } else if (this.#mayHaveIdle || isIdle(freed)) {
      this.#collectCompleted();
      this.#releaseIdle(this.used + maxUnused);
      this.#mayHaveIdle = this.reserved - this.used <= maxUnused;
    }
  }

  /**
   * Frees a slab in stream order, after all work that uses it. Returns the stream on which the slab is freed. Does
   * nothing and returns undefined if a buffer uses one of the slab's blocks, or a stream that has used it is captured.
   */
  release(slab: Slab): CudaStream | undefined {
    const freeLists = new Set<FreeList>();
    for (const { freeList } of blocksOf(slab)) {
      if (freeList === undefined) return undefined;
      freeLists.add(freeList);
    }
    for (const freeList of freeLists) freeList.mergeAll();
    freeLists.delete(this.#completed);
    const streams = [...freeLists].map(({ stream }) => stream).filter((stream) => stream !== undefined);
    if (streams.some(({ isCapturing }) => isCapturing)) return undefined;
    const { stream: own, device } = slab.buffer;
    const stream = streams[0] ?? (own.disposed ? device.defaultStream : own);
    for (const freeList of freeLists) if (freeList.stream !== stream) freeList.makeStreamWait(stream);
    allocationOf(slab.buffer).free(stream);
    this.#refusedByteLength = Infinity;
    for (const block of [...blocksOf(slab)]) block.freeList!.remove(block);
    this.#slabs.delete(slab);
    this.reserved -= slab.buffer.byteLength;
    return stream;
  }

  /** Releases the resources of a disposed allocator when it has no slabs left. */
  closeIfEmpty(): void {
    if (this.#slabs.size > 0) return;
    for (const cancel of this.#cancelByStream.values()) cancel();
    for (const list of [...this.#listByStream.values(), ...this.#disposedLists]) list.close();
    this.#cancelByStream.clear();
    this.#listByStream.clear();
    this.#disposedLists.clear();
    this.#lastStream = this.#lastList = undefined;
  }

  #otherListOf(stream: CudaStream): FreeList {
    checkStream(stream, this.#session, allocateOptions.usage);
    void stream.unsafeHandle;
    let list = this.#listByStream.get(stream);
    if (list === undefined) {
      list = new FreeList(this.#session, stream);
      this.#listByStream.set(stream, list);
      this.#cancelByStream.set(stream, whenStreamDisposed(stream, () => this.#onStreamDisposed(stream)));
    }
    this.#lastStream = stream;
    this.#lastList = list;
    return list;
  }

  /** Detaches the free list of a stream that is about to be destroyed. */
  #onStreamDisposed(stream: CudaStream): void {
    const list = this.#listByStream.get(stream)!;
    list.detachStream();
    this.#cancelByStream.get(stream)!();
    this.#cancelByStream.delete(stream);
    this.#listByStream.delete(stream);
    this.#lastStream = this.#lastList = undefined;
    this.#disposedLists.add(list);
    // A program may use a new stream for each task, so each disposal also processes two older lists, to keep their
    // number low.
    for (const oldest of [...this.#disposedLists.values().take(2), list]) this.#collectDisposed(oldest);
  }

  /**
   * Removes and returns a block that other streams have freed, and that no pending work uses. Returns undefined if
   * there is none, or if the stream should get a slab of its own.
   */
  #takeFromOthers(byteLength: number, list: FreeList): SlabBlock | undefined {
    // The comparison with `reserved` is for programs in which one stream allocates all buffers and another one frees
    // them: without it, the allocating stream would get new slabs forever.
    const needsOwn = list.takenFromOthers >= maximumTakesFromOthers &&
      this.reserved < 2 * this.#neededFor(byteLength, list);
    if (needsOwn) return undefined;
    const block = this.#takeCompleted(byteLength, list);
    if (block !== undefined) list.takenFromOthers++;
    return block;
  }

  /**
   * Removes and returns a block that other streams have freed, and that no pending work uses; undefined if there is
   * none.
   */
  #takeCompleted(byteLength: number, list: FreeList): SlabBlock | undefined {
    const block = this.#completed.takeBestFit(byteLength);
    if (block !== undefined) return block;
    this.#collectCompleted(list);
    return this.#completed.takeBestFit(byteLength);
  }

  /** Moves the blocks that no pending work uses to `#completed`, from which all streams may take them. */
  #collectCompleted(except?: FreeList): void {
    for (const list of this.#listByStream.values()) {
      // Ignores the loss of another stream's device, which is reported by the calls that use that device.
      if (list !== except) ignoreLoss(() => list.moveCompletedTo(this.#completed));
    }
    for (const list of [...this.#disposedLists]) this.#collectDisposed(list);
  }

  #collectDisposed(list: FreeList): void {
    this.#disposedLists.delete(list);
    ignoreLoss(() => list.moveCompletedTo(this.#completed));
    if (list.isEmpty) list.close();
    else this.#disposedLists.add(list);
  }

  /** Returns the number of bytes that all streams together would need if none used memory freed by another. */
  #neededFor(byteLength: number, list: FreeList): number {
    let needed = Math.max(0, list.used + byteLength - list.usedHigh);
    for (const { usedHigh } of this.#listByStream.values()) needed += usedHigh;
    // Buffers that were allocated on disposed streams count too.
    return Math.max(needed, this.used + byteLength);
  }

  /**
   * Takes a block from a new slab. If the pool refuses a slab, takes a block that another stream has freed, even if
   * pending work still uses the block.
   */
  #takeNew(byteLength: number, list: FreeList, mayBlock: boolean): SlabBlock {
    list.takenFromOthers = 0;
    this.#releaseSurplus(byteLength, list);
    const wasJustRefused = this.#wasJustRefused(byteLength);
    if (!wasJustRefused && this.#grow(byteLength, list) === undefined) return list.takeBestFit(byteLength)!;
    let block = this.#takeCompleted(byteLength, list) ?? this.#takePending(byteLength, list);
    const isScarce = this.#isScarce(0);
    if (!isScarce) block ??= this.#takeCombined(byteLength, list);
    if (block !== undefined) return block;
    if (wasJustRefused && this.#grow(byteLength, list) === undefined) return list.takeBestFit(byteLength)!;
    // Releasing smaller slabs may make room for a larger one, either at once or when the pool finds that their frees
    // are complete.
    const streams = this.releaseUnused();
    let lastRefusal = this.#grow(byteLength, list);
    if (isScarce && lastRefusal !== undefined) block = this.#takeCombined(byteLength, list);
    if (block !== undefined) return block;
    if (lastRefusal !== undefined && streams.size > 0 && mayBlock) {
      synchronizeSoonIdle(streams);
      lastRefusal = this.#grow(byteLength, list);
    }
    const isRefusedByPool = lastRefusal !== undefined && byteLength <= this.#maxSize - this.reserved;
    if (isRefusedByPool && this.#source.reclaim(byteLength, { except: this, mayBlock })) {
      lastRefusal = this.#grow(byteLength, list);
    }
    if (lastRefusal !== undefined) throw lastRefusal;
    return list.takeBestFit(byteLength)!;
  }

  /**
   * Releases unused slabs if the slabs are much larger in total than needed: a program that allocates ever larger
   * buffers leaves behind slabs that are too small for the next buffer.
   */
  #releaseSurplus(byteLength: number, list: FreeList): void {
    if (this.#isDedicated(byteLength)) {
      // Unused slabs for single buffers serve only buffers of similar sizes.
      const most = 2 * Math.max(this.usedHigh, this.used + byteLength);
      if (this.reserved + byteLength > most) this.#releaseIdle(most - byteLength);
    }
    if (byteLength <= this.#slabByteLength) return;
    const bound = 4 * this.#neededFor(byteLength, list);
    if (this.reserved + byteLength > bound) this.#releaseIdle(bound - byteLength);
  }

  /**
   * Returns whether the pool has recently refused an allocation of at most `byteLength` bytes, and no slab has been
   * freed since. Another attempt, which is expensive, would then most likely fail. Decrements `#requestsToSkip`.
   */
  #wasJustRefused(byteLength: number): boolean {
    return byteLength >= this.#refusedByteLength && this.#requestsToSkip-- > 0;
  }

  /** Takes a block that another stream's pending work uses, and makes the list's stream wait for that work. */
  #takePending(byteLength: number, list: FreeList): SlabBlock | undefined {
    const stream = list.stream!;
    for (const other of this.#othersThan(list)) {
      let block: SlabBlock | undefined;
      ignoreLoss(() => block = other.takeBestFitFor(stream, byteLength));
      if (block !== undefined) return block;
    }
    return undefined;
  }

  /**
   * Takes a block that consists of blocks freed by several streams, and makes the list's stream wait for the work of
   * those streams.
   */
  #takeCombined(byteLength: number, list: FreeList): SlabBlock | undefined {
    if (largestFreeOf(this) < byteLength) return undefined;
    const stream = list.stream!;
    // Adjacent free blocks of different lists may be large enough when merged: move them all into one list.
    this.#completed.moveTo(list);
    for (const other of this.#othersThan(list)) {
      const block = list.takeAnyFit(byteLength);
      if (block !== undefined) return block;
      if (other.isEmpty) continue;
      ignoreLoss(() => {
        other.makeStreamWait(stream);
        other.moveTo(list);
      });
    }
    return list.takeAnyFit(byteLength);
  }

  #othersThan(list: FreeList): FreeList[] {
    // No stream can wait for the work of a stream that is being captured.
    return [...this.#listByStream.values(), ...this.#disposedLists].filter((other) => {
      return other !== list && !other.stream?.isCapturing;
    });
  }

  /** Returns whether memory would be scarce if the slabs grew by `more` bytes. */
  #isScarce(more: number): boolean {
    if (!this.#isSlabSizeAdaptive) return false;
    return this.reserved + more > scarceFraction * this.#memoryLimit();
  }

  /** Returns whether a new slab for a buffer of `byteLength` bytes is for that buffer alone. */
  #isDedicated(byteLength: number): boolean {
    return this.#isScarce(byteLength) &&
      byteLength >= Math.min(large.byteLength, large.fraction * this.#memoryLimit());
  }

  /** Returns the maximum number of bytes that the allocator can have, by its own limit, its pool's and the device's. */
  #memoryLimit(): number {
    return this.#limit ??= Math.min(this.#maxSize, this.#source.limit());
  }

  /** Allocates a slab from the pool. Returns the pool's error if too little memory is left. */
  #grow(byteLength: number, list: FreeList): CudaError | undefined {
    const room = this.#maxSize - this.reserved;
    if (byteLength > room) return outOfMemory(`its maxSize is ${this.#maxSize} bytes`);
    const aligned = roundUp(byteLength, Math.min(slabAlignment, this.#slabByteLength));
    const most = Math.min(room, maximumSlabByteLengthFor(this.pool));
    const isDedicated = this.#isDedicated(byteLength);
    const sizes = isDedicated
      ? [byteLength]
      : [Math.max(aligned, this.#slabSizeFor(byteLength, list)), aligned, byteLength]
        .map((size) => Math.min(size, most - most % blockAlignment));
    let refusal: CudaError | undefined;
    for (const size of new Set(sizes)) {
      try {
        const slab = this.#source.allocateSlab(size, list.stream!);
        const block = SlabBlock.ofSlab(this.#blockOwner, slab, isDedicated);
        this.#slabs.add(block.slab);
        this.reserved += size;
        this.reservedHigh = Math.max(this.reservedHigh, this.reserved);
        list.insert(block);
        this.#refusedByteLength = Infinity;
        return undefined;
      } catch (error) {
        if (!isOutOfMemory(error)) throw error;
        refusal = error;
      }
    }
    this.#refusedByteLength = byteLength;
    this.#requestsToSkip = skippedRequests;
    return refusal;
  }

  /**
   * Returns the size in bytes of a new slab for small buffers. While the program needs little memory, slabs are smaller
   * than `#slabByteLength`.
   */
  #slabSizeFor(byteLength: number, list: FreeList): number {
    if (!this.#isSlabSizeAdaptive) return this.#slabByteLength;
    const needed = roundUp(2 * this.#neededFor(byteLength, list), slabAlignment);
    const scarceSize = Math.max(roundUp(scarceSlabFraction * this.#memoryLimit(), slabAlignment), slabAlignment);
    const most = this.#isScarce(needed) ? Math.min(scarceSize, this.#slabByteLength) : this.#slabByteLength;
    return Math.min(needed, most);
  }

  /**
   * Releases slabs without used blocks until at most `byteLength` bytes are held. Returns the streams on which they are
   * freed.
   */
  #releaseIdle(byteLength: number): Set<CudaStream> {
    const streams = new Set<CudaStream>();
    for (const slab of [...this.#slabs].reverse()) {
      if (this.reserved <= byteLength) break;
      // If the slab's device is lost, keeps the slab.
      ignoreLoss(() => {
        const stream = this.release(slab);
        if (stream !== undefined) streams.add(stream);
      });
    }
    return streams;
  }
}

function isIdle(slab: Slab): boolean {
  for (const { freeList } of blocksOf(slab)) if (freeList === undefined) return false;
  return true;
}
