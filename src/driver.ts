/**
 * The one seam: what a CUDA driver does for the objects above it, in the CUDA runtime API's own terms.
 *
 * One method for each call that the library makes, under CUDA's name without its prefix. Handles and device addresses
 * are bigints, structs are plain objects, and a failing call throws a `CudaError`. Two rules:
 *
 * - There is no current device. A method that depends on one takes its ordinal as the first argument.
 * - Nothing here returns a promise: a call returns at once, or its name says that it synchronizes.
 *
 * @module
 */

/** `cudaMemAllocationHandleType`, a set of bits. */
export const memHandleType = { none: 0, posixFileDescriptor: 1, fabric: 8 } as const;

/** `cudaMemLocationType`. */
export const memLocationType = { device: 1, host: 2, hostNuma: 3 } as const;

/** `cudaMemAccessFlags`. */
export const memAccessFlags = { none: 0, read: 1, readWrite: 3 } as const;

/** `cudaMemPoolAttr`. The first three are ints, the others count bytes. */
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

/** The flags of `cudaStreamCreateWithPriority`. */
export const streamFlags = { default: 0, nonBlocking: 1 } as const;

/** The flags of `cudaEventCreateWithFlags`. */
export const eventFlags = { default: 0, blockingSync: 1, disableTiming: 2, interprocess: 4 } as const;

/** Bytes of `cudaMemPoolPtrExportData`. */
export const exportDataByteLength = 64;

/** Bytes of `cudaIpcMemHandle_t` and of `cudaIpcEventHandle_t`. */
export const ipcHandleByteLength = 64;

/** The default stream of whichever device a call names. */
export const defaultStream = 0n;

/** `cudaMemLocation`: where memory lies, or who accesses it. */
export interface MemLocation {
  readonly type: number;
  /** The device's ordinal, or the NUMA node; 0 for host memory on no node. */
  readonly id: number;
}

/** `cudaMemPoolProps`. */
export interface MemPoolProps {
  readonly handleTypes: number;
  readonly location: MemLocation;
  /** Bytes; 0 leaves the limit to the system. */
  readonly maxSize: bigint;
}

/** `cudaMemAccessDesc`. */
export interface MemAccessDesc {
  readonly location: MemLocation;
  readonly flags: number;
}

/** What crosses a process boundary to share a pool: a file descriptor, or a 64-byte fabric handle. */
export type OsHandle = number | Uint8Array;

/** The arguments of a kernel, packed as its parameters lie in memory, in a form that the driver takes without copying. */
export interface KernelParameters {
  readonly view: DataView<ArrayBuffer>;
}

/** Page-locked host memory, as the driver knows it and as JavaScript does. */
export interface HostAllocation {
  readonly address: bigint;
  readonly buffer: ArrayBuffer;
}

/** See the module's own documentation. Every method throws `CudaError` when the call it makes fails. */
export interface Driver {
  readonly kind: "cuda" | "software";
  /** `cudaRuntimeGetVersion`; undefined where the driver is called without a runtime library. */
  readonly runtimeVersion: number | undefined;
  /** Why pools cannot be shared with other processes here; undefined where they can. */
  readonly sharingRefusal: string | undefined;
  /** Gives back what the driver itself holds. No method may be called afterwards. */
  close(): void;

  driverGetVersion(): number;
  getDeviceCount(): number;
  deviceGetName(device: number): string;
  /** 16 bytes. */
  deviceGetUuid(device: number): Uint8Array;
  /** `attribute`: a number of `cudaDeviceAttr`. */
  deviceGetAttribute(device: number, attribute: number): number;
  memGetInfo(device: number): { free: number; total: number };
  deviceSynchronize(device: number): void;
  deviceCanAccessPeer(device: number, peer: number): boolean;
  deviceEnablePeerAccess(device: number, peer: number): void;
  deviceDisablePeerAccess(device: number, peer: number): void;

  deviceGetStreamPriorityRange(device: number): { least: number; greatest: number };
  streamCreateWithPriority(device: number, flags: number, priority: number): bigint;
  streamDestroy(device: number, stream: bigint): void;
  /** With `peek`, reports without making progress: runs no queued work and creates no context. */
  streamQuery(device: number, stream: bigint, options?: { peek: boolean }): boolean;
  streamSynchronize(device: number, stream: bigint): void;
  streamWaitEvent(device: number, stream: bigint, event: bigint): void;

  eventCreateWithFlags(device: number, flags: number): bigint;
  eventDestroy(device: number, event: bigint): void;
  eventRecord(device: number, event: bigint, stream: bigint): void;
  eventQuery(event: bigint, options?: { peek: boolean }): boolean;
  eventSynchronize(event: bigint): void;
  /** Milliseconds. */
  eventElapsedTime(start: bigint, end: bigint): number;
  /** 64 bytes, `cudaIpcEventHandle_t`. */
  ipcGetEventHandle(event: bigint): Uint8Array<ArrayBuffer>;
  /** Not in the process that made the event. */
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

  /** `cudaMalloc`: not in the order of any stream. */
  malloc(device: number, byteLength: number): bigint;
  /** `cudaFree`: blocks until the device's work is done. 0 is freed already. */
  free(device: number, address: bigint): void;
  /** 64 bytes, `cudaIpcMemHandle_t`, of memory from `malloc` alone. */
  ipcGetMemHandle(device: number, address: bigint): Uint8Array<ArrayBuffer>;
  /** With `cudaIpcMemLazyEnablePeerAccess`. Not in the process that allocated the memory. */
  ipcOpenMemHandle(device: number, handle: Uint8Array): bigint;
  ipcCloseMemHandle(device: number, address: bigint): void;

  memPoolExportToShareableHandle(pool: bigint, handleType: number): OsHandle;
  memPoolImportFromShareableHandle(device: number, handle: OsHandle, handleType: number): bigint;
  /** 64 bytes, `cudaMemPoolPtrExportData`. */
  memPoolExportPointer(address: bigint): Uint8Array<ArrayBuffer>;
  memPoolImportPointer(device: number, pool: bigint, exportData: Uint8Array): bigint;
  /** `cuMemGetAddressRange`: the allocation that an address lies in. */
  memGetAddressRange(device: number, address: bigint): { base: bigint; byteLength: number };

  /** Memory of a pool in host memory, seen in place. Whoever asks detaches the buffer before the memory is freed. */
  hostView(address: bigint, byteLength: number): ArrayBuffer;

  hostAlloc(byteLength: number): HostAllocation;
  freeHost(allocation: HostAllocation): void;
  /** Bytes of pageable memory have been taken when this returns; those of page-locked memory have not. */
  memcpyHtoDAsync(device: number, destination: bigint, source: Uint8Array, stream: bigint): void;
  /** Into pageable memory this may block until the copy is done. */
  memcpyDtoHAsync(device: number, destination: Uint8Array, source: bigint, stream: bigint): void;
  /** Between addresses of one process that are known to be good, of a device or of a pool in host memory. */
  memcpyAsync(device: number, destination: bigint, source: bigint, byteLength: number, stream: bigint): void;
  /** Between devices. A host pool's memory is of none. */
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

  /** `image`: PTX text, or the bytes of PTX, a cubin or a fatbin. */
  moduleLoadData(device: number, image: string | Uint8Array): bigint;
  moduleUnload(device: number, module: bigint): void;
  moduleGetFunction(module: bigint, name: string): bigint;
  moduleGetGlobal(module: bigint, name: string): { address: bigint; byteLength: number };
  /** `byteLength`: that of all parameters together. */
  createKernelParameters(byteLength: number): KernelParameters;
  launchKernel(
    device: number,
    kernel: bigint,
    gridX: number,
    gridY: number,
    gridZ: number,
    blockX: number,
    blockY: number,
    blockZ: number,
    sharedMemoryBytes: number,
    stream: bigint,
    parameters: KernelParameters,
  ): void;
  occupancyMaxActiveBlocksPerMultiprocessor(kernel: bigint, blockSize: number, sharedMemoryBytes: number): number;
}
