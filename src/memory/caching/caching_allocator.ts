import { Block, type BlockOwner, blocksOf, type Slab } from "./block.ts";
import { FreeList } from "./free_list.ts";
import { blockAlignment, maximumBlockByteLength } from "./size_classes.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import { cudaErrorNumbers } from "../../support/cuda_error_codes.ts";
import { checkStream, type CudaStream, whenStreamDisposed } from "../../objects/cuda_stream.ts";
import { countOf, placeOf, printAs } from "../../support/printing.ts";
import { DeviceArray } from "../device_array.ts";
import { DeviceBuffer, freeAsHolder, type SlabPart, slabPartOf } from "../device_buffer.ts";
import { CudaError } from "../../support/errors.ts";
import { cannot, givenByDriver, ignoreLoss } from "../../support/error_wording.ts";
import { originOf, reportLeak } from "../../support/leaks.ts";
import type { MemoryPool } from "../memory_pool.ts";
import type { Session } from "../../session.ts";
import { byteLengthOfArray, type TypedArray, type TypedArrayConstructor } from "../../support/typed_array.ts";
import { checkByteLength, whatIs } from "../../support/validation.ts";

/** How an allocator takes memory from its pool. */
export interface CachingAllocatorOptions {
  /**
   * Bytes that it takes from the pool at a time: more where a buffer needs more, less where there is not as much. Unless
   * given, it grows with what is needed, from 2 MiB to 32 MiB.
   */
  slabByteLength?: number;
  /** Bytes that it may hold of the pool; 0 or omitted: the pool's own limit. */
  maxSize?: number;
}

/** Bytes of an allocator, now and at most since `resetHigh`. */
export interface CachingAllocatorUsage {
  /**
   * Bytes that the allocator holds of its pool: the sizes of its slabs. One that was given back is not among them, even if
   * the pool has it only when a read of it is done, or other processes have let go of it.
   */
  reserved: number;
  /** The most that `reserved` has been. */
  reservedHigh: number;
  /** Bytes of buffers that are not freed, or whose memory somebody keeps, each rounded up to 256 bytes. */
  used: number;
  /** The most that `used` has been. */
  usedHigh: number;
  /** Buffers that are not freed, or whose memory somebody keeps: a read, or another process. */
  buffers: number;
  /** Allocations of the pool that the allocator holds. */
  slabs: number;
  /** The largest buffer that fits without another slab, once all streams are done. */
  largestFree: number;
  /** How much of the free bytes is not in one piece: from 0, all is, towards 1. */
  fragmentation: number;
}

/** What an allocator needs of its pool, which makes the allocator and hands this in: the pool's module imports this one. */
export interface SlabSource {
  readonly pool: MemoryPool;
  /** Memory of the pool that only `freeAsHolder` frees, and that the pool does not report as leaked. */
  allocateSlab(byteLength: number, stream: CudaStream): DeviceBuffer;
  /** The stream to allocate on: the given one, unchecked, or the default stream of the pool's device. */
  allocationStream(stream: CudaStream | undefined): CudaStream;
  /** Calls back once when the user disposes the pool. The function that it returns cancels. */
  whenDisposed(callback: () => void): () => void;
}

const defaultSlabByteLength = 32 * 2 ** 20;
/** How often a stream is given what others have freed before it gets a slab of its own. */
const maximumTakesFromOthers = 8;
/** Allocations for which a pool that has refused memory is not asked again, if it got none back. */
const unaskedAllocations = 64;
/** How long is looked whether a stream is at rest that has just been given a free. */
const millisecondsToLook = 2;
/** What sizes of slabs are multiples of, where there is room for that: as the memory that CUDA maps. */
const slabAlignment = 2 * 2 ** 20;

/**
 * Hands out parts of large allocations of a pool, and keeps what is freed to hand it out again: an allocation costs no
 * call of the driver, once there is memory.
 *
 * It is in stream order, as the pool itself: memory that was freed on a stream is at once free for what follows on that
 * stream, and `free(stream)` may name another than the buffer's own. Another stream gets it when its work is known to be
 * done; a stream for which that happens again and again gets memory of its own, as long as there is not far more than all
 * streams need. When the pool has no memory left, or `maxSize` is reached, a stream also gets what others have freed and
 * are not done with, behind an event for which it then waits. Slabs go back to the pool by `trimTo` and at the end, and
 * when there is too little for a buffer otherwise, or when buffers that grow have left many behind. The host never waits
 * for work.
 *
 * Its buffers are shared with other processes as parts of their slabs, each of which is exported and mapped once. Made by
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
  /** Where its memory comes from. */
  readonly pool: MemoryPool;
  readonly #session: Session;
  readonly #source: SlabSource;
  readonly #slabByteLength: number;
  /** Whether slabs may be smaller than that, where little is needed. */
  readonly #mayBeSmaller: boolean;
  readonly #maxSize: number;
  readonly #slabs = new Set<Slab>();
  readonly #blockOwner: BlockOwner;
  /** What is free in the order of streams that there are. */
  readonly #ofStreams = new Map<CudaStream, FreeList>();
  /** What is free behind the work of streams that were disposed. */
  readonly #ofDisposed = new Set<FreeList>();
  readonly #cancels = new Map<CudaStream, () => void>();
  /** What is free for all, because the work with it is done. */
  readonly #done: FreeList;
  #lastStream: CudaStream | undefined;
  #lastMemory: FreeList | undefined;
  #reserved = 0;
  #reservedHigh = 0;
  #used = 0;
  #usedHigh = 0;
  #count = 0;
  /** Blocks whose buffers were freed, and that somebody keeps. */
  readonly #awaitingRelease = new Set<Block>();
  /** Where each buffer was allocated. */
  readonly #origins: Map<Block, string> | undefined;
  /** For a buffer of how many bytes the pool had no slab; Infinity where it has not refused any since. */
  #refusedByteLength = Infinity;
  /** Allocations for which it is not asked again. */
  #untilAsked = 0;
  readonly #stopWatching: () => void;
  #isDisposed = false;

  static {
    printAs(this, "CachingAllocator", (allocator) => {
      const bytes = `${allocator.#used} of ${allocator.#reserved} bytes`;
      const state = allocator.#isDisposed ? "disposed" : `${countOf(allocator.#count, "buffer")}, ${bytes} in use`;
      return `CachingAllocator { ${placeOf(allocator.pool.device)}, ${state} }`;
    });
  }

  /**
   * Made by `MemoryPool.createCachingAllocator`.
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
      throw new RangeError(`Cannot use slabs of ${slabByteLength} bytes: they have ${maximumBlockByteLength} at most`);
    }
    this.#session = session;
    this.pool = source.pool;
    this.#source = source;
    this.#slabByteLength = roundUp(slabByteLength, blockAlignment);
    this.#mayBeSmaller = options.slabByteLength === undefined;
    this.#maxSize = maxSize === 0 ? Infinity : maxSize;
    this.#done = new FreeList(session, undefined);
    this.#blockOwner = {
      release: (block, stream) => this.#release(block, stream),
      awaitRelease: (block) => this.#awaitingRelease.add(block),
    };
    if (session.debug) this.#origins = new Map();
    this.#stopWatching = source.whenDisposed(() => this[Symbol.dispose]());
  }

  /** The pool's device. */
  get device(): CudaDevice | undefined {
    return this.pool.device;
  }

  /**
   * Allocates in the stream's order: work given to it afterwards may use the memory. The device's default stream unless
   * given.
   *
   * @param byteLength Bytes, at least 1. The memory begins at a multiple of 256.
   * @throws {TypeError} for a pool in host memory without a stream; for what is no stream of the same `Cuda` object
   * @throws {RangeError} for a size that is none
   * @throws {ReferenceError} where the allocator or the stream was disposed
   * @throws {CudaError} `cudaErrorMemoryAllocation` where neither the allocator nor its pool has enough memory left
   */
  allocate(byteLength: number, stream?: CudaStream): DeviceBuffer {
    const onto = this.#source.allocationStream(stream);
    const block = this.#take(byteLength, onto);
    return new DeviceBuffer(this.#session, block, this.pool, block.address, byteLength, onto);
  }

  /**
   * Allocates memory for `length` elements of a type, in the stream's order. Throws as `allocate` does.
   *
   * @param type The constructor of a typed array: `Float32Array`.
   * @throws {RangeError} for a length that is none
   */
  allocateArray<T extends TypedArray>(
    type: TypedArrayConstructor<T>,
    length: number,
    stream?: CudaStream,
  ): DeviceArray<T> {
    const onto = this.#source.allocationStream(stream);
    const byteLength = byteLengthOfArray(type, length);
    const block = this.#take(byteLength, onto);
    return new DeviceArray(type, this.#session, block, this.pool, block.address, byteLength, onto);
  }

  /** How much memory it holds, and how much of that buffers have. */
  usage(): CachingAllocatorUsage {
    let largestFree = 0;
    for (const slab of this.#slabs) {
      let free = 0;
      for (const block of blocksOf(slab)) {
        free = block.home === undefined ? 0 : free + block.byteLength;
        largestFree = Math.max(largestFree, free);
      }
    }
    const free = this.#reserved - this.#used;
    return {
      reserved: this.#reserved,
      reservedHigh: this.#reservedHigh,
      used: this.#used,
      usedHigh: this.#usedHigh,
      buffers: this.#count,
      slabs: this.#slabs.size,
      largestFree,
      fragmentation: free === 0 ? 0 : 1 - largestFree / free,
    };
  }

  /** Lets `reservedHigh` and `usedHigh` start again from what there is now. */
  resetHigh(): void {
    this.#reservedHigh = this.#reserved;
    this.#usedHigh = this.#used;
  }

  /**
   * Gives slabs in which no buffer lies back to the pool, in stream order, until `byteLength` bytes are held or none can
   * go. `MemoryPool.trimTo` then gives them back to the system. What streams need is counted anew from here.
   *
   * @throws {ReferenceError} where the allocator was disposed
   */
  trimTo(byteLength: number): void {
    checkByteLength(byteLength, "the bytes to keep");
    this.#checkUsable();
    try {
      this.#releaseSlabs(byteLength);
      for (const memory of this.#ofStreams.values()) memory.usedHigh = memory.used;
    } catch (error) {
      throw cannot(`trim ${this.#name}`, givenByDriver(error));
    }
  }

  /**
   * What another process needs to map a buffer by hand: the slab's `exportPointer`, and where in it the buffer begins. An
   * `Exporter` does this by itself.
   *
   * @param buffer One of this allocator's, or a part of one.
   * @throws {ReferenceError} for a buffer that was freed
   * @throws {TypeError} for a buffer that is not of this allocator
   */
  slabOf(buffer: DeviceBuffer): SlabPart {
    if (!(buffer instanceof DeviceBuffer)) {
      throw new TypeError(`Cannot tell the slab of ${whatIs(buffer)}: give a buffer of this allocator`);
    }
    void buffer.address;
    const part = slabPartOf(buffer);
    for (const { buffer: slab } of this.#slabs) if (slab === part?.slab) return part;
    throw new TypeError("Cannot tell the slab of the buffer: it was not allocated from this allocator");
  }

  /**
   * Gives all slabs back to the pool, in stream order. Slabs with buffers that are not freed yet stay until they are;
   * those buffers are reported as a pool's are.
   */
  [Symbol.dispose](): void {
    if (!this.#isDisposed) {
      this.#isDisposed = true;
      this.#stopWatching();
      if (!this.#session.hasEnded) this.#reportForgotten();
    }
    // Where something fails, the next call goes on.
    if (this.#session.hasEnded) return;
    ignoreLoss(() => this.#releaseSlabs(0));
    this.#closeUnlessUsed();
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

  #reportForgotten(): void {
    const freed = [...this.#awaitingRelease];
    reportLeak({
      count: this.#count - freed.length,
      byteLength: freed.reduce((sum, { byteLength }) => sum - byteLength, this.#used),
      before: `${this.#name} was disposed`,
      origins: [...this.#origins ?? []].filter(([block]) => !this.#awaitingRelease.has(block))
        .map(([, origin]) => origin),
    });
  }

  #take(byteLength: number, stream: CudaStream): Block {
    if (!Number.isSafeInteger(byteLength) || byteLength < 1) checkByteLength(byteLength, "an allocation's size", 1);
    if (this.#isDisposed || this.#session.hasEnded) this.#checkUsable();
    const memory = stream === this.#lastStream ? this.#lastMemory! : this.#memoryOf(stream);
    const size = roundUp(byteLength, blockAlignment);
    const block = memory.takeUnmerged(size) ?? this.#search(size, memory);
    block.user = memory;
    memory.used += size;
    if (memory.used > memory.usedHigh) memory.usedHigh = memory.used;
    this.#count++;
    this.#used += size;
    if (this.#used > this.#usedHigh) this.#usedHigh = this.#used;
    this.#origins?.set(block, originOf(byteLength));
    return block;
  }

  #release(block: Block, stream: CudaStream): void {
    // That the Cuda object was disposed is told as of any other buffer.
    if (this.#session.hasEnded) void this.#session.driver.freeAsync;
    // Where the slab could not be given back, the buffer is freed again.
    if (block.home === undefined) {
      const memory = stream === this.#lastStream ? this.#lastMemory! : this.#memoryOf(stream);
      memory.add(block);
      block.user!.used -= block.byteLength;
      this.#count--;
      this.#used -= block.byteLength;
      if (this.#awaitingRelease.size > 0) this.#awaitingRelease.delete(block);
      this.#origins?.delete(block);
    }
    if (!this.#isDisposed) return;
    ignoreLoss(() => this.#releaseSlab(block.slab));
    this.#closeUnlessUsed();
  }

  #memoryOf(stream: CudaStream): FreeList {
    checkStream(stream, this.#session);
    void stream.unsafeHandle;
    let memory = this.#ofStreams.get(stream);
    if (memory === undefined) {
      memory = new FreeList(this.#session, stream);
      this.#ofStreams.set(stream, memory);
      this.#cancels.set(stream, whenStreamDisposed(stream, () => this.#retire(stream)));
    }
    this.#lastStream = stream;
    this.#lastMemory = memory;
    return memory;
  }

  /** A stream is about to be destroyed. */
  #retire(stream: CudaStream): void {
    const memory = this.#ofStreams.get(stream)!;
    memory.retire();
    this.#cancels.get(stream)!();
    this.#cancels.delete(stream);
    this.#ofStreams.delete(stream);
    this.#lastStream = this.#lastMemory = undefined;
    this.#ofDisposed.add(memory);
    // There may be a stream for each of a program's tasks: those that are done go as others come.
    for (const oldest of [...this.#ofDisposed.values().take(2), memory]) this.#collectDisposed(oldest);
  }

  /** A block that is not just the last one of its size on its stream. */
  #search(byteLength: number, memory: FreeList): Block {
    try {
      if (byteLength > this.#maxSize) throw outOfMemory(`its maxSize is ${this.#maxSize} bytes`);
      if (byteLength > maximumBlockByteLength) {
        throw outOfMemory(`a buffer has ${maximumBlockByteLength} bytes at most`);
      }
      return memory.takeBestFit(byteLength) ?? this.#takeFromOthers(byteLength, memory) ??
        this.#takeNew(byteLength, memory);
    } catch (error) {
      const hint = isOutOfMemory(error)
        ? `it holds ${this.#reserved} bytes, of which ${this.#used} are in use; free memory or ask for less`
        : undefined;
      throw cannot(`allocate ${byteLength} bytes from ${this.#name}`, givenByDriver(error), hint);
    }
  }

  /** A block that others have freed and are done with, unless the stream had better get a slab. */
  #takeFromOthers(byteLength: number, memory: FreeList): Block | undefined {
    // Where buffers are freed on other streams than they are allocated on, this goes on for ever: the memory has a bound.
    const needsOwn = memory.takenFromOthers >= maximumTakesFromOthers &&
      this.#reserved < 2 * this.#neededFor(byteLength, memory);
    if (needsOwn) return undefined;
    const block = this.#takeDone(byteLength, memory);
    if (block !== undefined) memory.takenFromOthers++;
    return block;
  }

  /** A block that others have freed, and that they are done with. */
  #takeDone(byteLength: number, memory: FreeList): Block | undefined {
    const block = this.#done.takeBestFit(byteLength);
    if (block !== undefined) return block;
    this.#collectDone(memory);
    return this.#done.takeBestFit(byteLength);
  }

  /** Moves what is known to be done to where all streams find it. */
  #collectDone(except?: FreeList): void {
    for (const memory of this.#ofStreams.values()) {
      // That another device is lost, its own users are told.
      if (memory !== except) ignoreLoss(() => memory.moveDoneTo(this.#done));
    }
    for (const memory of [...this.#ofDisposed]) this.#collectDisposed(memory);
  }

  #collectDisposed(memory: FreeList): void {
    this.#ofDisposed.delete(memory);
    ignoreLoss(() => memory.moveDoneTo(this.#done));
    if (memory.isEmpty) memory.close();
    else this.#ofDisposed.add(memory);
  }

  /** Bytes that the streams would need if each had memory of its own. */
  #neededFor(byteLength: number, memory: FreeList): number {
    let needed = Math.max(0, memory.used + byteLength - memory.usedHigh);
    for (const { usedHigh } of this.#ofStreams.values()) needed += usedHigh;
    // Streams that are gone may have left buffers.
    return Math.max(needed, this.#used + byteLength);
  }

  /** A block of a new slab; where there can be none, what other streams have freed, behind their work. */
  #takeNew(byteLength: number, memory: FreeList): Block {
    memory.takenFromOthers = 0;
    this.#giveBackSurplus(byteLength, memory);
    const isHopeless = this.#isHopeless(byteLength);
    if (!isHopeless && this.#grow(byteLength, memory) === undefined) return memory.takeBestFit(byteLength)!;
    const block = this.#takeDone(byteLength, memory) ?? this.#takeBehindWork(byteLength, memory);
    if (block !== undefined) return block;
    if (isHopeless && this.#grow(byteLength, memory) === undefined) return memory.takeBestFit(byteLength)!;
    // Smaller slabs may make room for a larger one: at once, or once the pool is told that they are free.
    const streams = this.#releaseSlabs(0);
    let lastRefusal = this.#grow(byteLength, memory);
    if (lastRefusal !== undefined && streams.size > 0) {
      const deadline = performance.now() + millisecondsToLook;
      for (const stream of streams) if (isAtRest(stream, deadline)) stream.synchronize();
      lastRefusal = this.#grow(byteLength, memory);
    }
    if (lastRefusal !== undefined) throw lastRefusal;
    return memory.takeBestFit(byteLength)!;
  }

  /** Buffers that grow leave slabs behind that are too small for those to come: all slabs together have a bound. */
  #giveBackSurplus(byteLength: number, memory: FreeList): void {
    if (byteLength <= this.#slabByteLength) return;
    const bound = 4 * this.#neededFor(byteLength, memory);
    if (this.#reserved + byteLength > bound) this.#releaseIdle(bound - byteLength);
  }

  /** Whether the pool has refused as much a short while ago, and got nothing back: to ask costs. */
  #isHopeless(byteLength: number): boolean {
    return byteLength >= this.#refusedByteLength && this.#untilAsked-- > 0;
  }

  /** A block that others have freed, for which the stream waits, if there is one. */
  #takeBehindWork(byteLength: number, memory: FreeList): Block | undefined {
    const stream = memory.stream!;
    const others = [...this.#ofStreams.values(), ...this.#ofDisposed].filter((other) => other !== memory);
    for (const other of others) {
      let block: Block | undefined;
      ignoreLoss(() => block = other.takeBestFitFor(stream, byteLength));
      if (block !== undefined) return block;
    }
    if (this.usage().largestFree < byteLength) return undefined;
    // Side by side there is enough.
    this.#done.moveTo(memory);
    for (const other of others) {
      const block = memory.takeBestFit(byteLength);
      if (block !== undefined) return block;
      if (other.isEmpty) continue;
      ignoreLoss(() => {
        other.letWait(stream);
        other.moveTo(memory);
      });
    }
    return memory.takeBestFit(byteLength);
  }

  /** Takes a slab from the pool. Returns why there is none, where there is too little memory. */
  #grow(byteLength: number, memory: FreeList): CudaError | undefined {
    const room = this.#maxSize - this.#reserved;
    if (byteLength > room) return outOfMemory(`its maxSize is ${this.#maxSize} bytes`);
    const aligned = roundUp(byteLength, Math.min(slabAlignment, this.#slabByteLength));
    const most = Math.min(room, maximumBlockByteLength);
    const sizes = [Math.max(aligned, this.#usualSlab(byteLength, memory)), aligned, byteLength]
      .map((size) => Math.min(size, most - most % blockAlignment));
    let refusal: CudaError | undefined;
    for (const size of new Set(sizes)) {
      try {
        const slab = this.#source.allocateSlab(size, memory.stream!);
        const block = new Block(this.#blockOwner, { slab, byteOffset: 0, byteLength: size });
        this.#slabs.add(block.slab);
        this.#reserved += size;
        this.#reservedHigh = Math.max(this.#reservedHigh, this.#reserved);
        memory.insert(block);
        this.#refusedByteLength = Infinity;
        return undefined;
      } catch (error) {
        if (!isOutOfMemory(error)) throw error;
        refusal = error;
      }
    }
    this.#refusedByteLength = byteLength;
    this.#untilAsked = unaskedAllocations;
    return refusal;
  }

  /** Bytes of a slab that a small buffer is cut from: less than usual as long as little is needed. */
  #usualSlab(byteLength: number, memory: FreeList): number {
    if (!this.#mayBeSmaller) return this.#slabByteLength;
    const needed = roundUp(2 * this.#neededFor(byteLength, memory), slabAlignment);
    return Math.min(needed, this.#slabByteLength);
  }

  /** Gives slabs back in which nobody has a block, until so many bytes are held. Returns the streams that free them. */
  #releaseSlabs(byteLength: number): Set<CudaStream> {
    this.#collectDone();
    return this.#releaseIdle(byteLength);
  }

  #releaseIdle(byteLength: number): Set<CudaStream> {
    const streams = new Set<CudaStream>();
    for (const slab of [...this.#slabs].reverse()) {
      if (this.#reserved <= byteLength) break;
      // One that a lost device has worked with stays.
      ignoreLoss(() => {
        const stream = this.#releaseSlab(slab);
        if (stream !== undefined) streams.add(stream);
      });
    }
    return streams;
  }

  /** Gives a slab back behind all work with it, unless somebody has a block of it. Returns the stream that frees it. */
  #releaseSlab(slab: Slab): CudaStream | undefined {
    const homes = new Set<FreeList>();
    for (const { home } of blocksOf(slab)) {
      if (home === undefined) return undefined;
      homes.add(home);
    }
    for (const home of homes) home.mergeAll();
    homes.delete(this.#done);
    const streams = [...homes].map(({ stream }) => stream).filter((stream) => stream !== undefined);
    const { stream: own, device } = slab.buffer;
    const stream = streams[0] ?? (own.disposed ? device.defaultStream : own);
    for (const home of homes) if (home.stream !== stream) home.letWait(stream);
    freeAsHolder(slab.buffer, stream);
    this.#refusedByteLength = Infinity;
    for (const block of [...blocksOf(slab)]) block.home!.remove(block);
    this.#slabs.delete(slab);
    this.#reserved -= slab.buffer.byteLength;
    return stream;
  }

  /** Gives back what a disposed allocator has left, once there is no slab. */
  #closeUnlessUsed(): void {
    if (this.#slabs.size > 0) return;
    for (const cancel of this.#cancels.values()) cancel();
    for (const memory of [...this.#ofStreams.values(), ...this.#ofDisposed]) memory.close();
    this.#cancels.clear();
    this.#ofStreams.clear();
    this.#ofDisposed.clear();
    this.#lastStream = this.#lastMemory = undefined;
  }
}

/** Whether a stream has nothing to do, or soon has not. */
function isAtRest(stream: CudaStream, deadline: number): boolean {
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
  const rest = byteLength % alignment;
  return rest === 0 ? byteLength : byteLength + alignment - rest;
}
