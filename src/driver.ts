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

/** The values of `cudaMemAllocationHandleType`, which is a bit set. */
export const memHandleType = { none: 0, posixFileDescriptor: 1, fabric: 8 } as const;

/**
 * The values of `cudaMemLocationType`. `none` is only for managed memory, and stands for no preference;
 * `hostNumaCurrent` is the NUMA node of the calling thread.
 */
export const memLocationType = { none: 0, device: 1, host: 2, hostNuma: 3, hostNumaCurrent: 4 } as const;

/** The values of `cudaMemAllocationType`. */
export const memAllocationType = { pinned: 1, managed: 2 } as const;

/** The values of `cudaMemoryAdvise`. */
export const memAdvice = {
  setReadMostly: 1,
  unsetReadMostly: 2,
  setPreferredLocation: 3,
  unsetPreferredLocation: 4,
  setAccessedBy: 5,
  unsetAccessedBy: 6,
} as const;

/**
 * The values of `CUmem_range_attribute` that the library uses. The types are those of `memLocationType`; `none` if the
 * parts of the range differ.
 */
export const memRangeAttribute = {
  readMostly: 1,
  accessedBy: 3,
  preferredLocationType: 5,
  preferredLocationId: 6,
  lastPrefetchLocationType: 7,
  lastPrefetchLocationId: 8,
} as const;

/** The values of `memRangeAttribute.accessedBy` that are not ordinals of devices. */
export const noDevice = { host: -1, invalid: -2 } as const;

/** The values of `CUtensorMapDataType` that devices of compute capability 9.0 support. */
export const tensorMapDataType = {
  uint8: 0,
  uint16: 1,
  uint32: 2,
  int32: 3,
  uint64: 4,
  int64: 5,
  float16: 6,
  float32: 7,
  float64: 8,
  bfloat16: 9,
  float32Ftz: 10,
  tfloat32: 11,
  tfloat32Ftz: 12,
} as const;

/** The tensor that `cuTensorMapEncodeTiled` describes. Dimension 0 varies fastest; enumerations have CUDA's values. */
export interface TiledTensor {
  readonly dataType: number;
  readonly address: bigint;
  readonly globalDim: readonly number[];
  /** In bytes, from dimension 1 on. */
  readonly globalStrides: readonly number[];
  readonly boxDim: readonly number[];
  readonly elementStrides: readonly number[];
  readonly interleave: number;
  readonly swizzle: number;
  readonly l2Promotion: number;
  readonly oobFill: number;
}

/** The tensor that `cuTensorMapEncodeIm2col` describes. */
export interface Im2colTensor extends Omit<TiledTensor, "boxDim"> {
  readonly pixelBoxLowerCorner: readonly number[];
  readonly pixelBoxUpperCorner: readonly number[];
  readonly channelsPerPixel: number;
  readonly pixelsPerColumn: number;
}

/** The values of `cudaMemAccessFlags`. */
export const memAccessFlags = { none: 0, read: 1, readWrite: 3 } as const;

/** The values of `CUmemAllocationGranularity_flags`. */
export const allocationGranularity = { minimum: 0, recommended: 1 } as const;

/** The values of `cudaMemPoolAttr`. The first three attributes are ints, and the others are 64-bit byte counts. */
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

/**
 * Attributes of pools that only CUDA 13.2 and newer has, and that cannot be set. The driver reports them for default pools
 * and imported ones, too.
 */
export const memPoolPropertyAttribute = {
  allocationType: 9,
  handleTypes: 10,
  locationId: 11,
  locationType: 12,
  maxSize: 13,
  hardwareDecompression: 14,
} as const;

/** The flags of `MemPoolProps.usage`. */
export const memPoolUsage = { hardwareDecompression: 2 } as const;

/** The values of `CUfunction_attribute` that the library uses. Only the last three attributes can be set. */
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

/** The values of `CUfunc_cache`. */
export const functionCache = { preferNone: 0, preferShared: 1, preferL1: 2, preferEqual: 3 } as const;

/** The values of `CUshared_carveout`. Any other value is a percentage of a multiprocessor's maximum shared memory. */
export const sharedCarveout = { default: -1, maxL1: 0, maxShared: 100 } as const;

/** The flags of `cudaStreamCreateWithPriority`. */
export const streamFlags = { default: 0, nonBlocking: 1 } as const;

/** The values of `CUmemorytype`. The driver reports managed memory as device memory. */
export const memoryType = { host: 1, device: 2 } as const;

/** The flags of `cudaEventCreateWithFlags`. */
export const eventFlags = { default: 0, blockingSync: 1, disableTiming: 2, interprocess: 4 } as const;

/** The values of `cudaStreamCaptureMode`: the threads whose potentially unsafe calls CUDA refuses during a capture. */
export const streamCaptureMode = { global: 0, threadLocal: 1, relaxed: 2 } as const;

/** The values of `cudaStreamCaptureStatus`. */
export const streamCaptureStatus = { none: 0, active: 1, invalidated: 2 } as const;

/** `cudaEventRecordExternal` and `cudaEventWaitExternal`: during a capture, adds a node that records or waits. */
export const externalEvent = 1;

/** The values of `CUgraphNodeType`. */
export const graphNodeType = {
  kernel: 0,
  memcpy: 1,
  memset: 2,
  host: 3,
  graph: 4,
  empty: 5,
  waitEvent: 6,
  eventRecord: 7,
  extSemasSignal: 8,
  extSemasWait: 9,
  memAlloc: 10,
  memFree: 11,
  batchMemOp: 12,
  conditional: 13,
} as const;

/** The values of `cudaGraphConditionalNodeType`: which of its bodies a node runs, and how often. */
export const conditionalNodeType = { if: 0, while: 1, switch: 2 } as const;

/** The flags of `cudaGraphInstantiate`. */
export const graphInstantiateFlags = { autoFreeOnLaunch: 1, useNodePriority: 8 } as const;

/** The values of `cudaGraphMemAttributeType`: 64-bit byte counts. Only the high marks can be set, and only to 0. */
export const graphMemAttribute = { usedCurrent: 0, usedHigh: 1, reservedCurrent: 2, reservedHigh: 3 } as const;

/**
 * The flags of `cudaGraphDebugDotPrint` that the library uses: everything that there is to say of nodes, or the nodes'
 * handles beside their types. Further bits select other details.
 */
export const graphDotFlags = { none: 0, verbose: 1, handles: 1024 } as const;

/** The size of `cudaMemPoolPtrExportData` in bytes. */
export const exportDataByteLength = 64;

/** The size of `cudaIpcMemHandle_t`, and of `cudaIpcEventHandle_t`, in bytes. */
export const ipcHandleByteLength = 64;
/** The size of a fabric handle, in bytes. */
export const fabricHandleByteLength = 64;

/** The handle of the default stream of the device that is passed to a call. */
export const defaultStream = 0n;

/** `cudaStreamLegacy`: the legacy default stream, even in code that was compiled for per-thread default streams. */
export const legacyStream = 1n;

/** `cudaStreamPerThread`: the default stream of the calling thread. */
export const perThreadStream = 2n;

/** The properties of a stream that determine which other streams CUDA implicitly synchronizes it with. */
export interface StreamKind {
  /** The device's ordinal. */
  readonly device: number | undefined;
  readonly isDefault: boolean;
  /** Whether the stream is a default stream, or was created without `streamFlags.nonBlocking`. */
  readonly isBlocking: boolean;
}

/**
 * Returns whether CUDA runs the work of two different streams in the order in which it was enqueued, without an event:
 * a device's default stream and its blocking streams wait for each other.
 */
export function areOrderedByDefaultStream(a: StreamKind, b: StreamKind): boolean {
  return a.device === b.device && a.isDefault !== b.isDefault && a.isBlocking && b.isBlocking;
}

/** `cudaMemLocation`: where memory is located, or which device accesses the memory. */
export interface MemLocation {
  readonly type: number;
  /** The device's ordinal, or the NUMA node's number; 0 for host memory that is not bound to a node. */
  readonly id: number;
}

/** The properties of a new pool, as in `cudaMemPoolProps`. */
export interface MemPoolProps {
  readonly handleTypes: number;
  readonly location: MemLocation;
  /** The maximum size of the pool in bytes; 0 for the system's limit. */
  readonly maxSize: bigint;
  /** One of `memAllocationType`. Defaults to `pinned`. */
  readonly allocationType?: number;
  /** What the memory is for: flags of `memPoolUsage`. Defaults to none. */
  readonly usage?: number;
}

/** The properties of memory to create, on a device or on a NUMA node of the host, as in `CUmemAllocationProp`. */
export interface MemAllocationProps {
  readonly handleTypes: number;
  readonly location: MemLocation;
}

/** The access of one device to memory, as in `cudaMemAccessDesc`. */
export interface MemAccessDesc {
  readonly location: MemLocation;
  readonly flags: number;
}

/** A handle by which another process imports a pool or memory: a file descriptor, or a 64-byte fabric handle. */
export type OsHandle = number | Uint8Array;

/** A range of memory. */
export interface MemoryRange {
  readonly address: bigint;
  /** Size in bytes. */
  readonly byteLength: number;
}

/**
 * The configuration of a kernel launch, which can be changed and launched any number of times. `launchKernel` copies
 * the configuration: the caller may change the object as soon as the call returns.
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
  /** The size of a block's dynamic shared memory in bytes. */
  sharedMemoryBytes: number;
  stream: bigint;
  /** The arguments, packed in the layout of the kernel's parameters. */
  readonly parameters: DataView<ArrayBuffer>;
  /** The memory of the buffers among the arguments. Undefined elements are ignored. */
  readonly buffers: readonly (MemoryRange | undefined)[];
  /** The handles of the textures and surfaces among the arguments, for layers that observe launches. */
  textures?: readonly bigint[] | undefined;
}

/** The `CUlaunchAttribute`s of a launch. Attributes that are undefined or false are not passed to CUDA. */
export interface LaunchAttributes {
  /** The size of a cluster in blocks. */
  readonly clusterDim: readonly [x: number, y: number, z: number] | undefined;
  readonly cooperative: boolean;
  readonly programmaticStreamSerialization: boolean;
  readonly priority: number | undefined;
}

/** The state of a stream's capture, as `cuStreamGetCaptureInfo` returns it. */
export interface StreamCaptureInfo {
  /** One of `streamCaptureStatus`. The other properties are meaningful only if it is `active`. */
  readonly status: number;
  /** A number that no other capture of the process has. */
  readonly id: bigint;
  /** The graph that is being built. It must not be destroyed. */
  readonly graph: bigint;
  /** The nodes that the next work on the stream will depend on. */
  readonly dependencies: readonly bigint[];
}

/** A copy in a graph. Host memory that is an array must not be collected while the graph or an executable one uses it. */
export interface GraphCopy {
  readonly destination: bigint | Uint8Array;
  readonly source: bigint | Uint8Array;
  readonly byteLength: number;
}

/** Rows of bytes at equal distances, and slices of rows at equal distances, as in `cudaPitchedPtr`. */
export interface PitchedMemory {
  /** Where the first row begins. Host memory that is an array reaches to the end of the last row. */
  readonly memory: bigint | Uint8Array;
  /** The distance between the beginnings of rows in bytes. */
  readonly pitch: number;
  /** The distance between the beginnings of slices in rows. */
  readonly rows: number;
}

/** A copy of rows of bytes, as in `cudaMemcpy3DParms`. */
export interface PitchedCopy {
  readonly destination: PitchedMemory;
  readonly source: PitchedMemory;
  /** The length of a row in bytes. */
  readonly width: number;
  /** The number of rows in a slice. */
  readonly height: number;
  /** The number of slices. */
  readonly depth: number;
}

/**
 * The values of `CUarray_format` that the library uses. CUDA has values of their own for normalized formats of two and
 * four channels: the next ones.
 */
export const arrayFormat = {
  u8: 0x01,
  u16: 0x02,
  u32: 0x03,
  s8: 0x08,
  s16: 0x09,
  s32: 0x0a,
  f16: 0x10,
  f32: 0x20,
  unorm8: 0xc0,
  unorm16: 0xc3,
  snorm8: 0xc6,
  snorm16: 0xc9,
} as const;
/** The flags of `CUDA_ARRAY3D_DESCRIPTOR`. */
export const arrayFlag = { layered: 1, surfaceLoadStore: 2, cubemap: 4, textureGather: 8 } as const;

/** The size and the format of a CUDA array, as in `CUDA_ARRAY3D_DESCRIPTOR`. An extent that it does not have is 0. */
export interface ArrayDescriptor {
  readonly width: number;
  readonly height: number;
  /** The number of slices, or of layers, faces of a cubemap included. */
  readonly depth: number;
  /** One of `arrayFormat`. */
  readonly format: number;
  readonly channels: 1 | 2 | 4;
  /** Flags of `arrayFlag`. */
  readonly flags: number;
}

/** A place in a CUDA array, as in `CUDA_MEMCPY3D`. */
export interface ArrayPlace {
  readonly array: bigint;
  /** The position in the row in bytes. */
  readonly x: number;
  readonly y: number;
  /** The slice or the layer. */
  readonly z: number;
}

/** A copy of rows of bytes with an array at one end at least, as in `cudaMemcpy3DParms`. */
export interface ArrayCopy {
  readonly destination: PitchedMemory | ArrayPlace;
  readonly source: PitchedMemory | ArrayPlace;
  /** The length of a row in bytes. */
  readonly width: number;
  readonly height: number;
  readonly depth: number;
}

/** Whether one end of a copy of rows at least is an array. */
export function isArrayCopy(copy: PitchedCopy | ArrayCopy): copy is ArrayCopy {
  return "array" in copy.source || "array" in copy.destination;
}

/** What a texture reads, as in `CUDA_RESOURCE_DESC`. */
export type TextureResource =
  | { readonly array: bigint }
  | { readonly mipmappedArray: bigint }
  | {
    readonly address: bigint;
    /** One of `arrayFormat`. */
    readonly format: number;
    readonly channels: 1 | 2 | 4;
    /** The number of bytes of linear memory, or the texels of rows. */
    readonly extent: number | { readonly width: number; readonly height: number; readonly pitch: number };
  };

/** The values of `cudaTextureAddressMode`. */
export const textureAddressMode = { wrap: 0, clamp: 1, mirror: 2, border: 3 } as const;
/** The values of `cudaTextureFilterMode`. */
export const textureFilterMode = { point: 0, linear: 1 } as const;
/** The flags of `CUDA_TEXTURE_DESC`. */
export const textureFlag = {
  readAsInteger: 1,
  normalizedCoordinates: 2,
  srgb: 0x10,
  disableTrilinearOptimization: 0x20,
  seamlessCubemap: 0x40,
} as const;

/** How a texture is read, as in `CUDA_TEXTURE_DESC`. */
export interface TextureDescription {
  /** Values of `textureAddressMode`, for each dimension. */
  readonly addressModes: readonly [x: number, y: number, z: number];
  /** One of `textureFilterMode`. */
  readonly filterMode: number;
  /** Flags of `textureFlag`. */
  readonly flags: number;
  readonly maxAnisotropy: number;
  readonly mipmapFilterMode: number;
  readonly mipmapLevelBias: number;
  readonly minMipmapLevelClamp: number;
  readonly maxMipmapLevelClamp: number;
  readonly borderColor: readonly [number, number, number, number];
}

/** A part of an array that a texture shows, or its bits in another format, as in `CUDA_RESOURCE_VIEW_DESC`. */
export interface ResourceView {
  /** One of `arrayFormat`, whose bits are those of the array's format. */
  readonly format: number;
  readonly channels: 1 | 2 | 4;
  readonly width: number;
  readonly height: number;
  readonly depth: number;
  readonly firstLevel: number;
  readonly lastLevel: number;
  readonly firstLayer: number;
  readonly lastLayer: number;
}

/** The values of `cudaMemcpySrcAccessOrder`: when the source of a copy may be read. */
export const sourceAccessOrder = { stream: 1, duringCall: 2, any: 3 } as const;

/** The attributes of copies in a batch, as in `cudaMemcpyAttributes`. */
export interface BatchAttributes {
  /** One of `sourceAccessOrder`. */
  readonly sourceAccessOrder: number;
  /** `cudaMemcpyFlagPreferOverlapWithCompute`: whether the multiprocessors are better left to kernels. */
  readonly preferOverlapWithCompute: boolean;
  /** Where a source that can be anywhere is expected: managed memory, or pageable memory that the device can read. */
  readonly sourceLocation?: MemLocation | undefined;
  readonly destinationLocation?: MemLocation | undefined;
}

/** A copy in a batch. */
export interface BatchedCopy {
  readonly destination: bigint | Uint8Array;
  readonly source: bigint | Uint8Array;
  readonly byteLength: number;
  readonly attributes: BatchAttributes;
}

/** A node of a graph that runs a part of its bodies, as in `cudaConditionalNodeParams`. */
export interface GraphConditional {
  /** The value that decides, of `graphConditionalHandleCreate`. */
  readonly handle: bigint;
  /** One of `conditionalNodeType`. */
  readonly type: number;
  /** The number of bodies. A second body of `if` is for the value 0. */
  readonly size: number;
}

/** A fill in a graph, as in `cudaMemsetParams`. */
export interface GraphFill {
  readonly address: bigint;
  readonly value: number;
  /** The size of a value in bytes. */
  readonly elementSize: 1 | 2 | 4;
  /** The number of values in a row. */
  readonly width: number;
  /** The number of rows. */
  readonly height: number;
  /** The distance between the beginnings of rows in bytes. Ignored if there is only one row. */
  readonly pitch: number;
}

/** Page-locked host memory: the address for the driver, and the buffer for JavaScript. */
export interface HostAllocation {
  readonly address: bigint;
  readonly buffer: ArrayBuffer;
}

/** The flags of `hostAlloc`. All memory is portable. */
export const hostAllocFlag = { portable: 1, mapped: 2, writeCombined: 4 } as const;
/** The flags of `hostRegister`. */
export const hostRegisterFlag = { portable: 1, mapped: 2, ioMemory: 4, readOnly: 8 } as const;

/** The values of `cudaLimit` that the library uses. */
export const cudaLimit = {
  stackSize: 0,
  printfFifoSize: 1,
  mallocHeapSize: 2,
  pendingLaunchCount: 4,
  maxL2FetchGranularity: 5,
  persistingL2CacheSize: 6,
} as const;

/** The attributes that `cuPointerGetAttribute` returns for the allocation that contains an address. */
export interface PointerAttributes {
  /** The type of the memory, one of `memoryType`. */
  readonly type: number;
  /** The ordinal of the device where the memory is located; undefined for host memory. */
  readonly device: number | undefined;
  /** Whether the memory is managed, so that all devices can access it. */
  readonly isManaged: boolean;
  /** The start of the allocation. */
  readonly base: bigint;
  /** Size of the allocation in bytes. */
  readonly byteLength: number;
}

/** Returns the configuration of a launch of one thread on the default stream, for `Driver.createKernelLaunch`. */
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

/** A buffer in a driver's memory, described for the driver's error messages. */
export interface NamedBuffer {
  readonly address: bigint;
  readonly byteLength: number;
  readonly isFreed: boolean;
  /** Whether `byteLength` may be larger than the requested size. */
  readonly isRounded?: boolean;
  /** The line of the call stack where the buffer was allocated. Undefined if it was not recorded. */
  readonly allocated?: string | undefined;
  /** The line of the call stack where the buffer was freed. Undefined if it was not recorded. */
  readonly freed?: string | undefined;
}

/** The options of the JIT compiler and linker: `CUjit_option`. The software device ignores them. */
export interface JitOptions {
  readonly maxRegisters?: number;
  /** The optimization level, from 0 to 4. */
  readonly optimizationLevel?: number;
  readonly lineInfo?: boolean;
  readonly debug?: boolean;
  readonly verbose?: boolean;
  /** Called with the compiler's log after a module was loaded. Without this callback, the driver keeps no info log. */
  readonly onInfoLog?: (log: string) => void;
}

/** The position and size of a kernel's parameter within the packed parameters, in bytes. */
export interface ParameterPlace {
  readonly offset: number;
  readonly byteLength: number;
}

/** An image to link, and the image's name in error messages. */
export interface LinkedImage {
  readonly name: string;
  /** PTX as a string, or the bytes of PTX, a cubin, a fatbin, a host object or library, or LTO IR. */
  readonly image: string | Uint8Array;
}

/**
 * The options of `streamQuery` and `eventQuery`. With any of them, the query is the library's own: it does not
 * invalidate the capture of a stream, whose work counts as pending.
 */
export interface QueryOptions {
  /** Whether the query must not run any queued work. */
  readonly peek?: boolean;
  /**
   * Whether the library makes the query for its own purposes. The sanitizer then does not conclude that the program
   * knows the work to be complete.
   */
  readonly forLibrary?: boolean;
}

/**
 * A CUDA driver. The documentation of this module states the rules for implementations. Every method throws a
 * `CudaError` if its call fails.
 */
export interface Driver {
  /** The value of `Cuda.driver`. The library itself only uses the more specific properties below. */
  readonly kind: "cuda" | "software";
  /** The result of `cudaRuntimeGetVersion`; undefined if no runtime library is used. */
  readonly runtimeVersion: number | undefined;
  /** The reason why pools cannot be shared with other processes on this machine; undefined if they can. */
  readonly sharingRefusal: string | undefined;
  /** Whether the driver validates the contents of handles from other processes. CUDA's driver trusts them. */
  readonly checksHandles: boolean;
  /** Whether the driver supports `ctxRecordEvent`. */
  readonly hasContextEvents: boolean;
  /**
   * Whether all `Driver` objects of the process share the devices' contexts, so that some calls wait for the work of
   * all of these objects.
   */
  readonly contextsAreShared: boolean;
  /** Whether the driver supports `memcpyBatchAsync`, which needs CUDA 12.8. */
  readonly hasBatchedCopies: boolean;
  /** Whether `moduleLoadData`, `linkModules` and `moduleUnload` may block until the device's work is done. */
  readonly loadingBlocks: boolean;
  /** Whether kernels run on the CPU, and only while the program waits for work or returns to the event loop. */
  readonly runsOnHost: boolean;
  /**
   * Whether `close` drops pending work and releases everything. A GPU continues with pending work, so the resources
   * that the work uses must remain allocated.
   */
  readonly dropsWork: boolean;
  /** Observes and checks kernels for the sanitizer. Undefined if the driver does not support this. */
  readonly checker: KernelChecker | undefined;
  /** Whether devices execute machine code, and instructions that are specific to an architecture. */
  readonly executesMachineCode: boolean;
  /**
   * Sets the function that returns the buffers that the driver may name in its errors: parts of the driver's
   * allocations, and buffers with recorded call sites. Undefined for drivers whose errors name no buffers.
   */
  readonly useBufferNames: ((buffers: () => Iterable<NamedBuffer>) => void) | undefined;
  /**
   * Returns a device's context, and the addresses of the functions by which threads outside JavaScript copy to and from
   * it; undefined if the installed library lacks one. Undefined for drivers whose memory such threads cannot copy.
   */
  readonly threadCalls:
    | ((device: number) => { readonly context: bigint; readonly functions: readonly bigint[] } | undefined)
    | undefined;
  /**
   * Releases the driver's own resources. No method may be called afterwards. With `keepMemory`, host memory that was
   * not freed stays accessible until the process exits.
   */
  close(options?: { readonly keepMemory: boolean }): void;

  driverGetVersion(): number;
  getDeviceCount(): number;
  deviceGetName(device: number): string;
  /** Returns the device's UUID of 16 bytes. */
  deviceGetUuid(device: number): Uint8Array;
  /** Returns the value of `attribute`, a number of `cudaDeviceAttr`. */
  deviceGetAttribute(device: number, attribute: number): number;
  /** Creates the device's context, in another thread if the runtime supports that. Resolves when it exists. */
  deviceInitialize(device: number): Promise<void>;
  /** Returns the size of the device's memory in bytes. Creates no context. */
  deviceTotalMem(device: number): number;
  memGetInfo(device: number): { free: number; total: number };
  deviceSynchronize(device: number): void;
  deviceCanAccessPeer(device: number, peer: number): boolean;
  deviceEnablePeerAccess(device: number, peer: number): void;
  deviceDisablePeerAccess(device: number, peer: number): void;

  /** Returns a limit of a device, one of `cudaLimit`. */
  deviceGetLimit(device: number, limit: number): number;
  /** Sets a limit of a device. CUDA may round the value. */
  deviceSetLimit(device: number, limit: number, value: number): void;

  deviceGetStreamPriorityRange(device: number): { least: number; greatest: number };
  streamCreateWithPriority(device: number, flags: number, priority: number): bigint;
  streamDestroy(device: number, stream: bigint): void;
  /**
   * Returns whether the stream is idle. With `peek`, a software device runs no queued work, and no context is created.
   * With options, returns false if the stream is being captured.
   */
  streamQuery(device: number, stream: bigint, options?: QueryOptions): boolean;
  streamSynchronize(device: number, stream: bigint): void;
  /**
   * Describes the kernel that a stream is running, such as `"kernel saxpy has run for 2.1 s"`. Undefined if no kernel
   * has run for longer than a time slice, or if the driver cannot tell: CUDA does not report it.
   */
  streamDescribeKernel(device: number, stream: bigint): string | undefined;
  /**
   * Makes the stream's next work wait for the event's latest record. `flags` may be `externalEvent` if the stream is
   * being captured.
   */
  streamWaitEvent(device: number, stream: bigint, event: bigint, flags?: number): void;
  /**
   * Returns whether the stream is being captured into a graph. For the default stream, returns whether any blocking
   * stream of the device is being captured, including streams of other libraries. Does not invalidate the capture.
   */
  streamIsCapturing(device: number, stream: bigint): boolean;
  /** Begins to capture a stream's work into a new graph. `mode` is one of `streamCaptureMode`. */
  streamBeginCapture(device: number, stream: bigint, mode: number): void;
  /**
   * Begins to capture a stream's work into a graph that exists, after the given nodes of it. `streamEndCapture` returns
   * the same graph. Fails with `cudaErrorCallRequiresNewerDriver` before CUDA 12.3.
   */
  streamBeginCaptureToGraph(
    device: number,
    stream: bigint,
    graph: bigint,
    dependencies: readonly bigint[],
    mode: number,
  ): void;
  /** Ends a capture and returns the graph. If the capture was invalidated, fails, and ends it nevertheless. */
  streamEndCapture(device: number, stream: bigint): bigint;
  streamGetCaptureInfo(device: number, stream: bigint): StreamCaptureInfo;
  /** Replaces the nodes on which a captured stream's next work will depend. */
  streamUpdateCaptureDependencies(device: number, stream: bigint, nodes: readonly bigint[]): void;
  /** Sets the mode that applies to this thread's potentially unsafe calls. Returns the previous mode. */
  threadExchangeStreamCaptureMode(mode: number): number;

  /** Returns the flags with which the stream was created, one of `streamFlags`. */
  streamGetFlags(device: number, stream: bigint): number;
  /** Returns the actual priority: CUDA clamps the priority that a stream is created with to the device's range. */
  streamGetPriority(device: number, stream: bigint): number;
  /**
   * Returns the device in whose primary context a stream was created. Returns undefined if the device is unknown: the
   * stream belongs to another context, or to another device and the driver is older than CUDA 12.8. The real driver
   * reads the memory that the handle points to, so an invalid handle may crash the process.
   */
  streamGetDevice(device: number, stream: bigint): number | undefined;

  eventCreateWithFlags(device: number, flags: number): bigint;
  eventDestroy(device: number, event: bigint): void;
  eventRecord(device: number, event: bigint, stream: bigint): void;
  /** `flags` is 0, or `externalEvent` if the stream is being captured. */
  eventRecordWithFlags(device: number, event: bigint, stream: bigint, flags: number): void;
  /**
   * `cuCtxRecordEvent`: records an event after all work enqueued so far on any stream of the device, including streams
   * of other libraries and destroyed streams. Later work does not wait for the event. Fails with
   * `cudaErrorCallRequiresNewerDriver` before CUDA 12.5; during a capture, fails with
   * `cudaErrorStreamCaptureUnsupported` and invalidates the capture.
   */
  ctxRecordEvent(device: number, event: bigint): void;
  /** Returns the ordinals of the devices that have a context. */
  usedDevices(): number[];
  /** Returns whether the event is complete. With `peek`, a software device runs no queued work. */
  eventQuery(event: bigint, options?: QueryOptions): boolean;
  eventSynchronize(event: bigint): void;
  /** Returns the time between two events in milliseconds. */
  eventElapsedTime(start: bigint, end: bigint): number;
  /** Returns a `cudaIpcEventHandle_t` of 64 bytes. */
  ipcGetEventHandle(event: bigint): Uint8Array<ArrayBuffer>;
  /** Opens an event of another process. Fails in the process that created the event. */
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
  /**
   * Returns the default pool of a location, and of a type, one of `memAllocationType`. Fails with
   * `cudaErrorCallRequiresNewerDriver` before CUDA 13.0, as the next two calls do.
   */
  memGetDefaultMemPool(location: MemLocation, allocationType: number): bigint;
  memGetMemPool(location: MemLocation, allocationType: number): bigint;
  memSetMemPool(location: MemLocation, allocationType: number, pool: bigint): void;
  mallocFromPoolAsync(device: number, byteLength: number, pool: bigint, stream: bigint): bigint;
  freeAsync(device: number, address: bigint, stream: bigint): void;

  /** Allocates memory with `cudaMalloc`, which is not stream-ordered. */
  malloc(device: number, byteLength: number): bigint;
  /** Frees memory with `cudaFree`: blocks until the device's work is done. Does nothing if `address` is 0. */
  free(device: number, address: bigint): void;
  /** Allocates memory with `cudaMallocManaged`, for all devices. `free` frees it. */
  mallocManaged(device: number, byteLength: number): bigint;
  /**
   * Moves managed memory to a location, in stream order. Before CUDA 12.2, fails with `cudaErrorCallRequiresNewerDriver`
   * for a NUMA node.
   */
  memPrefetchAsync(device: number, address: bigint, byteLength: number, location: MemLocation, stream: bigint): void;
  /**
   * `cuMemDiscardBatchAsync`: declares that the contents of managed memory are no longer needed. Fails with
   * `cudaErrorCallRequiresNewerDriver` before CUDA 13.0.
   */
  memDiscardBatchAsync(device: number, ranges: readonly MemoryRange[], stream: bigint): void;
  /** `cuMemDiscardAndPrefetchBatchAsync`: discards managed memory, and moves it without its contents. */
  memDiscardAndPrefetchBatchAsync(
    device: number,
    ranges: readonly MemoryRange[],
    location: MemLocation,
    stream: bigint,
  ): void;
  /** Advises how managed memory will be used. `advice` is one of `memAdvice`, some of which ignore the location. */
  memAdvise(device: number, address: bigint, byteLength: number, advice: number, location: MemLocation): void;
  /**
   * Returns an attribute of managed memory, one of `memRangeAttribute`: `count` integers of 32 bits. `accessedBy` has as
   * many as are asked for, each a device or one of `noDevice`; the others have one.
   */
  memRangeGetAttribute(
    device: number,
    attribute: number,
    address: bigint,
    byteLength: number,
    count?: number,
  ): number[];
  /** Returns a `cudaIpcMemHandle_t` of 64 bytes. The memory must come from `malloc`. */
  ipcGetMemHandle(device: number, address: bigint): Uint8Array<ArrayBuffer>;
  /**
   * Opens memory of another process, with the flag `cudaIpcMemLazyEnablePeerAccess`. Fails in the process that
   * allocated the memory.
   */
  ipcOpenMemHandle(device: number, handle: Uint8Array): bigint;
  ipcCloseMemHandle(device: number, address: bigint): void;

  memPoolExportToShareableHandle(pool: bigint, handleType: number): OsHandle;
  memPoolImportFromShareableHandle(device: number, handle: OsHandle, handleType: number): bigint;
  /** Returns a `cudaMemPoolPtrExportData` of 64 bytes. */
  memPoolExportPointer(address: bigint): Uint8Array<ArrayBuffer>;
  memPoolImportPointer(device: number, pool: bigint, exportData: Uint8Array): bigint;
  /** `cuMemGetAddressRange`: returns the allocation that contains an address. */
  memGetAddressRange(device: number, address: bigint): { base: bigint; byteLength: number };

  /**
   * Returns the granularity of allocations with the given properties, in bytes; `option` is one of
   * `allocationGranularity`.
   */
  memGetAllocationGranularity(props: MemAllocationProps, option: number): number;
  /**
   * `cuMemCreate`: creates physical memory, which has no address until it is mapped. `byteLength` must be a multiple of
   * the granularity.
   */
  memCreate(props: MemAllocationProps, byteLength: number): bigint;
  /**
   * Releases a handle. The memory itself continues to exist while it is mapped, or while any process has a descriptor
   * of it.
   */
  memRelease(memory: bigint): void;
  memExportToShareableHandle(memory: bigint, handleType: number): OsHandle;
  /**
   * Imports memory. Does not report the size of the memory: mapping more than its size fails.
   *
   * @param name the name of the memory in all processes, for layers that observe the driver's calls
   */
  memImportFromShareableHandle(handle: OsHandle, handleType: number, name?: string): bigint;
  memGetAllocationPropertiesFromHandle(memory: bigint): MemAllocationProps;
  /** Reserves a range of addresses, which is not accessible until memory is mapped. An `alignment` of 0 means any. */
  memAddressReserve(byteLength: number, alignment: number): bigint;
  memAddressFree(address: bigint, byteLength: number): void;
  /**
   * `cuMemMap`: maps all of `memory`, whose size is `byteLength`, at an address. No device may access the range before
   * `memSetAccess`.
   */
  memMap(address: bigint, byteLength: number, memory: bigint): void;
  /** Unmaps memory without waiting for work: the caller ensures that no pending work uses the memory. */
  memUnmap(address: bigint, byteLength: number): void;
  memSetAccess(address: bigint, byteLength: number, descriptions: readonly MemAccessDesc[]): void;
  /** Returns the access of `location` to the memory at an address, one of `memAccessFlags`. */
  memGetAccess(address: bigint, location: MemLocation): number;

  /**
   * Returns the attributes of an address, using `cuPointerGetAttribute`. Fails with `cudaErrorInvalidValue` for an
   * address that the driver does not know.
   */
  pointerGetAttributes(device: number, address: bigint): PointerAttributes;

  /**
   * Returns a view of a host pool's memory, or of managed memory, not a copy. The caller must detach the buffer before
   * freeing the memory.
   */
  hostView(address: bigint, byteLength: number): ArrayBuffer;

  /**
   * Allocates page-locked memory for all devices.
   *
   * @param flags further flags, of `hostAllocFlag`
   */
  hostAlloc(byteLength: number, flags?: number): HostAllocation;
  /** Returns the address at which the kernels of all devices access the memory. */
  hostGetDevicePointer(allocation: HostAllocation): bigint;
  freeHost(allocation: HostAllocation): void;
  /**
   * Page-locks memory that exists, and returns its address, at which the kernels of all devices access it. The caller
   * keeps the memory until `hostUnregister`.
   *
   * @param flags flags of `hostRegisterFlag`
   */
  hostRegister(memory: Uint8Array, flags: number): bigint;
  hostUnregister(address: bigint): void;
  /** Reads pageable memory before returning, and page-locked memory later, in stream order. */
  memcpyHtoDAsync(device: number, destination: bigint, source: Uint8Array, stream: bigint): void;
  /**
   * May block until the copy is done if the destination is pageable memory. A driver that performs the check
   * `initialization` calls `onUninitialized` during the copy with the address of the first uninitialized byte.
   */
  memcpyDtoHAsync(
    device: number,
    destination: Uint8Array,
    source: bigint,
    stream: bigint,
    onUninitialized?: (address: bigint) => void,
  ): void;
  /** Copies between valid addresses of this process, on a device or in a host pool. */
  memcpyAsync(device: number, destination: bigint, source: bigint, byteLength: number, stream: bigint): void;
  /** Copies between devices. For memory of a host pool, which belongs to no device, use `memcpyAsync` instead. */
  memcpyPeerAsync(
    device: number,
    destination: bigint,
    destinationDevice: number,
    source: bigint,
    sourceDevice: number,
    byteLength: number,
    stream: bigint,
  ): void;
  /**
   * Copies rows of bytes between valid addresses and host memory. Reads pageable memory before returning, and may block
   * until a copy to pageable memory is done. Does nothing if there are no bytes.
   *
   * @param onUninitialized as in `memcpyDtoHAsync`, if the destination is host memory
   */
  memcpy3DAsync(
    device: number,
    copy: PitchedCopy,
    stream: bigint,
    onUninitialized?: (address: bigint) => void,
  ): void;
  /** Copies rows of bytes between devices. Both ends are addresses. */
  memcpy3DPeerAsync(
    device: number,
    copy: PitchedCopy,
    destinationDevice: number,
    sourceDevice: number,
    stream: bigint,
  ): void;
  /**
   * Copies ranges that do not overlap, in any order. The stream must not be a default stream, nor be captured. Host
   * memory must be page-locked.
   */
  memcpyBatchAsync(device: number, copies: readonly BatchedCopy[], stream: bigint): void;
  /** `cudaMemcpy3DAsync` with an array at one end at least. In all other ways like `memcpy3DAsync`. */
  memcpy3DArrayAsync(device: number, copy: ArrayCopy, stream: bigint): void;
  memsetAsync(device: number, address: bigint, byte: number, byteLength: number, stream: bigint): void;
  /** Sets `count` values of 16 bits. The address must be a multiple of 2. */
  memsetD16Async(device: number, address: bigint, value: number, count: number, stream: bigint): void;
  /** Sets `count` values of 32 bits. The address must be a multiple of 4. */
  memsetD32Async(device: number, address: bigint, value: number, count: number, stream: bigint): void;
  /** Sets the first `width` bytes of each of `height` rows, whose starts are `pitch` bytes apart. */
  memsetD2D8Async(
    device: number,
    address: bigint,
    pitch: number,
    value: number,
    width: number,
    height: number,
    stream: bigint,
  ): void;
  /** Sets the first `width` values of 16 bits of each of `height` rows, whose starts are `pitch` bytes apart. */
  memsetD2D16Async(
    device: number,
    address: bigint,
    pitch: number,
    value: number,
    width: number,
    height: number,
    stream: bigint,
  ): void;
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

  /** `cudaMalloc3DArray`. Memory of textures, whose contents are undefined. */
  arrayCreate(device: number, descriptor: ArrayDescriptor): bigint;
  /** Frees an array. The caller ensures that no pending work and no texture uses it. */
  arrayDestroy(device: number, array: bigint): void;
  /** `cudaMallocMipmappedArray`. */
  mipmappedArrayCreate(device: number, descriptor: ArrayDescriptor, levels: number): bigint;
  /** Returns one level as an array, which must not be destroyed. */
  mipmappedArrayGetLevel(device: number, mipmappedArray: bigint, level: number): bigint;
  mipmappedArrayDestroy(device: number, mipmappedArray: bigint): void;
  /** Returns the number by which kernels know the texture. */
  texObjectCreate(
    device: number,
    resource: TextureResource,
    description: TextureDescription,
    view?: ResourceView,
  ): bigint;
  texObjectDestroy(device: number, texture: bigint): void;
  /** Returns the number by which kernels know the surface. The array must have `arrayFlag.surfaceLoadStore`. */
  surfObjectCreate(device: number, array: bigint): bigint;
  surfObjectDestroy(device: number, surface: bigint): void;

  /** `cuModuleLoadDataEx`: loads `image`, which is PTX as a string, or the bytes of PTX, a cubin or a fatbin. */
  moduleLoadData(device: number, image: string | Uint8Array, options?: JitOptions): bigint;
  /**
   * Links images and loads the result, with `cuLinkCreate`, `cuLinkAddData`, `cuLinkComplete` and `cuModuleLoadDataEx`,
   * or with nvJitLink. An error's message names the image. The software device links PTX only.
   */
  linkModules(device: number, images: readonly LinkedImage[], options?: JitOptions): bigint;
  moduleUnload(device: number, module: bigint): void;
  /**
   * Returns the handle of a kernel. Fails with `cudaErrorNotSupported` if the software device cannot run the kernel.
   */
  moduleGetFunction(module: bigint, name: string): bigint;
  /**
   * Returns the names of the module's kernels, using `cuModuleEnumerateFunctions` and `cuFuncGetName`. Returns
   * undefined if the driver is older than CUDA 12.4.
   */
  moduleGetFunctionNames(module: bigint): string[] | undefined;
  /** Calls `cuFuncGetParamInfo` for each parameter. Returns undefined if the driver is older than CUDA 12.4. */
  funcGetParamInfo(kernel: bigint): ParameterPlace[] | undefined;
  /**
   * Returns the address and the size of a variable. Fails with `cudaErrorNotSupported` if the software device does not
   * support the variable.
   */
  moduleGetGlobal(module: bigint, name: string): { address: bigint; byteLength: number };
  /** Returns an attribute of a kernel, using `cuFuncGetAttribute`; `attribute` is one of `functionAttribute`. */
  funcGetAttribute(kernel: bigint, attribute: number): number;
  /** Sets an attribute of a kernel with `cuFuncSetAttribute`; only the last three of `functionAttribute` can be set. */
  funcSetAttribute(kernel: bigint, attribute: number, value: number): void;
  /**
   * Returns the bytes of a tensor map, using `cuTensorMapEncodeTiled`. Fails with `cudaErrorCallRequiresNewerDriver`
   * before CUDA 12.0.
   */
  tensorMapEncodeTiled(device: number, tensor: TiledTensor): Uint8Array<ArrayBuffer>;
  /** Returns the bytes of a tensor map, using `cuTensorMapEncodeIm2col`. */
  tensorMapEncodeIm2col(device: number, tensor: Im2colTensor): Uint8Array<ArrayBuffer>;
  /** Sets a kernel's cache preference with `cuFuncSetCacheConfig`; `config` is one of `functionCache`. */
  funcSetCacheConfig(kernel: bigint, config: number): void;
  /**
   * Creates a launch of one thread on the default stream, without calling CUDA. `parameterBytes` is the total size of
   * the parameters; the caller fills in the array `buffers`.
   */
  createKernelLaunch(
    device: number,
    kernel: bigint,
    parameterBytes: number,
    buffers?: readonly (MemoryRange | undefined)[],
  ): KernelLaunch;
  /** Launches a kernel. `launch` must come from this driver's `createKernelLaunch`. */
  launchKernel(launch: KernelLaunch): void;
  /**
   * Launches a kernel with attributes, using `cuLaunchKernelEx`. Fails with `cudaErrorCallRequiresNewerDriver` before
   * CUDA 11.6.
   */
  launchKernelEx(launch: KernelLaunch, attributes: LaunchAttributes): void;
  occupancyMaxActiveBlocksPerMultiprocessor(kernel: bigint, blockSize: number, sharedMemoryBytes: number): number;
  /**
   * `cuOccupancyMaxPotentialBlockSize` for a fixed size of shared memory. A `blockSizeLimit` of 0 means that the block
   * size is not limited.
   */
  occupancyMaxPotentialBlockSize(
    kernel: bigint,
    sharedMemoryBytes: number,
    blockSizeLimit: number,
  ): { minGridSize: number; blockSize: number };
  /**
   * Returns the result of `cuOccupancyMaxActiveClusters`. Before CUDA 11.7, fails with
   * `cudaErrorCallRequiresNewerDriver`.
   */
  occupancyMaxActiveClusters(launch: KernelLaunch, attributes: LaunchAttributes): number;

  graphCreate(): bigint;
  graphDestroy(graph: bigint): void;
  graphClone(graph: bigint): bigint;
  /** Returns the node of a clone that `node` of the original graph became. */
  graphNodeFindInClone(node: bigint, clone: bigint): bigint;
  /**
   * Adds a node that launches a kernel, and returns the node, as all calls of this kind do. Copies the launch, whose
   * stream is ignored. `launch` must come from this driver's `createKernelLaunch`.
   */
  graphAddKernelNode(
    graph: bigint,
    dependencies: readonly bigint[],
    launch: KernelLaunch,
    attributes?: LaunchAttributes,
  ): bigint;
  /** Adds a node that copies a range, or rows, or rows with an array at one end at least. */
  graphAddMemcpyNode(
    device: number,
    graph: bigint,
    dependencies: readonly bigint[],
    copy: GraphCopy | PitchedCopy | ArrayCopy,
  ): bigint;
  graphAddMemsetNode(device: number, graph: bigint, dependencies: readonly bigint[], fill: GraphFill): bigint;
  graphAddEmptyNode(graph: bigint, dependencies: readonly bigint[]): bigint;
  /**
   * Adds a node that runs a copy of `child`. With `isMoved`, which needs CUDA 12.9, it runs `child` itself, which then
   * belongs to the graph, and must not be destroyed, and which may allocate and free memory.
   */
  graphAddChildGraphNode(graph: bigint, dependencies: readonly bigint[], child: bigint, isMoved?: boolean): bigint;
  graphAddEventRecordNode(graph: bigint, dependencies: readonly bigint[], event: bigint): bigint;
  graphAddEventWaitNode(graph: bigint, dependencies: readonly bigint[], event: bigint): bigint;
  /** Adds a node that allocates memory with the properties of a pool. The address is fixed from now on. */
  graphAddMemAllocNode(
    graph: bigint,
    dependencies: readonly bigint[],
    props: MemPoolProps,
    accesses: readonly MemAccessDesc[],
    byteLength: number,
  ): { node: bigint; address: bigint };
  graphAddMemFreeNode(graph: bigint, dependencies: readonly bigint[], address: bigint): bigint;
  /**
   * Creates a value that kernels of a graph set by `cudaGraphSetConditional`, and returns the number by which they name
   * it. Each launch begins with `defaultValue`. Without one, the value of the previous launch remains. Fails with
   * `cudaErrorCallRequiresNewerDriver` before CUDA 12.3.
   */
  graphConditionalHandleCreate(device: number, graph: bigint, defaultValue?: number): bigint;
  /** Adds a conditional node. Returns its bodies too: empty graphs that belong to it, and must not be destroyed. */
  graphAddConditionalNode(
    device: number,
    graph: bigint,
    dependencies: readonly bigint[],
    condition: GraphConditional,
  ): { node: bigint; bodies: bigint[] };
  graphAddDependencies(graph: bigint, edges: readonly (readonly [from: bigint, to: bigint])[]): void;
  graphRemoveDependencies(graph: bigint, edges: readonly (readonly [from: bigint, to: bigint])[]): void;
  graphDestroyNode(node: bigint): void;
  /** Returns the nodes of a graph, in the order in which they were added. */
  graphGetNodes(graph: bigint): bigint[];
  /** Returns one of `graphNodeType`. */
  graphNodeGetType(node: bigint): number;
  /** Returns the pairs of nodes where the second one depends on the first one. */
  graphGetEdges(graph: bigint): (readonly [from: bigint, to: bigint])[];
  /** Returns a description of the graph in the language DOT. `flags` are bits of `graphDotFlags`. */
  graphDebugDotPrint(graph: bigint, flags: number): string;
  /**
   * Creates an executable graph. `flags` are bits of `graphInstantiateFlags`. Throws a `GraphError` if the graph cannot
   * be executed.
   */
  graphInstantiate(graph: bigint, flags: number): bigint;
  /** Sends an executable graph to the device, in stream order, without running it. */
  graphUpload(device: number, exec: bigint, stream: bigint): void;
  graphLaunch(device: number, exec: bigint, stream: bigint): void;
  /** Destroys an executable graph. Launches that were enqueued still run. */
  graphExecDestroy(exec: bigint): void;
  /**
   * Gives an executable graph the parameters of a graph of the same shape. Launches that were enqueued keep theirs.
   * Throws a `GraphError` with `cudaErrorGraphExecUpdateFailure` if the graph differs in more than CUDA can change.
   */
  graphExecUpdate(exec: bigint, graph: bigint): void;
  /**
   * Replaces the launch of a kernel node in an executable graph, from the next launch of the graph on. `node` is the
   * node of the graph from which the executable graph was made, as for all calls of this kind.
   */
  graphExecKernelNodeSetParams(exec: bigint, node: bigint, launch: KernelLaunch): void;
  graphExecMemcpyNodeSetParams(device: number, exec: bigint, node: bigint, copy: GraphCopy): void;
  graphExecMemsetNodeSetParams(device: number, exec: bigint, node: bigint, fill: GraphFill): void;
  graphExecEventRecordNodeSetEvent(exec: bigint, node: bigint, event: bigint): void;
  graphExecEventWaitNodeSetEvent(exec: bigint, node: bigint, event: bigint): void;
  graphExecChildGraphNodeSetParams(exec: bigint, node: bigint, child: bigint): void;
  /** Sets whether a launch runs a node: a kernel, a copy or a fill. The nodes that depend on it run in any case. */
  graphNodeSetEnabled(exec: bigint, node: bigint, isEnabled: boolean): void;
  graphNodeGetEnabled(exec: bigint, node: bigint): boolean;

  /** Returns the value of one of `graphMemAttribute`. */
  deviceGetGraphMemAttribute(device: number, attribute: number): bigint;
  /** Resets one of the high marks of `graphMemAttribute`: `value` must be 0. */
  deviceSetGraphMemAttribute(device: number, attribute: number, value: bigint): void;
  /** Returns memory that graphs have reserved and do not use to the system. */
  deviceGraphMemTrim(device: number): void;

  /** Enables collection by an attached profiling tool, if there is one. Does nothing on the software device. */
  profilerStart(): void;
  profilerStop(): void;
}
