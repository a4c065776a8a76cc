/**
 * The driver of a machine without a GPU. It executes: kernels run from their PTX, memory is real memory that another
 * process can map, and calls give the CUDA errors that the real driver gives in the same situations.
 *
 * @module
 */
import { cudaErrorNumbers } from "../cuda_error_codes.ts";
import {
  type Driver,
  eventFlags,
  type HostAllocation,
  type KernelParameters,
  type MemAccessDesc,
  memAccessFlags,
  memHandleType,
  type MemLocation,
  memLocationType,
  memPoolAttribute,
  type MemPoolProps,
  type OsHandle,
  streamFlags,
} from "../driver.ts";
import { SystemError } from "../../ffi/shim/system_error.ts";
import { CudaError, cudaErrorName } from "../errors.ts";
import { ptxText } from "../ptx/ptx_text.ts";
import { PtxError } from "../ptx/syntax.ts";
import { formatUuid } from "../uuid.ts";
import { type Allocation, Allocations } from "./allocations.ts";
import { faultKind } from "./compiler/compile.ts";
import { ImportedPool, type Mapping } from "./imported_pool.ts";
import { createPoolId, decodeExportData, encodeExportData } from "./pool_file.ts";
import { SharedFile, sharedMemoryRefusal } from "./shared_file.ts";
import { activeBlocks, launchLimits, softwareAttribute, softwareUuid, visibleDevices } from "./software_device.ts";
import { KernelFault, launchInSlices, loadKernels, type SoftwareKernel } from "./software_kernel.ts";
import { type Block, SoftwarePool } from "./software_pool.ts";
import { Event, Scheduler, Stream, type Work } from "./streams.ts";
import { addressOfOffset, offsetOfAddress, scratch, Window, windowByteLength } from "./window.ts";

const emulatedCudaVersion = 13000;
const copySliceByteLength = 2 ** 20;
const softwareDeviceLimit = 16;

/** Memory of a pool of this process, or a mapping of another's. */
interface PoolAllocation extends Allocation {
  readonly pool: SoftwarePool;
  readonly block: Block;
}
interface MappedAllocation extends Allocation {
  readonly pool: ImportedPool;
  readonly mapping: Mapping;
}

interface LoadedModule {
  readonly device: number;
  readonly kernels: ReadonlyMap<string, SoftwareKernel>;
  readonly functions: bigint[];
}

/** A kernel, and the device that its module was loaded for. */
interface LoadedKernel {
  readonly device: number;
  readonly kernel: SoftwareKernel;
}

/** Why a device was lost. */
interface Loss {
  readonly number: number;
  readonly cause: unknown;
}

/** What the software devices are like. */
export interface SoftwareDriverOptions {
  /** How many there are. */
  readonly devices: number;
  /** Whether each may access the others' memory. */
  readonly peers: boolean;
  /** The value of `CUDA_VISIBLE_DEVICES`. */
  readonly visible?: string | undefined;
}

/** `Driver` on the processor. */
export class SoftwareDriver implements Driver {
  readonly kind = "software";
  readonly runtimeVersion: number = emulatedCudaVersion;
  readonly sharingRefusal: string | undefined = sharedMemoryRefusal();
  readonly #window = new Window();
  readonly #scheduler = new Scheduler((device, cause) => this.#lose(device, cause));
  readonly #peers: boolean;
  /** The ordinal that each visible device has where none is hidden. */
  readonly #physical: readonly number[];
  readonly #defaultStreams: readonly Stream[];
  readonly #defaultPools = new Map<number, bigint>();
  readonly #currentPools = new Map<number, bigint>();
  readonly #streams = new Map<bigint, Stream>();
  readonly #events = new Map<bigint, Event>();
  readonly #pools = new Map<bigint, SoftwarePool | ImportedPool>();
  /** This process's pools, and those destroyed whose memory is still in use. */
  readonly #livingPools = new Set<SoftwarePool>();
  /** The same of pools that were imported. */
  readonly #livingImports = new Set<ImportedPool>();
  readonly #allocations = new Allocations<PoolAllocation | MappedAllocation>();
  readonly #modules = new Map<bigint, LoadedModule>();
  readonly #kernels = new Map<bigint, LoadedKernel>();
  /** The last work of each stream that uses a page-locked buffer, done work left out now and then. */
  readonly #pinned = new Map<ArrayBufferLike, Map<Stream, Work>>();
  readonly #peerAccess = new Set<string>();
  /** What each lost device was lost to: every call on it gives that error again. */
  readonly #lost = new Map<number, Loss>();
  #lastHandle = 0x5000n;

  constructor({ devices, peers, visible }: SoftwareDriverOptions) {
    if (!Number.isInteger(devices) || devices < 1 || devices > softwareDeviceLimit) {
      throw new RangeError(`Cannot show ${devices} software devices: the number is from 1 to ${softwareDeviceLimit}`);
    }
    this.#peers = peers;
    const uuids = Array.from({ length: devices }, (_, ordinal) => formatUuid(softwareUuid(ordinal)));
    this.#physical = visibleDevices(visible, uuids);
    if (this.#physical.length === 0) {
      const ordinals = devices === 1 ? "0" : `some of the ordinals 0 to ${devices - 1}`;
      throw new CudaError(
        cudaErrorNumbers.cudaErrorNoDevice,
        "cuInit",
        `Cannot open the software devices: CUDA_VISIBLE_DEVICES="${visible}" leaves none of them visible; unset it, ` +
          `or set it to ${ordinals}, each once`,
      );
    }
    this.#defaultStreams = this.#physical.map((_, device) => new Stream(device, { isDefault: true }));
    for (const stream of this.#defaultStreams) this.#scheduler.addStream(stream);
  }

  close(): void {
    this.#scheduler.close();
    for (const pool of [...this.#livingImports, ...this.#livingPools]) pool.close();
    this.#livingImports.clear();
    this.#livingPools.clear();
    this.#pools.clear();
    this.#window.close();
  }

  driverGetVersion(): number {
    return emulatedCudaVersion;
  }

  getDeviceCount(): number {
    return this.#physical.length;
  }

  deviceGetName(device: number): string {
    this.#checkOrdinal(device, "cuDeviceGetName");
    return "poolpass software device";
  }

  deviceGetUuid(device: number): Uint8Array {
    this.#checkOrdinal(device, "cuDeviceGetUuid");
    return softwareUuid(this.#physical[device]!);
  }

  deviceGetAttribute(device: number, attribute: number): number {
    this.#checkOrdinal(device, "cudaDeviceGetAttribute");
    const value = softwareAttribute(attribute, { sharing: this.sharingRefusal === undefined });
    return value ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, "cudaDeviceGetAttribute");
  }

  memGetInfo(device: number): { free: number; total: number } {
    this.#checkDevice(device, "cudaMemGetInfo");
    return { free: this.#window.freeBytes, total: windowByteLength - scratch.local.begin - scratch.local.byteLength };
  }

  deviceSynchronize(device: number): void {
    this.#checkDevice(device, "cudaDeviceSynchronize");
    this.#scheduler.runUntil(() => this.#scheduler.isIdle(device));
    this.#synchronized(device, "cudaDeviceSynchronize");
  }

  deviceCanAccessPeer(device: number, peer: number): boolean {
    this.#checkOrdinal(device, "cudaDeviceCanAccessPeer");
    this.#checkOrdinal(peer, "cudaDeviceCanAccessPeer");
    return this.#peers && device !== peer;
  }

  deviceEnablePeerAccess(device: number, peer: number): void {
    const call = "cudaDeviceEnablePeerAccess";
    this.#checkDevice(device, call);
    this.#checkOrdinal(peer, call);
    if (device === peer) fail(cudaErrorNumbers.cudaErrorInvalidDevice, call);
    if (!this.#peers) fail(cudaErrorNumbers.cudaErrorPeerAccessUnsupported, call);
    const pair = `${device} ${peer}`;
    if (this.#peerAccess.has(pair)) fail(cudaErrorNumbers.cudaErrorPeerAccessAlreadyEnabled, call);
    this.#peerAccess.add(pair);
  }

  deviceDisablePeerAccess(device: number, peer: number): void {
    const call = "cudaDeviceDisablePeerAccess";
    this.#checkDevice(device, call);
    this.#checkOrdinal(peer, call);
    if (!this.#peerAccess.delete(`${device} ${peer}`)) fail(cudaErrorNumbers.cudaErrorPeerAccessNotEnabled, call);
  }

  streamCreateWithPriority(device: number, flags: number, _priority: number): bigint {
    this.#checkDevice(device, "cudaStreamCreateWithPriority");
    if (flags !== streamFlags.default && flags !== streamFlags.nonBlocking) {
      fail(cudaErrorNumbers.cudaErrorInvalidValue, "cudaStreamCreateWithPriority");
    }
    const stream = new Stream(device, { nonBlocking: flags === streamFlags.nonBlocking });
    this.#scheduler.addStream(stream);
    return this.#register(this.#streams, stream);
  }

  streamDestroy(device: number, stream: bigint): void {
    const found = this.#stream(device, stream, "cudaStreamDestroy");
    if (found.isDefault) fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, "cudaStreamDestroy");
    this.#scheduler.removeStream(found);
    this.#streams.delete(stream);
  }

  streamQuery(device: number, stream: bigint): boolean {
    const found = this.#stream(device, stream, "cudaStreamQuery");
    // A program that polls without returning to the event loop still gets there.
    if (!found.isIdle) this.#scheduler.step();
    this.#checkDevice(found.device, "cudaStreamQuery");
    return found.isIdle;
  }

  streamSynchronize(device: number, stream: bigint): void {
    const found = this.#stream(device, stream, "cudaStreamSynchronize");
    this.#scheduler.runUntil(() => found.isIdle);
    this.#synchronized(found.device, "cudaStreamSynchronize");
  }

  streamWaitEvent(device: number, stream: bigint, event: bigint): void {
    this.#scheduler.wait(
      this.#stream(device, stream, "cudaStreamWaitEvent"),
      this.#event(event, "cudaStreamWaitEvent"),
    );
  }

  eventCreateWithFlags(device: number, flags: number): bigint {
    this.#checkDevice(device, "cudaEventCreateWithFlags");
    return this.#register(this.#events, new Event(device, flags));
  }

  eventDestroy(_device: number, event: bigint): void {
    this.#event(event, "cudaEventDestroy");
    this.#events.delete(event);
  }

  eventRecord(device: number, event: bigint, stream: bigint): void {
    const call = "cudaEventRecord";
    const found = this.#event(event, call);
    const onto = this.#stream(device, stream, call);
    if (found.device !== onto.device) fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
    this.#scheduler.record(found, onto);
  }

  eventQuery(event: bigint): boolean {
    const { recorded, device } = this.#event(event, "cudaEventQuery");
    if (recorded !== undefined && !recorded.done) this.#scheduler.step();
    this.#checkDevice(device, "cudaEventQuery");
    return recorded === undefined || recorded.done;
  }

  eventSynchronize(event: bigint): void {
    const { recorded, device } = this.#event(event, "cudaEventSynchronize");
    if (recorded !== undefined) this.#scheduler.runUntil(() => recorded.done);
    this.#synchronized(device, "cudaEventSynchronize");
  }

  eventElapsedTime(start: bigint, end: bigint): number {
    const call = "cudaEventElapsedTime";
    const [first, last] = [this.#event(start, call), this.#event(end, call)];
    for (const { device, flags, recorded } of [first, last]) {
      // The record of an event was dropped with its device: it has no time, and is not to come.
      this.#checkDevice(device, call);
      if (recorded === undefined || (flags & eventFlags.disableTiming) !== 0) {
        fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
      }
    }
    if (first.time === undefined || last.time === undefined) fail(cudaErrorNumbers.cudaErrorNotReady, call);
    return last.time - first.time;
  }

  deviceGetDefaultMemPool(device: number): bigint {
    this.#checkOrdinal(device, "cudaDeviceGetDefaultMemPool");
    let pool = this.#defaultPools.get(device);
    if (pool === undefined) {
      pool = this.#createPool(device, { handleTypes: memHandleType.none, maxByteLength: Infinity });
      this.#defaultPools.set(device, pool);
    }
    return pool;
  }

  deviceGetMemPool(device: number): bigint {
    return this.#currentPools.get(device) ?? this.deviceGetDefaultMemPool(device);
  }

  deviceSetMemPool(device: number, pool: bigint): void {
    this.#checkOrdinal(device, "cudaDeviceSetMemPool");
    const found = this.#ownPool(pool, "cudaDeviceSetMemPool");
    if (found.device !== device) fail(cudaErrorNumbers.cudaErrorInvalidValue, "cudaDeviceSetMemPool");
    this.#currentPools.set(device, pool);
  }

  memPoolCreate({ handleTypes, location, maxSize }: MemPoolProps): bigint {
    const call = "cudaMemPoolCreate";
    if (location.type !== memLocationType.device) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    this.#checkDevice(location.id, call);
    if (handleTypes !== memHandleType.none && handleTypes !== memHandleType.posixFileDescriptor) {
      fail(cudaErrorNumbers.cudaErrorNotSupported, call);
    }
    return this.#createPool(location.id, { handleTypes, maxByteLength: maxSize === 0n ? Infinity : Number(maxSize) });
  }

  #createPool(device: number, options: { handleTypes: number; maxByteLength: number }): bigint {
    this.#checkLimits(device, "cudaMemPoolCreate");
    const id = createPoolId();
    const { handleTypes } = options;
    let file: SharedFile | undefined;
    if (handleTypes !== memHandleType.none) {
      if (this.sharingRefusal !== undefined) fail(cudaErrorNumbers.cudaErrorNotSupported, "cudaMemPoolCreate");
      const header = { id, deviceUuid: this.deviceGetUuid(device), handleTypes };
      file = outOfSystem("cudaMemPoolCreate", () => SharedFile.createPoolFile(header));
    }
    const host = { window: this.#window, scheduler: this.#scheduler };
    const pool = new SoftwarePool(host, { device, id, file, ...options });
    this.#livingPools.add(pool);
    return this.#register(this.#pools, pool);
  }

  memPoolDestroy(pool: bigint): void {
    const call = "cudaMemPoolDestroy";
    const found = this.#pool(pool, call);
    if ([...this.#defaultPools.values()].includes(pool)) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    if (found instanceof ImportedPool) {
      if (found.mappings.size > 0) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      if (--found.importCount > 0) return;
      found.destroy();
      if (found.isClosed) this.#livingImports.delete(found);
    } else {
      found.destroy();
      if (this.#currentPools.get(found.device) === pool) this.#currentPools.delete(found.device);
    }
    this.#pools.delete(pool);
  }

  memPoolGetAttribute(pool: bigint, attribute: number): bigint {
    const call = "cudaMemPoolGetAttribute";
    const { usage, reuse, releaseThreshold } = this.#ownPool(pool, call);
    switch (attribute) {
      case memPoolAttribute.reuseFollowEventDependencies:
        return BigInt(reuse.followEventDependencies);
      case memPoolAttribute.reuseAllowOpportunistic:
        return BigInt(reuse.allowOpportunistic);
      case memPoolAttribute.reuseAllowInternalDependencies:
        return BigInt(reuse.allowInternalDependencies);
      case memPoolAttribute.releaseThreshold:
        return releaseThreshold;
      case memPoolAttribute.reservedMemCurrent:
        return BigInt(usage.reserved);
      case memPoolAttribute.reservedMemHigh:
        return BigInt(usage.reservedHigh);
      case memPoolAttribute.usedMemCurrent:
        return BigInt(usage.used);
      case memPoolAttribute.usedMemHigh:
        return BigInt(usage.usedHigh);
      default:
        return fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    }
  }

  memPoolSetAttribute(pool: bigint, attribute: number, value: bigint): void {
    const call = "cudaMemPoolSetAttribute";
    const found = this.#ownPool(pool, call);
    switch (attribute) {
      case memPoolAttribute.reuseFollowEventDependencies:
        found.reuse.followEventDependencies = value !== 0n;
        break;
      case memPoolAttribute.reuseAllowOpportunistic:
        found.reuse.allowOpportunistic = value !== 0n;
        break;
      case memPoolAttribute.reuseAllowInternalDependencies:
        found.reuse.allowInternalDependencies = value !== 0n;
        break;
      case memPoolAttribute.releaseThreshold:
        found.releaseThreshold = BigInt.asUintN(64, value);
        break;
      case memPoolAttribute.reservedMemHigh:
        if (value !== 0n) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
        found.usage.reservedHigh = found.usage.reserved;
        break;
      case memPoolAttribute.usedMemHigh:
        if (value !== 0n) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
        found.usage.usedHigh = found.usage.used;
        break;
      default:
        fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    }
  }

  memPoolTrimTo(pool: bigint, minBytesToKeep: bigint): void {
    this.#ownPool(pool, "cudaMemPoolTrimTo").trimTo(Number(minBytesToKeep));
  }

  memPoolGetAccess(pool: bigint, { type, id }: MemLocation): number {
    const found = this.#pool(pool, "cudaMemPoolGetAccess");
    if (type !== memLocationType.device) fail(cudaErrorNumbers.cudaErrorInvalidValue, "cudaMemPoolGetAccess");
    this.#checkOrdinal(id, "cudaMemPoolGetAccess");
    return found.access.get(id) ?? memAccessFlags.none;
  }

  memPoolSetAccess(pool: bigint, descriptions: readonly MemAccessDesc[]): void {
    const call = "cudaMemPoolSetAccess";
    const found = this.#pool(pool, call);
    for (const { location } of descriptions) {
      if (location.type !== memLocationType.device) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      this.#checkOrdinal(location.id, call);
      if (location.id !== found.device && !this.#peers) fail(cudaErrorNumbers.cudaErrorPeerAccessUnsupported, call);
    }
    for (const { location, flags } of descriptions) {
      this.#checkLimits(location.id, call);
      found.setAccess(location.id, flags);
    }
  }

  mallocFromPoolAsync(device: number, byteLength: number, pool: bigint, stream: bigint): bigint {
    const call = "cudaMallocFromPoolAsync";
    const onto = this.#stream(device, stream, call);
    const found = this.#ownPool(pool, call);
    if (byteLength === 0) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    const block = found.allocate(byteLength, onto);
    if (block === undefined) fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
    this.#allocations.add({ begin: block.begin, byteLength, device: found.device, pool: found, block });
    return addressOfOffset(block.begin);
  }

  freeAsync(device: number, address: bigint, stream: bigint): void {
    const call = "cudaFreeAsync";
    const onto = this.#stream(device, stream, call);
    const offset = offsetOfAddress(address);
    const found = offset === undefined ? undefined : this.#allocations.at(offset);
    if (found === undefined) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    this.#allocations.remove(found);
    if ("block" in found) return found.pool.free(found, onto);
    const { pool, mapping } = found;
    pool.mappings.delete(mapping.key);
    this.#scheduler.enqueue(onto, () => pool.unmap(mapping), { outlivesDevice: true });
  }

  memPoolExportToShareableHandle(pool: bigint, handleType: number): OsHandle {
    const call = "cudaMemPoolExportToShareableHandle";
    const found = this.#ownPool(pool, call);
    const { file, handleTypes } = found;
    if (file === undefined || (handleTypes & handleType) === 0) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    const descriptor = outOfSystem(call, () => file.duplicate());
    found.isExported = true;
    return descriptor;
  }

  memPoolImportFromShareableHandle(device: number, handle: OsHandle, handleType: number): bigint {
    const call = "cudaMemPoolImportFromShareableHandle";
    this.#checkDevice(device, call);
    if (handleType !== memHandleType.posixFileDescriptor || typeof handle !== "number") {
      fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    }
    const opened = SharedFile.openPoolFile(handle);
    if (opened === undefined) fail(cudaErrorNumbers.cudaErrorUnknown, call);
    const known = this.#importOf(opened.file.identity());
    if (known !== undefined) {
      opened.file.close();
      return known;
    }
    const uuid = opened.header.deviceUuid.toHex();
    const owner = [...this.#physical.keys()].find((ordinal) => this.deviceGetUuid(ordinal).toHex() === uuid);
    if (owner === undefined || !this.#window.hasLimits(owner)) {
      opened.file.close();
      const { cudaErrorInvalidDevice, cudaErrorMemoryAllocation } = cudaErrorNumbers;
      fail(owner === undefined ? cudaErrorInvalidDevice : cudaErrorMemoryAllocation, call);
    }
    const imported = new ImportedPool(this.#window, { device: owner, ...opened });
    this.#livingImports.add(imported);
    return this.#register(this.#pools, imported);
  }

  memPoolExportPointer(address: bigint): Uint8Array<ArrayBuffer> {
    const offset = offsetOfAddress(address);
    const found = offset === undefined ? undefined : this.#allocations.at(offset);
    // Before the first export of its handle a pool gives no pointers, as on a GPU.
    if (found === undefined || !("block" in found) || !found.pool.isExported) {
      fail(cudaErrorNumbers.cudaErrorInvalidValue, "cudaMemPoolExportPointer");
    }
    const { pool, block, byteLength } = found;
    return encodeExportData({ poolId: pool.id, fileOffset: pool.fileOffsetOf(block), byteLength });
  }

  memPoolImportPointer(device: number, pool: bigint, exportData: Uint8Array): bigint {
    const call = "cudaMemPoolImportPointer";
    this.#checkDevice(device, call);
    const found = this.#pool(pool, call);
    const pointer = decodeExportData(exportData);
    if (!(found instanceof ImportedPool) || pointer?.poolId !== found.id) {
      fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    }
    const mapping = found.map(pointer);
    if (mapping === "out of memory") fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
    if (mapping === "not in the file") fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    if (this.#allocations.at(mapping.begin) === undefined) {
      this.#allocations.add({ ...mapping, device: found.device, pool: found, mapping });
    }
    return addressOfOffset(mapping.begin);
  }

  memGetAddressRange(device: number, address: bigint): { base: bigint; byteLength: number } {
    this.#checkDevice(device, "cuMemGetAddressRange");
    const found = this.#allocationAt(address, 1, "cuMemGetAddressRange");
    return { base: addressOfOffset(found.begin), byteLength: found.byteLength };
  }

  hostAlloc(byteLength: number): HostAllocation {
    if (byteLength === 0) fail(cudaErrorNumbers.cudaErrorInvalidValue, "cudaHostAlloc");
    let buffer: ArrayBuffer;
    try {
      buffer = new ArrayBuffer(byteLength);
    } catch {
      return fail(cudaErrorNumbers.cudaErrorMemoryAllocation, "cudaHostAlloc");
    }
    this.#pinned.set(buffer, new Map());
    return { address: this.#newHandle(), buffer };
  }

  freeHost({ buffer }: HostAllocation): void {
    const uses = this.#pinned.get(buffer) ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, "cudaFreeHost");
    for (const work of uses.values()) this.#scheduler.runUntil(() => work.done);
    this.#pinned.delete(buffer);
  }

  memcpyHtoDAsync(device: number, destination: bigint, source: Uint8Array, stream: bigint): void {
    const onto = this.#stream(device, stream, "cudaMemcpyAsync");
    const to = this.#range(destination, source.byteLength, "cudaMemcpyAsync");
    const uses = this.#pinned.get(source.buffer);
    const work = this.#enqueueCopy(onto, to, uses === undefined ? source.slice() : source);
    if (uses !== undefined) noteUse(uses, work);
  }

  memcpyDtoHAsync(device: number, destination: Uint8Array, source: bigint, stream: bigint): void {
    const call = "cudaMemcpyAsync";
    const onto = this.#stream(device, stream, call);
    const from = this.#range(source, destination.byteLength, call);
    const uses = this.#pinned.get(destination.buffer);
    const work = this.#enqueueCopy(onto, destination, from);
    if (uses !== undefined) return noteUse(uses, work);
    this.#scheduler.runUntil(() => work.done);
    this.#checkDevice(onto.device, call);
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
    const call = "cudaMemcpyPeerAsync";
    const onto = this.#stream(device, stream, call);
    this.#checkDevice(destinationDevice, call);
    this.#checkDevice(sourceDevice, call);
    const to = this.#range(destination, byteLength, call);
    const from = this.#range(source, byteLength, call);
    this.#enqueueCopy(onto, to, from);
  }

  memsetAsync(device: number, address: bigint, byte: number, byteLength: number, stream: bigint): void {
    const onto = this.#stream(device, stream, "cudaMemsetAsync");
    const range = this.#range(address, byteLength, "cudaMemsetAsync");
    this.#enqueueSlices(onto, byteLength, (begin, end) => range.fill(byte, begin, end));
  }

  moduleLoadData(device: number, image: string | Uint8Array): bigint {
    const call = "cuModuleLoadDataEx";
    this.#checkDevice(device, call);
    const ptx = ptxText(image);
    if (ptx === undefined) {
      const message = "Cannot load the module: the software device runs PTX, and this image is binary";
      throw new CudaError(cudaErrorNumbers.cudaErrorNoKernelImageForDevice, call, message);
    }
    let kernels: ReadonlyMap<string, SoftwareKernel>;
    try {
      kernels = loadKernels(ptx, this.#window);
    } catch (cause) {
      if (!(cause instanceof PtxError)) throw cause;
      throw new CudaError(cudaErrorNumbers.cudaErrorInvalidPtx, call, `Cannot load the module: ${cause.message}`, {
        cause,
      });
    }
    return this.#register(this.#modules, { device, kernels, functions: [] });
  }

  moduleUnload(_device: number, module: bigint): void {
    const { functions } = this.#module(module, "cuModuleUnload");
    for (const handle of functions) this.#kernels.delete(handle);
    this.#modules.delete(module);
  }

  moduleGetFunction(module: bigint, name: string): bigint {
    const { device, kernels, functions } = this.#module(module, "cuModuleGetFunction");
    const kernel = kernels.get(name) ?? fail(cudaErrorNumbers.cudaErrorSymbolNotFound, "cuModuleGetFunction");
    const handle = this.#register(this.#kernels, { device, kernel });
    functions.push(handle);
    return handle;
  }

  createKernelParameters(byteLength: number): KernelParameters {
    return { view: new DataView(new ArrayBuffer(byteLength)) };
  }

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
    { view }: KernelParameters,
  ): void {
    const call = "cuLaunchKernel";
    const onto = this.#stream(device, stream, call);
    const { device: loadedFor, kernel: found } = this.#kernel(kernel, call);
    // Copies and waits may be given to a stream of any device, kernels to one of their own alone.
    if (onto.device !== device || loadedFor !== device) fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
    this.#checkLimits(device, call);
    const { compiled } = found;
    const geometry = { grid: [gridX, gridY, gridZ], block: [blockX, blockY, blockZ] } as const;
    const maxThreads = compiled.maxThreadsPerBlock ?? launchLimits.maxThreadsPerBlock;
    const fits = geometry.grid.every((blocks, axis) => blocks >= 1 && blocks <= launchLimits.maxGridDim[axis]!) &&
      geometry.block.every((threads, axis) => threads >= 1 && threads <= launchLimits.maxBlockDim[axis]!) &&
      blockX * blockY * blockZ <= maxThreads &&
      compiled.sharedBytes + sharedMemoryBytes <= launchLimits.maxSharedMemoryPerBlock;
    if (!fits) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    const slices = launchInSlices(found, geometry, {
      window: this.#window,
      parameters: new Uint8Array(view.buffer.slice(0)),
      limits: this.#window.limitsOf(device),
    });
    this.#scheduler.enqueue(onto, slices);
  }

  occupancyMaxActiveBlocksPerMultiprocessor(kernel: bigint, blockSize: number, sharedMemoryBytes: number): number {
    const call = "cuOccupancyMaxActiveBlocksPerMultiprocessor";
    const { compiled } = this.#kernel(kernel, call).kernel;
    if (blockSize < 1) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    return activeBlocks(blockSize, compiled.sharedBytes + sharedMemoryBytes);
  }

  #newHandle(): bigint {
    this.#lastHandle += 0x10n;
    return this.#lastHandle;
  }

  #register<T>(registry: Map<bigint, T>, object: T): bigint {
    const handle = this.#newHandle();
    registry.set(handle, object);
    return handle;
  }

  #checkOrdinal(device: number, call: string): void {
    if (this.#physical[device] === undefined) fail(cudaErrorNumbers.cudaErrorInvalidDevice, call);
  }

  #checkDevice(device: number, call: string): void {
    this.#checkOrdinal(device, call);
    const lost = this.#lost.get(device);
    if (lost === undefined) return;
    const { number, cause } = lost;
    const { message } = cause as Error;
    const what = cause instanceof KernelFault
      ? `a kernel on device ${device} was stopped`
      : `device ${device} was lost`;
    throw new CudaError(number, call, `${call} failed: ${what} (${message})`, { cause });
  }

  /** Takes note of what a piece of work threw: the first error is the one that stays. */
  #lose(device: number, cause: unknown): void {
    if (this.#lost.has(device)) return;
    const number = cause instanceof KernelFault ? errorOfFault(cause) : cudaErrorNumbers.cudaErrorUnknown;
    this.#lost.set(device, { number, cause });
  }

  /** Sees to it that there are limits for the device's kernels to heed, before a stream needs them. */
  #checkLimits(device: number, call: string): void {
    if (!this.#window.hasLimits(device)) fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
  }

  #stream(device: number, stream: bigint, call: string): Stream {
    this.#checkDevice(device, call);
    const found = stream === 0n ? this.#defaultStreams[device] : this.#streams.get(stream);
    if (found === undefined) fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
    this.#checkDevice(found.device, call);
    return found;
  }

  #event(event: bigint, call: string): Event {
    return this.#events.get(event) ?? fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
  }

  #pool(pool: bigint, call: string): SoftwarePool | ImportedPool {
    return this.#pools.get(pool) ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  }

  #ownPool(pool: bigint, call: string): SoftwarePool {
    const found = this.#pool(pool, call);
    return found instanceof SoftwarePool ? found : fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  }

  /** The pool that was imported from a file already, counted once more. */
  #importOf(identity: string): bigint | undefined {
    for (const [handle, pool] of this.#pools) {
      if (!(pool instanceof ImportedPool) || pool.identity !== identity) continue;
      pool.importCount++;
      return handle;
    }
    return undefined;
  }

  #module(module: bigint, call: string): LoadedModule {
    return this.#modules.get(module) ?? fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
  }

  #kernel(kernel: bigint, call: string): LoadedKernel {
    return this.#kernels.get(kernel) ?? fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
  }

  #allocationAt(address: bigint, byteLength: number, call: string): Allocation {
    const offset = offsetOfAddress(address);
    const found = offset === undefined ? undefined : this.#allocations.containing(offset, byteLength);
    return found ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  }

  /** The bytes of a range that lies in one allocation. */
  #range(address: bigint, byteLength: number, call: string): Uint8Array {
    this.#allocationAt(address, byteLength, call);
    const offset = offsetOfAddress(address)!;
    return this.#window.bytes.subarray(offset, offset + byteLength);
  }

  /** CUDA leaves open what a copy between ranges that overlap does. Here they are as if copied at once. */
  #enqueueCopy(stream: Stream, to: Uint8Array, from: Uint8Array): Work {
    const { byteLength } = to;
    const isBackward = to.buffer === from.buffer && to.byteOffset > from.byteOffset;
    return this.#enqueueSlices(stream, byteLength, (begin, end) => {
      const [first, last] = isBackward ? [byteLength - end, byteLength - begin] : [begin, end];
      to.set(from.subarray(first, last), first);
    });
  }

  #enqueueSlices(stream: Stream, byteLength: number, slice: (begin: number, end: number) => void): Work {
    let done = 0;
    return this.#scheduler.enqueue(stream, () => {
      const end = Math.min(done + copySliceByteLength, byteLength);
      slice(done, end);
      done = end;
      return done === byteLength;
    });
  }

  #synchronized(device: number, call: string): void {
    this.#checkDevice(device, call);
    this.#settlePools();
  }

  #settlePools(): void {
    for (const pool of this.#livingPools) {
      pool.settle();
      if (pool.isClosed) this.#livingPools.delete(pool);
    }
    for (const pool of this.#livingImports) if (pool.isClosed) this.#livingImports.delete(pool);
  }
}

/** Notes that work uses a page-locked buffer. */
function noteUse(uses: Map<Stream, Work>, work: Work): void {
  for (const [stream, { done }] of uses) if (done) uses.delete(stream);
  uses.set(work.stream, work);
}

function fail(number: number, call: string): never {
  throw new CudaError(number, call);
}

/** Does what takes something of the operating system, and says which CUDA call it was for when it gives nothing. */
function outOfSystem<T>(call: string, take: () => T): T {
  try {
    return take();
  } catch (cause) {
    if (!(cause instanceof SystemError)) throw cause;
    const number = cudaErrorNumbers.cudaErrorOperatingSystem;
    throw new CudaError(number, call, `${call} failed: ${cudaErrorName(number)} (${cause.message})`, { cause });
  }
}

function errorOfFault({ kind }: KernelFault): number {
  if (kind === faultKind.misalignedAddress) return cudaErrorNumbers.cudaErrorMisalignedAddress;
  return kind === faultKind.trap ? cudaErrorNumbers.cudaErrorLaunchFailure : cudaErrorNumbers.cudaErrorIllegalAddress;
}
