import { CachingAllocator, type CachingAllocatorOptions, type SlabSource } from "./caching/caching_allocator.ts";
import { countOf, placeOf, printAs, printObjectAs, stateOf } from "../support/printing.ts";
import type { CudaDevice } from "../objects/cuda_device.ts";
import { checkStream, type CudaStream } from "../objects/cuda_stream.ts";
import { DeviceArray } from "./device_array.ts";
import { type BufferOwner, DeviceBuffer } from "./device_buffer.ts";
import { memHandleType, memPoolAttribute } from "../driver.ts";
import { CudaError } from "../support/errors.ts";
import { cannot, ignoreLoss, isLoss } from "../support/error_wording.ts";
import { type Access, getPoolAccess, setPoolAccess } from "./pool_access.ts";
import { originOf, reportLeak } from "../support/leaks.ts";
import { FreedStreams } from "./freed_streams.ts";
import type { Session } from "../session.ts";
import { ShareableHandle } from "./shareable_handle.ts";
import { byteLengthOfArray, type TypedArray, type TypedArrayConstructor } from "../support/typed_array.ts";
import { checkByteLength } from "../support/validation.ts";

/** How a pool can be shared with other processes. */
export type PoolHandleType = "none" | "posix-fd" | "fabric";

/** What a pool is made with. */
export interface PoolOptions {
  /** "none" unless given. */
  handleType?: PoolHandleType;
  /** Bytes; 0 or omitted: the system's own limit. */
  maxSize?: number;
  /** Bytes that the pool keeps reserved at a blocking synchronization (`finished` is none); Infinity keeps all. */
  releaseThreshold?: number;
}

/** Which memory that was freed in another stream's order the pool hands out again. */
export interface ReusePolicies {
  /** Memory freed before an event that the allocating stream has waited for. */
  followEventDependencies: boolean;
  /** Memory whose free happens to be done. */
  allowOpportunistic: boolean;
  /** Memory whose free is not done, by letting the allocating stream wait for it. */
  allowInternalDependencies: boolean;
}

/** Bytes of a pool, now and at most since `resetHigh`. */
export interface PoolUsage {
  /** Bytes that the pool has taken from the system. */
  reserved: number;
  /** The most that `reserved` has been. */
  reservedHigh: number;
  /** Bytes that are allocated. */
  used: number;
  /** The most that `used` has been. */
  usedHigh: number;
}

/**
 * Calls back once when the user disposes the pool, which then is of no use any more. Whoever keeps memory of it may let
 * go: the pool goes with the last. The function that it returns cancels.
 *
 * @throws {ReferenceError} where the pool was disposed
 */
export let whenDisposed: (pool: MemoryPool, callback: () => void) => () => void;

const allReleased = 2n ** 64n - 1n;

/**
 * A pool that memory is allocated from in stream order. Made by `CudaDevice.createPool` and `Cuda.createHostPool`.
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
  /** Undefined for a pool in host memory. */
  readonly device: CudaDevice | undefined;
  /** How the pool can be shared with other processes. */
  readonly handleType: PoolHandleType;
  readonly #session: Session;
  readonly #isOwned: boolean;
  readonly #owner: BufferOwner;
  /** Where each buffer was allocated. */
  readonly #origins: Map<bigint, string> | undefined;
  #handle: bigint | undefined;
  /** Kept until the last buffer is freed, when the pool was disposed before. */
  #handleOfLiving: bigint | undefined;
  readonly #freedOn = new FreedStreams();
  /** A pool that gave no fabric handle takes the driver down with it when it is destroyed (580: a bad free, in C as well). */
  #isUndestroyable = false;
  /** Whether a buffer could not be freed because there is no context any more: nobody has forgotten it. */
  #isLost = false;
  /** Bytes of buffers that were freed and whose memory somebody keeps, a read for one, and of slabs, by address. */
  readonly #awaitingRelease = new Map<bigint, number>();
  #liveCount = 0;
  #liveBytes = 0;
  #disposeCallbacks: Set<{ readonly callback: () => void }> | undefined;

  static {
    whenDisposed = (pool, callback) => {
      void pool.unsafeHandle;
      const entry = { callback };
      const entries = pool.#disposeCallbacks ??= new Set();
      entries.add(entry);
      return () => void entries.delete(entry);
    };
    printAs(this, "MemoryPool", (pool) => {
      const kind = `${pool.#isOwned ? "" : "default, "}${pool.handleType === "none" ? "" : `${pool.handleType}, `}`;
      const buffers = countOf(pool.#liveCount, "buffer");
      const living = pool.#liveCount === 0 ? "disposed" : `disposed, ${buffers} not freed`;
      const state = pool.#handle === undefined || pool.#session.hasEnded ? living : `${buffers}, ${
        stateOf(() => {
          const used = pool.#getAttribute(memPoolAttribute.usedMemCurrent);
          return `${used} of ${pool.#getAttribute(memPoolAttribute.reservedMemCurrent)} bytes in use`;
        })
      }`;
      return `MemoryPool { ${placeOf(pool.device)}, ${kind}${state} }`;
    });
  }

  /**
   * Made by `CudaDevice.createPool` and `Cuda.createHostPool`. `isOwned` is false for a device's default pool, which
   * stays when disposed.
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
      release: (address, byteLength, stream) => this.#free(address, byteLength, stream),
      awaitRelease: (address, byteLength) => this.#awaitingRelease.set(address, byteLength),
      isHostMemory: device === undefined,
    };
    session.pools.set(handle, this);
    if (session.debug) this.#origins = new Map();
  }

  /** The `cudaMemPool_t`, for calls that this library does not make. */
  get unsafeHandle(): bigint {
    if (this.#handle === undefined) throw new ReferenceError(`Cannot use ${this.#name}: it was disposed`);
    return this.#handle;
  }

  get #name(): string {
    return this.device === undefined ? "the pool in host memory" : `the pool on device ${this.device.ordinal}`;
  }

  /**
   * Allocates in the stream's order: work given to it afterwards may use the memory. The device's default stream unless
   * given.
   *
   * @param byteLength Bytes, at least 1.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} for a pool in host memory without a stream; for what is no stream of the same `Cuda` object
   * @throws {RangeError} for a size that is none
   * @throws {ReferenceError} where the pool or the stream was disposed
   * @throws {CudaError} `cudaErrorMemoryAllocation` where there is too little memory left
   */
  allocate(byteLength: number, stream?: CudaStream): DeviceBuffer {
    const onto = this.#streamOr(stream);
    checkStream(onto, this.#session);
    const address = this.#allocate(byteLength, onto);
    return new DeviceBuffer(this.#session, this.#owner, this, address, byteLength, onto);
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
    const onto = this.#streamOr(stream);
    checkStream(onto, this.#session);
    const byteLength = byteLengthOfArray(type, length);
    const address = this.#allocate(byteLength, onto);
    return new DeviceArray(type, this.#session, this.#owner, this, address, byteLength, onto);
  }

  /**
   * An allocator that hands out parts of larger allocations and keeps what is freed: far cheaper than the pool, once there
   * is memory of a stream.
   *
   * @throws {TypeError} for sizes that are no numbers
   * @throws {RangeError} for sizes that are none
   * @throws {ReferenceError} where the pool was disposed
   */
  createCachingAllocator(options?: CachingAllocatorOptions): CachingAllocator {
    const source: SlabSource = {
      pool: this,
      allocateSlab: (byteLength, stream) => this.#allocateSlab(byteLength, stream),
      allocationStream: (stream) => this.#streamOr(stream),
      whenDisposed: (callback) => whenDisposed(this, callback),
    };
    return new CachingAllocator(this.#session, source, options);
  }

  /** Bytes that the pool keeps reserved at a blocking synchronization (`finished` is none); Infinity keeps all. */
  get releaseThreshold(): number {
    const value = this.#getAttribute(memPoolAttribute.releaseThreshold);
    return value === allReleased ? Infinity : Number(value);
  }

  set releaseThreshold(byteLength: number) {
    if (byteLength !== Infinity) checkByteLength(byteLength, "a pool's releaseThreshold");
    const value = byteLength === Infinity ? allReleased : BigInt(byteLength);
    this.#setAttribute(memPoolAttribute.releaseThreshold, value);
  }

  /** Which memory that was freed in another stream's order is handed out again. Its properties can be set. */
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

  /** How much the pool has reserved and how much of it is allocated, in bytes. */
  usage(): PoolUsage {
    return {
      reserved: Number(this.#getAttribute(memPoolAttribute.reservedMemCurrent)),
      reservedHigh: Number(this.#getAttribute(memPoolAttribute.reservedMemHigh)),
      used: Number(this.#getAttribute(memPoolAttribute.usedMemCurrent)),
      usedHigh: Number(this.#getAttribute(memPoolAttribute.usedMemHigh)),
    };
  }

  /** Lets `reservedHigh` and `usedHigh` start again from what there is now. */
  resetHigh(): void {
    this.#setAttribute(memPoolAttribute.reservedMemHigh, 0n);
    this.#setAttribute(memPoolAttribute.usedMemHigh, 0n);
  }

  /**
   * Gives memory that is not allocated back to the system, until `byteLength` bytes are reserved or none can go.
   *
   * @param byteLength Bytes to keep; 0 gives back all that can go.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {RangeError} for a size that is none
   * @throws {ReferenceError} where the pool was disposed
   */
  trimTo(byteLength: number): void {
    checkByteLength(byteLength, "the bytes to keep");
    try {
      this.#session.driver.memPoolTrimTo(this.unsafeHandle, BigInt(byteLength));
    } catch (error) {
      throw cannot(`trim ${this.#name}`, error);
    }
  }

  /**
   * What kernels of a device may do with the pool's memory.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} for what is no device of the same `Cuda` object
   */
  getAccess(device: CudaDevice): Access {
    return getPoolAccess(this.#session, this.unsafeHandle, { device });
  }

  /**
   * Says what kernels of some devices may do with the pool's memory, that already allocated and that to come.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} for an access that there is not, and for what is no device of the same `Cuda` object
   * @throws {CudaError} `cudaErrorNotSupported` for "read" where the driver has only "read-write",
   * `cudaErrorInvalidDevice` where a pool's own device is to lose its access, `cudaErrorPeerAccessUnsupported` where a
   * device is no peer of the pool's
   */
  setAccess(devices: CudaDevice | readonly CudaDevice[], access: Access): void {
    setPoolAccess(this.#session, this.unsafeHandle, { devices, access, resident: this.device });
  }

  /**
   * What another process needs to import the pool. Whoever holds it can reach all of the pool's memory.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} where the pool was created with handleType "none"
   * @throws {CudaError} `cudaErrorOperatingSystem` where no descriptor is left, `cudaErrorNotPermitted` for "fabric" without
   * a channel of IMEX
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
   * Destroys the pool. This blocks until the streams on which its buffers were freed have got there: the driver does not
   * survive less. Its allocators are disposed with it. Buffers that are not freed yet stay, and the pool with them, until
   * they are; they are reported with `console.warn`: how many, how large and, with POOLPASS_DEBUG=1, allocated from where.
   * Memory that was freed and is still being read, or that other processes were lent, keeps the pool as well, and is not
   * reported.
   */
  [Symbol.dispose](): void {
    if (this.#handle === undefined || !this.#isOwned) return;
    const handle = this.#handle;
    if (!this.#isLost && !this.#session.hasEnded) this.#reportForgotten();
    this.#handle = undefined;
    this.#session.pools.delete(handle);
    this.#handleOfLiving = handle;
    try {
      // One that fails keeps none of the others from it.
      using callbacks = new DisposableStack();
      for (const { callback } of [...this.#disposeCallbacks ?? []].reverse()) callbacks.defer(callback);
    } finally {
      this.#destroyUnlessLiving();
      if (this.#handleOfLiving !== undefined) ignoreLoss(() => this.#retireAsCurrent(handle));
    }
  }

  /** A pool that is only kept for its last buffers must not be allocated from by others. */
  #retireAsCurrent(handle: bigint): void {
    const { driver } = this.#session;
    const ordinal = this.device?.ordinal;
    if (ordinal === undefined || driver.deviceGetMemPool(ordinal) !== handle) return;
    driver.deviceSetMemPool(ordinal, driver.deviceGetDefaultMemPool(ordinal));
  }

  #reportForgotten(): void {
    reportLeak({
      count: this.#liveCount - this.#awaitingRelease.size,
      byteLength: [...this.#awaitingRelease.values()].reduce((sum, freed) => sum - freed, this.#liveBytes),
      before: `${this.#name} was disposed`,
      origins: [...this.#origins ?? []].filter(([address]) => !this.#awaitingRelease.has(address))
        .map(([, origin]) => origin),
    });
  }

  #allocate(byteLength: number, stream: CudaStream): bigint {
    checkByteLength(byteLength, "an allocation's size", 1);
    const { driver } = this.#session;
    let address: bigint;
    try {
      address = driver.mallocFromPoolAsync(stream.device.ordinal, byteLength, this.unsafeHandle, stream.unsafeHandle);
    } catch (error) {
      throw cannot(`allocate ${byteLength} bytes from ${this.#name}`, error);
    }
    this.#liveCount++;
    this.#liveBytes += byteLength;
    this.#origins?.set(address, originOf(byteLength));
    return address;
  }

  #free(address: bigint, byteLength: number, stream: CudaStream): void {
    try {
      this.#session.driver.freeAsync(stream.device.ordinal, address, stream.unsafeHandle);
    } catch (error) {
      this.#isLost ||= isLoss(error);
      throw error;
    }
    this.#liveCount--;
    this.#liveBytes -= byteLength;
    this.#origins?.delete(address);
    if (this.#awaitingRelease.size > 0) this.#awaitingRelease.delete(address);
    this.#freedOn.note(stream);
    this.#destroyUnlessLiving();
  }

  /** Destroys the pool if it was disposed and no buffer of it is left. */
  #destroyUnlessLiving(): void {
    if (this.#liveCount > 0 || this.#handleOfLiving === undefined) return;
    const handle = this.#handleOfLiving;
    this.#handleOfLiving = undefined;
    ignoreLoss(() => {
      this.#freedOn.synchronize();
      // Its memory goes back all the same; the handle stays until the process ends.
      if (!this.#isUndestroyable) return this.#session.driver.memPoolDestroy(handle);
      this.#retireAsCurrent(handle);
      this.#session.driver.memPoolTrimTo(handle, 0n);
    });
  }

  #allocateSlab(byteLength: number, stream: CudaStream): DeviceBuffer {
    const address = this.#allocate(byteLength, stream);
    this.#awaitingRelease.set(address, byteLength);
    const owner = { ...this.#owner, freeRefusal: "it is a slab of an allocator: dispose of that" };
    return new DeviceBuffer(this.#session, owner, this, address, byteLength, stream);
  }

  #streamOr(stream: CudaStream | undefined): CudaStream {
    const onto = stream === undefined ? this.device?.defaultStream : stream;
    if (onto === undefined) {
      throw new TypeError("Cannot allocate from a pool in host memory without a stream: give one");
    }
    return onto;
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

function printPolicies(policies: ReusePolicies): string {
  const names = ["followEventDependencies", "allowOpportunistic", "allowInternalDependencies"] as const;
  return `ReusePolicies { ${names.map((name) => `${name}: ${stateOf(() => String(policies[name]))}`).join(", ")} }`;
}
