import {
  blockByteLengthFor,
  type CachingAllocatorOptions,
  checkAllocatorOptions,
  refusalOfSlab,
} from "./allocator_options.ts";
import {
  type CachingAllocatorUsage,
  sizeClassesOf,
  type SizeClassUsage,
  type SlabBlock,
  usageOf,
  usedBlocksOf,
} from "./block.ts";
import type { FreeList } from "./free_list.ts";
import { Slabs, type SlabSource } from "./slabs.ts";
import type { OpenedObject, UnfreedMemory } from "../../objects/opened_objects.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import { checkStream, type CudaStream } from "../../objects/streams/cuda_stream.ts";
import { optionsOf, type OrStream, streamOf, type StreamOption } from "../../objects/streams/stream_option.ts";
import { countOf, placeOf, printAs } from "../../support/printing.ts";
import {
  allocateArrayOptions,
  type AllocateAsyncOptions,
  allocateAsyncOptions,
  allocateOptions,
  AllocationQueue,
} from "../pools/allocation_queue.ts";
import { arrayRequest, type DeviceArray, newArray } from "../device_array.ts";
import { type ArrayOptions, byteLengthToAllocate } from "../dtypes.ts";
import { Allocation, type SlabPart } from "../allocation.ts";
import { allocationOf, DeviceBuffer } from "../device_buffer.ts";
import { cannot, driverErrorOf, ignoreLoss } from "../../support/driver_errors.ts";
import { originOf, reportLeak } from "../../support/leaks.ts";
import type { MemoryPool } from "../pools/memory_pool.ts";
import {
  describeHolders,
  holdersByOrigin,
  holdersBySize,
  isOutOfMemory,
  outOfMemory,
  type PoolOrigin,
  refusalOfMaxSize,
  type SizeRefusal,
  timeOfAllocation,
} from "../pools/pool_contents.ts";
import type { Session } from "../../session.ts";
import {
  checkByteLength,
  checkOptions,
  refuseConstruction,
  type TypedArray,
  type TypedArrayConstructor,
  whatIs,
} from "../../support/validation.ts";
import { cloneRefusal, openInWorker } from "../../support/cloning.ts";
import { ReferenceError, TypeError } from "../../support/program_errors.ts";

const refusalToClone = cloneRefusal("a CachingAllocator", openInWorker);

/**
 * Hands out parts of large allocations of a pool, called slabs, and reuses freed memory: once the allocator has memory,
 * an allocation makes no driver call.
 *
 * Like the pool, the allocator is stream-ordered. Memory that was freed on a stream is available at once to later
 * allocations on that stream; `free(stream)` may name a stream other than the buffer's own. Other streams get the
 * memory when the work before the free is known to be complete. A stream that repeatedly takes memory freed by other
 * streams gets slabs of its own, unless the allocator already holds far more than all streams need. When the pool has
 * no memory left, or `maxSize` is reached, a stream also gets memory that other streams have freed while their work
 * with it is still pending. It then waits for an event before it uses the memory.
 *
 * While the allocator holds less than a quarter of the memory that it may use, all buffers share slabs. Above that,
 * each new buffer of at least 1 MiB, or of at least 1/256 of that memory, gets its own slab, unless
 * `slabByteLength` is given. Such a slab can be released as soon as its buffer is freed, so that long-lived buffers do
 * not prevent others from getting memory.
 *
 * Slabs are released to the pool when `trimTo` is called, when the allocator is disposed, when there would otherwise be
 * too little memory for a buffer, and when buffers that grow in size have left many slabs unused. The host waits for
 * work only if there would otherwise be too little memory, and for at most 2 milliseconds.
 *
 * An `Exporter` shares the allocator's buffers as parts of their slabs, each of which is exported and mapped once.
 * Allocators are created by `MemoryPool.createCachingAllocator`.
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
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** The pool that the memory comes from. */
  readonly pool: MemoryPool;
  readonly #session: Session;
  readonly #source: SlabSource;
  readonly #slabs: Slabs;
  #bufferCount = 0;
  /** Blocks whose buffers were freed while `keep` or a read still holds the memory. */
  readonly #awaitingRelease = new Set<SlabBlock>();
  /** The call site of each buffer's allocation; undefined without POOLPASS_DEBUG=1. */
  readonly #origins: Map<SlabBlock, PoolOrigin> | undefined;
  readonly #maxSize: number;
  /** The calls of `allocateAsync` that wait for memory. */
  readonly #queue: AllocationQueue;
  readonly #stopWatchingPool: () => void;
  readonly #opened: OpenedObject;
  #isDisposed = false;

  static {
    printAs(this, "CachingAllocator", (allocator) => {
      const bytes = `${allocator.#slabs.used} of ${allocator.#slabs.reserved} bytes`;
      const state = allocator.#isDisposed
        ? "disposed"
        : `${countOf(allocator.#bufferCount, "buffer")}, ${bytes} in use`;
      const { device, isManaged } = allocator.pool;
      return `CachingAllocator { ${isManaged ? "managed" : placeOf(device)}, ${state} }`;
    }, ["device", ["buffers", (allocator) => allocator.#bufferCount], ["used", (allocator) => allocator.#slabs.used], [
      "reserved",
      (allocator) => allocator.#slabs.reserved,
    ], ["disposed", (allocator) => allocator.#isDisposed]]);
  }

  /**
   * Allocators are created by `MemoryPool.createCachingAllocator`.
   *
   * @ignore
   */
  constructor(
    session: Session,
    source: SlabSource,
    options: CachingAllocatorOptions = {},
  ) {
    if (session?.opened === undefined) refuseConstruction("CachingAllocator", "MemoryPool.createCachingAllocator");
    const { slabByteLength, maxSize, maxUnused } = checkAllocatorOptions(options, source.pool);
    this.#session = session;
    this.pool = source.pool;
    this.#source = source;
    this.#maxSize = maxSize;
    this.#queue = new AllocationQueue(session, source.pool.device);
    this.#slabs = new Slabs(session, {
      source,
      slabByteLength: blockByteLengthFor(slabByteLength),
      isSlabSizeAdaptive: options.slabByteLength === undefined,
      maxSize: maxSize === 0 ? Infinity : maxSize,
      blockOwner: {
        release: maxUnused === Infinity ? (block, stream) => this.#release(block, stream) : (block, stream) => {
          this.#release(block, stream);
          if (!this.#isDisposed) ignoreLoss(() => this.#slabs.limitUnused(maxUnused, block.slab));
        },
        awaitRelease: (block) => this.#awaitingRelease.add(block),
      },
    });
    if (session.debug) this.#origins = new Map();
    const cancel = source.whenDisposed(() => this[Symbol.dispose]());
    session.memory.caches.add(this.#slabs);
    this.#stopWatchingPool = () => {
      session.memory.caches.delete(this.#slabs);
      cancel();
    };
    // Nothing to release at the end of the session: the slabs are released with the pool.
    this.#opened = { kind: "allocator", unfreed: () => this.#unfreed(), release() {} };
    session.opened.add(this.#opened);
  }

  /** The device that the memory is on; undefined for a pool in host memory or of managed memory. */
  get device(): CudaDevice | undefined {
    return this.pool.device;
  }

  /**
   * Allocates memory in stream order: work that is enqueued on the stream afterwards may use it.
   *
   * @param byteLength Size in bytes, at least 1. The address is a multiple of 256.
   * @param options The stream to allocate on, or an object that has it. Defaults to the device's default stream;
   * required for a pool in host memory.
   * @throws {TypeError} If the pool is in host memory and no stream is given, or `stream` is not a stream of the same
   * `Cuda` object
   * @throws {RangeError} If `byteLength` is not a whole number, or is less than 1
   * @throws {ReferenceError} If the allocator or the stream was disposed
   * @throws {CudaError} `cudaErrorMemoryAllocation` if neither the allocator nor its pool has enough memory left
   */
  allocate(byteLength: number, options?: OrStream<StreamOption>): DeviceBuffer {
    const allocationStream = this.#source.allocationStream(streamOf(options, allocateOptions));
    return new DeviceBuffer(this.#allocate(byteLength, allocationStream));
  }

  /**
   * Allocates memory for `length` elements of a type, in stream order. Also throws what `allocate` throws.
   *
   * @param type The element type, as the constructor of a typed array, such as `Float32Array`.
   * @param length The number of elements, or the shape, such as `{ shape: [480, 640] }`. For elements without a typed
   * array of their own, also the dtype, such as `{ shape: [8], dtype: "bfloat16" }`. Even an array without elements has
   * an address.
   * @param options The stream to allocate on, or an object that has it. Defaults to the device's default stream;
   * required for a pool in host memory.
   * @throws {RangeError} If `length` is not a valid number of elements, or the shape is invalid
   * @throws {TypeError} If the type cannot represent elements of the dtype
   */
  allocateArray<T extends TypedArray>(
    type: TypedArrayConstructor<T>,
    length: number | ArrayOptions & { shape: readonly number[] },
    options?: OrStream<StreamOption>,
  ): DeviceArray<T>;

  /**
   * Allocates memory for all elements of a typed array, and copies them, in stream order. The array may be changed as
   * soon as the call returns. If the copy fails, the memory is freed. Also throws what `allocate` and
   * `DeviceArray.copyFrom` throw.
   *
   * @param data The elements to copy; the new array has the same element type.
   * @param options The stream to allocate and to copy on, or an object that has it. Defaults to the device's default
   * stream; required for a pool in host memory.
   * @throws {TypeError} If `data` is not a typed array
   * @throws {RangeError} If `data` has no elements
   */
  allocateArray<T extends TypedArray>(data: T, options?: OrStream<StreamOption>): DeviceArray<T>;
  allocateArray<T extends TypedArray>(
    source: TypedArrayConstructor<T> | T,
    lengthOrOptions?: number | ArrayOptions | OrStream<StreamOption>,
    options?: OrStream<StreamOption>,
  ): DeviceArray<T> {
    const request = arrayRequest(source, lengthOrOptions, options);
    const allocationStream = this.#source.allocationStream(streamOf(request.stream, allocateArrayOptions));
    const byteLength = byteLengthToAllocate(request.type, request);
    return newArray(request, this.#allocate(byteLength, allocationStream));
  }

  /**
   * Allocates memory like `allocate` but, if too little memory is left, waits until this process or another one has
   * freed buffers and the streams have executed the frees. Waiting calls get memory in the order in which they were
   * made; a call of `allocate` may overtake them. Unlike `allocate`, this method never blocks.
   *
   * @param byteLength Size in bytes, at least 1.
   * @param options The stream to allocate on, as for `allocate`, and a signal that ends the wait. The memory is
   * allocated in stream order when the promise resolves.
   * @throws {TypeError} If the pool is in host memory and no stream is given, or `stream` is not a stream of the same
   * `Cuda` object
   * @throws {RangeError} If `byteLength` is not a whole number, or is less than 1
   * @throws {ReferenceError} If the allocator or the stream was disposed, or is disposed while the call waits
   * @throws {CudaError} `cudaErrorMemoryAllocation`, at once, if the allocator, its pool or the device can never
   * provide that much memory
   */
  async allocateAsync(byteLength: number, options: OrStream<AllocateAsyncOptions> = {}): Promise<DeviceBuffer> {
    options = optionsOf(options);
    checkOptions(options, allocateAsyncOptions);
    const { stream: given, signal } = options;
    const stream = this.#source.allocationStream(given);
    checkByteLength(byteLength, "an allocation's size", 1);
    checkStream(stream, this.#session);
    const what = `allocate ${byteLength} bytes from ${this.#name}`;
    const check = () => {
      this.#checkUsable();
      void stream.unsafeHandle;
    };
    check();
    const refusal = this.#refusal(byteLength);
    if (refusal !== undefined) throw cannot(what, outOfMemory(refusal.why), refusal.advice);
    const attempt = () => {
      try {
        return this.#allocate(byteLength, stream, true);
      } catch (error) {
        if (isOutOfMemory(error)) return undefined;
        throw error;
      }
    };
    return new DeviceBuffer(
      await this.#queue.allocate({ what, stream, check, attempt, ...(signal === undefined ? {} : { signal }) }),
    );
  }

  /** Returns why an allocation of `byteLength` bytes can never succeed; undefined if it can. */
  #refusal(byteLength: number): SizeRefusal | undefined {
    const size = blockByteLengthFor(byteLength);
    const tooLarge = refusalOfSlab(size, this.pool);
    if (tooLarge !== undefined) return tooLarge;
    if (this.#maxSize > 0 && size > this.#maxSize) return refusalOfMaxSize(this.#maxSize);
    return this.#source.refusal(size);
  }

  /** Returns how much memory the allocator holds, and how much of it buffers use. */
  usage(): CachingAllocatorUsage {
    return usageOf(this.#slabs, this.#bufferCount);
  }

  /**
   * Returns the number and the total size of the buffers and of the free pieces in each size class, ordered by size.
   * Omits classes that have neither. Visits every buffer and every free piece.
   */
  usageBySizeClass(): SizeClassUsage[] {
    return sizeClassesOf(this.#slabs);
  }

  /** Resets `reservedHigh` and `usedHigh` to the current values. */
  resetHigh(): void {
    this.#slabs.reservedHigh = this.#slabs.reserved;
    this.#slabs.usedHigh = this.#slabs.used;
  }

  /**
   * Releases slabs without buffers to the pool, in stream order, until at most `byteLength` bytes are held or no more
   * slabs can be released. `MemoryPool.trimTo` can then release them to the system. Also resets the record of how much
   * memory each stream needs.
   *
   * @param byteLength Bytes to keep; 0 releases every slab that has no buffers.
   * @throws {RangeError} If `byteLength` is not a whole number, or is negative
   * @throws {ReferenceError} If the allocator was disposed
   */
  trimTo(byteLength: number): void {
    checkByteLength(byteLength, "the bytes to keep");
    this.#checkUsable();
    try {
      this.#slabs.trimTo(byteLength);
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
   * Releases all slabs to the pool, in stream order. A slab with buffers that are not freed is released when its last
   * buffer is freed. Such buffers are reported like the unfreed buffers of a `MemoryPool`.
   */
  [Symbol.dispose](): void {
    if (!this.#isDisposed) {
      this.#isDisposed = true;
      this.#stopWatchingPool();
      this.#session.opened.delete(this.#opened);
      if (!this.#session.hasEnded) this.#reportLeaks();
    }
    // Not skipped when the allocator is disposed already: if a release has failed, a later call of this method
    // continues here.
    if (this.#session.hasEnded) return;
    ignoreLoss(() => this.#slabs.releaseUnused());
    this.#slabs.closeIfEmpty();
  }

  get #name(): string {
    return this.device === undefined
      ? this.pool.isManaged ? "the allocator of managed memory" : "the allocator in host memory"
      : `the allocator on device ${this.device.ordinal}`;
  }

  #checkUsable(): void {
    if (this.#isDisposed) throw new ReferenceError(`Cannot use ${this.#name}: it was disposed`);
    void this.#session.driver.mallocFromPoolAsync;
  }

  #reportLeaks(): void {
    const unfreed = this.#unfreed();
    if (this.#session.sanitizer?.addUnfreed(unfreed)) return;
    reportLeak({ ...unfreed, before: `${this.#name} was disposed` });
  }

  /** Lists the buffers that the user has not freed. */
  #unfreed(): UnfreedMemory {
    const freed = [...this.#awaitingRelease];
    return {
      kind: "buffer",
      count: this.#bufferCount - freed.length,
      byteLength: freed.reduce((sum, { byteLength }) => sum - byteLength, this.#slabs.used),
      origins: this.#buffersOrigins().map(({ stack }) => stack),
      pieces: () =>
        usedBlocksOf(this.#slabs).filter((block) => !this.#awaitingRelease.has(block))
          .map(({ address, byteLength }) => ({ at: address, byteLength })),
    };
  }

  #buffersOrigins(): PoolOrigin[] {
    return [...this.#origins ?? []].filter(([block]) => !this.#awaitingRelease.has(block)).map(([, origin]) => origin);
  }

  #allocate(byteLength: number, stream: CudaStream, isQueued = false): Allocation {
    if (!Number.isSafeInteger(byteLength) || byteLength < 1) checkByteLength(byteLength, "an allocation's size", 1);
    if (this.#isDisposed || this.#session.hasEnded) this.#checkUsable();
    const slabs = this.#slabs;
    const list = slabs.listOf(stream);
    const { captures } = this.#session;
    if (captures.isActive) captures.refuseReuse(stream, `allocate ${byteLength} bytes from ${this.#name}`);
    const size = blockByteLengthFor(byteLength);
    const block = list.takeUnmerged(size) ?? this.#search(size, list, isQueued);
    block.usedBy = list;
    block.time = timeOfAllocation(byteLength);
    list.used += size;
    if (list.used > list.usedHigh) list.usedHigh = list.used;
    this.#bufferCount++;
    slabs.used += size;
    if (slabs.used > slabs.usedHigh) slabs.usedHigh = slabs.used;
    if (this.#origins !== undefined) {
      const stack = originOf(byteLength);
      this.#origins.set(block, { byteLength, stack, time: performance.now() });
      this.#session.memory.sites!.addAllocated(block.address, byteLength, stack);
    }
    const { sanitizer } = this.#session;
    if (sanitizer !== undefined) sanitizer.partAllocated(handleOf(stream), { address: block.address, byteLength });
    const device = this.device ?? stream.device;
    return new Allocation(this.#session, block, this.pool, block.address, byteLength, device, stream);
  }

  #release(block: SlabBlock, stream: CudaStream): void {
    // If the `Cuda` object was disposed, access its driver, which throws the same error as for any other buffer that is
    // freed.
    if (this.#session.hasEnded) void this.#session.driver.freeAsync;
    // The block is already free if an earlier call freed it and then failed to release the slab.
    if (block.freeList === undefined) {
      this.#slabs.listOf(stream).add(block);
      block.usedBy!.used -= block.byteLength;
      this.#bufferCount--;
      this.#slabs.used -= block.byteLength;
      if (this.#awaitingRelease.size > 0) this.#awaitingRelease.delete(block);
      if (this.#origins?.delete(block) === true) this.#session.memory.sites!.addFreed(block.address);
      this.#session.sanitizer?.partFreed(handleOf(stream), block.address);
    }
    if (!this.#isDisposed) return;
    ignoreLoss(() => this.#slabs.release(block.slab));
    this.#slabs.closeIfEmpty();
  }

  /** Searches for a block for a stream that has no unmerged block of exactly the requested size. */
  #search(byteLength: number, list: FreeList, isQueued: boolean): SlabBlock {
    try {
      return this.#slabs.search(byteLength, list, { mayBlock: !isQueued });
    } catch (error) {
      if (isQueued) throw error;
      const isTooLarge = this.#maxSize > 0 && byteLength > this.#maxSize;
      const advice = isTooLarge ? refusalOfMaxSize(this.#maxSize).advice : refusalOfSlab(byteLength, this.pool)?.advice;
      const hint = isOutOfMemory(error)
        ? advice ?? `${this.#describeHolders(byteLength)}; free memory or ask for less`
        : undefined;
      throw cannot(`allocate ${byteLength} bytes from ${this.#name}`, driverErrorOf(error), hint);
    }
  }

  /** Describes the memory in use, for the error of an allocation of `byteLength` bytes. */
  #describeHolders(byteLength: number): string {
    const { reserved, used } = this.#slabs;
    const held = `it holds ${reserved} bytes, of which ${used} are in use`;
    const holders = this.#origins === undefined
      ? holdersBySize(usedBlocksOf(this.#slabs))
      : holdersByOrigin(this.#buffersOrigins());
    const own = holders.length === 0 ? held : `${held}: ${describeHolders(holders)}`;
    const isAtLimit = this.#maxSize > 0 && reserved + byteLength > this.#maxSize;
    const others = isAtLimit ? undefined : this.#source.describeOthers(byteLength);
    return others === undefined ? own : `${own}; ${others}`;
  }
}

function handleOf({ device: { ordinal }, unsafeHandle }: CudaStream): { device: number; stream: bigint } {
  return { device: ordinal, stream: unsafeHandle };
}
