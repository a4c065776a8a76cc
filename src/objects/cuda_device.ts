import { printAs, refuseDisposal, stateOf } from "../support/printing.ts";
import type { Cuda } from "./cuda.ts";
import { CudaEvent, type EventOptions, eventOptions } from "./streams/cuda_event.ts";
import type { CompileOptions } from "../compile/compile_options.ts";
import type { CudaModule } from "./modules/cuda_module.ts";
import { createGraph, type CudaGraph } from "./graphs/cuda_graph.ts";
import { type GraphMemory, graphMemoryOf } from "./graphs/graph_memory.ts";
import { type DeviceLimits, limitsOf } from "./device_limits.ts";
import { CudaStream, progressOf, type StreamOptions, streamOptions } from "./streams/cuda_stream.ts";
import type { OrStream } from "./streams/stream_option.ts";
import { type DeviceAttributeName, deviceAttributes } from "../support/device_attributes.ts";
import type { DeviceBuffer } from "../memory/device_buffer.ts";
import { checkDevice, registerDevice } from "./device_sessions.ts";
import {
  compileModule,
  jitOptions,
  linkedImages,
  type LinkImage,
  linkModule,
  loadModule,
  type LoadModuleOptions,
} from "./modules/load_module.ts";
import { checkPriority, DeviceStreams, wrapStream } from "./streams/device_streams.ts";
import type { KernelArgument } from "./kernels/kernel_arguments.ts";
import { createTensorMap, type TensorMap, type TensorMapOptions, type TensorMemory } from "./kernels/tensor_map.ts";
import type { OpenedObject } from "./opened_objects.ts";
import type { AnyKernels, Ptx } from "./kernels/parameter_types.ts";
import {
  defaultStream,
  type Driver,
  eventFlags,
  ipcHandleByteLength,
  memLocationType,
  streamFlags,
} from "../driver.ts";
import { createPool, MemoryPool, type PoolOptions, poolOptions } from "../memory/pools/memory_pool.ts";
import { CudaError } from "../support/errors.ts";
import { cannot, driverErrorOf, openingHint } from "../support/driver_errors.ts";
import { type ImportedMemoryPool, importPool } from "../memory/handles/imported_memory_pool.ts";
import {
  allocateManagedMemory,
  allocateMemory,
  type AllocateOptions,
  openMemory,
  wrapMemory,
  type WrapOptions,
} from "../memory/unpooled_memory.ts";
import {
  createMemory,
  importMemory,
  type PhysicalMemory,
  type PhysicalMemoryOptions,
} from "../memory/virtual/physical_memory.ts";
import type { ArrayFormat, CudaArrayOptions } from "../memory/arrays/array_format.ts";
import { createArray, type CudaArray } from "../memory/arrays/cuda_array.ts";
import type { Extent } from "../memory/pitched_array.ts";
import {
  createMipmappedArray,
  type CudaMipmappedArray,
  type MipmappedArrayOptions,
} from "../memory/arrays/mipmapped_array.ts";
import { createSurface, type CudaSurface } from "./textures/cuda_surface.ts";
import { createTexture, type CudaTexture, type TextureSource } from "./textures/cuda_texture.ts";
import type { TextureOptions } from "./textures/texture_options.ts";
import { checkImage } from "../ptx/image_kind.ts";
import type { Session } from "../session.ts";
import type { ShareableHandle } from "../memory/handles/shareable_handle.ts";
import {
  checkBoolean,
  checkOptions,
  didYouMean,
  refuseConstruction,
  refuseNewProperties,
  refuseToReplace,
  whatIs,
} from "../support/validation.ts";
import { formatUuid } from "../support/uuid.ts";
import { errorOfWait, type WaitOptions, waitOptions } from "../support/waiting/waiting.ts";
import { cloneRefusal, openInWorker } from "../support/cloning.ts";
import { RangeError, TypeError } from "../support/program_errors.ts";

const attributePrefix = "cudaDevAttr";
/** The prefix of the device attributes' names in the driver API, as in CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT. */
const driverAttributePrefix = "CU_DEVICE_ATTRIBUTE_";
/** Maps fields of cudaDeviceProp that CUDA has no device attribute for to the equivalent properties of `CudaDevice`. */
const propertyNames: Readonly<Record<string, string>> = {
  totalGlobalMem: "CudaDevice.memoryInfo",
  name: "CudaDevice.name",
  uuid: "CudaDevice.uuid",
  major: "CudaDevice.computeCapability",
  minor: "CudaDevice.computeCapability",
};
const refusalToClone = cloneRefusal("a CudaDevice", openInWorker);

/** A GPU or a software device. Comes from `Cuda.device` or `Cuda.devices`. */
export class CudaDevice {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** The device's number in this process, as in CUDA. */
  readonly ordinal: number;
  /** The stream that is used if no other is given. Disposing it does nothing. */
  readonly defaultStream: CudaStream;
  readonly #session: Session;
  readonly #cuda: Cuda;
  readonly #streams: DeviceStreams;
  #graphMemory: GraphMemory | undefined;
  #limits: DeviceLimits | undefined;
  /** The peer devices to whose memory this device was given access. */
  readonly #peerAccess = new Map<CudaDevice, OpenedObject>();
  readonly #attributes = new Map<number, number>();
  #uuid: string | undefined;
  #name: string | undefined;

  static {
    refuseDisposal(this, "Cannot declare a CudaDevice with using: it has nothing to dispose of; declare it with const");
    refuseNewProperties(this, { name: "CudaDevice", fields: ["cloneRefusal", "ordinal", "defaultStream"] });
    refuseToReplace(this, "limits", "set one of them, such as gpu.limits.stackSize");
    printAs(this, "CudaDevice", (device) => {
      const { hasEnded } = device.#session;
      return `CudaDevice { device ${device.ordinal}, ` +
        `${hasEnded ? "disposed" : stateOf(() => `${device.name}, ${device.uuid}${device.usesMps ? ", MPS" : ""}`)} }`;
    }, ["ordinal", "uuid", "name"]);
  }

  /**
   * Devices come from `Cuda.device` and `Cuda.devices`.
   *
   * @ignore
   */
  constructor(session: Session, ordinal: number, cuda: Cuda) {
    if (session?.opened === undefined) refuseConstruction("CudaDevice", "Cuda.device");
    this.#session = session;
    this.#cuda = cuda;
    this.ordinal = ordinal;
    this.defaultStream = new CudaStream(session, { device: this, handle: defaultStream });
    this.#streams = new DeviceStreams(session, this.defaultStream);
    registerDevice(this, { session, finishedWithoutErrors: () => this.#finish({}, false) });
  }

  /** The `Cuda` object that the device belongs to. */
  get cuda(): Cuda {
    return this.#cuda;
  }

  /**
   * The device's UUID, which is the same in every process: "GPU-14e79943-d9b5-ef5b-1063-3010823d4b49". It starts with
   * "MIG-" for a MIG instance, which is a part of a GPU.
   */
  get uuid(): string {
    return this.#uuid ??= formatUuid(this.#uuidBytes(), this.#kind);
  }

  #uuidBytes(): Uint8Array {
    try {
      return this.#session.driver.deviceGetUuid(this.ordinal);
    } catch (error) {
      throw cannot(`get the UUID of device ${this.ordinal}`, error);
    }
  }

  /**
   * Whether the device is a GPU or a MIG instance. Determined from the product name, which ends with "MIG" and a
   * profile for a MIG instance, as in "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
   */
  get #kind(): "GPU" | "MIG" {
    return / MIG \d/.test(this.name) ? "MIG" : "GPU";
  }

  /** The product name. */
  get name(): string {
    try {
      return this.#name ??= this.#session.driver.deviceGetName(this.ordinal);
    } catch (error) {
      throw cannot(`get the name of device ${this.ordinal}`, error);
    }
  }

  /** The compute capability: 9 and 0 for an H200. */
  get computeCapability(): readonly [major: number, minor: number] {
    return [this.attribute("computeCapabilityMajor"), this.attribute("computeCapabilityMinor")];
  }

  /**
   * Whether this process uses the device through MPS (Multi-Process Service), which runs the work of several processes
   * in one server. Undefined if the driver is too old to report it.
   *
   * With MPS, the work of a process that is killed may outlive the process, so memory that it had mapped may be written
   * after an `Exporter` has reused it. A fault in one process can terminate the others.
   *
   * @see https://docs.nvidia.com/deploy/mps/
   */
  get usesMps(): boolean | undefined {
    try {
      return this.attribute("mpsEnabled") === 1;
    } catch (error) {
      if (error instanceof CudaError && error.code === "cudaErrorInvalidValue") return undefined;
      throw error;
    }
  }

  /**
   * Returns a device attribute by CUDA's name: "multiProcessorCount" for cudaDevAttrMultiProcessorCount. The value is
   * the one that CUDA returns: sizes are in bytes, clock rates in kilohertz, and an attribute that states whether the
   * device supports a feature is 1 or 0.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
   * @throws {TypeError} If the name is not a string
   * @throws {RangeError} If CUDA has no attribute of this name
   * @throws {CudaError} `cudaErrorInvalidValue` if the driver is too old for the attribute
   */
  attribute(name: DeviceAttributeName): number {
    if (typeof name !== "string") {
      const [known = "multiProcessorCount"] = Object.entries(deviceAttributes).find(([, number]) => number === name) ??
        [];
      throw new TypeError(`Cannot get an attribute by ${whatIs(name)}: give its name, such as "${known}"`);
    }
    if (!Object.hasOwn(deviceAttributes, name)) {
      throw new RangeError(`Cannot get the attribute "${name}": ${whyNoAttribute(name)}`);
    }
    const number = deviceAttributes[name];
    let value = this.#attributes.get(number);
    if (value === undefined) {
      try {
        value = this.#session.driver.deviceGetAttribute(this.ordinal, number);
      } catch (error) {
        throw cannot(`get the attribute "${name}" of device ${this.ordinal}`, error, "a newer driver may have it");
      }
      this.#attributes.set(number, value);
    }
    return value;
  }

  /**
   * Creates the device's context, which otherwise the first operation that needs the device does. This takes 100 to 300
   * milliseconds on a GPU, which Deno spends in another thread: connect to other processes and read files meanwhile. In
   * Bun and Node, the call blocks. If the context exists already, or on the software device, it does nothing.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
   * @throws {CudaError} If the device has too little free memory, or is lost
   *
   * @example
   * ```ts ignore
   * using cuda = open();
   * const initialized = cuda.device(0).initialize();
   * await using client = await StoreClient.connect(cuda, "/run/poolpass/store.sock");
   * const [weights] = await Promise.all([client.map("weights"), initialized]);
   * ```
   */
  async initialize(): Promise<void> {
    try {
      await this.#session.driver.deviceInitialize(this.ordinal);
    } catch (error) {
      throw cannot(`initialize device ${this.ordinal}`, error);
    }
  }

  /**
   * Returns the size of the device's memory and how much of it is free, in bytes.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @throws {CudaError} If the device is lost
   */
  memoryInfo(): { free: number; total: number } {
    try {
      return this.#session.driver.memGetInfo(this.ordinal);
    } catch (error) {
      throw cannot(`get the memory size of device ${this.ordinal}`, error);
    }
  }

  /**
   * Returns the least and the greatest priority that streams can have. Lower numbers are greater priorities: an H200
   * has 0 and -5. Both are 0 if the device does not support priorities.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html
   *
   * @example
   * ```ts ignore
   * using urgent = gpu.createStream({ nonBlocking: true, priority: gpu.streamPriorityRange().greatest });
   * ```
   */
  streamPriorityRange(): { least: number; greatest: number } {
    try {
      return this.#session.driver.deviceGetStreamPriorityRange(this.ordinal);
    } catch (error) {
      throw cannot(`get the priorities of streams on device ${this.ordinal}`, error);
    }
  }

  /**
   * The memory that the device keeps for allocations in graphs. Pools do not count it.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   */
  get graphMemory(): GraphMemory {
    return this.#graphMemory ??= graphMemoryOf(this.#session, this.ordinal);
  }

  /**
   * The limits of the device for its kernels, such as the size of their stack and of their heap. Each can be set.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
   *
   * @example
   * ```ts
   * import { open } from "./mod.ts";
   *
   * using cuda = open();
   * const gpu = cuda.device(0);
   * gpu.limits.stackSize = 4096; // of each thread
   * gpu.limits.mallocHeapSize = 64 * 2 ** 20; // before the first kernel that uses malloc
   * console.log(gpu.limits);
   * ```
   */
  get limits(): DeviceLimits {
    return this.#limits ??= limitsOf(this.#session, this.ordinal);
  }

  /**
   * Creates a graph without nodes, to which the program adds nodes by hand, or into which it captures streams.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
   * @throws {CudaError} `cudaErrorCallRequiresNewerDriver` before CUDA 12.0
   */
  createGraph(): CudaGraph {
    return createGraph(this.#session, this);
  }

  /**
   * Creates a tensor map: the description of a tensor in device memory that a kernel needs to copy boxes of it between
   * global and shared memory with `cp.async.bulk.tensor`. A kernel takes it as a `const __grid_constant__ CUtensorMap`.
   *
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TENSOR__MEMORY.html
   * @param memory The memory that contains the tensor.
   * @throws {TypeError} If an option is unknown or has the wrong type, or `memory` is not device memory of the same `Cuda`
   * object
   * @throws {RangeError} If the tensor is not in the memory, or does not meet CUDA's requirements
   * @throws {ReferenceError} If the memory was freed
   * @throws {CudaError} `cudaErrorCallRequiresNewerDriver` before CUDA 12.0, or an error if the device has no tensor maps:
   * its compute capability must be 9.0 or higher
   *
   * @example
   * ```ts
   * import { open } from "./mod.ts";
   *
   * using cuda = open();
   * const gpu = cuda.device(0);
   * using pool = gpu.createPool();
   * using matrix = pool.allocateArray(Float16Array, { shape: [512, 256] });
   * const map = gpu.createTensorMap(matrix, { box: [64, 64], swizzle: "128B" });
   * console.log(map); // TensorMap { float16[512, 256] }
   * ```
   */
  createTensorMap(memory: TensorMemory, options: TensorMapOptions): TensorMap {
    return createTensorMap(memory, options, { session: this.#session, device: this });
  }

  /**
   * Creates a stream.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html
   * @throws {TypeError} If an option is unknown or has the wrong type
   * @throws {RangeError} If the priority is not in the device's range
   * @throws {CudaError} If the device has no resources left, or is lost
   */
  createStream(options: StreamOptions = {}): CudaStream {
    checkOptions(options, streamOptions);
    const { priority = 0, nonBlocking = false } = options;
    const given = checkPriority(priority, this, "a stream");
    checkBoolean(nonBlocking, "a stream's nonBlocking");
    const flags = nonBlocking ? streamFlags.nonBlocking : streamFlags.default;
    let handle: bigint;
    try {
      handle = this.#session.driver.streamCreateWithPriority(this.ordinal, flags, priority);
    } catch (error) {
      throw cannot(`create a stream on device ${this.ordinal}`, error);
    }
    const stream: CudaStream = new CudaStream(this.#session, {
      device: this,
      handle,
      isNonBlocking: nonBlocking,
      priority: given,
      onDispose: () => this.#streams.delete(stream, handle),
    });
    this.#streams.add(stream);
    return stream;
  }

  /**
   * Creates an event.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__EVENT.html
   * @throws {TypeError} If an option is unknown or not a boolean, or both `timing` and `interprocess` are set
   * @throws {CudaError} `cudaErrorNotSupported` if `interprocess` is set and the device has no events that other
   * processes can open
   */
  createEvent(options: EventOptions = {}): CudaEvent {
    checkOptions(options, eventOptions);
    const { timing = false, blockingSync = false, interprocess = false } = options;
    checkBoolean(timing, "an event's timing");
    checkBoolean(blockingSync, "an event's blockingSync");
    checkBoolean(interprocess, "an event's interprocess");
    if (timing && interprocess) {
      throw new TypeError("Cannot create an interprocess event with timing: CUDA has no such events; leave timing out");
    }
    const flags = (timing ? 0 : eventFlags.disableTiming) | (blockingSync ? eventFlags.blockingSync : 0) |
      (interprocess ? eventFlags.interprocess : 0);
    try {
      const handle = this.#session.driver.eventCreateWithFlags(this.ordinal, flags);
      return new CudaEvent(this.#session, { device: this, handle, isInterprocess: interprocess, hasTiming: timing });
    } catch (error) {
      const hint = interprocess ? 'attribute("ipcEventSupport") is 1 if other processes can open it' : undefined;
      throw cannot(`create an event on device ${this.ordinal}`, error, hint);
    }
  }

  /**
   * Creates a memory pool on the device. `maxSize` needs CUDA 12.2.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} If `handleType` is not a valid type, or requests sharing where sharing is not supported:
   * without FFI, or on a system other than Linux
   * @throws {RangeError} If a size is not valid
   * @throws {CudaError} If the device does not support such pools; `cudaErrorCallRequiresNewerDriver` if a newer driver
   * would support them
   */
  createPool(options: PoolOptions = {}): MemoryPool {
    checkOptions(options, poolOptions);
    const location = { type: memLocationType.device, id: this.ordinal };
    return createPool(this.#session, { location, device: this, name: `on device ${this.ordinal}` }, options);
  }

  /**
   * The device's default pool. It cannot be shared, and disposing it does nothing.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
   */
  get defaultPool(): MemoryPool {
    return this.#poolOf(() => this.#session.driver.deviceGetDefaultMemPool(this.ordinal));
  }

  /**
   * The pool from which `cudaMallocAsync` allocates in this process, including when other libraries call it. Can be
   * set. When the pool is disposed, the default pool becomes current again.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
   * @throws {TypeError} If it is set to anything but a `MemoryPool`, such as an `ImportedMemoryPool`
   * @throws {RangeError} If it is set to a pool of another device, or in host memory
   * @throws {ReferenceError} If it is set to a pool that was disposed
   */
  get currentPool(): MemoryPool {
    return this.#poolOf(() => this.#session.driver.deviceGetMemPool(this.ordinal));
  }

  set currentPool(pool: MemoryPool) {
    if (!(pool instanceof MemoryPool)) {
      throw new TypeError(
        `Cannot make ${
          whatIs(pool, "MemoryPool")
        } the current pool of device ${this.ordinal}: give a MemoryPool of that device`,
      );
    }
    if (pool.device !== this) {
      throw new RangeError(
        `Cannot make a pool ${
          this.#placeOf(pool)
        } the current pool of device ${this.ordinal}: give a pool of that device`,
      );
    }
    try {
      this.#session.driver.deviceSetMemPool(this.ordinal, pool.unsafeHandle);
    } catch (error) {
      throw cannot(`set the current pool of device ${this.ordinal}`, error);
    }
  }

  #placeOf({ device, isManaged }: MemoryPool): string {
    if (isManaged) return "of managed memory";
    if (device === undefined) return "in host memory";
    return device.ordinal === this.ordinal ? "of another Cuda object" : `of device ${device.ordinal}`;
  }

  #poolOf(ask: () => bigint): MemoryPool {
    let handle: bigint;
    try {
      handle = ask();
    } catch (error) {
      throw cannot(`get the pool of device ${this.ordinal}`, error);
    }
    return this.#session.pools.get(handle) ??
      new MemoryPool(this.#session, { device: this, handle, handleTypes: [], isOwned: false });
  }

  /**
   * Allocates managed memory outside any pool, with `cudaMallocManaged`: the host and all devices access it at the same
   * address. Freeing it blocks until the device's work is done. With CUDA 13, prefer a pool of `Cuda.createManagedPool`.
   *
   * @param byteLength Size in bytes, at least 1.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @throws {TypeError} If `byteLength` is not a number
   * @throws {RangeError} If `byteLength` is not a whole number, or is less than 1
   * @throws {CudaError} `cudaErrorMemoryAllocation` if the memory, together with the other managed memory of the `Cuda`
   * object, does not fit the device; `cudaErrorNotSupported` if the device has no managed memory
   *
   * @example
   * ```ts
   * import { open } from "./mod.ts";
   *
   * using cuda = open();
   * const gpu = cuda.device(0);
   * using memory = gpu.allocateManaged(4096);
   * using x = memory.as(Float32Array);
   * new Float32Array(x.hostView()).fill(2); // the host writes it in place
   * console.log((await x.toTypedArray())[0]);
   * ```
   */
  allocateManaged(byteLength: number): DeviceBuffer {
    return allocateManagedMemory(this.#session, this, byteLength);
  }

  /**
   * Creates an array: memory that textures and surfaces read and write, in a layout of CUDA's own. Its elements are
   * undefined at first.
   *
   * @param format The format of each channel.
   * @param size Elements in a row, rows, and slices; with `layered`, the last number counts layers. One number or two
   * make an array of one or two dimensions.
   * @param options The number of channels, layers, and what kernels may do with the array.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @throws {TypeError} If an argument has the wrong type, or the format is unknown
   * @throws {RangeError} If an extent is not a whole number of at least 1, or the shape is not that of the options
   * @throws {CudaError} `cudaErrorInvalidValue` if the array is too large for the device,
   * `cudaErrorMemoryAllocation` if too little memory is left
   */
  createArray(format: ArrayFormat, size: Extent, options: CudaArrayOptions = {}): CudaArray {
    return createArray(this.#session, this, { format, size, options });
  }

  /**
   * Creates an array in several sizes, each half as large as the one before, for textures that are read at a level of
   * detail. Each level is a `CudaArray`: copy its elements to it.
   *
   * @param format The format of each channel.
   * @param size The size of the largest level, as for `createArray`.
   * @param options The number of levels, and the options of `createArray`.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @throws {TypeError} If an argument has the wrong type, or the format is unknown
   * @throws {RangeError} If an extent or the number of levels is not possible
   * @throws {CudaError} `cudaErrorMemoryAllocation` if too little memory is left
   */
  createMipmappedArray(format: ArrayFormat, size: Extent, options: MipmappedArrayOptions = {}): CudaMipmappedArray {
    return createMipmappedArray(this.#session, this, { format, size, options });
  }

  /**
   * Creates a surface, by which kernels read and write an array that was created with `surface: true`.
   *
   * @param array The array.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__SURFACE__OBJECT.html
   * @throws {TypeError} If `array` is not a `CudaArray`
   * @throws {RangeError} If the array has no surfaces, or is on another device
   * @throws {ReferenceError} If the array was disposed
   */
  createSurface(array: CudaArray): CudaSurface {
    return createSurface(this.#session, this, array);
  }

  /**
   * Creates a texture, by which kernels read an array, rows or a buffer. Rows and buffers must begin at a multiple of the
   * attribute `textureAlignment`; those of `MemoryPool.allocatePitched` do. A texture of a buffer is read by `tex1Dfetch`,
   * without filter and address mode.
   *
   * @param source What the texture reads.
   * @param options How kernels read it.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TEXTURE__OBJECT.html
   * @throws {TypeError} If an argument has the wrong type, or an option is unknown
   * @throws {RangeError} If an option does not fit the source
   * @throws {ReferenceError} If the source was disposed or freed
   * @throws {CudaError} `cudaErrorInvalidValue` if the memory is not aligned
   */
  createTexture(source: TextureSource, options: TextureOptions = {}): CudaTexture {
    return createTexture(this.#session, this, { source, options });
  }

  /**
   * Allocates memory outside any pool, with `cudaMalloc`. Legacy IPC handles can share only such memory. Freeing it
   * blocks until the device's work is done.
   *
   * With `{ handleType: "posix-fd" }`, an `Exporter` can offer the memory to other processes, like memory of a pool.
   * Unlike an allocation from a pool, which CUDA can share only up to 4 GiB, the memory may have any size. It is
   * allocated with `cuMemCreate`, in multiples of 2 MiB, and only this device can access it. Freeing it blocks until
   * the work that uses it is done.
   *
   * @param byteLength Size in bytes, at least 1.
   * @param options Whether other processes can import the memory through a descriptor.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html
   *
   * @example A buffer of 16 GiB for other processes
   * ```ts ignore
   * using tensor = gpu.allocate(2 ** 34, { handleType: "posix-fd" });
   * exporter.offer("tensor", tensor, { stream });
   * ```
   *
   * @throws {TypeError} If `byteLength` is not a number, a stream is given, or an option or the handle type is unknown
   * @throws {RangeError} If `byteLength` is not a whole number, or is less than 1
   * @throws {CudaError} `cudaErrorMemoryAllocation` if too little memory is left
   */
  allocate(byteLength: number, options: AllocateOptions = {}): DeviceBuffer {
    return allocateMemory(this.#session, this, { byteLength, options });
  }

  /**
   * Creates a buffer over memory that other code owns: another library of this process, or code that calls CUDA
   * directly. poolpass never frees the memory: `free` and `using` only make the buffer unusable.
   *
   * The owner must keep the memory until the buffer is freed, and until the work that uses it, including pending reads,
   * is done: wait for the buffer's streams before the owner frees it. This call checks once that the memory exists;
   * later uses are not checked. The address may point to device memory, managed memory, or page-locked host memory, and
   * may be in the middle of an allocation. Memory of poolpass can be wrapped too.
   *
   * The buffer can be used like any other, except that it cannot be exported or offered to other processes, nor viewed
   * with `hostView`.
   *
   * @param address The device address, a `void*` or `CUdeviceptr`.
   * @param byteLength Size of the buffer in bytes, at least 1. It must end within the allocation. If `cuMemMap` has
   * mapped several allocations next to each other, wrap each of them.
   * @param options The buffer's stream.
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__UNIFIED.html
   * @throws {TypeError} If an argument has the wrong type, or an option is unknown
   * @throws {RangeError} If the address is 0, the buffer extends beyond the end of the allocation, or the memory is on
   * another device
   * @throws {ReferenceError} If the stream was disposed
   * @throws {CudaError} `cudaErrorInvalidValue` if no memory known to CUDA is at the address
   *
   * @example
   * ```ts ignore
   * using theirs = gpu.wrap(buffer.address, 4096, { stream }); // or an address from another library
   * kernel.launch({ grid, block, stream }, theirs, 4096, 7);
   * await stream.finished(); // before the owner frees the memory
   * ```
   */
  wrap(address: bigint, byteLength: number, options: OrStream<WrapOptions> = {}): DeviceBuffer {
    return wrapMemory(this.#session, this, { address, byteLength }, options);
  }

  /**
   * Creates a stream object for a stream that other code owns: another library of this process, or code that calls CUDA
   * directly. poolpass never destroys the stream: disposing the object only makes the object unusable.
   *
   * The owner must keep the stream until the object is disposed. Streams of other devices, and of contexts other than
   * the device's primary context, are refused. A handle that is wrong, or that belongs to a destroyed stream, cannot
   * always be detected and may crash the process.
   *
   * Returns `defaultStream` for the handles 0 and 1, which both denote the legacy default stream. Refuses the handle 2,
   * `cudaStreamPerThread`, which denotes a different stream on each thread.
   *
   * @param handle The `cudaStream_t` or `CUstream`.
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__STREAM.html
   * @throws {TypeError} If the handle is not a bigint
   * @throws {RangeError} If no stream can have the handle, or the stream does not belong to the device's primary
   * context
   * @throws {CudaError} `cudaErrorInvalidResourceHandle` if CUDA does not recognize the handle
   *
   * @example
   * ```ts ignore
   * using theirs = gpu.wrapStream(stream.unsafeHandle); // or the cudaStream_t of another library
   * kernel.launch({ grid, block, stream: theirs }, buffer, 4096, 7);
   * await theirs.finished();
   * ```
   */
  wrapStream(handle: bigint): CudaStream {
    return wrapStream(this.#session, this, handle, (stream) => {
      this.#streams.add(stream);
      return () => this.#streams.delete(stream, handle);
    });
  }

  /**
   * Loads a module. If the image is a {@linkcode Ptx}, or a type argument lists its kernels, TypeScript completes the
   * kernels' names, and checks the arguments of launches.
   *
   * @param image PTX as a string, or the bytes of PTX, a cubin or a fatbin.
   * @param options Options of the driver's compiler, which compiles PTX.
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MODULE.html
   * @throws {TypeError} If `image` is clearly not an image, or an option is unknown or not valid
   * @throws {RangeError} If the value of an option is out of its range
   * @throws {CudaError} `cudaErrorInvalidPtx`, with the compiler's message, if the PTX is not valid. Instructions that
   * the software device does not support are refused later, by {@linkcode CudaModule.kernel}, for the kernels that use
   * them.
   */
  loadModule<Kernels extends { [Name in keyof Kernels]: readonly KernelArgument[] } = AnyKernels>(
    image: Ptx<Kernels> | string | Uint8Array,
    options: LoadModuleOptions = {},
  ): CudaModule<Kernels> {
    checkImage(image);
    const checked = jitOptions(options, "load a module");
    return loadModule(this.#session, this, image, { options: checked }) as CudaModule<Kernels>;
  }

  /**
   * Links several images into one module. Each image can use functions and variables that another one defines. Such
   * images are compiled with `-rdc=true`, by nvcc or by `Cuda.compile` with this flag.
   *
   * The driver's linker links them. PTX that is newer than the driver, and LTO IR, need nvJitLink, a library of the
   * CUDA toolkit. The software device links only PTX.
   *
   * @param images PTX as strings, or the bytes of PTX, cubins, fatbins, host objects or libraries with device code, or
   * LTO IR. Errors and the log refer to an image by its name if it is given as `{ name, image }`, otherwise by its
   * index.
   * @param options Options of the driver's compiler, for the images that are PTX.
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MODULE.html
   * @see https://docs.nvidia.com/cuda/nvjitlink/
   * @throws {TypeError} If an element of `images` is clearly not an image, or an option is unknown or not valid
   * @throws {RangeError} If there are no images, or the value of an option is out of its range
   * @throws {CudaError} With the linker's message: `cudaErrorInvalidPtx` if PTX is not valid, `cudaErrorInvalidSource`
   * if a symbol is defined twice or not at all
   *
   * @example
   * ```ts
   * import { open } from "./mod.ts";
   *
   * const header = ".version 7.0\n.target sm_60\n.address_size 64\n";
   * using cuda = open();
   * using module = cuda.device(0).link([
   *   `${header} .extern .global .u32 count; .visible .entry reset() { st.global.u32 [count], 0; ret; }`,
   *   { name: "count.ptx", image: `${header} .visible .global .u32 count = 7;` },
   * ]);
   * console.log(module.kernelNames, module.getGlobal("count").readSync(Uint32Array)[0]); // [ "reset" ] 7
   * ```
   */
  link(images: readonly (string | Uint8Array | LinkImage)[], options: LoadModuleOptions = {}): CudaModule {
    const checked = linkedImages(images);
    return linkModule(this.#session, this, checked, { options: jitOptions(options, "link images") });
  }

  /**
   * Compiles CUDA C++ and loads the result, by default for the device's own architecture.
   *
   * NVRTC compiles in this process. It needs no GPU and no CUDA toolkit: `pip install nvidia-cuda-nvrtc` in an active
   * virtual environment is enough. `threadIdx`, `sinf` and the like need no `#include`; CUDA's headers, such as
   * `<cuda_fp16.h>`, come with the toolkit, or from `pip install nvidia-cuda-runtime nvidia-cuda-cccl`. Without NVRTC,
   * nvcc or clang on the `PATH` is run, if the program may run other programs. `open({ compileCache })` keeps the
   * results on disk.
   *
   * C++ mangles the names of kernels that are not declared `extern "C"`. To find these by their C++ names, list the
   * names in `nameExpressions`.
   *
   * A type argument declares the kernels of the source for TypeScript, as in {@linkcode Ptx}: `compile<{ square: [x:
   * Pointer<Float32Array>, n: number] }>(source)`. The host is blocked while the compiler runs.
   *
   * @param source CUDA C++.
   * @param options Options of the compiler: headers, macros, templates to instantiate, the architecture.
   * @see https://docs.nvidia.com/cuda/nvrtc/
   * @throws {CompileError} If the compiler refuses the source
   * @throws {TypeError} If the source is not a string, or an option is unknown or not valid
   * @throws {RangeError} If an option's value is not valid, or the compiler refuses it
   * @throws {CudaError} If the driver refuses the compiled module
   * @throws {Error} If there is no compiler
   *
   * @example
   * ```ts
   * import { open } from "./mod.ts";
   *
   * using cuda = open();
   * const gpu = cuda.device(0);
   * using module = gpu.compile(`
   *   extern "C" __global__ void square(float* x, int n) {
   *     int i = blockIdx.x * blockDim.x + threadIdx.x;
   *     if (i < n) x[i] *= x[i];
   *   }
   * `);
   * using x = gpu.currentPool.allocateArray(Float32Array, 3);
   * x.copyFrom(new Float32Array([1, 2, 3]));
   * module.kernel("square").launch({ grid: 1, block: 32 }, x, 3);
   * console.log(await x.toTypedArray()); // Float32Array(3) [ 1, 4, 9 ]
   * ```
   */
  compile<Kernels extends { [Name in keyof Kernels]: readonly KernelArgument[] } = AnyKernels>(
    source: string,
    options: CompileOptions = {},
  ): CudaModule<Kernels> {
    return compileModule(this.#session, this, source, options) as CudaModule<Kernels>;
  }

  /**
   * Imports a pool of another process from the handle that the other process has exported. The caller still owns the
   * handle.
   *
   * @param handle The handle of the exporter's `MemoryPool.exportHandle`. `ShareableHandle.fromFd` creates a handle
   * from a file descriptor.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} If `handle` is not a `ShareableHandle`
   * @throws {RangeError} If the pool's memory is on another device
   * @throws {CudaError} If the descriptor or the fabric handle does not refer to a pool, or the exporter of a fabric
   * handle has exited: `cudaErrorInvalidResourceHandle` on a software device
   */
  importPool(handle: ShareableHandle): ImportedMemoryPool {
    return importPool(this.#session, this, handle);
  }

  /**
   * Creates physical memory with `cuMemCreate`. It has no address until it is mapped in an `AddressRange`, which
   * `Cuda.reserveAddresses` creates. Such memory outlives the process that created it, as long as another process has a
   * handle, a descriptor or a mapping of it, except for memory with handleType "fabric".
   *
   * @param byteLength Size in bytes, at least 1. It is rounded up to a multiple of the device's granularity, which is
   * usually 2 MiB.
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html
   * @throws {TypeError} If `handleType` is not a valid type, or requests sharing where sharing is not supported
   * @throws {RangeError} If the size is not valid
   * @throws {CudaError} `cudaErrorMemoryAllocation` if too little memory is left, `cudaErrorNotPermitted` for "fabric"
   * without an IMEX channel, `cudaErrorNotSupported` on a software device without FFI
   */
  createMemory(byteLength: number, options: PhysicalMemoryOptions = {}): PhysicalMemory {
    return createMemory(this.#session, this, { byteLength, options });
  }

  /**
   * Imports memory of another process from the handle that `PhysicalMemory.exportHandle` has returned in that process.
   * The caller still owns the handle. The memory remains allocated if the other process exits, unless the handle is a
   * fabric handle.
   *
   * @param byteLength The memory's size in bytes, as created by the exporting process. CUDA does not report the size,
   * but it is checked.
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html
   * @throws {TypeError} If `handle` is not a `ShareableHandle`
   * @throws {RangeError} If the memory's size is not `byteLength`, or the memory is on another device
   * @throws {CudaError} If the descriptor or the fabric handle does not refer to memory, or the exporter of a fabric
   * handle has exited: `cudaErrorInvalidResourceHandle` on a software device
   */
  importMemory(handle: ShareableHandle, byteLength: number): PhysicalMemory {
    return importMemory(this.#session, this, { handle, byteLength });
  }

  /**
   * Opens an interprocess event of another process. If that process dies after recording the event, but before its
   * stream reaches the record, streams that wait for the event wait forever. If that process has already exited, a new
   * event is created instead, which is complete.
   *
   * @param handle The 64 bytes of `CudaEvent.exportHandle`.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
   * @throws {TypeError} If `handle` is not a `Uint8Array`
   * @throws {RangeError} If `handle` does not have 64 bytes
   * @throws {CudaError} `cudaErrorDeviceUninitialized` if called in the process that created the event,
   * `cudaErrorMapBufferObjectFailed` if the handle does not belong to an event, or if the process that created the
   * event is not visible to this process, for example because it is in another container
   */
  openEvent(handle: Uint8Array): CudaEvent {
    checkIpcHandle(handle, "an event");
    try {
      this.#session.ipcHandleLayouts.checkEvent(this.ordinal, handle);
      const opened = this.#session.driver.ipcOpenEventHandle(this.ordinal, handle);
      return new CudaEvent(this.#session, { device: this, handle: opened, isInterprocess: true, isOpened: true });
    } catch (error) {
      const hint = openingHint(error, "event");
      throw cannot(`open an event of another process on device ${this.ordinal}`, error, hint);
    }
  }

  /**
   * Maps memory that another process has allocated with `CudaDevice.allocate`. Enables peer access if needed. The other
   * process must not free the memory before this process has freed the buffer.
   *
   * Freeing the memory here blocks until its stream is idle, and cannot be interrupted, even if the stream waits for an
   * event of a process that has died.
   *
   * @param handle The 64 bytes of `DeviceBuffer.exportHandle`.
   * @param byteLength Size of the buffer in bytes. It may be less than the other process has allocated.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
   * @throws {TypeError} If `handle` is not a `Uint8Array`
   * @throws {RangeError} If `handle` does not have 64 bytes, or `byteLength` is not a whole number, or is less than 1
   * @throws {SharingError} `size-mismatch` if the other process has allocated less than `byteLength` bytes
   * @throws {CudaError} `cudaErrorDeviceUninitialized` if called in the process that allocated the memory
   */
  openMemory(handle: Uint8Array, byteLength: number): DeviceBuffer {
    checkIpcHandle(handle, "memory");
    return openMemory(this.#session, this, { handle, byteLength });
  }

  /**
   * Whether kernels of this device can be given access to the memory of `peer`. False for the device itself.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__PEER.html
   * @throws {TypeError} If `peer` is not a device of the same `Cuda` object
   */
  canAccessPeer(peer: CudaDevice): boolean {
    checkDevice(peer, this.#session);
    try {
      return this.#session.driver.deviceCanAccessPeer(this.ordinal, peer.ordinal);
    } catch (error) {
      throw cannot(`determine whether device ${this.ordinal} can access device ${peer.ordinal}`, error);
    }
  }

  /**
   * Gives this device access to the memory on `peer`, except for memory of pools and address ranges, whose own
   * `setAccess` applies.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__PEER.html
   * @throws {TypeError} If `peer` is not a device of the same `Cuda` object
   * @throws {CudaError} `cudaErrorPeerAccessAlreadyEnabled` if access is enabled already,
   * `cudaErrorPeerAccessUnsupported` if the devices are not peers
   */
  enablePeerAccess(peer: CudaDevice): void {
    checkDevice(peer, this.#session);
    try {
      this.#session.driver.deviceEnablePeerAccess(this.ordinal, peer.ordinal);
      const opened = { release: (driver: Driver) => driver.deviceDisablePeerAccess(this.ordinal, peer.ordinal) };
      this.#peerAccess.set(peer, opened);
      this.#session.opened.add(opened);
    } catch (error) {
      const what = `enable access of device ${this.ordinal} to the memory of device ${peer.ordinal}`;
      throw cannot(what, error, peer === this ? "a device has access to its own memory" : peerHint(error));
    }
  }

  /**
   * Revokes the access that `enablePeerAccess` gave.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__PEER.html
   * @throws {TypeError} If `peer` is not a device of the same `Cuda` object
   * @throws {CudaError} `cudaErrorPeerAccessNotEnabled` if access is not enabled
   */
  disablePeerAccess(peer: CudaDevice): void {
    checkDevice(peer, this.#session);
    try {
      this.#session.driver.deviceDisablePeerAccess(this.ordinal, peer.ordinal);
      // Access may also have been enabled by opening memory of another process, which adds nothing to `#peerAccess`.
      const opened = this.#peerAccess.get(peer);
      if (opened !== undefined) this.#session.opened.delete(opened);
      this.#peerAccess.delete(peer);
    } catch (error) {
      const what = `disable access of device ${this.ordinal} to the memory of device ${peer.ordinal}`;
      throw cannot(what, error, peer === this ? "a device has access to its own memory" : peerHint(error));
    }
  }

  /**
   * Blocks until all work of the device is done.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
   * @throws {CudaError} The work's error, if it has failed
   * @throws {SharingError} The error of a failed collective that the work depends on. Each such error is thrown only
   * once.
   */
  synchronize(): void {
    try {
      this.#session.driver.deviceSynchronize(this.ordinal);
      this.#session.waitErrors?.throwErrorOfDevice(this.ordinal);
      for (const stream of this.#session.streams) if (stream.device === this) progressOf(stream).completeAll();
    } catch (error) {
      throw cannot(`wait for device ${this.ordinal}`, error);
    }
  }

  /**
   * Resolves when all work enqueued on the device's streams so far is done, including streams of other libraries and
   * disposed ones. This does not make streams wait for each other. Unlike `synchronize`, it does not make pools release
   * memory to the system; but a later `trimTo` or `usage` of a pool counts the work as done.
   *
   * Before CUDA 12.5, and while a stream is being captured into a graph, waits only for streams of the same `Cuda`
   * object, and not for those that are being captured. During a capture, it does not wait for disposed streams either.
   *
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__CTX.html
   * @throws {CudaError} The work's error, if it has failed
   * @throws {SharingError} The error of a failed collective that the work depends on. Each such error is thrown only
   * once.
   */
  async finished(options: WaitOptions = {}): Promise<void> {
    checkOptions(options, waitOptions);
    const { recorder } = this.#session;
    if (recorder === undefined) await this.#finish(options, true);
    else await recorder.wait("device", this.ordinal, this.ordinal, () => this.#finish(options, true));
  }

  async #finish(options: WaitOptions, throwsErrors: boolean): Promise<void> {
    try {
      await this.#streams.finished(options, throwsErrors);
    } catch (error) {
      const awaited = `device ${this.ordinal}`;
      throw cannot(`wait for ${awaited}`, errorOfWait(driverErrorOf(error), awaited, options));
    }
  }
}

function checkIpcHandle(handle: Uint8Array, what: string): void {
  if (!(handle instanceof Uint8Array)) throw new TypeError(`Cannot open ${what}: give its handle as a Uint8Array`);
  if (handle.byteLength === ipcHandleByteLength) return;
  throw new RangeError(
    `Cannot open ${what} with a handle of ${handle.byteLength} bytes: a handle has ${ipcHandleByteLength}`,
  );
}

function whyNoAttribute(name: string): string {
  const hasPrefix = name.startsWith(attributePrefix);
  const rest = hasPrefix ? name.slice(attributePrefix.length) : "";
  const plain = rest.charAt(0).toLowerCase() + rest.slice(1);
  if (Object.hasOwn(deviceAttributes, plain)) return `leave the prefix out: "${plain}"`;
  const meant = hasPrefix
    ? rest
    : name.startsWith(driverAttributePrefix)
    ? name.slice(driverAttributePrefix.length)
    : name;
  if (Object.hasOwn(propertyNames, name)) return `${propertyNames[name]} returns it`;
  return `CUDA has no ${attributePrefix} of that name${didYouMean(meant, Object.keys(deviceAttributes))}`;
}

/** Returns advice for an error that occurred when enabling or disabling peer access. */
function peerHint(error: unknown): string | undefined {
  switch (error instanceof CudaError ? error.code : undefined) {
    case "cudaErrorPeerAccessAlreadyEnabled":
      return "it is enabled already";
    case "cudaErrorPeerAccessNotEnabled":
      return "it is not enabled, so there is nothing to disable";
    case "cudaErrorPeerAccessUnsupported":
      return "the devices are not peers; copy the memory instead";
  }
  return undefined;
}
