import { CachingAllocator, type CachingAllocatorOptions } from "./caching/caching_allocator.ts";
import type { SlabSource } from "./caching/slabs.ts";
import { countOf, placeOf, printAs, printObjectAs, stateOf } from "../support/printing.ts";
import type { CudaDevice } from "../objects/cuda_device.ts";
import { checkStream, type CudaStream } from "../objects/cuda_stream.ts";
import { DeviceArray } from "./device_array.ts";
import { Allocation, type AllocationOwner } from "./allocation.ts";
import { DeviceBuffer } from "./device_buffer.ts";
import { defaultStream, type Driver, memHandleType, memPoolAttribute } from "../driver.ts";
import { CudaError } from "../support/errors.ts";
import type { OpenedObject, UnfreedMemory } from "../objects/opened_objects.ts";
import { cannot, ignoreLoss, isLoss } from "../support/driver_errors.ts";
import { type Access, getPoolAccess, setPoolAccess } from "./pool_access.ts";
import { originOf, reportLeak } from "../support/leaks.ts";
import { FreedStreams } from "./freed_streams.ts";
import { LiveAddresses } from "./live_addresses.ts";
import type { Session } from "../session.ts";
import { ShareableHandle } from "./shareable_handle.ts";
import { byteLengthOfArray, type TypedArray, type TypedArrayConstructor } from "../support/typed_array.ts";
import { checkByteLength } from "../support/validation.ts";

/** How a pool can be shared with other processes: not at all, by a file descriptor, or by a fabric handle. */
export type PoolHandleType = "none" | "posix-fd" | "fabric";

/** Options of a new pool. */
export interface PoolOptions {
  /** How the pool can be shared with other processes. Defaults to "none". */
  handleType?: PoolHandleType;
  /** Maximum size of the pool in bytes. Defaults to 0, the system's own limit. */
  maxSize?: number;
  /**
   * How many bytes the pool keeps reserved when the host synchronizes; unused memory beyond this then goes back to the
   * system. With Infinity, it keeps everything. Waiting with `finished` is not a synchronization.
   */
  releaseThreshold?: number;
}

/** When an allocation may reuse memory that was freed on another stream. */
export interface ReusePolicies {
  /** Reuse memory that was freed before an event that the allocating stream waits for. */
  followEventDependencies: boolean;
  /** Reuse memory whose free happens to have completed. */
  allowOpportunistic: boolean;
  /** Reuse memory whose free has not completed, by making the allocating stream wait for it. */
  allowInternalDependencies: boolean;
}

/** Bytes of a pool: current values, and the maximum of each since `resetHigh`. */
export interface PoolUsage {
  /** Bytes that the pool has reserved from the system. */
  reserved: number;
  /** The maximum of `reserved`. */
  reservedHigh: number;
  /** Bytes that are allocated. */
  used: number;
  /** The maximum of `used`. */
  usedHigh: number;
}

/**
 * Calls back once when the user disposes the pool. Nothing can be allocated from it then, and it is destroyed when its
 * last buffer is freed, so holders of its memory should release what they do not need. Returns a function that cancels
 * the callback.
 *
 * @throws {ReferenceError} If the pool was disposed
 */
export let whenPoolDisposed: (pool: MemoryPool, callback: () => void) => () => void;

const unlimited = 2n ** 64n - 1n;

/**
 * A pool from which memory is allocated in stream order. Comes from `CudaDevice.createPool` or `Cuda.createHostPool`.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
 *
 * @example
 * ```ts
 * import { open } from "./mod.ts";
 *
 * using cuda = open();
 * const gpu = cuda.device(0);
 * using stream = gpu.createStream();
 * using pool = gpu.createPool({ releaseThreshold: Infinity });
 * using buffer = pool.allocate(2 ** 20, stream);
 * console.log(pool.usage().used);
 * ```
 */
export class MemoryPool implements Disposable {
  /** The device that the memory is on; undefined for a pool in host memory. */
  readonly device: CudaDevice | undefined;
  /** How the pool can be shared with other processes. */
  readonly handleType: PoolHandleType;
  readonly #session: Session;
  readonly #isOwned: boolean;
  readonly #owner: AllocationOwner;
  /** Where each buffer was allocated, by address; undefined without POOLPASS_DEBUG=1. */
  readonly #origins: Map<bigint, string> | undefined;
  readonly #opened: OpenedObject;
  #handle: bigint | undefined;
  /** The handle of a disposed pool that still has buffers; the last free destroys it. */
  #pendingHandle: bigint | undefined;
  readonly #freedOn = new FreedStreams();
  /**
   * Whether exporting a fabric handle has failed. Destroying the pool would then crash driver 580 (an invalid free; C
   * programs crash too).
   */
  #isUndestroyable = false;
  /** Whether a free failed because the context was lost. The buffers that remain are then not reported as leaks. */
  #isLost = false;
  /**
   * Allocations that are not leaks, as byte lengths by address: slabs, and freed buffers whose memory is still in use,
   * by a read for example.
   */
  readonly #notLeaked = new Map<bigint, number>();
  /** The allocations that are not freed. */
  readonly #live = new LiveAddresses();
  #liveBytes = 0;
  #disposeCallbacks: Set<{ readonly callback: () => void }> | undefined;

  static {
    whenPoolDisposed = (pool, callback) => {
      void pool.unsafeHandle;
      const entry = { callback };
      const entries = pool.#disposeCallbacks ??= new Set();
      entries.add(entry);
      return () => void entries.delete(entry);
    };
    printAs(this, "MemoryPool", (pool) => {
      const kind = `${pool.#isOwned ? "" : "default, "}${pool.handleType === "none" ? "" : `${pool.handleType}, `}`;
      const buffers = countOf(pool.#live.count, "buffer");
      const disposed = pool.#live.count === 0 ? "disposed" : `disposed, ${buffers} not freed`;
      const state = pool.#handle === undefined || pool.#session.hasEnded ? disposed : `${buffers}, ${
        stateOf(() => {
          const used = pool.#getAttribute(memPoolAttribute.usedMemCurrent);
          return `${used} of ${pool.#getAttribute(memPoolAttribute.reservedMemCurrent)} bytes in use`;
        })
      }`;
      return `MemoryPool { ${placeOf(pool.device)}, ${kind}${state} }`;
    });
  }

  /**
   * Pools come from `CudaDevice.createPool` and `Cuda.createHostPool`. `isOwned` is false for a device's default pool,
   * which cannot be disposed.
   *
   * @ignore
   */
  constructor(
    session: Session,
    { device, handle, handleType, isOwned }: {
      device: CudaDevice | undefined;
      handle: bigint;
      handleType: PoolHandleType;
      isOwned: boolean;
    },
  ) {
    this.#session = session;
    this.device = device;
    this.handleType = handleType;
    this.#handle = handle;
    this.#isOwned = isOwned;
    this.#owner = {
      release: (address, byteLength, stream, allocation) => this.#free(address, byteLength, stream, allocation),
      awaitRelease: (address, byteLength) => this.#notLeaked.set(address, byteLength),
      isHostMemory: device === undefined,
    };
    session.pools.set(handle, this);
    if (session.debug) this.#origins = new Map();
    this.#opened = {
      ...(isOwned ? { kind: "pool" } : {}),
      unfreed: () => this.#handle === undefined || this.#isLost ? undefined : this.#unfreed(),
      release: (driver) => this.#releaseAll(driver, handle),
    };
    session.opened.add(this.#opened);
  }

  /** The `cudaMemPool_t`, for CUDA calls that this library does not make. */
  get unsafeHandle(): bigint {
    if (this.#handle === undefined) throw new ReferenceError(`Cannot use ${this.#name}: it was disposed`);
    return this.#handle;
  }

  get #name(): string {
    return this.device === undefined ? "the pool in host memory" : `the pool on device ${this.device.ordinal}`;
  }

  /**
   * Allocates memory in stream order: work that is enqueued on the stream afterwards may use it.
   *
   * @param byteLength Size in bytes, at least 1.
   * @param stream The stream to allocate on. Defaults to the device's default stream; required for a pool in host
   * memory.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} If the pool is in host memory and no stream is given, or `stream` is not a stream of the same
   * `Cuda` object
   * @throws {RangeError} If `byteLength` is not a whole number, or is less than 1
   * @throws {ReferenceError} If the pool or the stream was disposed
   * @throws {CudaError} `cudaErrorMemoryAllocation` if too little memory is left
   */
  allocate(byteLength: number, stream?: CudaStream): DeviceBuffer {
    const allocationStream = this.#allocationStream(stream);
    checkStream(allocationStream, this.#session);
    return new DeviceBuffer(this.#allocate(byteLength, allocationStream));
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
    const allocationStream = this.#allocationStream(stream);
    checkStream(allocationStream, this.#session);
    const byteLength = byteLengthOfArray(type, length);
    return new DeviceArray(type, this.#allocate(byteLength, allocationStream));
  }

  /**
   * Creates an allocator that hands out parts of larger allocations and reuses freed memory. Once it has memory for a
   * stream, allocating from it is far faster than allocating from the pool.
   *
   * @throws {TypeError} If a size is not a number
   * @throws {RangeError} If a size is not a valid number of bytes
   * @throws {ReferenceError} If the pool was disposed
   */
  createCachingAllocator(options?: CachingAllocatorOptions): CachingAllocator {
    const source: SlabSource = {
      pool: this,
      allocateSlab: (byteLength, stream) => this.#allocateSlab(byteLength, stream),
      allocationStream: (stream) => this.#allocationStream(stream),
      whenDisposed: (callback) => whenPoolDisposed(this, callback),
    };
    return new CachingAllocator(this.#session, source, options);
  }

  /**
   * How many bytes the pool keeps reserved when the host synchronizes; unused memory beyond this then goes back to the
   * system. With Infinity, it keeps everything. Waiting with `finished` is not a synchronization. Can be set.
   */
  get releaseThreshold(): number {
    const value = this.#getAttribute(memPoolAttribute.releaseThreshold);
    return value === unlimited ? Infinity : Number(value);
  }

  set releaseThreshold(byteLength: number) {
    if (byteLength !== Infinity) checkByteLength(byteLength, "a pool's releaseThreshold");
    const value = byteLength === Infinity ? unlimited : BigInt(byteLength);
    this.#setAttribute(memPoolAttribute.releaseThreshold, value);
  }

  /** When an allocation may reuse memory that was freed on another stream. The object's properties can be set. */
  get reuse(): ReusePolicies {
    const get = (attribute: number) => this.#getAttribute(attribute) !== 0n;
    const set = (attribute: number, value: boolean) => this.#setAttribute(attribute, value ? 1n : 0n);
    const policies: ReusePolicies = {
      get followEventDependencies() {
        return get(memPoolAttribute.reuseFollowEventDependencies);
      },
      set followEventDependencies(value) {
        set(memPoolAttribute.reuseFollowEventDependencies, value);
      },
      get allowOpportunistic() {
        return get(memPoolAttribute.reuseAllowOpportunistic);
      },
      set allowOpportunistic(value) {
        set(memPoolAttribute.reuseAllowOpportunistic, value);
      },
      get allowInternalDependencies() {
        return get(memPoolAttribute.reuseAllowInternalDependencies);
      },
      set allowInternalDependencies(value) {
        set(memPoolAttribute.reuseAllowInternalDependencies, value);
      },
    };
    printObjectAs(policies, printPolicies);
    return policies;
  }

  /** Returns how many bytes the pool has reserved and how many of those are allocated. */
  usage(): PoolUsage {
    this.#session.completed.synchronize();
    return {
      reserved: Number(this.#getAttribute(memPoolAttribute.reservedMemCurrent)),
      reservedHigh: Number(this.#getAttribute(memPoolAttribute.reservedMemHigh)),
      used: Number(this.#getAttribute(memPoolAttribute.usedMemCurrent)),
      usedHigh: Number(this.#getAttribute(memPoolAttribute.usedMemHigh)),
    };
  }

  /** Resets `reservedHigh` and `usedHigh` to the current values. */
  resetHigh(): void {
    this.#setAttribute(memPoolAttribute.reservedMemHigh, 0n);
    this.#setAttribute(memPoolAttribute.usedMemHigh, 0n);
  }

  /**
   * Releases unused memory to the system, until only `byteLength` bytes are reserved or nothing more can be released.
   * Memory that was freed is unused once its free has completed and the program has found that out, by a wait of any
   * kind or by a `query`.
   *
   * @param byteLength Bytes to keep; 0 releases everything that can be released.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {RangeError} If `byteLength` is not a whole number, or is negative
   * @throws {ReferenceError} If the pool was disposed
   */
  trimTo(byteLength: number): void {
    checkByteLength(byteLength, "the bytes to keep");
    this.#session.completed.synchronize();
    try {
      this.#session.driver.memPoolTrimTo(this.unsafeHandle, BigInt(byteLength));
    } catch (error) {
      throw cannot(`trim ${this.#name}`, error);
    }
  }

  /**
   * Returns what kernels of a device may do with the pool's memory.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} If `device` is not a device of the same `Cuda` object
   */
  getAccess(device: CudaDevice): Access {
    return getPoolAccess(this.#session, this.unsafeHandle, { device });
  }

  /**
   * Sets what kernels of the given devices may do with the pool's memory, including memory that is already allocated.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} If `access` is not a valid access, or a device is not a device of the same `Cuda` object
   * @throws {CudaError} `cudaErrorNotSupported` for "read" if the driver supports only "read-write",
   * `cudaErrorInvalidDevice` if the pool's own device would lose its access, `cudaErrorPeerAccessUnsupported` if a
   * device is not a peer of the pool's device
   */
  setAccess(devices: CudaDevice | readonly CudaDevice[], access: Access): void {
    setPoolAccess(this.#session, this.unsafeHandle, { devices, access, poolDevice: this.device });
  }

  /**
   * Exports a handle by which another process can import the pool. Any process that has the handle can access all of
   * the pool's memory.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} If the pool was created with handleType "none"
   * @throws {CudaError} `cudaErrorOperatingSystem` if the process has no descriptor left, `cudaErrorNotPermitted` for
   * "fabric" without an IMEX channel
   */
  exportHandle(): ShareableHandle {
    if (this.handleType === "none") {
      throw new TypeError(
        `Cannot export ${this.#name}: it was created with handleType "none"; create it with "posix-fd"`,
      );
    }
    try {
      const type = this.handleType === "fabric" ? memHandleType.fabric : memHandleType.posixFileDescriptor;
      const handle = this.#session.driver.memPoolExportToShareableHandle(this.unsafeHandle, type);
      return typeof handle === "number" ? ShareableHandle.fromFd(handle) : ShareableHandle.fromBytes(handle);
    } catch (error) {
      this.#isUndestroyable ||= this.handleType === "fabric" && error instanceof CudaError;
      throw cannot(`export ${this.#name}`, error);
    }
  }

  /**
   * Destroys the pool and disposes its allocators. Blocks until the streams on which buffers were freed have executed
   * the frees: the driver crashes otherwise.
   *
   * Buffers that are not freed yet stay valid, and the pool keeps its memory until they are freed. They are reported
   * with `console.warn`: their number, their size in bytes and, with POOLPASS_DEBUG=1, where they were allocated. A
   * freed buffer that is still being read, or that is lent to another process, also delays the release of the pool's
   * memory, but is not reported.
   */
  [Symbol.dispose](): void {
    if (this.#handle === undefined || !this.#isOwned) return;
    const handle = this.#handle;
    if (!this.#isLost && !this.#session.hasEnded) this.#reportLeaks();
    this.#handle = undefined;
    this.#session.pools.delete(handle);
    this.#session.opened.markDisposed(this.#opened);
    this.#pendingHandle = handle;
    try {
      // A callback that throws does not keep the others from running.
      using callbacks = new DisposableStack();
      for (const { callback } of [...this.#disposeCallbacks ?? []].reverse()) callbacks.defer(callback);
    } finally {
      this.#destroyIfUnused();
      if (this.#pendingHandle !== undefined) {
        ignoreLoss(() => resetCurrentPool(this.#session.driver, this.device?.ordinal, handle));
      }
    }
  }

  #reportLeaks(): void {
    reportLeak({ ...this.#unfreed(), before: `${this.#name} was disposed` });
  }

  /** The buffers that the user has not freed. */
  #unfreed(): UnfreedMemory {
    return {
      kind: "buffer",
      count: this.#live.count - this.#notLeaked.size,
      byteLength: [...this.#notLeaked.values()].reduce((sum, byteLength) => sum - byteLength, this.#liveBytes),
      origins: [...this.#origins ?? []].filter(([address]) => !this.#notLeaked.has(address))
        .map(([, origin]) => origin),
    };
  }

  #allocate(byteLength: number, stream: CudaStream): Allocation {
    checkByteLength(byteLength, "an allocation's size", 1);
    try {
      return this.#malloc(byteLength, stream, this.#owner);
    } catch (error) {
      const isOutOfMemory = error instanceof CudaError && error.code === "cudaErrorMemoryAllocation";
      // What the program has seen complete may count as free from now on.
      if (!isOutOfMemory || !this.#session.completed.synchronize()) throw error;
      return this.#malloc(byteLength, stream, this.#owner);
    }
  }

  #malloc(byteLength: number, stream: CudaStream, owner: AllocationOwner): Allocation {
    const { driver } = this.#session;
    let address: bigint;
    try {
      address = driver.mallocFromPoolAsync(stream.device.ordinal, byteLength, this.unsafeHandle, stream.unsafeHandle);
    } catch (error) {
      throw cannot(`allocate ${byteLength} bytes from ${this.#name}`, error);
    }
    this.#liveBytes += byteLength;
    this.#origins?.set(address, originOf(byteLength));
    const device = this.device ?? stream.device;
    const allocation = new Allocation(this.#session, owner, this, address, byteLength, device, stream);
    allocation.liveIndex = this.#live.add(address);
    return allocation;
  }

  #free(address: bigint, byteLength: number, stream: CudaStream, allocation: Allocation): void {
    try {
      this.#session.driver.freeAsync(stream.device.ordinal, address, stream.unsafeHandle);
    } catch (error) {
      this.#isLost ||= isLoss(error);
      throw error;
    }
    this.#live.delete(allocation.liveIndex);
    this.#liveBytes -= byteLength;
    this.#origins?.delete(address);
    if (this.#notLeaked.size > 0) this.#notLeaked.delete(address);
    this.#freedOn.add(stream);
    this.#destroyIfUnused();
  }

  /** Destroys the pool if it was disposed and has no buffers left. */
  #destroyIfUnused(): void {
    if (this.#live.count > 0 || this.#pendingHandle === undefined) return;
    const handle = this.#pendingHandle;
    this.#pendingHandle = undefined;
    this.#session.opened.delete(this.#opened);
    ignoreLoss(() => {
      this.#freedOn.synchronize();
      this.#destroy(this.#session.driver, handle);
    });
  }

  #destroy(driver: Driver, handle: bigint): void {
    // A pool that cannot be destroyed is trimmed, which releases its memory. Its handle leaks until the process ends.
    if (!this.#isUndestroyable) return driver.memPoolDestroy(handle);
    resetCurrentPool(driver, this.device?.ordinal, handle);
    driver.memPoolTrimTo(handle, 0n);
  }

  /** Frees the buffers that are left and destroys the pool, at the end of the session. */
  #releaseAll(driver: Driver, handle: bigint): void {
    // Somebody may still access host memory whose ArrayBuffer was transferred.
    if (this.device === undefined && this.#session.transferredMemory.size > 0) return;
    // Any device may free memory of a pool in host memory.
    const ordinal = this.device?.ordinal ?? 0;
    for (const address of this.#live) driver.freeAsync(ordinal, address, defaultStream);
    if (this.#live.count > 0) driver.streamSynchronize(ordinal, defaultStream);
    this.#freedOn.synchronizeBy(driver);
    if (this.#isOwned) this.#destroy(driver, handle);
  }

  #allocateSlab(byteLength: number, stream: CudaStream): DeviceBuffer {
    const owner = { ...this.#owner, freeRefusal: "it is a slab of an allocator; dispose the allocator instead" };
    const allocation = this.#malloc(byteLength, stream, owner);
    this.#notLeaked.set(allocation.address, byteLength);
    return new DeviceBuffer(allocation);
  }

  #allocationStream(stream: CudaStream | undefined): CudaStream {
    const allocationStream = stream === undefined ? this.device?.defaultStream : stream;
    if (allocationStream === undefined) {
      throw new TypeError("Cannot allocate from a pool in host memory without a stream: give one");
    }
    return allocationStream;
  }

  #getAttribute(attribute: number): bigint {
    try {
      return this.#session.driver.memPoolGetAttribute(this.unsafeHandle, attribute);
    } catch (error) {
      throw cannot(`read an attribute of ${this.#name}`, error);
    }
  }

  #setAttribute(attribute: number, value: bigint): void {
    try {
      this.#session.driver.memPoolSetAttribute(this.unsafeHandle, attribute, value);
    } catch (error) {
      throw cannot(`set an attribute of ${this.#name}`, error);
    }
  }
}

/**
 * Resets a device's current pool if it is this one: nothing may be allocated from a pool that only waits for its last
 * buffers to be freed.
 */
function resetCurrentPool(driver: Driver, device: number | undefined, handle: bigint): void {
  if (device === undefined || driver.deviceGetMemPool(device) !== handle) return;
  driver.deviceSetMemPool(device, driver.deviceGetDefaultMemPool(device));
}

function printPolicies(policies: ReusePolicies): string {
  const names = ["followEventDependencies", "allowOpportunistic", "allowInternalDependencies"] as const;
  return `ReusePolicies { ${names.map((name) => `${name}: ${stateOf(() => String(policies[name]))}`).join(", ")} }`;
}
