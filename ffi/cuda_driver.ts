/**
 * The driver of a real GPU. Each call runs on its device's primary context.
 *
 * Most calls go to the CUDA runtime. Modules, launches, and the most frequent calls go directly to the driver library,
 * because the runtime would only be another layer: on an H200, recording an event takes 164 nanoseconds through libcuda
 * and 217 through libcudart, and allocating and freeing takes 845 and 940.
 *
 * An error names the runtime function if the runtime has an equivalent one, whichever library was called. Errors of
 * modules, kernels, device names, UUIDs and address ranges name the driver function. All error numbers but two are the
 * same in the runtime.
 *
 * @module
 */
import type {
  Driver,
  HostAllocation,
  JitOptions,
  KernelLaunch,
  LaunchAttributes,
  LinkedImage,
  MemAccessDesc,
  MemAllocationProps,
  MemLocation,
  MemoryRange,
  MemPoolProps,
  OsHandle,
  ParameterPlace,
  PointerAttributes,
  QueryOptions,
} from "../src/driver.ts";
import {
  hostAllocFlag,
  memAllocationType,
  memHandleType,
  memLocationType,
  memoryType,
  memPoolPropertyAttribute,
  oneThread,
} from "../src/driver.ts";
import { CudaError, cudaErrorNumbers, explainedError } from "../src/support/errors.ts";
import { sharedAmongCopies } from "../src/support/version.ts";
import {
  type CudaLibraries,
  loadCudaLibraries,
  minimumVersionOfManagedPools,
  minimumVersionOfPoolOptions,
  minimumVersionOfPoolUsage,
  newerVersionNeeded,
  noDeviceError,
} from "./cuda_libraries.ts";
import {
  encodeAccess,
  encodeLocation,
  LaunchConfig,
  memAllocationPropLayout,
  memPoolPropsLayout,
  opaqueStructSizes,
  writePoolProps,
  writeStruct,
} from "./structs.ts";
import { type CopyCalls, copyCalls } from "./copy_calls.ts";
import { type CudaKernelLaunch, type GraphCalls, graphCalls } from "./graph_calls.ts";
import { type HostAndLimitCalls, hostAndLimitCalls } from "./host_and_limit_calls.ts";
import { type ManagedCalls, managedCalls } from "./managed_calls.ts";
import { type TextureCalls, textureCalls } from "./texture_calls.ts";
import { type TensorMapCalls, tensorMapCalls } from "./tensor_map_calls.ts";
import { addressOf, foreignBuffer, withoutSign } from "./native/host.ts";
import { type ThreadCalls, threadFunctions } from "./native/threaded_copies.ts";
import { stringAt, SystemError } from "./native/shim/shim.ts";
import { deviceAttributes } from "../src/support/device_attributes.ts";
import { JitCall, linkImages, undefinedReferences } from "./link_images.ts";
import { canBePool, closeDescriptor, duplicateDescriptor } from "./native/shim/descriptors.ts";
import type { DriverFunctions, RuntimeFunctions } from "./driver_equivalents.ts";

const cudaMemAllocationTypePinned = 1;
const cudaIpcMemLazyEnablePeerAccess = 1;
const cudaMemcpyDefault = 4;
const cuPointerAttribute = {
  memoryType: 2,
  isManaged: 8,
  deviceOrdinal: 9,
  rangeStartAddress: 11,
  rangeSize: 12,
} as const;
const cuStreamCaptureStatusNone = 0;
const maxDeviceNameBytes = 256;
const launchParam = { end: 0n, bufferPointer: 1n, bufferSize: 2n } as const;

/**
 * The device that is current on this thread in CUDA; -1 if none is. All `CudaDriver` objects on the thread share this
 * variable, including those of other copies of this library. Other code that calls cudaSetDevice must restore the
 * device.
 */
const current: { device: number } = sharedAmongCopies("currentDevice", () => ({ device: -1 }));

/** The addresses of `threadFunctions`; undefined until they are needed. */
let threadFunctionAddresses: readonly (bigint | undefined)[] | undefined;

/** Implements `Driver` with libcudart and libcuda, or with libcuda alone. */
export interface CudaDriver
  extends CopyCalls, GraphCalls, HostAndLimitCalls, ManagedCalls, TensorMapCalls, TextureCalls {}

/** Implements `Driver` with libcudart and libcuda, or with libcuda alone. */
export class CudaDriver implements Driver {
  readonly kind = "cuda";
  readonly contextsAreShared = true;
  readonly loadingBlocks = true;
  readonly runsOnHost = false;
  readonly dropsWork = false;
  readonly executesMachineCode = true;
  readonly checker = undefined;
  readonly useBufferNames = undefined;
  readonly runtimeVersion: number | undefined;
  readonly sharingRefusal: undefined = undefined;
  readonly checksHandles: boolean = false;
  readonly hasContextEvents: boolean;
  readonly hasBatchedCopies: boolean;
  readonly #libraries: CudaLibraries;
  readonly #runtime: RuntimeFunctions;
  readonly #driver: DriverFunctions;
  /**
   * For each device, whether this object has retained the device's primary context. A context that only another
   * `CudaDriver` has retained must not be used.
   */
  readonly #initialized: boolean[] = [];

  /**
   * A reference to the memory whose address is passed to a call, so that the memory is not garbage-collected during the
   * call.
   */
  #hostMemory: Uint8Array | undefined;

  /** The configuration that all launches with attributes reuse. It is created for the first such launch. */
  #launchConfig: LaunchConfig | undefined;

  #lastByteLength = 0;
  #lastSize = 0n;

  // Out-parameters that all calls share: the results of each call are read before the next call.
  readonly #handleOut = new BigUint64Array(2);
  readonly #out = new Uint8Array(this.#handleOut.buffer, 0, 8);
  readonly #outAddress: bigint;
  readonly #secondOutAddress: bigint;
  readonly #secondOut = new Uint8Array(this.#handleOut.buffer, 8, 8);
  readonly #intOut = new Int32Array(this.#handleOut.buffer);
  readonly #floatOut = new Float32Array(this.#handleOut.buffer);
  readonly #wordsOut = new Uint32Array(this.#handleOut.buffer);

  /**
   * Loads CUDA.
   *
   * @param options.cudart Path of libcudart; with `null`, none is used.
   * @throws {CudaUnavailableError} If FFI is not permitted, there is no libcuda, or it reports no device.
   * @throws {CudaError} If CUDA is present and fails.
   */
  constructor(options: { cudart?: string | null } = {}) {
    this.#libraries = loadCudaLibraries(options);
    this.#runtime = this.#libraries.runtime;
    this.#driver = this.#libraries.driver;
    this.#outAddress = addressOf(this.#handleOut);
    this.#secondOutAddress = this.#outAddress + 8n;
    this.runtimeVersion = this.#libraries.runtimeVersion;
    this.hasContextEvents = !this.#libraries.lacks("cuCtxRecordEvent");
    this.hasBatchedCopies = !this.#libraries.lacks("cuMemcpyBatchAsync");
    if (this.getDeviceCount() === 0) throw noDeviceError();
    const services = {
      makeCurrent: (device: number) => this.#makeCurrent(device),
      makeAnyCurrent: () => this.#makeAnyCurrent(),
      check: (result: number, call: string) => this.#check(result, call),
      lacks: this.#libraries.lacks,
      placesOf: (launch: CudaKernelLaunch) => this.#placesOf(launch),
      hasNewBatches: !this.#libraries.lacks("cuMemcpyBatchAsync_v2"),
    };
    Object.assign(
      this,
      graphCalls(this.#driver, services),
      copyCalls(this.#driver, services),
      managedCalls(this.#driver, services),
      hostAndLimitCalls(this.#driver, services),
      textureCalls(this.#driver, services),
      tensorMapCalls(this.#driver, services),
    );
  }

  /** Does nothing: the libraries stay loaded, and the devices' contexts exist until the process exits. */
  close(): void {}

  threadCalls(device: number): ThreadCalls | undefined {
    this.#makeCurrent(device);
    this.#check(this.#driver.cuCtxGetCurrent(this.#out), "cuCtxGetCurrent");
    const context = this.#handleOut[0]!;
    threadFunctionAddresses ??= threadFunctions.map((name) => this.#libraries.addressOf(name));
    const functions = threadFunctionAddresses.filter((address) => address !== undefined);
    return functions.length === threadFunctions.length ? { context, functions } : undefined;
  }

  /** Makes a device current, for calls of other libraries. */
  makeCurrent(device: number): void {
    this.#makeCurrent(device);
  }

  driverGetVersion(): number {
    this.#check(this.#runtime.cudaDriverGetVersion(this.#out), "cudaDriverGetVersion");
    return this.#intOut[0]!;
  }

  getDeviceCount(): number {
    this.#check(this.#runtime.cudaGetDeviceCount(this.#out), "cudaGetDeviceCount");
    return this.#intOut[0]!;
  }

  deviceGetName(device: number): string {
    const name = new Uint8Array(maxDeviceNameBytes);
    this.#check(this.#driver.cuDeviceGetName(name, name.length, device), "cuDeviceGetName");
    return new TextDecoder().decode(name.subarray(0, name.indexOf(0)));
  }

  deviceGetUuid(device: number): Uint8Array {
    const uuid = new Uint8Array(opaqueStructSizes.cudaUUID_t);
    // Only cuDeviceGetUuid_v2 distinguishes the instances of a partitioned GPU (MIG). Drivers before 11.4 lack it.
    const result = this.#libraries.lacks("cuDeviceGetUuid_v2")
      ? this.#driver.cuDeviceGetUuid(uuid, device)
      : this.#driver.cuDeviceGetUuid_v2(uuid, device);
    this.#check(result, "cuDeviceGetUuid");
    return uuid;
  }

  deviceGetAttribute(device: number, attribute: number): number {
    this.#check(this.#runtime.cudaDeviceGetAttribute(this.#out, attribute, device), "cudaDeviceGetAttribute");
    return this.#intOut[0]!;
  }

  async deviceInitialize(device: number): Promise<void> {
    if (this.#initialized[device]) return;
    const result = await this.#libraries.retainContext(device);
    this.#check(result, "cuDevicePrimaryCtxRetain");
    this.#makeCurrent(device);
  }

  deviceTotalMem(device: number): number {
    this.#check(this.#driver.cuDeviceTotalMem_v2(this.#out, device), "cuDeviceTotalMem");
    return Number(this.#handleOut[0]);
  }

  memGetInfo(device: number): { free: number; total: number } {
    this.#makeCurrent(device);
    this.#check(this.#runtime.cudaMemGetInfo(this.#out, this.#secondOut), "cudaMemGetInfo");
    return { free: Number(this.#handleOut[0]), total: Number(this.#handleOut[1]) };
  }

  deviceSynchronize(device: number): void {
    this.#makeCurrent(device);
    this.#check(this.#runtime.cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  deviceCanAccessPeer(device: number, peer: number): boolean {
    this.#check(this.#runtime.cudaDeviceCanAccessPeer(this.#out, device, peer), "cudaDeviceCanAccessPeer");
    return this.#intOut[0] !== 0;
  }

  deviceEnablePeerAccess(device: number, peer: number): void {
    this.#makeCurrent(device);
    this.#check(this.#runtime.cudaDeviceEnablePeerAccess(peer, 0), "cudaDeviceEnablePeerAccess");
  }

  deviceDisablePeerAccess(device: number, peer: number): void {
    this.#makeCurrent(device);
    this.#check(this.#runtime.cudaDeviceDisablePeerAccess(peer), "cudaDeviceDisablePeerAccess");
  }

  deviceGetStreamPriorityRange(device: number): { least: number; greatest: number } {
    this.#makeCurrent(device);
    const result = this.#runtime.cudaDeviceGetStreamPriorityRange(this.#out, this.#secondOut);
    this.#check(result, "cudaDeviceGetStreamPriorityRange");
    // The third int of `#intOut` is the first of `#secondOut`, because the two buffers share memory.
    return { least: this.#intOut[0]!, greatest: this.#intOut[2]! };
  }

  streamCreateWithPriority(device: number, flags: number, priority: number): bigint {
    this.#makeCurrent(device);
    const result = this.#runtime.cudaStreamCreateWithPriority(this.#out, flags, withoutSign(priority));
    this.#check(result, "cudaStreamCreateWithPriority");
    return this.#handleOut[0]!;
  }

  streamDestroy(device: number, stream: bigint): void {
    this.#makeCurrent(device);
    this.#check(this.#runtime.cudaStreamDestroy(stream), "cudaStreamDestroy");
  }

  streamQuery(device: number, stream: bigint, options?: QueryOptions): boolean {
    // A device without a context has no work.
    if (options?.peek && !this.#initialized[device]) return true;
    this.#makeCurrent(device);
    // A query would invalidate the capture, which may be another library's.
    if (options !== undefined && this.streamIsCapturing(device, stream)) return false;
    return this.#checkReady(this.#runtime.cudaStreamQuery(stream), "cudaStreamQuery");
  }

  streamDescribeKernel(): undefined {
    return undefined;
  }

  streamSynchronize(device: number, stream: bigint): void {
    this.#makeCurrent(device);
    this.#check(this.#runtime.cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }

  streamWaitEvent(device: number, stream: bigint, event: bigint, flags = 0): void {
    this.#makeCurrent(device);
    this.#check(this.#driver.cuStreamWaitEvent(stream, event, flags), "cudaStreamWaitEvent");
  }

  streamIsCapturing(device: number, stream: bigint): boolean {
    this.#makeCurrent(device);
    const result = this.#driver.cuStreamIsCapturing(stream, this.#out);
    // For the default stream, the error `cudaErrorStreamCaptureImplicit` means that a blocking stream is being
    // captured.
    if (result === cudaErrorNumbers.cudaErrorStreamCaptureImplicit) return true;
    this.#check(result, "cudaStreamIsCapturing");
    return this.#intOut[0] !== cuStreamCaptureStatusNone;
  }

  streamGetFlags(device: number, stream: bigint): number {
    this.#makeCurrent(device);
    this.#check(this.#runtime.cudaStreamGetFlags(stream, this.#out), "cudaStreamGetFlags");
    return this.#intOut[0]!;
  }

  streamGetPriority(device: number, stream: bigint): number {
    this.#makeCurrent(device);
    this.#check(this.#runtime.cudaStreamGetPriority(stream, this.#out), "cudaStreamGetPriority");
    return this.#intOut[0]!;
  }

  streamGetDevice(device: number, stream: bigint): number | undefined {
    this.#makeCurrent(device);
    this.#check(this.#driver.cuCtxGetCurrent(this.#out), "cuCtxGetCurrent");
    const own = this.#handleOut[0]!;
    this.#check(this.#driver.cuStreamGetCtx(stream, this.#out), "cuStreamGetCtx");
    if (this.#handleOut[0] === own) return device;
    if (this.#libraries.lacks("cuStreamGetDevice")) return undefined;
    this.#check(this.#driver.cuStreamGetDevice(stream, this.#out), "cuStreamGetDevice");
    // If CUDA returns `device` here, the stream belongs to another context of this device. Such a stream cannot use
    // events of the primary context.
    return this.#intOut[0] === device ? undefined : this.#intOut[0];
  }

  eventCreateWithFlags(device: number, flags: number): bigint {
    this.#makeCurrent(device);
    this.#check(this.#runtime.cudaEventCreateWithFlags(this.#out, flags), "cudaEventCreateWithFlags");
    return this.#handleOut[0]!;
  }

  eventDestroy(device: number, event: bigint): void {
    this.#makeCurrent(device);
    this.#check(this.#runtime.cudaEventDestroy(event), "cudaEventDestroy");
  }

  eventRecord(device: number, event: bigint, stream: bigint): void {
    this.#makeCurrent(device);
    this.#check(this.#driver.cuEventRecord(event, stream), "cudaEventRecord");
  }

  eventRecordWithFlags(device: number, event: bigint, stream: bigint, flags: number): void {
    this.#makeCurrent(device);
    this.#check(this.#driver.cuEventRecordWithFlags(event, stream, flags), "cudaEventRecordWithFlags");
  }

  ctxRecordEvent(device: number, event: bigint): void {
    this.#makeCurrent(device);
    this.#check(this.#driver.cuCtxGetCurrent(this.#out), "cuCtxGetCurrent");
    this.#check(this.#driver.cuCtxRecordEvent(this.#handleOut[0]!, event), "cuCtxRecordEvent");
  }

  usedDevices(): number[] {
    return [...this.#initialized.keys()].filter((device) => this.#initialized[device]);
  }

  eventQuery(event: bigint): boolean {
    return this.#checkReady(this.#driver.cuEventQuery(event), "cudaEventQuery");
  }

  eventSynchronize(event: bigint): void {
    this.#check(this.#runtime.cudaEventSynchronize(event), "cudaEventSynchronize");
  }

  eventElapsedTime(start: bigint, end: bigint): number {
    this.#check(this.#runtime.cudaEventElapsedTime(this.#out, start, end), "cudaEventElapsedTime");
    return this.#floatOut[0]!;
  }

  ipcGetEventHandle(event: bigint): Uint8Array<ArrayBuffer> {
    const handle = new Uint8Array(opaqueStructSizes.cudaIpcEventHandle_t);
    this.#check(this.#runtime.cudaIpcGetEventHandle(handle, event), "cudaIpcGetEventHandle");
    return handle;
  }

  ipcOpenEventHandle(device: number, handle: Uint8Array): bigint {
    this.#makeCurrent(device);
    this.#check(this.#runtime.cudaIpcOpenEventHandle(this.#out, handle), "cudaIpcOpenEventHandle");
    return this.#handleOut[0]!;
  }

  deviceGetDefaultMemPool(device: number): bigint {
    this.#makeCurrent(device);
    this.#check(this.#runtime.cudaDeviceGetDefaultMemPool(this.#out, device), "cudaDeviceGetDefaultMemPool");
    return this.#handleOut[0]!;
  }

  deviceGetMemPool(device: number): bigint {
    this.#makeCurrent(device);
    this.#check(this.#runtime.cudaDeviceGetMemPool(this.#out, device), "cudaDeviceGetMemPool");
    return this.#handleOut[0]!;
  }

  deviceSetMemPool(device: number, pool: bigint): void {
    this.#makeCurrent(device);
    this.#check(this.#runtime.cudaDeviceSetMemPool(device, pool), "cudaDeviceSetMemPool");
  }

  memPoolCreate(props: MemPoolProps): bigint {
    this.#checkPoolOptions(props);
    if (props.location.type === memLocationType.device) this.#makeCurrent(props.location.id);
    else this.#makeAnyCurrent();
    const bytes = new Uint8Array(memPoolPropsLayout.byteLength);
    writePoolProps(new DataView(bytes.buffer), props);
    // An older runtime library than the driver may not know pools of managed memory.
    const result = props.allocationType === memAllocationType.managed
      ? this.#driver.cuMemPoolCreate(this.#out, bytes)
      : this.#runtime.cudaMemPoolCreate(this.#out, bytes);
    this.#check(result, "cudaMemPoolCreate");
    return this.#handleOut[0]!;
  }

  /**
   * Throws if an option is set for which the installed library is too old: its struct has no field for the option, so
   * the library would ignore the option.
   */
  #checkPoolOptions({ location, maxSize, allocationType, usage = 0 }: MemPoolProps): void {
    if (allocationType === memAllocationType.managed) {
      const what = "a pool of managed memory", minimum = minimumVersionOfManagedPools;
      const version = this.driverGetVersion();
      if (version < minimum) throw newerVersionNeeded("cudaMemPoolCreate", { what, minimum, version });
      return;
    }
    const isOnDevice = location.type === memLocationType.device;
    if (isOnDevice && maxSize === 0n && usage === 0) return;
    const what = usage !== 0 ? "hardwareDecompression" : isOnDevice ? "maxSize" : "a pool in host memory";
    const minimum = usage === 0 ? minimumVersionOfPoolOptions : minimumVersionOfPoolUsage;
    const versions = { driver: this.driverGetVersion(), libcudart: this.runtimeVersion ?? Infinity };
    for (const [library, version] of Object.entries(versions)) {
      if (version >= minimum) continue;
      throw newerVersionNeeded("cudaMemPoolCreate", { what, minimum, version, library });
    }
  }

  memPoolDestroy(pool: bigint): void {
    this.#check(this.#runtime.cudaMemPoolDestroy(pool), "cudaMemPoolDestroy");
  }

  memPoolGetAttribute(pool: bigint, attribute: number): bigint {
    this.#handleOut[0] = 0n;
    // An older runtime library than the driver does not know the newer attributes.
    const result = attribute >= memPoolPropertyAttribute.allocationType
      ? this.#driver.cuMemPoolGetAttribute(pool, attribute, this.#out)
      : this.#runtime.cudaMemPoolGetAttribute(pool, attribute, this.#out);
    this.#check(result, "cudaMemPoolGetAttribute");
    return this.#handleOut[0]!;
  }

  memPoolSetAttribute(pool: bigint, attribute: number, value: bigint): void {
    this.#handleOut[0] = value;
    this.#check(this.#runtime.cudaMemPoolSetAttribute(pool, attribute, this.#out), "cudaMemPoolSetAttribute");
  }

  memPoolTrimTo(pool: bigint, minBytesToKeep: bigint): void {
    this.#check(this.#runtime.cudaMemPoolTrimTo(pool, minBytesToKeep), "cudaMemPoolTrimTo");
  }

  memPoolGetAccess(pool: bigint, location: MemLocation): number {
    const result = this.#runtime.cudaMemPoolGetAccess(this.#out, pool, encodeLocation(location));
    this.#check(result, "cudaMemPoolGetAccess");
    return this.#intOut[0]!;
  }

  memPoolSetAccess(pool: bigint, descriptions: readonly MemAccessDesc[]): void {
    const bytes = encodeAccess(descriptions);
    const result = this.#runtime.cudaMemPoolSetAccess(pool, bytes, BigInt(descriptions.length));
    this.#check(result, "cudaMemPoolSetAccess");
  }

  mallocFromPoolAsync(device: number, byteLength: number, pool: bigint, stream: bigint): bigint {
    this.#makeCurrent(device);
    const size = this.#sizeOf(byteLength);
    const result = this.#driver.cuMemAllocFromPoolAsync(this.#outAddress, size, pool, stream);
    this.#check(result, "cudaMallocFromPoolAsync");
    return this.#handleOut[0]!;
  }

  freeAsync(device: number, address: bigint, stream: bigint): void {
    this.#makeCurrent(device);
    this.#check(this.#driver.cuMemFreeAsync(address, stream), "cudaFreeAsync");
  }

  malloc(device: number, byteLength: number): bigint {
    this.#makeCurrent(device);
    this.#check(this.#runtime.cudaMalloc(this.#out, BigInt(byteLength)), "cudaMalloc");
    return this.#handleOut[0]!;
  }

  free(device: number, address: bigint): void {
    this.#makeCurrent(device);
    this.#check(this.#runtime.cudaFree(address), "cudaFree");
  }

  ipcGetMemHandle(device: number, address: bigint): Uint8Array<ArrayBuffer> {
    this.#makeCurrent(device);
    const handle = new Uint8Array(opaqueStructSizes.cudaIpcMemHandle_t);
    this.#check(this.#runtime.cudaIpcGetMemHandle(handle, address), "cudaIpcGetMemHandle");
    return handle;
  }

  ipcOpenMemHandle(device: number, handle: Uint8Array): bigint {
    this.#makeCurrent(device);
    const result = this.#runtime.cudaIpcOpenMemHandle(this.#out, handle, cudaIpcMemLazyEnablePeerAccess);
    this.#check(result, "cudaIpcOpenMemHandle");
    return this.#handleOut[0]!;
  }

  ipcCloseMemHandle(device: number, address: bigint): void {
    this.#makeCurrent(device);
    this.#check(this.#runtime.cudaIpcCloseMemHandle(address), "cudaIpcCloseMemHandle");
  }

  memPoolExportToShareableHandle(pool: bigint, handleType: number): OsHandle {
    const call = "cudaMemPoolExportToShareableHandle";
    return this.#exported(handleType, (out) => this.#check(this.#runtime[call](out, pool, handleType, 0), call));
  }

  /** Calls `exportTo`, which writes a handle of the given type to its argument, and returns that handle. */
  #exported(handleType: number, exportTo: (out: Uint8Array) => void): OsHandle {
    if (handleType === memHandleType.fabric) {
      const handle = new Uint8Array(opaqueStructSizes.cudaMemFabricHandle_t);
      exportTo(handle);
      return handle;
    }
    exportTo(this.#out);
    // Duplicate the descriptor, because CUDA creates it without the close-on-exec flag: every program that this process
    // starts would inherit it.
    const exported = this.#intOut[0]!;
    try {
      return duplicateDescriptor(exported);
    } finally {
      closeDescriptor(exported);
    }
  }

  memPoolImportFromShareableHandle(device: number, handle: OsHandle, handleType: number): bigint {
    const call = "cudaMemPoolImportFromShareableHandle";
    this.#makeCurrent(device);
    const value = this.#osHandle(handle, handleType, call);
    this.#check(this.#runtime[call](this.#out, value, handleType, 0), call);
    return this.#handleOut[0]!;
  }

  /** Returns a shareable handle as the pointer-sized argument that CUDA's import functions expect. */
  #osHandle(handle: OsHandle, handleType: number, call: string): bigint {
    if (typeof handle === "number" && handleType === memHandleType.posixFileDescriptor && !isExportedPool(handle)) {
      throw new CudaError(cudaErrorNumbers.cudaErrorUnknown, call);
    }
    this.#hostMemory = typeof handle === "number" ? undefined : handle;
    // Sign-extend the integer, as in a C conversion from int to pointer. Node rejects a negative number.
    return typeof handle === "number" ? BigInt.asUintN(64, BigInt(handle)) : addressOf(handle);
  }

  memPoolExportPointer(address: bigint): Uint8Array<ArrayBuffer> {
    const exportData = new Uint8Array(opaqueStructSizes.cudaMemPoolPtrExportData);
    this.#check(this.#runtime.cudaMemPoolExportPointer(exportData, address), "cudaMemPoolExportPointer");
    return exportData;
  }

  memPoolImportPointer(device: number, pool: bigint, exportData: Uint8Array): bigint {
    this.#makeCurrent(device);
    const result = this.#driver.cuMemPoolImportPointer(this.#outAddress, pool, exportData);
    this.#check(result, "cudaMemPoolImportPointer");
    return this.#handleOut[0]!;
  }

  memGetAllocationGranularity(props: MemAllocationProps, option: number): number {
    const call = "cuMemGetAllocationGranularity";
    this.#check(this.#driver[call](this.#out, encodeAllocationProps(props), option), call);
    return Number(this.#handleOut[0]);
  }

  memCreate(props: MemAllocationProps, byteLength: number): bigint {
    const result = this.#driver.cuMemCreate(this.#out, BigInt(byteLength), encodeAllocationProps(props), 0n);
    this.#check(result, "cuMemCreate");
    return this.#handleOut[0]!;
  }

  memRelease(memory: bigint): void {
    this.#check(this.#driver.cuMemRelease(memory), "cuMemRelease");
  }

  memExportToShareableHandle(memory: bigint, handleType: number): OsHandle {
    const call = "cuMemExportToShareableHandle";
    return this.#exported(handleType, (out) => this.#check(this.#driver[call](out, memory, handleType, 0n), call));
  }

  memImportFromShareableHandle(handle: OsHandle, handleType: number): bigint {
    const call = "cuMemImportFromShareableHandle";
    const value = this.#osHandle(handle, handleType, call);
    this.#check(this.#driver[call](this.#out, value, handleType), call);
    return this.#handleOut[0]!;
  }

  memGetAllocationPropertiesFromHandle(memory: bigint): MemAllocationProps {
    const call = "cuMemGetAllocationPropertiesFromHandle";
    const bytes = new Uint8Array(memAllocationPropLayout.byteLength);
    this.#check(this.#driver[call](bytes, memory), call);
    const view = new DataView(bytes.buffer);
    const { fields } = memAllocationPropLayout;
    const read = (name: keyof typeof fields) => view.getInt32(fields[name].offset, true);
    return {
      handleTypes: read("requestedHandleTypes"),
      location: { type: read("location.type"), id: read("location.id") },
    };
  }

  memAddressReserve(byteLength: number, alignment: number): bigint {
    const call = "cuMemAddressReserve";
    this.#check(this.#driver[call](this.#out, BigInt(byteLength), BigInt(alignment), 0n, 0n), call);
    return this.#handleOut[0]!;
  }

  memAddressFree(address: bigint, byteLength: number): void {
    this.#check(this.#driver.cuMemAddressFree(address, BigInt(byteLength)), "cuMemAddressFree");
  }

  memMap(address: bigint, byteLength: number, memory: bigint): void {
    this.#check(this.#driver.cuMemMap(address, BigInt(byteLength), 0n, memory, 0n), "cuMemMap");
  }

  memUnmap(address: bigint, byteLength: number): void {
    this.#check(this.#driver.cuMemUnmap(address, BigInt(byteLength)), "cuMemUnmap");
  }

  memSetAccess(address: bigint, byteLength: number, descriptions: readonly MemAccessDesc[]): void {
    const call = "cuMemSetAccess";
    const bytes = encodeAccess(descriptions);
    const result = this.#driver[call](address, BigInt(byteLength), bytes, BigInt(descriptions.length));
    this.#check(result, call);
  }

  memGetAccess(address: bigint, location: MemLocation): number {
    this.#check(this.#driver.cuMemGetAccess(this.#out, encodeLocation(location), address), "cuMemGetAccess");
    return Number(this.#handleOut[0]);
  }

  memGetAddressRange(device: number, address: bigint): { base: bigint; byteLength: number } {
    this.#makeCurrent(device);
    const result = this.#driver.cuMemGetAddressRange_v2(this.#outAddress, this.#secondOutAddress, address);
    if (result === cudaErrorNumbers.cudaErrorSymbolNotFound && this.#isHostMemory(address)) {
      return this.#hostPoolRange(address);
    }
    this.#check(result, "cuMemGetAddressRange");
    // The size is assembled from two 32-bit words, because converting it from a bigint would take longer than the call
    // itself.
    return { base: this.#handleOut[0]!, byteLength: this.#wordsOut[2]! + this.#wordsOut[3]! * 2 ** 32 };
  }

  /**
   * Returns the range of a host pool's memory that the current device cannot access. For such memory the driver reports
   * the size but not the base, so `address` must be the base.
   */
  #hostPoolRange(address: bigint): { base: bigint; byteLength: number } {
    const result = this.#driver.cuPointerGetAttribute(this.#out, cuPointerAttribute.rangeSize, address);
    this.#check(result, "cuPointerGetAttribute");
    return { base: address, byteLength: Number(this.#handleOut[0]) };
  }

  pointerGetAttributes(device: number, address: bigint): PointerAttributes {
    this.#makeCurrent(device);
    const type = Number(this.#pointerAttribute(cuPointerAttribute.memoryType, address));
    const isHost = type === memoryType.host;
    const owner = isHost ? undefined : Number(this.#pointerAttribute(cuPointerAttribute.deviceOrdinal, address));
    const isManaged = this.#isManaged(address);
    const byteLength = Number(this.#pointerAttribute(cuPointerAttribute.rangeSize, address));
    this.#handleOut[0] = 0n;
    const result = this.#driver.cuPointerGetAttribute(this.#out, cuPointerAttribute.rangeStartAddress, address);
    // For memory of a host pool that the device cannot access, the driver reports the size but not the base.
    if (result !== 0 && !isHost) this.#fail(result, "cuPointerGetAttribute");
    const base = result === 0 && this.#handleOut[0] !== 0n ? this.#handleOut[0]! : address;
    return { type, device: owner, isManaged, base, byteLength };
  }

  /** Returns a pointer attribute of at most 64 bits. */
  #pointerAttribute(attribute: number, address: bigint): bigint {
    this.#handleOut[0] = 0n;
    this.#check(this.#driver.cuPointerGetAttribute(this.#out, attribute, address), "cuPointerGetAttribute");
    return this.#handleOut[0]!;
  }

  hostView(address: bigint, byteLength: number): ArrayBuffer {
    if (!this.#isHostMemory(address) && !this.#isManaged(address)) {
      this.#fail(cudaErrorNumbers.cudaErrorInvalidValue, "cuPointerGetAttribute");
    }
    return foreignBuffer(address, byteLength);
  }

  #isHostMemory(address: bigint): boolean {
    const result = this.#driver.cuPointerGetAttribute(this.#out, cuPointerAttribute.memoryType, address);
    return result === 0 && this.#intOut[0] === memoryType.host;
  }

  #isManaged(address: bigint): boolean {
    this.#handleOut[0] = 0n;
    const result = this.#driver.cuPointerGetAttribute(this.#out, cuPointerAttribute.isManaged, address);
    return result === 0 && this.#intOut[0] !== 0;
  }

  hostAlloc(byteLength: number, flags = 0): HostAllocation {
    this.#makeAnyCurrent();
    const result = this.#runtime.cudaHostAlloc(this.#out, BigInt(byteLength), hostAllocFlag.portable | flags);
    this.#check(result, "cudaHostAlloc");
    const address = this.#handleOut[0]!;
    try {
      return { address, buffer: foreignBuffer(address, byteLength) };
    } catch (error) {
      this.#runtime.cudaFreeHost(address);
      throw error;
    }
  }

  /**
   * Returns the host address itself: with unified addressing, which every supported system has, memory from
   * cudaHostAlloc is mapped for all devices regardless of its flags.
   */
  hostGetDevicePointer({ address }: HostAllocation): bigint {
    return address;
  }

  freeHost({ address }: HostAllocation): void {
    this.#check(this.#runtime.cudaFreeHost(address), "cudaFreeHost");
  }

  memcpyHtoDAsync(device: number, destination: bigint, source: Uint8Array, stream: bigint): void {
    this.#makeCurrent(device);
    const count = this.#sizeOf(source.byteLength);
    const result = this.#driver.cuMemcpyHtoDAsync_v2(destination, source, count, stream);
    if (result === 0) return;
    if (!this.#isOfHostPool(result, destination)) this.#fail(result, "cudaMemcpyAsync");
    this.#hostMemory = source;
    this.#copyByAddresses(destination, addressOf(source), count, stream);
    this.#hostMemory = undefined;
  }

  memcpyDtoHAsync(device: number, destination: Uint8Array, source: bigint, stream: bigint): void {
    this.#makeCurrent(device);
    const count = this.#sizeOf(destination.byteLength);
    const result = this.#driver.cuMemcpyDtoHAsync_v2(destination, source, count, stream);
    if (result === 0) return;
    if (!this.#isOfHostPool(result, source)) this.#fail(result, "cudaMemcpyAsync");
    this.#hostMemory = destination;
    this.#copyByAddresses(addressOf(destination), source, count, stream);
    this.#hostMemory = undefined;
  }

  /**
   * Returns whether a copy failed because `address` is in a host pool, whose memory CUDA does not accept as device
   * memory. Such a copy needs `cudaMemcpyDefault`, which infers the direction from the addresses, and treats an unknown
   * address as pageable host memory. `cudaMemcpyDefault` must therefore only be used for an address that CUDA knows.
   */
  #isOfHostPool(result: number, address: bigint): boolean {
    return result === cudaErrorNumbers.cudaErrorInvalidValue && this.#isHostMemory(address);
  }

  #copyByAddresses(to: bigint, from: bigint, count: bigint, stream: bigint): void {
    this.#check(this.#runtime.cudaMemcpyAsync(to, from, count, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
  }

  memcpyAsync(device: number, destination: bigint, source: bigint, byteLength: number, stream: bigint): void {
    this.#makeCurrent(device);
    const count = BigInt(byteLength);
    const result = this.#runtime.cudaMemcpyAsync(destination, source, count, cudaMemcpyDefault, stream);
    this.#check(result, "cudaMemcpyAsync");
  }

  memcpyPeerAsync(
    device: number,
    destination: bigint,
    destinationDevice: number,
    source: bigint,
    sourceDevice: number,
    byteLength: number,
    stream: bigint,
  ): void {
    this.#makeCurrent(device);
    const result = this.#runtime.cudaMemcpyPeerAsync(
      destination,
      destinationDevice,
      source,
      sourceDevice,
      BigInt(byteLength),
      stream,
    );
    this.#check(result, "cudaMemcpyPeerAsync");
  }

  memsetAsync(device: number, address: bigint, byte: number, byteLength: number, stream: bigint): void {
    this.#makeCurrent(device);
    const result = this.#runtime.cudaMemsetAsync(address, withoutSign(byte), BigInt(byteLength), stream);
    this.#check(result, "cudaMemsetAsync");
  }

  memsetD16Async(device: number, address: bigint, value: number, count: number, stream: bigint): void {
    this.#makeCurrent(device);
    this.#check(this.#driver.cuMemsetD16Async(address, value, BigInt(count), stream), "cuMemsetD16Async");
  }

  memsetD32Async(device: number, address: bigint, value: number, count: number, stream: bigint): void {
    this.#makeCurrent(device);
    this.#check(this.#driver.cuMemsetD32Async(address, value, BigInt(count), stream), "cuMemsetD32Async");
  }

  memsetD2D8Async(
    device: number,
    address: bigint,
    pitch: number,
    value: number,
    width: number,
    height: number,
    stream: bigint,
  ): void {
    this.#makeCurrent(device);
    const [columns, rows] = [BigInt(width), BigInt(height)];
    const result = this.#driver.cuMemsetD2D8Async(address, BigInt(pitch), value, columns, rows, stream);
    this.#check(result, "cuMemsetD2D8Async");
  }

  memsetD2D16Async(
    device: number,
    address: bigint,
    pitch: number,
    value: number,
    width: number,
    height: number,
    stream: bigint,
  ): void {
    this.#makeCurrent(device);
    const [columns, rows] = [BigInt(width), BigInt(height)];
    const result = this.#driver.cuMemsetD2D16Async(address, BigInt(pitch), value, columns, rows, stream);
    this.#check(result, "cuMemsetD2D16Async");
  }

  memsetD2D32Async(
    device: number,
    address: bigint,
    pitch: number,
    value: number,
    width: number,
    height: number,
    stream: bigint,
  ): void {
    this.#makeCurrent(device);
    const result = this.#driver.cuMemsetD2D32Async(
      address,
      BigInt(pitch),
      value,
      BigInt(width),
      BigInt(height),
      stream,
    );
    this.#check(result, "cuMemsetD2D32Async");
  }

  moduleLoadData(device: number, image: string | Uint8Array, options?: JitOptions): bigint {
    this.#makeCurrent(device);
    const jit = new JitCall(options);
    const result = this.#driver.cuModuleLoadDataEx(
      this.#out,
      nulTerminated(image),
      jit.count,
      jit.options,
      jit.values,
    );
    if (result !== 0) {
      const explanation = jit.errorLog();
      const call = "cuModuleLoadDataEx";
      throw explanation === "" ? new CudaError(result, call) : explainedError(result, call, explanation);
    }
    jit.reportInfoLog();
    return this.#handleOut[0]!;
  }

  linkModules(device: number, images: readonly LinkedImage[], options: JitOptions = {}): bigint {
    this.#makeCurrent(device);
    const logs: string[] = [];
    const note = (log: string) => void logs.push(log);
    const architecture = () => `sm_${this.#computeCapability(device)}`;
    const cubin = linkImages(this.#driver, images, { ...options, onInfoLog: note, architecture });
    let module: bigint;
    try {
      module = this.moduleLoadData(device, cubin, { onInfoLog: note });
    } catch (error) {
      const isUnresolved = error instanceof CudaError && error.number === cudaErrorNumbers.cudaErrorSymbolNotFound;
      throw isUnresolved ? undefinedReferences(cubin, images) ?? error : error;
    }
    options.onInfoLog?.(logs.filter((log) => log !== "").join("\n"));
    return module;
  }

  /** Returns the compute capability without a dot: "90" for 9.0. */
  #computeCapability(device: number): string {
    const { computeCapabilityMajor, computeCapabilityMinor } = deviceAttributes;
    return [computeCapabilityMajor, computeCapabilityMinor].map((each) => this.deviceGetAttribute(device, each)).join(
      "",
    );
  }

  moduleUnload(device: number, module: bigint): void {
    this.#makeCurrent(device);
    this.#check(this.#driver.cuModuleUnload(module), "cuModuleUnload");
  }

  moduleGetFunction(module: bigint, name: string): bigint {
    this.#check(this.#driver.cuModuleGetFunction(this.#out, module, nulTerminated(name)), "cuModuleGetFunction");
    return this.#handleOut[0]!;
  }

  moduleGetFunctionNames(module: bigint): string[] | undefined {
    const { cuModuleGetFunctionCount, cuModuleEnumerateFunctions, cuFuncGetName } = this.#driver;
    if (this.#libraries.lacks("cuModuleEnumerateFunctions") || this.#libraries.lacks("cuFuncGetName")) return undefined;
    this.#check(cuModuleGetFunctionCount(this.#out, module), "cuModuleGetFunctionCount");
    const functions = new BigUint64Array(this.#intOut[0]!);
    const result = cuModuleEnumerateFunctions(new Uint8Array(functions.buffer), functions.length, module);
    this.#check(result, "cuModuleEnumerateFunctions");
    return Array.from(functions, (kernel) => {
      this.#check(cuFuncGetName(this.#out, kernel), "cuFuncGetName");
      return stringAt(this.#handleOut[0]!);
    });
  }

  funcGetParamInfo(kernel: bigint): ParameterPlace[] | undefined {
    if (this.#libraries.lacks("cuFuncGetParamInfo")) return undefined;
    const places: ParameterPlace[] = [];
    for (let index = 0n;; index++) {
      const result = this.#driver.cuFuncGetParamInfo(kernel, index, this.#out, this.#secondOut);
      // The error means that the kernel has no parameter with this index: all parameters were read.
      if (result === cudaErrorNumbers.cudaErrorInvalidValue) return places;
      this.#check(result, "cuFuncGetParamInfo");
      places.push({ offset: Number(this.#handleOut[0]), byteLength: Number(this.#handleOut[1]) });
    }
  }

  moduleGetGlobal(module: bigint, name: string): { address: bigint; byteLength: number } {
    const result = this.#driver.cuModuleGetGlobal_v2(this.#out, this.#secondOut, module, nulTerminated(name));
    this.#check(result, "cuModuleGetGlobal");
    return { address: this.#handleOut[0]!, byteLength: Number(this.#handleOut[1]) };
  }

  funcGetAttribute(kernel: bigint, attribute: number): number {
    this.#check(this.#driver.cuFuncGetAttribute(this.#out, attribute, kernel), "cuFuncGetAttribute");
    return this.#intOut[0]!;
  }

  funcSetAttribute(kernel: bigint, attribute: number, value: number): void {
    this.#check(this.#driver.cuFuncSetAttribute(kernel, attribute, value), "cuFuncSetAttribute");
  }

  funcSetCacheConfig(kernel: bigint, config: number): void {
    this.#check(this.#driver.cuFuncSetCacheConfig(kernel, config), "cuFuncSetCacheConfig");
  }

  createKernelLaunch(
    device: number,
    kernel: bigint,
    parameterBytes: number,
    buffers: readonly (MemoryRange | undefined)[] = [],
  ): KernelLaunch {
    // One buffer contains the packed parameters, followed by their size in bytes. `extra` contains the addresses of
    // both.
    const sizeOffset = Math.ceil(parameterBytes / 8) * 8;
    const parameters = new DataView(new ArrayBuffer(sizeOffset + 8));
    parameters.setBigUint64(sizeOffset, BigInt(parameterBytes), true);
    const address = addressOf(parameters);
    const extra = new Uint8Array(
      new BigUint64Array([
        launchParam.bufferPointer,
        address,
        launchParam.bufferSize,
        address + BigInt(sizeOffset),
        launchParam.end,
      ]).buffer,
    );
    const launch: CudaKernelLaunch = { ...oneThread(device, kernel), parameters, buffers, extra, extraAddress: 0n };
    return launch;
  }

  launchKernel(launch: KernelLaunch): void {
    this.#makeCurrent(launch.device);
    const result = this.#driver.cuLaunchKernel(
      launch.kernel,
      launch.gridX,
      launch.gridY,
      launch.gridZ,
      launch.blockX,
      launch.blockY,
      launch.blockZ,
      withoutSign(launch.sharedMemoryBytes),
      launch.stream,
      0n,
      (launch as CudaKernelLaunch).extra,
    );
    this.#check(result, "cuLaunchKernel");
  }

  occupancyMaxActiveBlocksPerMultiprocessor(kernel: bigint, blockSize: number, sharedMemoryBytes: number): number {
    const call = "cuOccupancyMaxActiveBlocksPerMultiprocessor";
    this.#check(this.#driver[call](this.#out, kernel, blockSize, BigInt(sharedMemoryBytes)), call);
    return this.#intOut[0]!;
  }

  launchKernelEx(launch: KernelLaunch, attributes: LaunchAttributes): void {
    this.#makeCurrent(launch.device);
    const config = this.#launchConfig ??= new LaunchConfig();
    config.fill(launch, attributes);
    const own = launch as CudaKernelLaunch;
    const places = attributes.cooperative ? this.#placesOf(own) : undefined;
    const result = places === undefined
      ? this.#driver.cuLaunchKernelEx(config.bytes, launch.kernel, 0n, own.extra)
      : this.#driver.cuLaunchKernelEx(config.bytes, launch.kernel, places.address, null);
    this.#check(result, "cuLaunchKernelEx");
  }

  /**
   * Returns the addresses of a launch's parameters, for `kernelParams`: in a graph, CUDA refuses cooperative launches
   * whose parameters are packed. Undefined if the addresses are unknown.
   */
  #placesOf(launch: CudaKernelLaunch): CudaKernelLaunch["places"] {
    if (launch.places !== undefined) return launch.places;
    const parameters = this.funcGetParamInfo(launch.kernel);
    if (parameters === undefined) return undefined;
    const address = addressOf(launch.parameters);
    // An empty array has no address.
    const addresses = new BigUint64Array(Math.max(1, parameters.length));
    for (const [index, { offset }] of parameters.entries()) addresses[index] = address + BigInt(offset);
    return launch.places = { addresses, address: addressOf(addresses) };
  }

  occupancyMaxPotentialBlockSize(
    kernel: bigint,
    sharedMemoryBytes: number,
    blockSizeLimit: number,
  ): { minGridSize: number; blockSize: number } {
    const call = "cuOccupancyMaxPotentialBlockSize";
    const bytes = BigInt(sharedMemoryBytes);
    this.#check(this.#driver[call](this.#out, this.#secondOut, kernel, 0n, bytes, blockSizeLimit), call);
    // The third int of `#intOut` is the first of `#secondOut`, because the two buffers share memory.
    return { minGridSize: this.#intOut[0]!, blockSize: this.#intOut[2]! };
  }

  occupancyMaxActiveClusters(launch: KernelLaunch, attributes: LaunchAttributes): number {
    this.#makeCurrent(launch.device);
    const config = this.#launchConfig ??= new LaunchConfig();
    config.fill(launch, attributes);
    const call = "cuOccupancyMaxActiveClusters";
    this.#check(this.#driver[call](this.#out, launch.kernel, config.bytes), call);
    return this.#intOut[0]!;
  }

  profilerStart(): void {
    this.#makeAnyCurrent();
    this.#check(this.#runtime.cudaProfilerStart(), "cudaProfilerStart");
  }

  profilerStop(): void {
    this.#makeAnyCurrent();
    this.#check(this.#runtime.cudaProfilerStop(), "cudaProfilerStop");
  }

  /**
   * Converts a size to a bigint. The last result is cached, because conversion is slow and programs often repeat a
   * size.
   */
  #sizeOf(byteLength: number): bigint {
    if (byteLength !== this.#lastByteLength) {
      this.#lastSize = BigInt(byteLength);
      this.#lastByteLength = byteLength;
    }
    return this.#lastSize;
  }

  #makeCurrent(device: number): void {
    if (device === current.device && this.#initialized[device]) return;
    this.#check(this.#runtime.cudaSetDevice(device), "cudaSetDevice");
    current.device = device;
    if (!this.#initialized[device]) {
      // Before CUDA 12, cudaSetDevice did not create the context that calls of the driver library need, but cudaFree
      // did.
      current.device = -1;
      this.#check(this.#runtime.cudaFree(0n), "cudaFree");
      current.device = device;
      this.#initialized[device] = true;
    }
  }

  #makeAnyCurrent(): void {
    this.#makeCurrent(current.device === -1 ? 0 : current.device);
  }

  #check(result: number, call: string): void {
    if (result !== 0) this.#fail(result, call);
  }

  #checkReady(result: number, call: string): boolean {
    if (result === 0) return true;
    if (result !== cudaErrorNumbers.cudaErrorNotReady) this.#fail(result, call);
    return false;
  }

  #fail(result: number, call: string): never {
    // Clear the error of the failed call: the runtime keeps it until the next cudaGetLastError, so other code could
    // attribute it to another call. The runtime does not keep cudaErrorNotReady, which need not be cleared.
    this.#runtime.cudaGetLastError();
    throw new CudaError(result, call);
  }
}

function nulTerminated(image: string | Uint8Array): Uint8Array {
  if (typeof image === "string") return new TextEncoder().encode(image + "\0");
  // PTX that is passed as bytes may lack the terminating NUL. An extra NUL does no harm to a binary image.
  const bytes = new Uint8Array(image.byteLength + 1);
  bytes.set(image);
  return bytes;
}

function encodeAllocationProps({ handleTypes, location }: MemAllocationProps): Uint8Array {
  const bytes = new Uint8Array(memAllocationPropLayout.byteLength);
  writeStruct(memAllocationPropLayout, new DataView(bytes.buffer), {
    values: {
      "type": cudaMemAllocationTypePinned,
      "requestedHandleTypes": handleTypes,
      "location.type": location.type,
      "location.id": location.id,
    },
  });
  return bytes;
}

/**
 * Returns whether a descriptor may represent a pool that CUDA has exported. CUDA's import functions make system calls
 * on any descriptor, and a file provided by another process could make them block forever.
 */
function isExportedPool(fd: number): boolean {
  try {
    return canBePool(fd);
  } catch (error) {
    if (error instanceof SystemError) return false;
    throw error;
  }
}
