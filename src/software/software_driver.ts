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
  type MemPoolProps,
  type OsHandle,
  streamFlags,
} from "../driver.ts";
import { addressOf, foreignBuffer } from "../../ffi/host.ts";
import { type Allocation, Allocations } from "./allocations.ts";
import { Copies } from "./copies.ts";
import type { DeviceMemory } from "./device_memory.ts";
import { checkSharing, fail, outOfSystem } from "./failure.ts";
import { ImportedPool, type Mapping } from "./imported_pool.ts";
import { InterprocessEvent } from "./interprocess_event.ts";
import { LegacyMemory } from "./legacy_memory.ts";
import type { OpenedMemory } from "./opened_memory.ts";
import { poolAttribute, setPoolAttribute } from "./pool_attributes.ts";
import { createPoolId, decodeExportData, encodeExportData } from "./pool_file.ts";
import { SharedFile, sharedMemoryRefusal } from "./shared_file.ts";
import { softwareAttribute } from "./software_device.ts";
import type { SoftwareKernel } from "./software_kernel.ts";
import { launchOf, LoadedModule, type ModuleVariable, occupancyOf } from "./software_modules.ts";
import { type Block, SoftwarePool } from "./software_pool.ts";
import { Event, Scheduler, Stream, Work } from "./streams.ts";
import { type SoftwareDriverOptions, VisibleDevices } from "./visible_devices.ts";
import { addressOfOffset, offsetOfAddress, scratch, Window, windowByteLength } from "./window.ts";

const emulatedCudaVersion = 13000;
const onlyNumaNode = 0;

/** Memory of a pool of this process. */
interface PoolAllocation extends Allocation {
  readonly kind: "pool";
  readonly pool: SoftwarePool;
  readonly block: Block;
}

/** Memory of another process's pool, mapped here. */
interface MappedAllocation extends Allocation {
  readonly kind: "mapped";
  readonly pool: ImportedPool;
  readonly mapping: Mapping;
}

/** What a free ends. */
type OwnAllocation = PoolAllocation | MappedAllocation | DeviceMemory;

/** Whatever an address may lie in. */
type AnyAllocation = OwnAllocation | OpenedMemory | ModuleVariable;

/** A kernel, and the device that its module was loaded for. */
interface LoadedKernel {
  readonly device: number;
  readonly kernel: SoftwareKernel;
}

/** `Driver` on the processor. */
export class SoftwareDriver implements Driver {
  readonly kind = "software";
  readonly runtimeVersion: number = emulatedCudaVersion;
  readonly sharingRefusal: string | undefined = sharedMemoryRefusal();
  readonly #window = new Window();
  readonly #devices: VisibleDevices;
  readonly #scheduler = new Scheduler((device, cause) => this.#devices.lose(device, cause));
  readonly #copies = new Copies(this.#scheduler);
  readonly #defaultStreams: readonly Stream[];
  readonly #defaultPools = new Map<number, bigint>();
  readonly #currentPools = new Map<number, bigint>();
  readonly #streams = new Map<bigint, Stream>();
  readonly #events = new Map<bigint, Event>();
  /** Those that have a page in the window, also when they were destroyed and are still used. */
  readonly #interprocessEvents = new Set<InterprocessEvent>();
  readonly #pools = new Map<bigint, SoftwarePool | ImportedPool>();
  /** This process's pools, and those destroyed whose memory is still in use. */
  readonly #livingPools = new Set<SoftwarePool>();
  /** The same of pools that were imported. */
  readonly #livingImports = new Set<ImportedPool>();
  readonly #legacyMemory: LegacyMemory;
  readonly #allocations = new Allocations<AnyAllocation>();
  readonly #modules = new Map<bigint, LoadedModule>();
  readonly #kernels = new Map<bigint, LoadedKernel>();
  #lastHandle = 0x5000n;

  constructor(options: SoftwareDriverOptions) {
    this.#devices = new VisibleDevices(options);
    this.#legacyMemory = new LegacyMemory(this.#window, this.#devices);
    this.#defaultStreams = Array.from({ length: this.#devices.count }, (_, device) => {
      return new Stream(device, { isDefault: true });
    });
    for (const stream of this.#defaultStreams) this.#scheduler.addStream(stream);
  }

  close(): void {
    this.#scheduler.close();
    for (const pool of [...this.#livingImports, ...this.#livingPools]) pool.close();
    this.#livingImports.clear();
    this.#livingPools.clear();
    this.#pools.clear();
    this.#legacyMemory.close();
    for (const module of this.#modules.values()) module.release();
    this.#modules.clear();
    for (const event of this.#interprocessEvents) event.close();
    this.#interprocessEvents.clear();
    this.#window.close();
  }

  driverGetVersion(): number {
    return emulatedCudaVersion;
  }

  getDeviceCount(): number {
    return this.#devices.count;
  }

  deviceGetName(device: number): string {
    this.#devices.checkOrdinal(device, "cuDeviceGetName");
    return "poolpass software device";
  }

  deviceGetUuid(device: number): Uint8Array {
    this.#devices.checkOrdinal(device, "cuDeviceGetUuid");
    return this.#devices.uuid(device);
  }

  deviceGetAttribute(device: number, attribute: number): number {
    this.#devices.checkOrdinal(device, "cudaDeviceGetAttribute");
    const value = softwareAttribute(attribute, { sharing: this.sharingRefusal === undefined });
    return value ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, "cudaDeviceGetAttribute");
  }

  memGetInfo(device: number): { free: number; total: number } {
    this.#devices.check(device, "cudaMemGetInfo");
    return { free: this.#window.freeBytes, total: windowByteLength - scratch.local.begin - scratch.local.byteLength };
  }

  deviceSynchronize(device: number): void {
    this.#devices.check(device, "cudaDeviceSynchronize");
    this.#finishWorkOf(device, "cudaDeviceSynchronize");
  }

  deviceCanAccessPeer(device: number, peer: number): boolean {
    this.#devices.checkOrdinal(device, "cudaDeviceCanAccessPeer");
    this.#devices.checkOrdinal(peer, "cudaDeviceCanAccessPeer");
    return this.#devices.arePeers && device !== peer;
  }

  deviceEnablePeerAccess(device: number, peer: number): void {
    const call = "cudaDeviceEnablePeerAccess";
    this.#devices.check(device, call);
    this.#devices.checkOrdinal(peer, call);
    if (device === peer) fail(cudaErrorNumbers.cudaErrorInvalidDevice, call);
    if (!this.#devices.arePeers) fail(cudaErrorNumbers.cudaErrorPeerAccessUnsupported, call);
    this.#checkLimits(device, call);
    const { peerAccess } = this.#legacyMemory;
    if (peerAccess.isEnabled(device, peer)) fail(cudaErrorNumbers.cudaErrorPeerAccessAlreadyEnabled, call);
    peerAccess.enable(device, peer);
  }

  deviceDisablePeerAccess(device: number, peer: number): void {
    const call = "cudaDeviceDisablePeerAccess";
    this.#devices.check(device, call);
    this.#devices.checkOrdinal(peer, call);
    const { peerAccess } = this.#legacyMemory;
    if (!peerAccess.isEnabled(device, peer)) fail(cudaErrorNumbers.cudaErrorPeerAccessNotEnabled, call);
    // Kernels that were launched before have the access that there was then.
    this.#finishWorkOf(device, call);
    peerAccess.disable(device, peer);
  }

  streamCreateWithPriority(device: number, flags: number, _priority: number): bigint {
    this.#devices.check(device, "cudaStreamCreateWithPriority");
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
    this.#devices.check(found.device, "cudaStreamQuery");
    return found.isIdle;
  }

  streamSynchronize(device: number, stream: bigint): void {
    const found = this.#stream(device, stream, "cudaStreamSynchronize");
    this.#scheduler.runUntil(() => found.isIdle);
    this.#synchronized(found.device, "cudaStreamSynchronize");
  }

  streamWaitEvent(device: number, stream: bigint, event: bigint): void {
    const onto = this.#stream(device, stream, "cudaStreamWaitEvent");
    const found = this.#event(event, "cudaStreamWaitEvent");
    const work = this.#scheduler.wait(onto, found);
    if (work !== undefined && found instanceof InterprocessEvent) found.uses.note(work);
  }

  eventCreateWithFlags(device: number, flags: number): bigint {
    const call = "cudaEventCreateWithFlags";
    this.#devices.check(device, call);
    const { blockingSync, disableTiming, interprocess } = eventFlags;
    const isTimed = (flags & disableTiming) === 0;
    const isInterprocess = (flags & interprocess) !== 0;
    if ((flags & ~(blockingSync | disableTiming | interprocess)) !== 0 || (isInterprocess && isTimed)) {
      fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    }
    if (!isInterprocess) return this.#register(this.#events, new Event(device, flags));
    const deviceUuid = this.#devices.uuid(device);
    return this.#registerShared(InterprocessEvent.create(this.#window, { device, flags, deviceUuid }));
  }

  #registerShared(event: InterprocessEvent): bigint {
    this.#interprocessEvents.add(event);
    return this.#register(this.#events, event);
  }

  eventDestroy(_device: number, event: bigint): void {
    const found = this.#event(event, "cudaEventDestroy");
    this.#events.delete(event);
    if (!(found instanceof InterprocessEvent)) return;
    found.destroy();
    this.#settleEvents();
  }

  eventRecord(device: number, event: bigint, stream: bigint): void {
    const call = "cudaEventRecord";
    const found = this.#event(event, call);
    const onto = this.#stream(device, stream, call);
    if (found.device !== onto.device) fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
    const work = this.#scheduler.record(found, onto);
    if (found instanceof InterprocessEvent) found.uses.note(work);
  }

  eventQuery(event: bigint): boolean {
    const { latest, device } = this.#event(event, "cudaEventQuery");
    if (latest !== undefined && !latest.done) this.#scheduler.step();
    this.#devices.check(device, "cudaEventQuery");
    return latest === undefined || latest.done;
  }

  eventSynchronize(event: bigint): void {
    const { latest, device } = this.#event(event, "cudaEventSynchronize");
    if (latest !== undefined) {
      this.#scheduler.runUntil(() => latest.done, { isOutside: !(latest instanceof Work) });
    }
    this.#synchronized(device, "cudaEventSynchronize");
  }

  eventElapsedTime(start: bigint, end: bigint): number {
    const call = "cudaEventElapsedTime";
    const [first, last] = [this.#event(start, call), this.#event(end, call)];
    for (const { device, flags, recorded } of [first, last]) {
      // The record of an event was dropped with its device: it has no time, and is not to come.
      this.#devices.check(device, call);
      if (recorded === undefined || (flags & eventFlags.disableTiming) !== 0) {
        fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
      }
    }
    if (first.time === undefined || last.time === undefined) fail(cudaErrorNumbers.cudaErrorNotReady, call);
    return last.time - first.time;
  }

  ipcGetEventHandle(event: bigint): Uint8Array<ArrayBuffer> {
    const call = "cudaIpcGetEventHandle";
    const found = this.#event(event, call);
    return found instanceof InterprocessEvent
      ? found.handle()
      : fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
  }

  ipcOpenEventHandle(device: number, handle: Uint8Array): bigint {
    this.#devices.check(device, "cudaIpcOpenEventHandle");
    return this.#registerShared(InterprocessEvent.open(this.#window, { device, handle }));
  }

  deviceGetDefaultMemPool(device: number): bigint {
    this.#devices.checkOrdinal(device, "cudaDeviceGetDefaultMemPool");
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
    this.#devices.checkOrdinal(device, "cudaDeviceSetMemPool");
    const found = this.#ownPool(pool, "cudaDeviceSetMemPool");
    if (found.device !== device) fail(cudaErrorNumbers.cudaErrorInvalidValue, "cudaDeviceSetMemPool");
    this.#currentPools.set(device, pool);
  }

  memPoolCreate({ handleTypes, location, maxSize }: MemPoolProps): bigint {
    const call = "cudaMemPoolCreate";
    const { cudaErrorInvalidValue, cudaErrorNotSupported } = cudaErrorNumbers;
    const isShareable = handleTypes !== memHandleType.none;
    const device = location.type === memLocationType.device ? location.id : undefined;
    if (device !== undefined) {
      this.#devices.check(device, call);
    } else if (location.type === memLocationType.host) {
      // Memory that may lie on any node is for this process alone.
      if (isShareable) fail(cudaErrorInvalidValue, call);
    } else if (location.type !== memLocationType.hostNuma || location.id !== onlyNumaNode) {
      fail(cudaErrorInvalidValue, call);
    }
    if (isShareable && handleTypes !== memHandleType.posixFileDescriptor) fail(cudaErrorNotSupported, call);
    return this.#createPool(device, { handleTypes, maxByteLength: maxSize === 0n ? Infinity : Number(maxSize) });
  }

  #createPool(device: number | undefined, options: { handleTypes: number; maxByteLength: number }): bigint {
    const call = "cudaMemPoolCreate";
    if (device !== undefined) this.#checkLimits(device, call);
    const id = createPoolId();
    const { handleTypes } = options;
    let file: SharedFile | undefined;
    if (handleTypes !== memHandleType.none) {
      if (this.sharingRefusal !== undefined) fail(cudaErrorNumbers.cudaErrorNotSupported, call);
      const deviceUuid = device === undefined ? undefined : this.#devices.uuid(device);
      file = outOfSystem(call, () => SharedFile.createPoolFile({ id, deviceUuid, handleTypes }));
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
      for (const [device, current] of this.#currentPools) if (current === pool) this.#currentPools.delete(device);
    }
    this.#pools.delete(pool);
  }

  memPoolGetAttribute(pool: bigint, attribute: number): bigint {
    return poolAttribute(this.#ownPool(pool, "cudaMemPoolGetAttribute"), attribute);
  }

  memPoolSetAttribute(pool: bigint, attribute: number, value: bigint): void {
    setPoolAttribute(this.#ownPool(pool, "cudaMemPoolSetAttribute"), attribute, value);
  }

  memPoolTrimTo(pool: bigint, minBytesToKeep: bigint): void {
    this.#ownPool(pool, "cudaMemPoolTrimTo").trimTo(Number(minBytesToKeep));
  }

  memPoolGetAccess(pool: bigint, { type, id }: MemLocation): number {
    const call = "cudaMemPoolGetAccess";
    const found = this.#pool(pool, call);
    const isHost = type === memLocationType.host || (type === memLocationType.hostNuma && id === onlyNumaNode);
    if (isHost && found.device === undefined) return memAccessFlags.readWrite;
    if (type !== memLocationType.device) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    this.#devices.checkOrdinal(id, call);
    return found.access.get(id) ?? memAccessFlags.none;
  }

  memPoolSetAccess(pool: bigint, descriptions: readonly MemAccessDesc[]): void {
    const call = "cudaMemPoolSetAccess";
    const { cudaErrorInvalidDevice, cudaErrorInvalidValue, cudaErrorNotSupported } = cudaErrorNumbers;
    const found = this.#pool(pool, call);
    for (const { location: { type, id }, flags } of descriptions) {
      const isKnown = Object.values<number>(memAccessFlags).includes(flags);
      if (type !== memLocationType.device || !isKnown) fail(cudaErrorInvalidValue, call);
      this.#devices.checkOrdinal(id, call);
      // A GPU has no memory that its kernels may read and not write.
      if (flags === memAccessFlags.read) fail(cudaErrorNotSupported, call);
      // A device cannot be kept from its own memory.
      if (id === found.device && flags === memAccessFlags.none) fail(cudaErrorInvalidDevice, call);
      if (found.device !== undefined && id !== found.device && !this.#devices.arePeers) {
        fail(cudaErrorNumbers.cudaErrorPeerAccessUnsupported, call);
      }
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
    const { begin } = block;
    const owner = found.device ?? onto.device;
    this.#allocations.add({ kind: "pool", begin, byteLength, device: owner, pool: found, block });
    return addressOfOffset(begin);
  }

  freeAsync(device: number, address: bigint, stream: bigint): void {
    const call = "cudaFreeAsync";
    const onto = this.#stream(device, stream, call);
    this.#freeInOrder(this.#ownAllocation(address, call), onto);
  }

  malloc(device: number, byteLength: number): bigint {
    const call = "cudaMalloc";
    this.#devices.check(device, call);
    if (byteLength === 0) return 0n;
    this.#checkLimits(device, call);
    const memory = this.#legacyMemory.allocate(device, byteLength) ?? this.#allocateAnew(device, byteLength);
    if (memory === undefined) fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
    this.#allocations.add(memory);
    return addressOfOffset(memory.begin);
  }

  /** Allocates after the device's pools have given back what they do not need. */
  #allocateAnew(device: number, byteLength: number): DeviceMemory | undefined {
    for (const pool of this.#livingPools) if (pool.device === device) pool.trimTo(0);
    return this.#legacyMemory.allocate(device, byteLength);
  }

  free(device: number, address: bigint): void {
    const call = "cudaFree";
    this.#devices.check(device, call);
    if (address === 0n) return;
    const found = this.#ownAllocation(address, call);
    this.#finishWorkOf(device, call);
    this.#finishWorkOf(found.device, call);
    const freed = this.#freeInOrder(found, this.#defaultStreams[found.device]!);
    this.#scheduler.runUntil(() => freed.done);
    this.#settlePools();
  }

  /** The allocation that begins at an address and is a free's to end. */
  #ownAllocation(address: bigint, call: string): OwnAllocation {
    const found = this.#allocationBeginningAt(address);
    if (found === undefined || found.kind === "opened" || found.kind === "variable") {
      fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    }
    return found;
  }

  #freeInOrder(allocation: OwnAllocation, stream: Stream): Work {
    this.#allocations.remove(allocation);
    if (allocation.kind === "pool") return allocation.pool.free(allocation, stream);
    if (allocation.kind === "mapped") {
      const { pool, mapping } = allocation;
      pool.mappings.delete(mapping.key);
      return this.#scheduler.enqueue(stream, () => pool.unmap(mapping), { outlivesDevice: true });
    }
    return this.#scheduler.enqueue(stream, () => this.#legacyMemory.release(allocation), { outlivesDevice: true });
  }

  ipcGetMemHandle(device: number, address: bigint): Uint8Array<ArrayBuffer> {
    const call = "cudaIpcGetMemHandle";
    this.#devices.check(device, call);
    // The handle is of the whole allocation, wherever in it the address lies.
    const found = this.#allocationAt(address, 1, call);
    if (found.kind !== "plain") fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    return this.#legacyMemory.handleOf(found);
  }

  ipcOpenMemHandle(device: number, handle: Uint8Array): bigint {
    this.#devices.check(device, "cudaIpcOpenMemHandle");
    const memory = this.#legacyMemory.open(device, handle);
    if (memory.openCount === 1) this.#allocations.add(memory);
    return addressOfOffset(memory.begin);
  }

  ipcCloseMemHandle(device: number, address: bigint): void {
    const call = "cudaIpcCloseMemHandle";
    this.#devices.check(device, call);
    const found = this.#allocationBeginningAt(address);
    if (found?.kind !== "opened") fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    if (--found.openCount > 0) return;
    this.#allocations.remove(found);
    for (const user of [device, found.device]) this.#scheduler.runUntil(() => this.#scheduler.isIdle(user));
    this.#legacyMemory.unmap(found);
    for (const user of [device, found.device]) this.#synchronized(user, call);
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
    this.#devices.check(device, call);
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
    const { deviceUuid } = opened.header;
    const owner = deviceUuid === undefined ? undefined : this.#devices.find(deviceUuid);
    try {
      if (deviceUuid !== undefined && owner === undefined) fail(cudaErrorNumbers.cudaErrorInvalidDevice, call);
      if (owner !== undefined) this.#checkLimits(owner, call);
    } catch (error) {
      opened.file.close();
      throw error;
    }
    const imported = new ImportedPool(this.#window, { device: owner, ...opened });
    this.#livingImports.add(imported);
    return this.#register(this.#pools, imported);
  }

  memPoolExportPointer(address: bigint): Uint8Array<ArrayBuffer> {
    const found = this.#allocationBeginningAt(address);
    // Before the first export of its handle a pool gives no pointers, as on a GPU.
    if (found?.kind !== "pool" || !found.pool.isExported) {
      fail(cudaErrorNumbers.cudaErrorInvalidValue, "cudaMemPoolExportPointer");
    }
    const { pool, block, byteLength } = found;
    return encodeExportData({ poolId: pool.id, fileOffset: pool.fileOffsetOf(block), byteLength });
  }

  memPoolImportPointer(device: number, pool: bigint, exportData: Uint8Array): bigint {
    const call = "cudaMemPoolImportPointer";
    this.#devices.check(device, call);
    const found = this.#pool(pool, call);
    const pointer = decodeExportData(exportData);
    if (!(found instanceof ImportedPool) || pointer?.poolId !== found.id) {
      fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    }
    const mapping = found.map(pointer);
    if (mapping === "out of memory") fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
    if (mapping === "not in the file") fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    if (this.#allocations.at(mapping.begin) === undefined) {
      const { begin, byteLength } = mapping;
      const owner = found.device ?? device;
      this.#allocations.add({ kind: "mapped", begin, byteLength, device: owner, pool: found, mapping });
    }
    return addressOfOffset(mapping.begin);
  }

  memGetAddressRange(device: number, address: bigint): { base: bigint; byteLength: number } {
    this.#devices.check(device, "cuMemGetAddressRange");
    const found = this.#allocationAt(address, 1, "cuMemGetAddressRange");
    return { base: addressOfOffset(found.begin), byteLength: found.byteLength };
  }

  hostView(address: bigint, byteLength: number): ArrayBuffer {
    const call = "cudaPointerGetAttributes";
    const found = this.#allocationAt(address, byteLength, call);
    const isOfPool = found.kind === "pool" || found.kind === "mapped";
    if (!isOfPool || found.pool.device !== undefined) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    checkSharing(call);
    return foreignBuffer(addressOf(this.#window.bytes) + BigInt(offsetOfAddress(address)!), byteLength);
  }

  hostAlloc(byteLength: number): HostAllocation {
    return { buffer: this.#copies.allocateHost(byteLength), address: this.#newHandle() };
  }

  freeHost({ buffer }: HostAllocation): void {
    this.#copies.freeHost(buffer);
  }

  memcpyHtoDAsync(device: number, destination: bigint, source: Uint8Array, stream: bigint): void {
    const onto = this.#stream(device, stream, "cudaMemcpyAsync");
    this.#copies.fromHost(onto, this.#range(destination, source.byteLength, "cudaMemcpyAsync"), source);
  }

  memcpyDtoHAsync(device: number, destination: Uint8Array, source: bigint, stream: bigint): void {
    const call = "cudaMemcpyAsync";
    const onto = this.#stream(device, stream, call);
    this.#copies.toHost(onto, destination, this.#range(source, destination.byteLength, call));
    this.#devices.check(onto.device, call);
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
    this.#devices.check(destinationDevice, call);
    this.#devices.check(sourceDevice, call);
    const to = this.#range(destination, byteLength, call);
    const from = this.#range(source, byteLength, call);
    this.#copies.copy(onto, to, from);
  }

  memsetAsync(device: number, address: bigint, byte: number, byteLength: number, stream: bigint): void {
    const onto = this.#stream(device, stream, "cudaMemsetAsync");
    this.#copies.fill(onto, this.#range(address, byteLength, "cudaMemsetAsync"), byte);
  }

  moduleLoadData(device: number, image: string | Uint8Array): bigint {
    const call = "cuModuleLoadDataEx";
    this.#devices.check(device, call);
    this.#checkLimits(device, call);
    const module = LoadedModule.load(this.#window, device, image);
    for (const variable of module.variables.values()) {
      this.#allocations.add(variable);
      this.#legacyMemory.peerAccess.add(variable);
    }
    return this.#register(this.#modules, module);
  }

  moduleUnload(_device: number, module: bigint): void {
    const found = this.#module(module, "cuModuleUnload");
    for (const handle of found.functions) this.#kernels.delete(handle);
    this.#modules.delete(module);
    if (found.variables.size === 0) return;
    // Kernels that were launched before still need the variables.
    this.#scheduler.runUntil(() => this.#scheduler.isIdle(found.device));
    for (const variable of found.variables.values()) {
      this.#allocations.remove(variable);
      this.#legacyMemory.peerAccess.remove(variable);
    }
    found.release();
  }

  moduleGetFunction(module: bigint, name: string): bigint {
    const { device, kernels, functions } = this.#module(module, "cuModuleGetFunction");
    const kernel = kernels.get(name) ?? fail(cudaErrorNumbers.cudaErrorSymbolNotFound, "cuModuleGetFunction");
    const handle = this.#register(this.#kernels, { device, kernel });
    functions.push(handle);
    return handle;
  }

  moduleGetGlobal(module: bigint, name: string): { address: bigint; byteLength: number } {
    const call = "cuModuleGetGlobal";
    const { variables } = this.#module(module, call);
    const { begin, byteLength } = variables.get(name) ?? fail(cudaErrorNumbers.cudaErrorSymbolNotFound, call);
    return { address: addressOfOffset(begin), byteLength };
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
    const launch = launchOf(found, {
      grid: [gridX, gridY, gridZ],
      block: [blockX, blockY, blockZ],
      sharedMemoryBytes,
      parameters: new Uint8Array(view.buffer),
    }, { window: this.#window, device });
    this.#scheduler.enqueue(onto, launch);
  }

  occupancyMaxActiveBlocksPerMultiprocessor(kernel: bigint, blockSize: number, sharedMemoryBytes: number): number {
    const found = this.#kernel(kernel, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    return occupancyOf(found.kernel, { blockSize, sharedMemoryBytes });
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

  /** Sees to it that there are limits for the device's kernels to heed, before a stream needs them. */
  #checkLimits(device: number, call: string): void {
    if (!this.#window.hasLimits(device)) fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
  }

  #stream(device: number, stream: bigint, call: string): Stream {
    this.#devices.check(device, call);
    const found = stream === 0n ? this.#defaultStreams[device] : this.#streams.get(stream);
    if (found === undefined) fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
    this.#devices.check(found.device, call);
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

  #allocationBeginningAt(address: bigint): AnyAllocation | undefined {
    const offset = offsetOfAddress(address);
    return offset === undefined ? undefined : this.#allocations.at(offset);
  }

  #allocationAt(address: bigint, byteLength: number, call: string): AnyAllocation {
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

  /** Blocks until a device has done all that it was given. */
  #finishWorkOf(device: number, call: string): void {
    this.#scheduler.runUntil(() => this.#scheduler.isIdle(device));
    this.#synchronized(device, call);
  }

  #synchronized(device: number, call: string): void {
    this.#devices.check(device, call);
    this.#settlePools();
    this.#settleEvents();
  }

  #settlePools(): void {
    for (const pool of this.#livingPools) {
      pool.settle();
      if (pool.isClosed) this.#livingPools.delete(pool);
    }
    for (const pool of this.#livingImports) if (pool.isClosed) this.#livingImports.delete(pool);
  }

  #settleEvents(): void {
    for (const event of this.#interprocessEvents) {
      event.closeIfUnused();
      if (event.isClosed) this.#interprocessEvents.delete(event);
    }
  }
}
