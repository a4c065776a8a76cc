import { Block, type BlockOwner, blocksOf, type Slab } from "./block.ts";
import { FreeList } from "./free_list.ts";
import { blockAlignment, blockByteLengthFor, maximumBlockByteLength } from "./size_classes.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import { cudaErrorNumbers } from "../../support/cuda_error_codes.ts";
import { checkStream, type CudaStream, whenStreamDisposed } from "../../objects/cuda_stream.ts";
import { countOf, placeOf, printAs } from "../../support/printing.ts";
import { DeviceArray } from "../device_array.ts";
import { Allocation, type SlabPart } from "../allocation.ts";
import { allocationOf, DeviceBuffer } from "../device_buffer.ts";
import { CudaError } from "../../support/errors.ts";
import { cannot, driverErrorOf, ignoreLoss } from "../../support/driver_errors.ts";
import { originOf, reportLeak } from "../../support/leaks.ts";
import type { MemoryPool } from "../memory_pool.ts";
import type { Session } from "../../session.ts";
import { byteLengthOfArray, type TypedArray, type TypedArrayConstructor } from "../../support/typed_array.ts";
import { checkByteLength, whatIs } from "../../support/validation.ts";

/** Options of a new allocator. */
export interface CachingAllocatorOptions {
  /**
   * Bytes that the allocator takes from the pool at a time: more if a buffer needs more, less if less is available. By
   * default it grows with demand, from 2 MiB to 32 MiB.
   */
  slabByteLength?: number;
  /** Maximum number of bytes that the allocator takes from the pool. Defaults to 0, the pool's own limit. */
  maxSize?: number;
}

/** Bytes of an allocator: current values, and the maximum of some since `resetHigh`. */
export interface CachingAllocatorUsage {
  /**
   * Bytes that the allocator has taken from its pool: the sizes of its slabs. Slabs that it has released do not count,
   * even while a read or another process still uses their memory.
   */
  reserved: number;
  /** The maximum of `reserved`. */
  reservedHigh: number;
  /** Bytes of the buffers that `buffers` counts. Each size is rounded up to a multiple of 256. */
  used: number;
  /** The maximum of `used`. */
  usedHigh: number;
  /** Number of buffers that are not freed, or whose memory a read or another process still uses. */
  buffers: number;
  /** Number of slabs, the allocations that the allocator has taken from its pool. */
  slabs: number;
  /** Size in bytes of the largest buffer that fits without another slab, once all streams are idle. */
  largestFree: number;
  /**
   * The fraction of free bytes outside the largest free piece: 0 if all free memory is in one piece, towards 1 if it is
   * scattered.
   */
  fragmentation: number;
}

/** What an allocator needs from its pool. It is an interface, because the pool's module imports this one. */
export interface SlabSource {
  readonly pool: MemoryPool;
  /** Allocates memory that only `freeAsOwner` frees, and that the pool does not report as leaked. */
  allocateSlab(byteLength: number, stream: CudaStream): DeviceBuffer;
  /** Returns `stream`, unchecked, or by default the default stream of the pool's device. */
  allocationStream(stream: CudaStream | undefined): CudaStream;
  /** Calls back once when the user disposes the pool. Returns a function that cancels the callback. */
  whenDisposed(callback: () => void): () => void;
}

const defaultSlabByteLength = 32 * 2 ** 20;
/** How often a stream may take memory that others have freed before it gets a slab of its own. */
const maximumTakesFromOthers = 8;
/**
 * After the pool has refused memory, it is not asked again for this many allocations, unless memory goes back to it.
 */
const skippedRequests = 64;
/** How long to wait for a stream on which a slab was freed to become idle. */
const idleTimeoutMilliseconds = 2;
/** Slab sizes are multiples of this if there is room, because CUDA maps memory in such units. */
const slabAlignment = 2 * 2 ** 20;

/**
 * Hands out parts of large allocations of a pool, called slabs, and reuses freed memory: once the allocator has memory,
 * an allocation makes no driver call.
 *
 * Like the pool, the allocator is stream-ordered. Memory that was freed on a stream is available at once to later
 * allocations on that stream; `free(stream)` may name another stream than the buffer's own. Other streams get the
 * memory when the work before the free is known to be complete. A stream that takes memory from others again and again
 * gets slabs of its own, unless the allocator already holds far more than all streams need. When the pool has no memory
 * left, or `maxSize` is reached, a stream also gets memory that other streams have freed while their work with it is
 * still pending. It then waits for an event before it uses the memory.
 *
 * Slabs go back to the pool when `trimTo` is called, when the allocator is disposed, when there would otherwise be too
 * little memory for a buffer, and when buffers that grow have left many slabs behind. The host waits for work only if
 * there would otherwise be too little memory, and for at most 2 milliseconds.
 *
 * An `Exporter` shares its buffers as parts of their slabs, each of which is exported and mapped once. Comes from
 * `MemoryPool.createCachingAllocator`.
 *
 * @example
 * ```ts
 * import { open } from "./mod.ts";
 *
 * using cuda = open();
 * const gpu = cuda.device(0);
 * using stream = gpu.createStream();
 * using pool = gpu.createPool();
 * using allocator = pool.createCachingAllocator();
 * for (let step = 0; step < 1000; step++) {
 *   using buffer = allocator.allocate(2 ** 20, stream);
 *   buffer.fill(step % 256);
 * }
 * console.log(allocator.usage().slabs); // 1
 * ```
 */
export class CachingAllocator implements Disposable {
  /** The pool that the memory comes from. */
  readonly pool: MemoryPool;
  readonly #session: Session;
  readonly #source: SlabSource;
  readonly #slabByteLength: number;
  /** Whether slabs may be smaller than `#slabByteLength` while little memory is needed. */
  readonly #isSlabSizeAdaptive: boolean;
  readonly #maxSize: number;
  readonly #slabs = new Set<Slab>();
  readonly #blockOwner: BlockOwner;
  /** The free blocks of each stream that is not disposed. */
  readonly #listByStream = new Map<CudaStream, FreeList>();
  /** The free blocks of disposed streams whose work may not be complete. */
  readonly #disposedLists = new Set<FreeList>();
  readonly #cancelByStream = new Map<CudaStream, () => void>();
  /** Blocks that are free for all streams, because the work that used them is complete. */
  readonly #completed: FreeList;
  #lastStream: CudaStream | undefined;
  #lastList: FreeList | undefined;
  #reserved = 0;
  #reservedHigh = 0;
  #used = 0;
  #usedHigh = 0;
  #bufferCount = 0;
  /** Blocks whose buffers were freed while holders keep their memory. */
  readonly #awaitingRelease = new Set<Block>();
  /** Where each buffer was allocated; undefined without POOLPASS_DEBUG=1. */
  readonly #origins: Map<Block, string> | undefined;
  /**
   * Size of the buffer for which the pool last refused a slab; Infinity if it has granted one or got memory back since.
   */
  #refusedByteLength = Infinity;
  /** How many more allocations go without asking the pool again. */
  #requestsToSkip = 0;
  readonly #stopWatchingPool: () => void;
  #isDisposed = false;

  static {
    printAs(this, "CachingAllocator", (allocator) => {
      const bytes = `${allocator.#used} of ${allocator.#reserved} bytes`;
      const state = allocator.#isDisposed
        ? "disposed"
        : `${countOf(allocator.#bufferCount, "buffer")}, ${bytes} in use`;
      return `CachingAllocator { ${placeOf(allocator.pool.device)}, ${state} }`;
    });
  }

  /**
   * Allocators come from `MemoryPool.createCachingAllocator`.
   *
   * @ignore
   */
  constructor(
    session: Session,
    source: SlabSource,
    options: CachingAllocatorOptions = {},
  ) {
    const { slabByteLength = defaultSlabByteLength, maxSize = 0 } = options;
    checkByteLength(slabByteLength, "an allocator's slabByteLength", 1);
    checkByteLength(maxSize, "an allocator's maxSize");
    if (slabByteLength > maximumBlockByteLength) {
      throw new RangeError(
        `Cannot use slabs of ${slabByteLength} bytes: a slab has ${maximumBlockByteLength} bytes at most`,
      );
    }
    this.#session = session;
    this.pool = source.pool;
    this.#source = source;
    this.#slabByteLength = roundUp(slabByteLength, blockAlignment);
    this.#isSlabSizeAdaptive = options.slabByteLength === undefined;
    this.#maxSize = maxSize === 0 ? Infinity : maxSize;
    this.#completed = new FreeList(session, undefined);
    this.#blockOwner = {
      release: (block, stream) => this.#release(block, stream),
      awaitRelease: (block) => this.#awaitingRelease.add(block),
    };
    if (session.debug) this.#origins = new Map();
    this.#stopWatchingPool = source.whenDisposed(() => this[Symbol.dispose]());
  }

  /** The device that the memory is on; undefined for a pool in host memory. */
  get device(): CudaDevice | undefined {
    return this.pool.device;
  }

  /**
   * Allocates memory in stream order: work that is enqueued on the stream afterwards may use it.
   *
   * @param byteLength Size in bytes, at least 1. The address is a multiple of 256.
   * @param stream The stream to allocate on. Defaults to the device's default stream; required for a pool in host
   * memory.
   * @throws {TypeError} If the pool is in host memory and no stream is given, or `stream` is not a stream of the same
   * `Cuda` object
   * @throws {RangeError} If `byteLength` is not a whole number, or is less than 1
   * @throws {ReferenceError} If the allocator or the stream was disposed
   * @throws {CudaError} `cudaErrorMemoryAllocation` if neither the allocator nor its pool has enough memory left
   */
  allocate(byteLength: number, stream?: CudaStream): DeviceBuffer {
    const allocationStream = this.#source.allocationStream(stream);
    return new DeviceBuffer(this.#allocate(byteLength, allocationStream), allocationStream);
  }

  /**
   * Allocates memory for `length` elements of a type, in stream order. Also throws what `allocate` throws.
   *
   * @param type The element type, as the constructor of a typed array, such as `Float32Array`.
   * @param length Number of elements.
   * @param stream The stream to allocate on. Defaults to the device's default stream; required for a pool in host
   * memory.
   * @throws {RangeError} If `length` is not a valid number of elements
   */
  allocateArray<T extends TypedArray>(
    type: TypedArrayConstructor<T>,
    length: number,
    stream?: CudaStream,
  ): DeviceArray<T> {
    const allocationStream = this.#source.allocationStream(stream);
    const byteLength = byteLengthOfArray(type, length);
    return new DeviceArray(type, this.#allocate(byteLength, allocationStream), allocationStream);
  }

  /** Returns how much memory the allocator holds, and how much of it buffers use. */
  usage(): CachingAllocatorUsage {
    let largestFree = 0;
    for (const slab of this.#slabs) {
      let free = 0;
      for (const block of blocksOf(slab)) {
        free = block.freeList === undefined ? 0 : free + block.byteLength;
        largestFree = Math.max(largestFree, free);
      }
    }
    const free = this.#reserved - this.#used;
    return {
      reserved: this.#reserved,
      reservedHigh: this.#reservedHigh,
      used: this.#used,
      usedHigh: this.#usedHigh,
      buffers: this.#bufferCount,
      slabs: this.#slabs.size,
      largestFree,
      fragmentation: free === 0 ? 0 : 1 - largestFree / free,
    };
  }

  /** Resets `reservedHigh` and `usedHigh` to the current values. */
  resetHigh(): void {
    this.#reservedHigh = this.#reserved;
    this.#usedHigh = this.#used;
  }

  /**
   * Releases slabs without buffers to the pool, in stream order, until at most `byteLength` bytes are held or no more
   * slabs can go. `MemoryPool.trimTo` can then release them to the system. Also resets the record of how much memory
   * each stream needs.
   *
   * @param byteLength Bytes to keep; 0 releases every slab that has no buffers.
   * @throws {RangeError} If `byteLength` is not a whole number, or is negative
   * @throws {ReferenceError} If the allocator was disposed
   */
  trimTo(byteLength: number): void {
    checkByteLength(byteLength, "the bytes to keep");
    this.#checkUsable();
    try {
      this.#releaseSlabs(byteLength);
      for (const list of this.#listByStream.values()) list.usedHigh = list.used;
    } catch (error) {
      throw cannot(`trim ${this.#name}`, driverErrorOf(error));
    }
  }

  /**
   * Returns the slab of a buffer and the buffer's offset in it, for sharing without an `Exporter`: send the result of
   * the slab's `exportPointer`, and the offset. The other process maps the slab, and the buffer starts at the offset.
   *
   * @param buffer A buffer of this allocator, or a part of one.
   * @throws {ReferenceError} If the buffer was freed
   * @throws {TypeError} If the buffer was not allocated from this allocator
   */
  slabOf(buffer: DeviceBuffer): SlabPart {
    if (!(buffer instanceof DeviceBuffer)) {
      throw new TypeError(`Cannot find the slab of ${whatIs(buffer)}: give a buffer of this allocator`);
    }
    const { address } = buffer;
    const { owner, address: begin } = allocationOf(buffer);
    for (const { buffer: slab } of this.#slabs) {
      if (slab !== owner.part?.slab) continue;
      return { slab, byteOffset: owner.part.byteOffset + Number(address - begin) };
    }
    throw new TypeError("Cannot find the slab of the buffer: it was not allocated from this allocator");
  }

  /**
   * Releases all slabs to the pool, in stream order. A slab with buffers that are not freed stays until they are. Such
   * buffers are reported in the same way as those that a `MemoryPool` reports.
   */
  [Symbol.dispose](): void {
    if (!this.#isDisposed) {
      this.#isDisposed = true;
      this.#stopWatchingPool();
      if (!this.#session.hasEnded) this.#reportLeaks();
    }
    // If a release fails, a later call continues here.
    if (this.#session.hasEnded) return;
    ignoreLoss(() => this.#releaseSlabs(0));
    this.#closeIfUnused();
  }

  get #name(): string {
    return this.device === undefined
      ? "the allocator in host memory"
      : `the allocator on device ${this.device.ordinal}`;
  }

  #checkUsable(): void {
    if (this.#isDisposed) throw new ReferenceError(`Cannot use ${this.#name}: it was disposed`);
    void this.#session.driver.mallocFromPoolAsync;
  }

  #reportLeaks(): void {
    const freed = [...this.#awaitingRelease];
    reportLeak({
      count: this.#bufferCount - freed.length,
      byteLength: freed.reduce((sum, { byteLength }) => sum - byteLength, this.#used),
      before: `${this.#name} was disposed`,
      origins: [...this.#origins ?? []].filter(([block]) => !this.#awaitingRelease.has(block))
        .map(([, origin]) => origin),
    });
  }

  #allocate(byteLength: number, stream: CudaStream): Allocation {
    if (!Number.isSafeInteger(byteLength) || byteLength < 1) checkByteLength(byteLength, "an allocation's size", 1);
    if (this.#isDisposed || this.#session.hasEnded) this.#checkUsable();
    const list = stream === this.#lastStream ? this.#lastList! : this.#listOf(stream);
    const size = blockByteLengthFor(byteLength);
    const block = list.takeUnmerged(size) ?? this.#search(size, list);
    block.usedBy = list;
    list.used += size;
    if (list.used > list.usedHigh) list.usedHigh = list.used;
    this.#bufferCount++;
    this.#used += size;
    if (this.#used > this.#usedHigh) this.#usedHigh = this.#used;
    this.#origins?.set(block, originOf(byteLength));
    return new Allocation(this.#session, block, this.pool, block.address, byteLength, this.device ?? stream.device);
  }

  #release(block: Block, stream: CudaStream): void {
    // Throws if the Cuda object was disposed, as the free of any other buffer does.
    if (this.#session.hasEnded) void this.#session.driver.freeAsync;
    // The block is free already if an earlier call has freed it and then failed to release the slab.
    if (block.freeList === undefined) {
      const list = stream === this.#lastStream ? this.#lastList! : this.#listOf(stream);
      list.add(block);
      block.usedBy!.used -= block.byteLength;
      this.#bufferCount--;
      this.#used -= block.byteLength;
      if (this.#awaitingRelease.size > 0) this.#awaitingRelease.delete(block);
      this.#origins?.delete(block);
    }
    if (!this.#isDisposed) return;
    ignoreLoss(() => this.#releaseSlab(block.slab));
    this.#closeIfUnused();
  }

  #listOf(stream: CudaStream): FreeList {
    checkStream(stream, this.#session);
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
    // A program may use a new stream for each task: each disposal collects older lists too, so that they do not pile
    // up.
    for (const oldest of [...this.#disposedLists.values().take(2), list]) this.#collectDisposed(oldest);
  }

  /** Returns a block when the stream has no unmerged block of the size. */
  #search(byteLength: number, list: FreeList): Block {
    try {
      if (byteLength > this.#maxSize) throw outOfMemory(`its maxSize is ${this.#maxSize} bytes`);
      if (byteLength > maximumBlockByteLength) {
        throw outOfMemory(`a buffer has ${maximumBlockByteLength} bytes at most`);
      }
      return list.takeBestFit(byteLength) ?? this.#takeFromOthers(byteLength, list) ??
        this.#takeNew(byteLength, list);
    } catch (error) {
      const hint = isOutOfMemory(error)
        ? `it holds ${this.#reserved} bytes, of which ${this.#used} are in use; free memory or ask for less`
        : undefined;
      throw cannot(`allocate ${byteLength} bytes from ${this.#name}`, driverErrorOf(error), hint);
    }
  }

  /** Takes a block whose work on other streams is complete, unless the stream should get a slab of its own. */
  #takeFromOthers(byteLength: number, list: FreeList): Block | undefined {
    // The bound matters if buffers are always freed on other streams than the one that allocates: without it, the
    // stream would get new slabs forever.
    const needsOwn = list.takenFromOthers >= maximumTakesFromOthers &&
      this.#reserved < 2 * this.#neededFor(byteLength, list);
    if (needsOwn) return undefined;
    const block = this.#takeCompleted(byteLength, list);
    if (block !== undefined) list.takenFromOthers++;
    return block;
  }

  /** Takes a block that other streams have freed and whose work is complete. */
  #takeCompleted(byteLength: number, list: FreeList): Block | undefined {
    const block = this.#completed.takeBestFit(byteLength);
    if (block !== undefined) return block;
    this.#collectCompleted(list);
    return this.#completed.takeBestFit(byteLength);
  }

  /** Moves blocks whose work is known to be complete to `#completed`, where all streams find them. */
  #collectCompleted(except?: FreeList): void {
    for (const list of this.#listByStream.values()) {
      // If another device is lost, the calls that use it report so.
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

  /** Returns how many bytes the streams would need if each had memory of its own. */
  #neededFor(byteLength: number, list: FreeList): number {
    let needed = Math.max(0, list.used + byteLength - list.usedHigh);
    for (const { usedHigh } of this.#listByStream.values()) needed += usedHigh;
    // Buffers that were allocated on disposed streams count, too.
    return Math.max(needed, this.#used + byteLength);
  }

  /**
   * Takes a block of a new slab. If the pool refuses one, takes a block that another stream has freed, even if its work
   * with the block is pending.
   */
  #takeNew(byteLength: number, list: FreeList): Block {
    list.takenFromOthers = 0;
    this.#releaseSurplus(byteLength, list);
    const wasJustRefused = this.#wasJustRefused(byteLength);
    if (!wasJustRefused && this.#grow(byteLength, list) === undefined) return list.takeBestFit(byteLength)!;
    const block = this.#takeCompleted(byteLength, list) ?? this.#takePending(byteLength, list);
    if (block !== undefined) return block;
    if (wasJustRefused && this.#grow(byteLength, list) === undefined) return list.takeBestFit(byteLength)!;
    // Releasing smaller slabs may make room for a larger one: at once, or when the pool learns that their frees are
    // complete.
    const streams = this.#releaseSlabs(0);
    let lastRefusal = this.#grow(byteLength, list);
    if (lastRefusal !== undefined && streams.size > 0) {
      const deadline = performance.now() + idleTimeoutMilliseconds;
      for (const stream of streams) if (becomesIdle(stream, deadline)) stream.synchronize();
      lastRefusal = this.#grow(byteLength, list);
    }
    if (lastRefusal !== undefined) throw lastRefusal;
    return list.takeBestFit(byteLength)!;
  }

  /** Bounds the memory of all slabs: buffers that grow leave slabs behind that are too small for later ones. */
  #releaseSurplus(byteLength: number, list: FreeList): void {
    if (byteLength <= this.#slabByteLength) return;
    const bound = 4 * this.#neededFor(byteLength, list);
    if (this.#reserved + byteLength > bound) this.#releaseIdle(bound - byteLength);
  }

  /**
   * Whether the pool has recently refused as many bytes and got none back since: asking it again is expensive. Uses up
   * one of `#requestsToSkip`.
   */
  #wasJustRefused(byteLength: number): boolean {
    return byteLength >= this.#refusedByteLength && this.#requestsToSkip-- > 0;
  }

  /** Takes a block for which another stream's work is pending, and makes the list's stream wait for that work. */
  #takePending(byteLength: number, list: FreeList): Block | undefined {
    const stream = list.stream!;
    const others = [...this.#listByStream.values(), ...this.#disposedLists].filter((other) => other !== list);
    for (const other of others) {
      let block: Block | undefined;
      ignoreLoss(() => block = other.takeBestFitFor(stream, byteLength));
      if (block !== undefined) return block;
    }
    if (this.usage().largestFree < byteLength) return undefined;
    // Adjacent free blocks of different lists are large enough together: collect them in one list.
    this.#completed.moveTo(list);
    for (const other of others) {
      const block = list.takeBestFit(byteLength);
      if (block !== undefined) return block;
      if (other.isEmpty) continue;
      ignoreLoss(() => {
        other.makeStreamWait(stream);
        other.moveTo(list);
      });
    }
    return list.takeBestFit(byteLength);
  }

  /** Takes a slab from the pool. Returns the pool's error if there is too little memory. */
  #grow(byteLength: number, list: FreeList): CudaError | undefined {
    const room = this.#maxSize - this.#reserved;
    if (byteLength > room) return outOfMemory(`its maxSize is ${this.#maxSize} bytes`);
    const aligned = roundUp(byteLength, Math.min(slabAlignment, this.#slabByteLength));
    const most = Math.min(room, maximumBlockByteLength);
    const sizes = [Math.max(aligned, this.#slabSizeFor(byteLength, list)), aligned, byteLength]
      .map((size) => Math.min(size, most - most % blockAlignment));
    let refusal: CudaError | undefined;
    for (const size of new Set(sizes)) {
      try {
        const slab = this.#source.allocateSlab(size, list.stream!);
        const block = Block.ofSlab(this.#blockOwner, slab);
        this.#slabs.add(block.slab);
        this.#reserved += size;
        this.#reservedHigh = Math.max(this.#reservedHigh, this.#reserved);
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

  /** Returns the size of a slab for small buffers, which is smaller while little memory is needed. */
  #slabSizeFor(byteLength: number, list: FreeList): number {
    if (!this.#isSlabSizeAdaptive) return this.#slabByteLength;
    const needed = roundUp(2 * this.#neededFor(byteLength, list), slabAlignment);
    return Math.min(needed, this.#slabByteLength);
  }

  /**
   * Releases slabs without used blocks until at most `byteLength` bytes are held. Returns the streams that free them.
   */
  #releaseSlabs(byteLength: number): Set<CudaStream> {
    this.#collectCompleted();
    return this.#releaseIdle(byteLength);
  }

  #releaseIdle(byteLength: number): Set<CudaStream> {
    const streams = new Set<CudaStream>();
    for (const slab of [...this.#slabs].reverse()) {
      if (this.#reserved <= byteLength) break;
      // A slab that was used on a lost device stays.
      ignoreLoss(() => {
        const stream = this.#releaseSlab(slab);
        if (stream !== undefined) streams.add(stream);
      });
    }
    return streams;
  }

  /** Releases a slab after all work with it, unless one of its blocks is used. Returns the stream that frees it. */
  #releaseSlab(slab: Slab): CudaStream | undefined {
    const freeLists = new Set<FreeList>();
    for (const { freeList } of blocksOf(slab)) {
      if (freeList === undefined) return undefined;
      freeLists.add(freeList);
    }
    for (const freeList of freeLists) freeList.mergeAll();
    freeLists.delete(this.#completed);
    const streams = [...freeLists].map(({ stream }) => stream).filter((stream) => stream !== undefined);
    const { stream: own, device } = slab.buffer;
    const stream = streams[0] ?? (own.disposed ? device.defaultStream : own);
    for (const freeList of freeLists) if (freeList.stream !== stream) freeList.makeStreamWait(stream);
    allocationOf(slab.buffer).free(stream);
    this.#refusedByteLength = Infinity;
    for (const block of [...blocksOf(slab)]) block.freeList!.remove(block);
    this.#slabs.delete(slab);
    this.#reserved -= slab.buffer.byteLength;
    return stream;
  }

  /** Releases the resources of a disposed allocator when it has no slabs left. */
  #closeIfUnused(): void {
    if (this.#slabs.size > 0) return;
    for (const cancel of this.#cancelByStream.values()) cancel();
    for (const list of [...this.#listByStream.values(), ...this.#disposedLists]) list.close();
    this.#cancelByStream.clear();
    this.#listByStream.clear();
    this.#disposedLists.clear();
    this.#lastStream = this.#lastList = undefined;
  }
}

/** Waits until the deadline for a stream to become idle. Returns whether it did. */
function becomesIdle(stream: CudaStream, deadline: number): boolean {
  do {
    if (stream.query()) return true;
  } while (performance.now() < deadline);
  return false;
}

function outOfMemory(why: string): CudaError {
  return new CudaError(cudaErrorNumbers.cudaErrorMemoryAllocation, "cudaMallocFromPoolAsync", why);
}

function isOutOfMemory(error: unknown): error is CudaError {
  return error instanceof CudaError && error.code === "cudaErrorMemoryAllocation";
}

function roundUp(byteLength: number, alignment: number): number {
  return Math.ceil(byteLength / alignment) * alignment;
}
