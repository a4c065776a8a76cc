import {
  allocateArrayOptions,
  type AllocateAsyncOptions,
  allocateAsyncOptions,
  allocateOptions,
} from "./allocation_queue.ts";
import type { CachingAllocatorOptions } from "../caching/allocator_options.ts";
import { CachingAllocator } from "../caching/caching_allocator.ts";
import type { SlabSource } from "../caching/slabs.ts";
import { arrayRequest, type DeviceArray, newArray } from "../device_array.ts";
import { type ArrayOptions, byteLengthToAllocate } from "../dtypes.ts";
import { DeviceBuffer } from "../device_buffer.ts";
import { type Extent, newPitchedArray, type PitchedArray } from "../pitched_array.ts";
import {
  type Access,
  checkAccessing,
  getPoolAccess,
  type HostLocation,
  isHostLocation,
  keepManagedAccess,
  PoolAttributes,
  type PoolUsage,
  type ReusePolicies,
  setHostAccess,
  setPoolAccess,
} from "./pool_attributes.ts";
import { fabricHint, ShareableHandle } from "../handles/shareable_handle.ts";
import {
  checkHandleTypes,
  handleTypeBit,
  handleTypesOfBits,
  type PoolHandleType,
  type ShareableHandleType,
} from "./handle_types.ts";
import { PoolMemory } from "./pool_memory.ts";
import type { ManagedPool } from "../managed/managed_budget.ts";
import type { MemoryLocation } from "../managed/memory_location.ts";
import { type MemLocation, memLocationType, memPoolPropertyAttribute, memPoolUsage } from "../../driver.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import { checkStream, type CudaStream } from "../../objects/streams/cuda_stream.ts";
import {
  type KnownStreamOptions,
  optionsOf,
  type OrStream,
  streamOf,
  type StreamOption,
} from "../../objects/streams/stream_option.ts";
import type { MemorySnapshot } from "../snapshots/memory_snapshot.ts";
import type { Session } from "../../session.ts";
import { cannot } from "../../support/driver_errors.ts";
import { CudaError } from "../../support/errors.ts";
import {
  checkBoolean,
  checkByteLength,
  checkOptions,
  type KnownOptions,
  refuseConstruction,
  refuseNewProperties,
  refuseToReplace,
  refuseType,
  shown,
  type TypedArray,
  type TypedArrayConstructor,
} from "../../support/validation.ts";
import { countOf, placeOf, printAs, stateOf } from "../../support/printing.ts";
import { cloneRefusal, shareOrOpen } from "../../support/cloning.ts";
import { RangeError, ReferenceError, TypeError } from "../../support/program_errors.ts";

/** Options of a new pool. */
export interface PoolOptions {
  /**
   * How the pool can be shared with other processes. Defaults to "none". A "posix-fd" can be sent to processes of this
   * machine. The bytes of a "fabric" handle can be sent to any machine of the NVLink domain, and need an IMEX channel.
   */
  handleType?: PoolHandleType;
  /**
   * Several ways to share the pool at once, such as `["posix-fd", "fabric"]`. Not together with `handleType`. If
   * "fabric" is among them, CUDA exports no handle of any type without an IMEX channel.
   */
  handleTypes?: readonly ShareableHandleType[];
  /**
   * Whether the device's decompression engine may write to the memory: `cudaMemPoolCreateUsageHwDecompress`. Needs CUDA
   * 12.8. Defaults to false.
   */
  hardwareDecompression?: boolean;
  /** Maximum size of the pool in bytes. Defaults to 0, which means no limit other than the system's own. */
  maxSize?: number;
  /**
   * Number of bytes that the pool keeps reserved when the host synchronizes: unused memory above this is released to
   * the system. With Infinity, the pool keeps all of it. Waiting with `finished` is not a synchronization.
   */
  releaseThreshold?: number;
}

const allocatePitchedOptions: KnownStreamOptions<StreamOption> = {
  action: "allocate rows",
  names: { stream: true },
  usage: "allocatePitched(type, size, stream) or allocatePitched(type, size, { stream })",
};

/**
 * Calls `callback` once when the user disposes the pool, and returns a function that cancels the callback. A disposed
 * pool cannot allocate and is destroyed when its last buffer is freed, so holders of its memory should release memory
 * that they do not need.
 *
 * @throws {ReferenceError} If the pool was disposed
 */
export let whenPoolDisposed: (pool: MemoryPool, callback: () => void) => () => void;

/** Returns what allocates a pool's memory. */
export let memoryOfPool: (pool: MemoryPool) => PoolMemory;

const refusalToClone = cloneRefusal("a MemoryPool", shareOrOpen);

/**
 * A pool from which memory is allocated in stream order. Comes from `CudaDevice.createPool`, `Cuda.createHostPool` or
 * `Cuda.createManagedPool`.
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
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** The device that the memory is on; undefined for a pool in host memory, or of managed memory. */
  readonly device: CudaDevice | undefined;
  /**
   * How the pool can be shared with other processes; of several ways, the one by which processes of the same machine
   * share it.
   */
  readonly handleType: PoolHandleType;
  readonly #handleTypes: readonly ShareableHandleType[];
  readonly #session: Session;
  readonly #isOwned: boolean;
  readonly #location: MemoryLocation | undefined;
  readonly #managed: ManagedPool | undefined;
  readonly #attributes: PoolAttributes;
  readonly #memory: PoolMemory;
  #disposeCallbacks: Set<{ readonly callback: () => void }> | undefined;

  static {
    memoryOfPool = (pool) => pool.#memory;
    whenPoolDisposed = (pool, callback) => {
      void pool.unsafeHandle;
      const entry = { callback };
      const entries = pool.#disposeCallbacks ??= new Set();
      entries.add(entry);
      return () => void entries.delete(entry);
    };
    refuseNewProperties(this, {
      name: "MemoryPool",
      fields: ["cloneRefusal", "device", "handleType"],
    });
    refuseToReplace(this, "location", "a pool keeps its location; create one elsewhere");
    refuseToReplace(this, "maxSize", "a pool keeps its maximum; give it to createPool");
    refuseToReplace(this, "handleTypes", "a pool keeps them; give them to createPool");
    refuseToReplace(this, "reuse", "set the property of one policy, such as pool.reuse.allowOpportunistic");
    printAs(this, "MemoryPool", (pool) => {
      const kind = `${pool.#isOwned ? "" : "default, "}${pool.#handleTypes.map((type) => `${type}, `).join("")}`;
      const { count } = pool.#memory.contents;
      const buffers = countOf(count, "buffer");
      const disposed = count === 0 ? "disposed" : `disposed, ${buffers} not freed`;
      const state = pool.#memory.isDisposed || pool.#session.hasEnded ? disposed : `${buffers}, ${
        stateOf(() => {
          const { used, reserved } = pool.#attributes.usage();
          return `${used} of ${reserved} bytes in use`;
        })
      }`;
      return `MemoryPool { ${pool.isManaged ? "managed" : placeOf(pool.device)}, ${kind}${state} }`;
    }, [
      "device",
      ["isManaged", (pool) => pool.isManaged || undefined],
      ["handleType", (pool) => pool.#handleTypes.length > 1 ? pool.#handleTypes.join(", ") : pool.handleType],
      ["isDefault", (pool) => !pool.#isOwned],
      ["buffers", (pool) => pool.#memory.contents.count],
      ["usage", (pool) => pool.#attributes.usage()],
      ["disposed", (pool) => pool.#memory.isDisposed || pool.#session.hasEnded],
    ]);
  }

  /**
   * Pools come from methods of `CudaDevice` and `Cuda`. `isOwned` is false for a default pool, which cannot be disposed.
   *
   * @ignore
   */
  constructor(
    session: Session,
    {
      device,
      location = device,
      managed,
      handle = refuseConstruction("MemoryPool", "CudaDevice.createPool"),
      handleTypes,
      isOwned,
      maxSize = 0,
    }: {
      device: CudaDevice | undefined;
      /** Where the memory is, or is preferred to be. Defaults to the device. */
      location?: MemoryLocation | undefined;
      /** What a pool of managed memory may allocate; undefined for other pools. */
      managed?: ManagedPool | undefined;
      handle: bigint;
      handleTypes: readonly ShareableHandleType[];
      isOwned: boolean;
      maxSize?: number;
    } = {} as never,
  ) {
    this.#session = session;
    this.#location = location;
    this.#managed = managed;
    this.device = device;
    this.#handleTypes = handleTypes;
    this.handleType = handleTypes[0] ?? "none";
    this.#isOwned = isOwned;
    this.#memory = new PoolMemory(session, {
      pool: this,
      newBuffer: (allocation) => new DeviceBuffer(allocation),
      handle,
      maxSize,
      isOwned,
      managed,
    });
    this.#attributes = new PoolAttributes(session, this.#memory);
    session.pools.set(handle, this);
  }

  /**
   * Where the pool's memory is: its device, `"host"`, or a NUMA node. For a pool of managed memory, where the memory is
   * when nobody has moved it; undefined if there is no such place.
   */
  get location(): MemoryLocation | undefined {
    return this.#location;
  }

  /** Whether the pool provides managed memory, which the host and all devices access. */
  get isManaged(): boolean {
    return this.#managed !== undefined;
  }

  /**
   * The ways in which the pool can be shared with other processes; empty if there is none. Since CUDA 13.2, the driver
   * says it.
   */
  get handleTypes(): readonly ShareableHandleType[] {
    const bits = this.#attributes.property(memPoolPropertyAttribute.handleTypes);
    return bits === undefined ? this.#handleTypes : handleTypesOfBits(Number(bits));
  }

  /**
   * The number of bytes that the pool may have; undefined if there is no limit but the system's. Since CUDA 13.2, the
   * driver says it; before, it is what the pool was created with.
   */
  get maxSize(): number | undefined {
    const created = this.#memory.maxSize;
    const property = this.isManaged ? undefined : this.#attributes.property(memPoolPropertyAttribute.maxSize);
    const maxSize = property === undefined ? created : Number(property);
    return maxSize === 0 || maxSize > Number.MAX_SAFE_INTEGER ? undefined : maxSize;
  }

  /** The `cudaMemPool_t`, for CUDA calls that this library does not make. */
  get unsafeHandle(): bigint {
    return this.#memory.handle;
  }

  /**
   * Allocates memory in stream order: work that is enqueued on the stream afterwards may use it.
   *
   * @param byteLength Size in bytes, at least 1.
   * @param options The stream to allocate on, or an object that has it. Defaults to the device's default stream;
   * required for a pool in host memory.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} If the pool is in host memory and no stream is given, or `stream` is not a stream of the same
   * `Cuda` object
   * @throws {RangeError} If `byteLength` is not a whole number, or is less than 1
   * @throws {ReferenceError} If the pool or the stream was disposed
   * @throws {CudaError} `cudaErrorMemoryAllocation` if too little memory is left
   */
  allocate(byteLength: number, options?: OrStream<StreamOption>): DeviceBuffer {
    if (typeof byteLength === "function") refuseType(byteLength);
    const allocationStream = this.#allocationStream(streamOf(options, allocateOptions));
    checkStream(allocationStream, this.#session, allocateOptions.usage);
    return new DeviceBuffer(this.#memory.allocate(byteLength, allocationStream));
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
   *
   * @example
   * ```ts
   * import { open } from "./mod.ts";
   *
   * using cuda = open();
   * using stream = cuda.device(0).createStream();
   * using pool = cuda.device(0).createPool();
   * using x = pool.allocateArray(new Float32Array([1, 2, 3]), stream);
   * console.log(await x.toTypedArray());
   * ```
   */
  allocateArray<T extends TypedArray>(data: T, options?: OrStream<StreamOption>): DeviceArray<T>;
  allocateArray<T extends TypedArray>(
    source: TypedArrayConstructor<T> | T,
    lengthOrOptions?: number | ArrayOptions | OrStream<StreamOption>,
    options?: OrStream<StreamOption>,
  ): DeviceArray<T> {
    const request = arrayRequest(source, lengthOrOptions, options);
    const allocationStream = this.#allocationStream(streamOf(request.stream, allocateArrayOptions));
    checkStream(allocationStream, this.#session, allocateArrayOptions.usage);
    const byteLength = byteLengthToAllocate(request.type, request);
    return newArray(request, this.#memory.allocate(byteLength, allocationStream));
  }

  /**
   * Allocates rows of elements, in stream order. Each row begins where a device accesses it best, and where textures can
   * begin, as with `cudaMallocPitch`. Disposing of the result frees the memory. Also throws what `allocate` throws.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @param type The element type, as the constructor of a typed array.
   * @param size Elements in a row, rows, and slices of rows.
   * @param options The stream to allocate on. Defaults to the device's default stream; required for a pool in host
   * memory.
   * @throws {RangeError} If a number in `size` is not a whole number, at least 1
   *
   * @example
   * ```ts
   * import { open } from "./mod.ts";
   *
   * using cuda = open();
   * using stream = cuda.device(0).createStream();
   * using pool = cuda.device(0).createPool();
   * using image = pool.allocatePitched(Uint8Array, [1920, 1080], stream);
   * console.log(image.pitch); // 2048
   * ```
   */
  allocatePitched<T extends TypedArray>(
    type: TypedArrayConstructor<T>,
    size: Extent,
    options?: OrStream<StreamOption>,
  ): PitchedArray<T> {
    return newPitchedArray(type, size, (byteLength) => {
      const stream = this.#allocationStream(streamOf(options, allocatePitchedOptions));
      checkStream(stream, this.#session);
      return new DeviceBuffer(this.#memory.allocate(byteLength, stream));
    });
  }

  /**
   * Allocates memory like `allocate` but, if too little memory is free, waits until this process or another one has
   * freed enough buffers and the streams have executed the frees. Waiting calls get memory in the order in which they
   * were made, but a call of `allocate` may get memory before them.
   *
   * @param byteLength Size in bytes, at least 1.
   * @param options The stream to allocate on, as for `allocate`, and a signal that ends the wait. The memory is
   * allocated in stream order when the promise resolves.
   * @throws {TypeError} If the pool is in host memory and no stream is given, or `stream` is not a stream of the same
   * `Cuda` object
   * @throws {RangeError} If `byteLength` is not a whole number, or is less than 1
   * @throws {ReferenceError} If the pool or the stream was disposed, or is disposed while the call waits
   * @throws {CudaError} `cudaErrorMemoryAllocation`, at once, if the pool or its device can never provide that much
   * memory
   */
  async allocateAsync(byteLength: number, options: OrStream<AllocateAsyncOptions> = {}): Promise<DeviceBuffer> {
    options = optionsOf(options);
    checkOptions(options, allocateAsyncOptions);
    const { stream: given, signal } = options;
    const stream = this.#allocationStream(given);
    checkStream(stream, this.#session);
    checkByteLength(byteLength, "an allocation's size", 1);
    const waitOptions = signal === undefined ? {} : { signal };
    return new DeviceBuffer(await this.#memory.allocateAsync(byteLength, { stream, ...waitOptions }));
  }

  /**
   * Creates an allocator that hands out parts of larger allocations and reuses freed memory. Once it has memory for a
   * stream, allocating from it is far faster than allocating from the pool.
   *
   * @throws {TypeError} If a size is not a number, or `options` is not an object
   * @throws {RangeError} If a size is not a valid number of bytes
   * @throws {ReferenceError} If the pool was disposed
   */
  createCachingAllocator(options?: CachingAllocatorOptions): CachingAllocator {
    const memory = this.#memory;
    const source: SlabSource = {
      pool: this,
      allocateSlab: (byteLength, stream) => new DeviceBuffer(memory.allocateSlab(byteLength, stream)),
      allocationStream: (stream) => this.#allocationStream(stream),
      refusal: (byteLength) => memory.refusal(byteLength),
      limit: () => memory.limit(),
      describeOthers: (byteLength) => memory.describeOthers(byteLength),
      reclaim: (byteLength, options) => memory.reclaim(byteLength, options),
      whenDisposed: (callback) => whenPoolDisposed(this, callback),
    };
    return new CachingAllocator(this.#session, source, options);
  }

  /**
   * Number of bytes that the pool keeps reserved when the host synchronizes: unused memory above this is released to
   * the system. With Infinity, the pool keeps all of it. Waiting with `finished` is not a synchronization. Can be set.
   */
  get releaseThreshold(): number {
    return this.#attributes.releaseThreshold;
  }

  set releaseThreshold(byteLength: number) {
    this.#attributes.releaseThreshold = byteLength;
  }

  /**
   * The policies that determine whether an allocation may reuse memory that was freed on another stream. The object's
   * properties can be set.
   */
  get reuse(): ReusePolicies {
    return this.#attributes.reuse;
  }

  /** Returns how many bytes the pool has reserved and how many of those are allocated. */
  usage(): PoolUsage {
    this.#session.completed.synchronize();
    return this.#attributes.usage();
  }

  /**
   * Takes a snapshot of the pool: its allocations, the blocks of its caching allocators, and the processes that hold
   * them. Takes time in proportion to their number.
   *
   * @throws {ReferenceError} If the pool or the `Cuda` object was disposed. A disposed pool that still has buffers is in
   * the snapshot of the `Cuda` object
   */
  snapshot(): MemorySnapshot {
    if (this.#memory.isDisposed || this.#session.hasEnded) {
      throw new ReferenceError(`Cannot take a snapshot of ${this.#memory.name}: it was disposed`);
    }
    this.#session.completed.synchronize();
    return this.#session.memory.snapshot([this.#memory]);
  }

  /** Resets `reservedHigh` and `usedHigh` to the current values. */
  resetHigh(): void {
    this.#attributes.resetHigh();
  }

  /**
   * Releases unused memory to the system, until only `byteLength` bytes are reserved or nothing more can be released.
   * Freed memory counts as unused once its free has completed and the program has observed the completion, with any
   * wait or with a `query`.
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
      throw cannot(`trim ${this.#memory.name}`, error);
    }
  }

  /**
   * Returns the access that kernels of a device, or the host, have to the pool's memory.
   *
   * @param accessing The device, `"host"`, or a NUMA node of the host, such as `{ numaNode: 0 }`.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} If `accessing` is neither a device of the same `Cuda` object nor the host
   */
  getAccess(accessing: CudaDevice | HostLocation): Access {
    // CUDA would answer "none": it does not count the access that the host and all devices have to managed memory.
    if (this.isManaged) return void checkAccessing(this.#session, accessing), "read-write";
    return getPoolAccess(this.#session, this.unsafeHandle, accessing);
  }

  /**
   * Sets the access that kernels of the given devices have to the pool's memory, including memory that is already
   * allocated.
   *
   * @param accessing A device, or several. For the host's access, which cannot be changed on most systems, `"host"`, or
   * a NUMA node such as `{ numaNode: 0 }`. Managed memory is always accessed by the host and by all devices.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} If `access` is not a valid access, or a device is not a device of the same `Cuda` object
   * @throws {CudaError} `cudaErrorNotSupported` for "read" if the driver supports only "read-write",
   * `cudaErrorInvalidDevice` if the pool's own device would lose its access, `cudaErrorPeerAccessUnsupported` if a
   * device is not a peer of the pool's device
   */
  setAccess(accessing: CudaDevice | readonly CudaDevice[] | HostLocation, access: Access): void {
    const { device } = this;
    if (this.isManaged) return keepManagedAccess(this.#session, accessing, access);
    if (isHostLocation(accessing)) {
      const isOnDevice = device !== undefined;
      setHostAccess(this.#session, this.unsafeHandle, { location: accessing, access, isOnDevice });
    } else setPoolAccess(this.#session, this.unsafeHandle, { devices: accessing, access, poolDevice: device });
  }

  /**
   * Exports a handle with which another process can import the pool. Any process that has the handle can access all of
   * the pool's memory.
   *
   * A descriptor keeps the memory allocated. A fabric handle does not: when the pool is destroyed or this process
   * exits, the memory is freed, and the importers' mappings become invalid. Keep the pool until the importers have
   * released the memory.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @param handleType The type of the handle, for a pool that was created with several `handleTypes`. Defaults to the
   * pool's own `handleType`.
   * @throws {TypeError} If the pool was created with handleType "none", or not with the given type
   * @throws {CudaError} `cudaErrorOperatingSystem` if the process has no descriptor left, `cudaErrorNotPermitted` for
   * "fabric" without an IMEX channel
   */
  exportHandle(handleType?: ShareableHandleType): ShareableHandle {
    if (this.isManaged) {
      throw new TypeError(
        "Cannot export a pool of managed memory: no other process can map managed memory; allocate what is shared from " +
          'a pool of createPool({ handleType: "posix-fd" })',
      );
    }
    if (!this.#isOwned) {
      const { device } = this;
      const place = device === undefined ? "in host memory" : `on device ${device.ordinal}`;
      const create = device === undefined
        ? 'createHostPool({ handleType: "posix-fd", numaNode: 0 })'
        : 'createPool({ handleType: "posix-fd" })';
      throw new TypeError(
        `Cannot export the default pool ${place}: default pools cannot be exported; create a pool with ${create}, and ` +
          "allocate from it",
      );
    }
    if (this.handleType === "none") {
      throw new TypeError(
        `Cannot export ${this.#memory.name}: it was created with handleType "none"; create it with "posix-fd"`,
      );
    }
    const type = handleType === undefined ? this.handleType : handleType;
    const hasFabric = this.#handleTypes.includes("fabric");
    if (!(this.#handleTypes as readonly unknown[]).includes(type)) {
      const types = this.#handleTypes.map((own) => `"${own}"`).join(" and ");
      throw new TypeError(
        `Cannot export ${this.#memory.name} as ${shown(type)}: it was created with ${types}; give one of these`,
      );
    }
    try {
      const handle = this.#session.driver.memPoolExportToShareableHandle(this.unsafeHandle, handleTypeBit(type));
      return typeof handle === "number" ? ShareableHandle.fromFd(handle) : ShareableHandle.fromBytes(handle);
    } catch (error) {
      this.#memory.isUndestroyable ||= hasFabric && error instanceof CudaError;
      throw cannot(`export ${this.#memory.name}`, error, hasFabric ? fabricHint(error) : undefined);
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
    if (this.#memory.isDisposed || !this.#isOwned) return;
    this.#memory.dispose(() => {
      // A callback that throws does not prevent the other callbacks from running.
      using callbacks = new DisposableStack();
      for (const { callback } of [...this.#disposeCallbacks ?? []].reverse()) callbacks.defer(callback);
    });
  }

  #allocationStream(stream: CudaStream | undefined): CudaStream {
    const device = this.device ?? this.#managed?.preferredDevice;
    const allocationStream = stream === undefined ? device?.defaultStream : stream;
    if (allocationStream === undefined) {
      const what = this.isManaged ? "of managed memory" : "in host memory";
      throw new TypeError(
        `Cannot allocate from a pool ${what} without a stream: give one, as in allocate(byteLength, { stream })`,
      );
    }
    return allocationStream;
  }
}

/** The options of a new pool. */
export const poolOptions: KnownOptions<PoolOptions> = {
  action: "create a pool",
  names: { handleType: true, handleTypes: true, hardwareDecompression: true, maxSize: true, releaseThreshold: true },
  instead: { ipc_enabled: 'set handleType: "posix-fd"' },
  meantBy: (value) => typeof value === "number" ? `{ maxSize: ${value} }` : undefined,
};

/** The location of a new pool. */
export interface PoolPlace {
  readonly location: MemLocation;
  /** The device of the pool; undefined for host memory. */
  readonly device: CudaDevice | undefined;
  /** The location in error messages: "on device 0". */
  readonly name: string;
  /** Advice to append to the error if the driver refuses to create a pool at this location. */
  readonly hint?: string;
}

/** Creates a pool with `cudaMemPoolCreate`. */
export function createPool(
  session: Session,
  { location, device, name, hint }: PoolPlace,
  { handleType, handleTypes: several, hardwareDecompression = false, maxSize = 0, releaseThreshold }: PoolOptions,
): MemoryPool {
  const handleTypes = checkHandleTypes(session, { handleType, handleTypes: several });
  checkBoolean(hardwareDecompression, "hardwareDecompression");
  if (maxSize === Infinity) {
    throw new RangeError("Cannot use Infinity as a pool's maxSize: leave it out for a pool without a limit");
  }
  checkByteLength(maxSize, "a pool's maxSize");
  let handle: bigint;
  try {
    handle = session.driver.memPoolCreate({
      handleTypes: handleTypes.reduce((bits, type) => bits | handleTypeBit(type), handleTypeBit("none")),
      location,
      maxSize: BigInt(maxSize),
      usage: hardwareDecompression ? memPoolUsage.hardwareDecompression : 0,
    });
  } catch (error) {
    const types = handleTypes.length === 0 ? "none" : handleTypes.join('" and "');
    throw cannot(
      `create a pool with handleType "${types}" ${name}`,
      error,
      hint ?? (device === undefined ? undefined : creationHint({ handleTypes, hardwareDecompression }, error)),
    );
  }
  const onHost = location.type === memLocationType.hostNuma ? { numaNode: location.id } : "host";
  const place = device ?? onHost;
  const pool = new MemoryPool(session, { device, location: place, handle, handleTypes, isOwned: true, maxSize });
  if (releaseThreshold === undefined) return pool;
  try {
    pool.releaseThreshold = releaseThreshold;
  } catch (error) {
    pool[Symbol.dispose]();
    throw error;
  }
  return pool;
}

/** Returns advice if the driver supports pools, but not one with these options. */
function creationHint(
  { handleTypes, hardwareDecompression }: {
    readonly handleTypes: readonly ShareableHandleType[];
    readonly hardwareDecompression: boolean;
  },
  error: unknown,
): string | undefined {
  if (!(error instanceof CudaError)) return undefined;
  if (error.code !== "cudaErrorInvalidValue" && error.code !== "cudaErrorNotSupported") return undefined;
  if (hardwareDecompression) return "the device may have no decompression engine: leave out hardwareDecompression";
  if (handleTypes.length === 0) return undefined;
  const alone = 'use handleType "none", whose pools no other process can import';
  return handleTypes.includes("fabric")
    ? `the device may not be connected by fabric: use handleType "posix-fd" on one machine, or ${alone}`
    : `this driver may not support pools that can be shared, as under WSL 2: ${alone}`;
}
