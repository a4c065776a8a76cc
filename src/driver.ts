/**
 * The seam between the public objects and CUDA: the interface `Driver`, in the CUDA runtime API's own terms.
 *
 * `Driver` has one method for each CUDA call that the library makes, under CUDA's name without its prefix. Handles and
 * device addresses are bigints, structs are plain objects, and a call that fails throws a `CudaError`. Two rules hold:
 *
 * - There is no current device. A method that depends on a device takes its ordinal as the first argument.
 * - No method returns a promise. A method returns at once unless its name or its documentation says that it waits.
 *
 * @module
 */
import type { KernelChecker } from "./kernel_checker.ts";

/** `cudaMemAllocationHandleType`, a bit set. */
export const memHandleType = { none: 0, posixFileDescriptor: 1, fabric: 8 } as const;

/** `cudaMemLocationType`. */
export const memLocationType = { device: 1, host: 2, hostNuma: 3 } as const;

/** `cudaMemAccessFlags`. */
export const memAccessFlags = { none: 0, read: 1, readWrite: 3 } as const;

/** `CUmemAllocationGranularity_flags`. */
export const allocationGranularity = { minimum: 0, recommended: 1 } as const;

/** `cudaMemPoolAttr`. The values of the first three are ints, those of the others are 64-bit numbers of bytes. */
export const memPoolAttribute = {
  reuseFollowEventDependencies: 1,
  reuseAllowOpportunistic: 2,
  reuseAllowInternalDependencies: 3,
  releaseThreshold: 4,
  reservedMemCurrent: 5,
  reservedMemHigh: 6,
  usedMemCurrent: 7,
  usedMemHigh: 8,
} as const;

/** `CUfunction_attribute`, as far as the library uses it. The last three can be set. */
export const functionAttribute = {
  maxThreadsPerBlock: 0,
  sharedSizeBytes: 1,
  constSizeBytes: 2,
  localSizeBytes: 3,
  numRegs: 4,
  ptxVersion: 5,
  binaryVersion: 6,
  maxDynamicSharedSizeBytes: 8,
  preferredSharedMemoryCarveout: 9,
  nonPortableClusterSizeAllowed: 14,
} as const;

/** `CUfunc_cache`. */
export const functionCache = { preferNone: 0, preferShared: 1, preferL1: 2, preferEqual: 3 } as const;

/** `CUshared_carveout`. Other values are percent of a multiprocessor's shared memory. */
export const sharedCarveout = { default: -1, maxL1: 0, maxShared: 100 } as const;

/** The flags of `cudaStreamCreateWithPriority`. */
export const streamFlags = { default: 0, nonBlocking: 1 } as const;

/** `CUmemorytype`. Managed memory is device memory to the driver. */
export const memoryType = { host: 1, device: 2 } as const;

/** The flags of `cudaEventCreateWithFlags`. */
export const eventFlags = { default: 0, blockingSync: 1, disableTiming: 2, interprocess: 4 } as const;

/** The size of `cudaMemPoolPtrExportData` in bytes. */
export const exportDataByteLength = 64;

/** The size of `cudaIpcMemHandle_t`, and of `cudaIpcEventHandle_t`, in bytes. */
export const ipcHandleByteLength = 64;
/** The size of a fabric handle, in bytes. */
export const fabricHandleByteLength = 64;

/** The default stream of the device that a call names. */
export const defaultStream = 0n;

/** `cudaStreamLegacy`: the default stream too, also in code that was compiled for streams per thread. */
export const legacyStream = 1n;

/** `cudaStreamPerThread`: the default stream of the calling thread. */
export const perThreadStream = 2n;

/** The properties of a stream that decide with which streams CUDA orders its work. */
export interface StreamKind {
  /** The device's ordinal. */
  readonly device: number | undefined;
  readonly isDefault: boolean;
  /** Whether it is a default stream, or was created without `streamFlags.nonBlocking`. */
  readonly isBlocking: boolean;
}

/**
 * Whether CUDA runs the work of two different streams in the order in which it is enqueued, without an event: a device's
 * default stream and its blocking streams wait for each other.
 */
export function areOrderedByDefaultStream(a: StreamKind, b: StreamKind): boolean {
  return a.device === b.device && a.isDefault !== b.isDefault && a.isBlocking && b.isBlocking;
}

/** `cudaMemLocation`: where memory is, or which device accesses it. */
export interface MemLocation {
  readonly type: number;
  /** The device's ordinal, or the NUMA node; 0 for host memory without a node. */
  readonly id: number;
}

/** `cudaMemPoolProps`. */
export interface MemPoolProps {
  readonly handleTypes: number;
  readonly location: MemLocation;
  /** In bytes; 0 leaves the limit to the system. */
  readonly maxSize: bigint;
}

/** `CUmemAllocationProp`: memory of a device, or of a NUMA node of the host. */
export interface MemAllocationProps {
  readonly handleTypes: number;
  readonly location: MemLocation;
}

/** `cudaMemAccessDesc`. */
export interface MemAccessDesc {
  readonly location: MemLocation;
  readonly flags: number;
}

/** A handle of a pool or of memory for another process: a file descriptor, or a 64-byte fabric handle. */
export type OsHandle = number | Uint8Array;

/** A range of memory. */
export interface MemoryRange {
  readonly address: bigint;
  /** Size in bytes. */
  readonly byteLength: number;
}

/**
 * A launch of a kernel, which is filled in and launched any number of times. A launch captures it: it may be changed
 * when `launchKernel` returns.
 */
export interface KernelLaunch {
  readonly device: number;
  readonly kernel: bigint;
  gridX: number;
  gridY: number;
  gridZ: number;
  blockX: number;
  blockY: number;
  blockZ: number;
  /** Dynamic shared memory of a block, in bytes. */
  sharedMemoryBytes: number;
  stream: bigint;
  /** The arguments, packed with the layout of the parameters. */
  readonly parameters: DataView<ArrayBuffer>;
  /** The memory of the buffers among the arguments. Elements that are undefined mean nothing. */
  readonly buffers: readonly (MemoryRange | undefined)[];
}

/** The `CUlaunchAttribute`s of a launch. Those that are undefined or false are left out. */
export interface LaunchAttributes {
  /** Blocks of a cluster in x, y and z. */
  readonly clusterDim: readonly [x: number, y: number, z: number] | undefined;
  readonly cooperative: boolean;
  readonly programmaticStreamSerialization: boolean;
  readonly priority: number | undefined;
}

/** Page-locked host memory: its address for the driver, and its buffer for JavaScript. */
export interface HostAllocation {
  readonly address: bigint;
  readonly buffer: ArrayBuffer;
}

/** What `cuPointerGetAttribute` says of the allocation that contains an address. */
export interface PointerAttributes {
  /** One of `memoryType`. */
  readonly type: number;
  /** The ordinal of the device that has the memory; undefined for host memory. */
  readonly device: number | undefined;
  /** Whether it is managed memory, which all devices can access. */
  readonly isManaged: boolean;
  /** The start of the allocation. */
  readonly base: bigint;
  /** Size of the allocation in bytes. */
  readonly byteLength: number;
}

/** Returns the shape of a launch of one thread on the default stream, for `Driver.createKernelLaunch`. */
export function oneThread(device: number, kernel: bigint): Omit<KernelLaunch, "parameters" | "buffers"> {
  return {
    device,
    kernel,
    gridX: 1,
    gridY: 1,
    gridZ: 1,
    blockX: 1,
    blockY: 1,
    blockZ: 1,
    sharedMemoryBytes: 0,
    stream: defaultStream,
  };
}

/** A buffer that the library has made of a driver's memory, as messages of errors name it. */
export interface NamedBuffer {
  readonly address: bigint;
  readonly byteLength: number;
  readonly isFreed: boolean;
  /** Whether fewer bytes may have been asked for. */
  readonly isRounded?: boolean;
  /** Where it was allocated and freed: lines of call stacks. Undefined if that was not recorded. */
  readonly allocated?: string | undefined;
  readonly freed?: string | undefined;
}

/** The options of the JIT compiler and linker: `CUjit_option`. The software device ignores them. */
export interface JitOptions {
  readonly maxRegisters?: number;
  /** 0 to 4. */
  readonly optimizationLevel?: number;
  readonly lineInfo?: boolean;
  readonly debug?: boolean;
  readonly verbose?: boolean;
  /** Called with what the compiler has said of a module that was loaded. Without it, the driver keeps no such log. */
  readonly onInfoLog?: (log: string) => void;
}

/** The place of a kernel's parameter among the packed ones, in bytes. */
export interface ParameterPlace {
  readonly offset: number;
  readonly byteLength: number;
}

/** An image to link, and the name that messages call it by. */
export interface LinkedImage {
  readonly name: string;
  /** PTX as a string, or the bytes of PTX, a cubin, a fatbin, a host object or library, or LTO IR. */
  readonly image: string | Uint8Array;
}

/** How to ask whether work is done. */
export interface QueryOptions {
  /** Whether to make no progress. */
  readonly peek?: boolean;
  /** Whether the library asks for itself: the sanitizer does not take the program to know the answer. */
  readonly forLibrary?: boolean;
}

/** A CUDA driver; the module's documentation has its rules. Every method throws `CudaError` if its call fails. */
export interface Driver {
  /** What `Cuda.driver` says. The library does not ask for it: what differs between drivers has a name of its own. */
  readonly kind: "cuda" | "software";
  /** `cudaRuntimeGetVersion`; undefined if no runtime library is used. */
  readonly runtimeVersion: number | undefined;
  /** Why pools cannot be shared with other processes here; undefined if they can. */
  readonly sharingRefusal: string | undefined;
  /** Whether it checks what handles of other processes state. CUDA's driver believes it. */
  readonly checksHandles: boolean;
  /** Whether there is `ctxRecordEvent`. */
  readonly hasContextEvents: boolean;
  /**
   * Whether all `Driver` objects of the process share the devices' contexts: some calls wait for the work of all of them.
   */
  readonly contextsAreShared: boolean;
  /** Whether `moduleLoadData`, `linkModules` and `moduleUnload` may block until the device's work is done. */
  readonly loadingBlocks: boolean;
  /** Whether kernels run on the host's own processors, and only while the program waits for them or awaits. */
  readonly runsOnHost: boolean;
  /** Whether `close` drops pending work and releases everything. A GPU's work goes on, and needs what it uses. */
  readonly dropsWork: boolean;
  /** Observes and checks kernels, for the sanitizer. Undefined for drivers that do not. */
  readonly checker: KernelChecker | undefined;
  /** Whether devices execute machine code, and the instructions that only their own architecture has. */
  readonly executesMachineCode: boolean;
  /**
   * Tells a driver that names buffers in its errors how to find the buffers that were cut from its allocations, and
   * those whose call sites were recorded. Undefined for other drivers.
   */
  readonly useBufferNames: ((buffers: () => Iterable<NamedBuffer>) => void) | undefined;
  /**
   * Releases what the driver itself holds. No method may be called afterwards. With `keepMemory`, host memory that was
   * not freed stays accessible until the process ends.
   */
  close(options?: { readonly keepMemory: boolean }): void;

  driverGetVersion(): number;
  getDeviceCount(): number;
  deviceGetName(device: number): string;
  /** 16 bytes. */
  deviceGetUuid(device: number): Uint8Array;
  /** `attribute` is a value of `cudaDeviceAttr`. */
  deviceGetAttribute(device: number, attribute: number): number;
  /** The bytes of the device's memory. Creates no context. */
  deviceTotalMem(device: number): number;
  memGetInfo(device: number): { free: number; total: number };
  deviceSynchronize(device: number): void;
  deviceCanAccessPeer(device: number, peer: number): boolean;
  deviceEnablePeerAccess(device: number, peer: number): void;
  deviceDisablePeerAccess(device: number, peer: number): void;

  deviceGetStreamPriorityRange(device: number): { least: number; greatest: number };
  streamCreateWithPriority(device: number, flags: number, priority: number): bigint;
  streamDestroy(device: number, stream: bigint): void;
  /** With `peek`, reports without making progress: runs no queued work and creates no context. */
  streamQuery(device: number, stream: bigint, options?: QueryOptions): boolean;
  streamSynchronize(device: number, stream: bigint): void;
  streamWaitEvent(device: number, stream: bigint, event: bigint): void;
  /**
   * Whether the stream is being captured into a graph. For the default stream, whether any blocking stream of the device
   * is, other libraries' included. Does not invalidate the capture.
   */
  streamIsCapturing(device: number, stream: bigint): boolean;

  /** One of `streamFlags`. */
  streamGetFlags(device: number, stream: bigint): number;
  /** Within the device's range: CUDA clamps the priority that a stream is created with. */
  streamGetPriority(device: number, stream: bigint): number;
  /**
   * The device in whose primary context a stream was created. Undefined if that is not known: the stream is one of
   * another context, or of another device and the driver is older than CUDA 12.8. The real driver reads the memory that
   * the handle points to: a handle that is not a stream's may crash the process.
   */
  streamGetDevice(device: number, stream: bigint): number | undefined;

  eventCreateWithFlags(device: number, flags: number): bigint;
  eventDestroy(device: number, event: bigint): void;
  eventRecord(device: number, event: bigint, stream: bigint): void;
  /**
   * `cuCtxRecordEvent`: records an event after the work so far of all streams of the device, including those of other
   * libraries and those that were destroyed. No stream waits for it. Fails with `cudaErrorCallRequiresNewerDriver`
   * before CUDA 12.5; during a capture, fails with `cudaErrorStreamCaptureUnsupported` and invalidates the capture.
   */
  ctxRecordEvent(device: number, event: bigint): void;
  /** The devices that have been used: those with a context. */
  usedDevices(): number[];
  /** With `peek`, reports without making progress: runs no queued work. */
  eventQuery(event: bigint, options?: QueryOptions): boolean;
  eventSynchronize(event: bigint): void;
  /** In milliseconds. */
  eventElapsedTime(start: bigint, end: bigint): number;
  /** 64 bytes, `cudaIpcEventHandle_t`. */
  ipcGetEventHandle(event: bigint): Uint8Array<ArrayBuffer>;
  /** Fails in the process that created the event. */
  ipcOpenEventHandle(device: number, handle: Uint8Array): bigint;

  deviceGetDefaultMemPool(device: number): bigint;
  deviceGetMemPool(device: number): bigint;
  deviceSetMemPool(device: number, pool: bigint): void;
  memPoolCreate(props: MemPoolProps): bigint;
  memPoolDestroy(pool: bigint): void;
  memPoolGetAttribute(pool: bigint, attribute: number): bigint;
  memPoolSetAttribute(pool: bigint, attribute: number, value: bigint): void;
  memPoolTrimTo(pool: bigint, minBytesToKeep: bigint): void;
  memPoolGetAccess(pool: bigint, location: MemLocation): number;
  memPoolSetAccess(pool: bigint, descriptions: readonly MemAccessDesc[]): void;
  mallocFromPoolAsync(device: number, byteLength: number, pool: bigint, stream: bigint): bigint;
  freeAsync(device: number, address: bigint, stream: bigint): void;

  /** `cudaMalloc`: not ordered by a stream. */
  malloc(device: number, byteLength: number): bigint;
  /** `cudaFree`: blocks until the device's work is done. Does nothing if `address` is 0. */
  free(device: number, address: bigint): void;
  /** 64 bytes, `cudaIpcMemHandle_t`. The memory must come from `malloc`. */
  ipcGetMemHandle(device: number, address: bigint): Uint8Array<ArrayBuffer>;
  /** Passes `cudaIpcMemLazyEnablePeerAccess`. Fails in the process that allocated the memory. */
  ipcOpenMemHandle(device: number, handle: Uint8Array): bigint;
  ipcCloseMemHandle(device: number, address: bigint): void;

  memPoolExportToShareableHandle(pool: bigint, handleType: number): OsHandle;
  memPoolImportFromShareableHandle(device: number, handle: OsHandle, handleType: number): bigint;
  /** 64 bytes, `cudaMemPoolPtrExportData`. */
  memPoolExportPointer(address: bigint): Uint8Array<ArrayBuffer>;
  memPoolImportPointer(device: number, pool: bigint, exportData: Uint8Array): bigint;
  /** `cuMemGetAddressRange`: the allocation that contains an address. */
  memGetAddressRange(device: number, address: bigint): { base: bigint; byteLength: number };

  /** Of memory on a device, in bytes; `option` is one of `allocationGranularity`. */
  memGetAllocationGranularity(props: MemAllocationProps, option: number): number;
  /** `cuMemCreate`: memory without an address. `byteLength` is a multiple of the granularity. */
  memCreate(props: MemAllocationProps, byteLength: number): bigint;
  /** The memory stays while it is mapped, or as long as anybody has a descriptor of it. */
  memRelease(memory: bigint): void;
  memExportToShareableHandle(memory: bigint, handleType: number): OsHandle;
  /**
   * Does not say how large the memory is: mapping more than there is fails.
   *
   * @param name what all processes call the memory, for those who observe the calls
   */
  memImportFromShareableHandle(handle: OsHandle, handleType: number, name?: string): bigint;
  memGetAllocationPropertiesFromHandle(memory: bigint): MemAllocationProps;
  /** Reserves addresses, which nothing can access yet. An `alignment` of 0 is any. */
  memAddressReserve(byteLength: number, alignment: number): bigint;
  memAddressFree(address: bigint, byteLength: number): void;
  /** `cuMemMap` of whole memory: `byteLength` is its size. No device may access it before `memSetAccess`. */
  memMap(address: bigint, byteLength: number, memory: bigint): void;
  /** Waits for nothing: no work may use the memory any more. */
  memUnmap(address: bigint, byteLength: number): void;
  memSetAccess(address: bigint, byteLength: number, descriptions: readonly MemAccessDesc[]): void;
  /** One of `memAccessFlags`. */
  memGetAccess(address: bigint, location: MemLocation): number;

  /** `cuPointerGetAttribute`. Fails with `cudaErrorInvalidValue` for an address that the driver does not know. */
  pointerGetAttributes(device: number, address: bigint): PointerAttributes;

  /** A view of a host pool's memory, without a copy. The caller must detach the buffer before the memory is freed. */
  hostView(address: bigint, byteLength: number): ArrayBuffer;

  hostAlloc(byteLength: number): HostAllocation;
  /** The address by which the kernels of all devices access the memory. */
  hostGetDevicePointer(allocation: HostAllocation): bigint;
  freeHost(allocation: HostAllocation): void;
  /** Pageable memory has been read when this returns; page-locked memory is read later, in the stream's order. */
  memcpyHtoDAsync(device: number, destination: bigint, source: Uint8Array, stream: bigint): void;
  /**
   * May block until the copy is done if the destination is pageable memory. A driver that makes the check
   * `initialization` calls `onUninitialized` with the first byte that nothing has written, when it is copied.
   */
  memcpyDtoHAsync(
    device: number,
    destination: Uint8Array,
    source: bigint,
    stream: bigint,
    onUninitialized?: (address: bigint) => void,
  ): void;
  /** Copies between addresses of this process that are known to be valid, on a device or in a host pool. */
  memcpyAsync(device: number, destination: bigint, source: bigint, byteLength: number, stream: bigint): void;
  /** Copies between devices. Use `memcpyAsync` for a host pool's memory, which is on no device. */
  memcpyPeerAsync(
    device: number,
    destination: bigint,
    destinationDevice: number,
    source: bigint,
    sourceDevice: number,
    byteLength: number,
    stream: bigint,
  ): void;
  memsetAsync(device: number, address: bigint, byte: number, byteLength: number, stream: bigint): void;
  /** Sets `count` values of 16 bits. The address must be a multiple of 2. */
  memsetD16Async(device: number, address: bigint, value: number, count: number, stream: bigint): void;
  /** Sets `count` values of 32 bits. The address must be a multiple of 4. */
  memsetD32Async(device: number, address: bigint, value: number, count: number, stream: bigint): void;
  /** Sets the first `width` values of 32 bits of each of `height` rows, whose starts are `pitch` bytes apart. */
  memsetD2D32Async(
    device: number,
    address: bigint,
    pitch: number,
    value: number,
    width: number,
    height: number,
    stream: bigint,
  ): void;

  /** `cuModuleLoadDataEx`; `image` is PTX as a string, or the bytes of PTX, a cubin or a fatbin. */
  moduleLoadData(device: number, image: string | Uint8Array, options?: JitOptions): bigint;
  /**
   * `cuLinkCreate`, `cuLinkAddData` of each image, `cuLinkComplete`, and `cuModuleLoadDataEx` of the result; or the same
   * by nvJitLink. An error's message names the image. The software device links PTX only.
   */
  linkModules(device: number, images: readonly LinkedImage[], options?: JitOptions): bigint;
  moduleUnload(device: number, module: bigint): void;
  /** The software device refuses a kernel that it cannot run with `cudaErrorNotSupported`. */
  moduleGetFunction(module: bigint, name: string): bigint;
  /**
   * The names of the module's kernels, by `cuModuleEnumerateFunctions` and `cuFuncGetName`. Undefined if the driver is
   * older than CUDA 12.4.
   */
  moduleGetFunctionNames(module: bigint): string[] | undefined;
  /** `cuFuncGetParamInfo` of each parameter. Undefined if the driver is older than CUDA 12.4. */
  funcGetParamInfo(kernel: bigint): ParameterPlace[] | undefined;
  /** The software device refuses a variable that it does not support with `cudaErrorNotSupported`. */
  moduleGetGlobal(module: bigint, name: string): { address: bigint; byteLength: number };
  /** `cuFuncGetAttribute`; `attribute` is one of `functionAttribute`. */
  funcGetAttribute(kernel: bigint, attribute: number): number;
  /** `cuFuncSetAttribute`; only the last three of `functionAttribute` can be set. */
  funcSetAttribute(kernel: bigint, attribute: number, value: number): void;
  /** `cuFuncSetCacheConfig`; `config` is one of `functionCache`. */
  funcSetCacheConfig(kernel: bigint, config: number): void;
  /**
   * Creates a launch of one thread on the default stream, without calling CUDA. `parameterBytes` is the size of all
   * parameters together; `buffers` is an array that the caller fills in.
   */
  createKernelLaunch(
    device: number,
    kernel: bigint,
    parameterBytes: number,
    buffers?: readonly (MemoryRange | undefined)[],
  ): KernelLaunch;
  /** `launch` comes from this driver's `createKernelLaunch`. */
  launchKernel(launch: KernelLaunch): void;
  /**
   * `cuLaunchKernelEx`. Fails with `cudaErrorCallRequiresNewerDriver` before CUDA 11.6. The software device refuses
   * clusters of several blocks with `cudaErrorNotSupported`.
   */
  launchKernelEx(launch: KernelLaunch, attributes: LaunchAttributes): void;
  occupancyMaxActiveBlocksPerMultiprocessor(kernel: bigint, blockSize: number, sharedMemoryBytes: number): number;
  /** `cuOccupancyMaxPotentialBlockSize` for a fixed size of shared memory; with a `blockSizeLimit` of 0, for any block. */
  occupancyMaxPotentialBlockSize(
    kernel: bigint,
    sharedMemoryBytes: number,
    blockSizeLimit: number,
  ): { minGridSize: number; blockSize: number };
  /** `cuOccupancyMaxActiveClusters`. Fails as `launchKernelEx` does, before CUDA 11.7. */
  occupancyMaxActiveClusters(launch: KernelLaunch, attributes: LaunchAttributes): number;

  /** Starts the profiling tool that runs the process, if there is one. The software device has none. */
  profilerStart(): void;
  profilerStop(): void;
}
