/**
 * The driver calls about memory pools: their attributes, access by devices, and export to other processes.
 *
 * @module
 */
import {
  type Driver,
  type MemAccessDesc,
  memAccessFlags,
  memAllocationType,
  memHandleType,
  type MemLocation,
  memLocationType,
  memPoolAttribute,
  type MemPoolProps,
  type OsHandle,
} from "../../driver.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import { fail, failBecause, translateSystemErrors } from "../failure.ts";
import { ImportedPool } from "../ipc/imported_pool.ts";
import { ownIdentity } from "../ipc/process_identity.ts";
import { FabricFile, fabricMemoryOf } from "../memory/fabric.ts";
import { addressOfOffset } from "../memory/memory_layout.ts";
import {
  createPoolId,
  decodeExportData,
  decodePoolFileHeader,
  encodeExportData,
  type PoolFileHeader,
  poolFileHeaderUsedByteLength,
  SharedFile,
} from "../memory/shared_file.ts";
import { SoftwarePool } from "../memory/software_pool.ts";
import { isPhysicalMemory } from "../memory/virtual/physical_memory.ts";
import type { DriverCore } from "./core.ts";
import type { ProgramMemory } from "./program_memory.ts";

/** The NUMA node of the host. */
export const onlyNumaNode = 0;
/** The maximum size of a pool, in bytes. Larger than the address space of any device. */
const addressableByteLength = 2n ** 44n;
const { posixFileDescriptor, fabric } = memHandleType;

/** The driver calls that manage pools, except those that allocate. */
type PoolCalls = Pick<
  Driver,
  | "deviceGetDefaultMemPool"
  | "deviceGetMemPool"
  | "deviceSetMemPool"
  | "memGetDefaultMemPool"
  | "memGetMemPool"
  | "memSetMemPool"
  | "memPoolCreate"
  | "memPoolDestroy"
  | "memPoolGetAttribute"
  | "memPoolSetAttribute"
  | "memPoolTrimTo"
  | "memPoolGetAccess"
  | "memPoolSetAccess"
  | "memPoolExportToShareableHandle"
  | "memPoolImportFromShareableHandle"
  | "memPoolExportPointer"
  | "memPoolImportPointer"
>;

/** The pools of a driver. */
export class Pools {
  readonly #core: DriverCore;
  readonly #memory: ProgramMemory;
  readonly #pools = new Map<bigint, SoftwarePool | ImportedPool>();
  /** The default pools, by the places of `placeOf`. */
  readonly #defaultPools = new Map<string, bigint>();
  /** The pools that were made current, by the places of `placeOf`. */
  readonly #currentPools = new Map<string, bigint>();
  /** The pools that this process created, including destroyed pools whose memory is still in use. */
  readonly #openPools = new Set<SoftwarePool>();
  /** The imported pools, including destroyed pools whose mappings are still in use. */
  readonly #openImports = new Set<ImportedPool>();

  constructor(core: DriverCore, memory: ProgramMemory) {
    this.#core = core;
    this.#memory = memory;
  }

  /** Returns the pool with the given handle. Throws `cudaErrorInvalidValue` if this process did not create the pool. */
  local(pool: bigint, call: string): SoftwarePool {
    const found = this.#pool(pool, call);
    return found instanceof SoftwarePool ? found : fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  }

  /** Releases pool memory that completed work has freed. */
  reclaim(): void {
    for (const pool of this.#openPools) {
      pool.reclaim();
      if (pool.isClosed) this.#openPools.delete(pool);
    }
    for (const pool of this.#openImports) if (pool.isClosed) this.#openImports.delete(pool);
  }

  /** Closes all pools, including imported pools, when the driver closes. */
  close(): void {
    for (const pool of [...this.#openImports, ...this.#openPools]) pool.close();
    this.#openImports.clear();
    this.#openPools.clear();
    this.#pools.clear();
  }

  /** Returns the driver calls that manage pools, except those that allocate. */
  calls(): PoolCalls {
    return {
      deviceGetDefaultMemPool: (device) => this.#defaultPool(pinnedOn(device), "cudaDeviceGetDefaultMemPool"),
      deviceGetMemPool: (device) => this.#currentPool(pinnedOn(device), "cudaDeviceGetMemPool"),
      deviceSetMemPool: (device, pool) => {
        const call = "cudaDeviceSetMemPool";
        const { location } = pinnedOn(device);
        // A pool of managed memory becomes the current one of its kind.
        const { isManaged } = this.local(pool, call);
        const type = isManaged ? memAllocationType.managed : memAllocationType.pinned;
        this.#setCurrentPool({ location, type }, pool, call);
      },
      memGetDefaultMemPool: (location, type) => this.#defaultPool({ location, type }, "cudaMemGetDefaultMemPool"),
      memGetMemPool: (location, type) => this.#currentPool({ location, type }, "cudaMemGetMemPool"),
      memSetMemPool: (location, type, pool) => this.#setCurrentPool({ location, type }, pool, "cudaMemSetMemPool"),
      memPoolCreate: (props) => this.#create(props),
      memPoolDestroy: (pool) => this.#destroy(pool),
      memPoolGetAttribute: (pool, attribute) => {
        return poolAttribute(this.local(pool, "cudaMemPoolGetAttribute"), attribute);
      },
      memPoolSetAttribute: (pool, attribute, value) => {
        setPoolAttribute(this.local(pool, "cudaMemPoolSetAttribute"), attribute, value);
      },
      memPoolTrimTo: (pool, minBytesToKeep) => this.local(pool, "cudaMemPoolTrimTo").trimTo(minBytesToKeep),
      memPoolGetAccess: (pool, location) => this.#getAccess(pool, location),
      memPoolSetAccess: (pool, descriptions) => this.#setAccess(pool, descriptions),
      memPoolExportToShareableHandle: (pool, handleType) => this.#export(pool, handleType),
      memPoolImportFromShareableHandle: (device, handle, handleType) => this.#import(device, handle, handleType),
      memPoolExportPointer: (address) => this.#exportPointer(address),
      memPoolImportPointer: (device, pool, exportData) => this.#importPointer(device, pool, exportData),
    };
  }

  #pool(pool: bigint, call: string): SoftwarePool | ImportedPool {
    return this.#pools.get(pool) ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  }

  #defaultPool(wanted: PoolPlace, call: string): bigint {
    const place = this.#checkPlace(wanted, call);
    const key = keyOf(place);
    let pool = this.#defaultPools.get(key);
    if (pool === undefined) {
      pool = this.#createAt(place, { handleTypes: memHandleType.none, maxByteLength: Infinity });
      this.#defaultPools.set(key, pool);
    }
    return pool;
  }

  #currentPool(wanted: PoolPlace, call: string): bigint {
    const place = this.#checkPlace(wanted, call);
    return this.#currentPools.get(keyOf(place)) ?? this.#defaultPool(place, call);
  }

  #setCurrentPool(wanted: PoolPlace, pool: bigint, call: string): void {
    const key = keyOf(this.#checkPlace(wanted, call));
    if (keyOf(this.local(pool, call)) !== key) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    this.#currentPools.set(key, pool);
  }

  /** Returns a place at which there are pools, with the id 0 if its type has no ids. Throws if there are none. */
  #checkPlace({ location, type }: PoolPlace, call: string): PoolPlace {
    const { cudaErrorInvalidValue, cudaErrorNotSupported } = cudaErrorNumbers;
    const isManaged = type === memAllocationType.managed;
    if (!isManaged && type !== memAllocationType.pinned) fail(cudaErrorInvalidValue, call);
    switch (location.type) {
      case memLocationType.device:
        this.#core.devices.checkOrdinal(location.id, call);
        return { location, type };
      case memLocationType.hostNuma:
        if (location.id !== onlyNumaNode) fail(cudaErrorInvalidValue, call);
        return { location, type };
      case memLocationType.none:
        if (!isManaged) fail(cudaErrorInvalidValue, call);
        return { location: { type: memLocationType.none, id: 0 }, type };
      case memLocationType.host:
        return { location: { type: memLocationType.host, id: 0 }, type };
      case memLocationType.hostNumaCurrent:
        return fail(cudaErrorNotSupported, call);
      default:
        return fail(cudaErrorInvalidValue, call);
    }
  }

  #create(
    { handleTypes, location, maxSize, allocationType: type = memAllocationType.pinned, usage = 0 }: MemPoolProps,
  ): bigint {
    const call = "cudaMemPoolCreate";
    const { cudaErrorInvalidValue, cudaErrorMemoryAllocation } = cudaErrorNumbers;
    const isShareable = handleTypes !== memHandleType.none;
    if ((handleTypes & ~(posixFileDescriptor | fabric)) !== 0) fail(cudaErrorInvalidValue, call);
    const isManaged = type === memAllocationType.managed;
    const isCurrentNode = location.type === memLocationType.hostNumaCurrent;
    if ((isCurrentNode && !isManaged) || (isManaged && (maxSize !== 0n || usage !== 0))) {
      fail(cudaErrorInvalidValue, call);
    }
    const node = { type: memLocationType.hostNuma, id: onlyNumaNode };
    const place = this.#checkPlace({ location: isCurrentNode ? node : location, type }, call);
    // CUDA shares host pools only if they are bound to a NUMA node, and shares no managed memory.
    const isPrivate = location.type === memLocationType.host || isManaged;
    if (isShareable && isPrivate) fail(cudaErrorInvalidValue, call);
    if (maxSize > addressableByteLength) fail(cudaErrorMemoryAllocation, call);
    return this.#createAt(place, { handleTypes, maxByteLength: maxSize === 0n ? Infinity : Number(maxSize) });
  }

  #createAt({ location, type }: PoolPlace, options: { handleTypes: number; maxByteLength: number }): bigint {
    const call = "cudaMemPoolCreate";
    const { devices, sharingRefusal } = this.#core;
    const device = location.type === memLocationType.device ? location.id : undefined;
    const managedFor = type === memAllocationType.managed ? devices.count : undefined;
    if (managedFor === undefined && device !== undefined) this.#core.ensureBoundsTable(device, call);
    for (let one = 0; one < (managedFor ?? 0); one++) this.#core.ensureBoundsTable(one, call);
    const id = createPoolId();
    const { handleTypes } = options;
    let file: SharedFile | string | undefined;
    if (handleTypes !== memHandleType.none && sharingRefusal !== undefined) {
      fail(cudaErrorNumbers.cudaErrorNotSupported, call);
    }
    if (handleTypes !== memHandleType.none) {
      const deviceUuid = device === undefined ? undefined : devices.uuid(device);
      const header = { id, deviceUuid, handleTypes, processId: ownIdentity().pid };
      file = (handleTypes & fabric) !== 0
        ? this.#core.fabric.create(fabricMemoryOf(header), call)
        : translateSystemErrors(call, () => SharedFile.createPoolFile(header));
    }
    const stored = typeof file === "string" ? { file: undefined, refusal: file } : { file };
    const pool = new SoftwarePool(this.#core, { location, managedFor, id, ...stored, ...options });
    this.#openPools.add(pool);
    return this.#core.register(this.#pools, pool);
  }

  #destroy(pool: bigint): void {
    const call = "cudaMemPoolDestroy";
    const found = this.#pool(pool, call);
    if ([...this.#defaultPools.values()].includes(pool)) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    if (found instanceof ImportedPool) {
      if (found.mappings.size > 0) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      if (--found.importCount > 0) return;
      found.destroy();
      if (found.isClosed) this.#openImports.delete(found);
    } else {
      found.destroy();
      if (found.isClosed) this.#openPools.delete(found);
      for (const [place, current] of this.#currentPools) if (current === pool) this.#currentPools.delete(place);
    }
    this.#pools.delete(pool);
  }

  #getAccess(pool: bigint, location: MemLocation): number {
    const call = "cudaMemPoolGetAccess";
    const found = this.#pool(pool, call);
    // CUDA does not count the access that everybody has to managed memory.
    const isOfHost = found.device === undefined && !found.isManaged;
    if (isHost(location)) return isOfHost ? memAccessFlags.readWrite : memAccessFlags.none;
    const { type, id } = location;
    const isDevice = type === memLocationType.device && id >= 0 && id < this.#core.devices.count;
    if (!isDevice) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    const access = found instanceof SoftwarePool ? found.reportedAccess : found.access;
    return access.get(id) ?? memAccessFlags.none;
  }

  #setAccess(pool: bigint, descriptions: readonly MemAccessDesc[]): void {
    const call = "cudaMemPoolSetAccess";
    const { cudaErrorInvalidDevice, cudaErrorInvalidValue, cudaErrorNotSupported } = cudaErrorNumbers;
    const found = this.#pool(pool, call);
    const devices: { id: number; flags: number }[] = [];
    for (const { location, flags } of descriptions) {
      const { type, id } = location;
      if (!Object.values<number>(memAccessFlags).includes(flags)) fail(cudaErrorInvalidValue, call);
      if (type !== memLocationType.device) {
        // The host always has access to host memory, and never to device memory.
        const isHostAccess = found.device === undefined && isHost(location) && flags === memAccessFlags.readWrite;
        if (!isHostAccess && !(found.isManaged && isHost(location))) fail(cudaErrorNotSupported, call);
        continue;
      }
      this.#core.devices.checkOrdinal(id, call);
      // As in CUDA, pools do not support read-only access by devices.
      if (flags === memAccessFlags.read) fail(cudaErrorNotSupported, call);
      // A device always has access to its own memory.
      if (id === found.device && flags === memAccessFlags.none) fail(cudaErrorInvalidDevice, call);
      const isOwnOrPeer = found.device === undefined || id === found.device || this.#core.devices.arePeers;
      if (!isOwnOrPeer) fail(cudaErrorInvalidDevice, call);
      devices.push({ id, flags });
    }
    for (const { id, flags } of devices) {
      this.#core.ensureBoundsTable(id, call);
      found.setAccess(id, flags);
    }
  }

  #export(pool: bigint, handleType: number): OsHandle {
    const call = "cudaMemPoolExportToShareableHandle";
    const found = this.local(pool, call);
    const { file, handleTypes } = found;
    const isSupported = [posixFileDescriptor, fabric].some((type) => type === handleType && (handleTypes & type) !== 0);
    if (!isSupported) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    // Like CUDA without an IMEX channel, fails to export a pool that supports fabric handles.
    if (file === undefined) failBecause(cudaErrorNumbers.cudaErrorNotPermitted, call, found.refusal!);
    if (file instanceof FabricFile) {
      found.isExported = true;
      if (handleType === fabric) return file.handle.slice();
    }
    const descriptor = translateSystemErrors(call, () => file.duplicate());
    found.isExported = true;
    return descriptor;
  }

  #import(device: number, handle: OsHandle, handleType: number): bigint {
    const call = "cudaMemPoolImportFromShareableHandle";
    const { devices, linearMemory } = this.#core;
    devices.check(device, call);
    const isFabric = handleType === fabric;
    if ((!isFabric && handleType !== posixFileDescriptor) || isFabric !== (typeof handle !== "number")) {
      fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    }
    const opened = typeof handle === "number"
      ? translateSystemErrors(call, () => SharedFile.openPoolFile(handle))
      : this.#openFabricPool(handle, call);
    if (opened === undefined) {
      if (typeof handle !== "number") fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      const { cudaErrorNotSupported, cudaErrorUnknown } = cudaErrorNumbers;
      fail(isPhysicalMemory(handle) ? cudaErrorNotSupported : cudaErrorUnknown, call);
    }
    const known = this.#retainImport(opened.file.identity());
    if (known !== undefined) {
      opened.file.close();
      return known;
    }
    const { deviceUuid } = opened.header;
    const owner = deviceUuid === undefined ? undefined : devices.find(deviceUuid);
    try {
      if (deviceUuid !== undefined && owner === undefined) fail(cudaErrorNumbers.cudaErrorInvalidDevice, call);
      if (owner !== undefined) this.#core.ensureBoundsTable(owner, call);
    } catch (error) {
      opened.file.close();
      throw error;
    }
    const imported = new ImportedPool(linearMemory, { device: owner, ...opened });
    this.#openImports.add(imported);
    return this.#core.register(this.#pools, imported);
  }

  #openFabricPool(handle: Uint8Array, call: string): { file: SharedFile; header: PoolFileHeader } | undefined {
    const { file } = this.#core.fabric.open("pool", handle, call);
    const header = decodePoolFileHeader(file.read(poolFileHeaderUsedByteLength));
    if (header === undefined) file.close();
    return header && { file, header };
  }

  /**
   * Returns the existing handle of the imported pool whose file has the given identity, and adds 1 to the pool's import
   * count. Returns undefined if there is no such pool.
   */
  #retainImport(identity: string): bigint | undefined {
    for (const [handle, pool] of this.#pools) {
      if (!(pool instanceof ImportedPool) || pool.identity !== identity) continue;
      pool.importCount++;
      return handle;
    }
    return undefined;
  }

  #exportPointer(address: bigint): Uint8Array<ArrayBuffer> {
    const found = this.#memory.startingAt(address);
    // As on a GPU, a pointer can be exported only after the handle of its pool has been exported.
    if (found?.kind !== "pool" || !found.pool.isExported) {
      fail(cudaErrorNumbers.cudaErrorInvalidValue, "cudaMemPoolExportPointer");
    }
    const { pool, block, byteLength } = found;
    this.#memory.export(found);
    return encodeExportData({ processId: ownIdentity().pid, poolId: pool.id, fileOffset: block.offset, byteLength });
  }

  #importPointer(device: number, pool: bigint, exportData: Uint8Array): bigint {
    const call = "cudaMemPoolImportPointer";
    this.#core.devices.check(device, call);
    const found = this.#pool(pool, call);
    const pointer = decodeExportData(exportData);
    const isOfPool = found instanceof ImportedPool && pointer?.poolId === found.id &&
      pointer.processId === found.processId;
    if (!isOfPool) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    const mapping = found.map(pointer);
    if (mapping === "out of memory") fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
    if (mapping === "not in the file") fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    if (mapping === "no exporter") {
      const reason = "the exporter of the pool has ended, or has destroyed it, and its memory is gone with it";
      failBecause(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call, reason);
    }
    const earlier = this.#memory.allocations.at(mapping.begin);
    if (earlier !== undefined && found.device === undefined) fail(cudaErrorNumbers.cudaErrorAlreadyMapped, call);
    if (earlier === undefined) {
      const { begin, byteLength } = mapping;
      const owner = found.device ?? device;
      this.#memory.allocations.add({ kind: "mapped", begin, byteLength, device: owner, pool: found, mapping });
    }
    return addressOfOffset(mapping.begin);
  }
}

/** The location and the allocation type of a pool. */
interface PoolPlace {
  readonly location: MemLocation;
  readonly type: number;
}

/** Returns the place of a device's own pools. */
function pinnedOn(device: number): PoolPlace {
  return { location: { type: memLocationType.device, id: device }, type: memAllocationType.pinned };
}

/** Returns a string that is the same for all pools of a place. */
function keyOf(pool: PoolPlace | SoftwarePool): string {
  const isManaged = pool instanceof SoftwarePool ? pool.isManaged : pool.type === memAllocationType.managed;
  return `${isManaged ? "managed" : "pinned"} ${pool.location.type} ${pool.location.id}`;
}

/** Returns whether a location is host memory. */
function isHost({ type, id }: MemLocation): boolean {
  return type === memLocationType.host || (type === memLocationType.hostNuma && id === onlyNumaNode);
}

/** Implements `cudaMemPoolGetAttribute` for pools of this process. */
function poolAttribute({ usage, reuse, releaseThreshold }: SoftwarePool, attribute: number): bigint {
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
      return fail(cudaErrorNumbers.cudaErrorInvalidValue, "cudaMemPoolGetAttribute");
  }
}

/** Implements `cudaMemPoolSetAttribute` for pools of this process. */
function setPoolAttribute(pool: SoftwarePool, attribute: number, value: bigint): void {
  const call = "cudaMemPoolSetAttribute";
  const { usage, reuse } = pool;
  switch (attribute) {
    case memPoolAttribute.reuseFollowEventDependencies:
      reuse.followEventDependencies = value !== 0n;
      break;
    case memPoolAttribute.reuseAllowOpportunistic:
      reuse.allowOpportunistic = value !== 0n;
      break;
    case memPoolAttribute.reuseAllowInternalDependencies:
      reuse.allowInternalDependencies = value !== 0n;
      break;
    case memPoolAttribute.releaseThreshold:
      pool.releaseThreshold = BigInt.asUintN(64, value);
      break;
    case memPoolAttribute.reservedMemHigh:
      if (value !== 0n) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      usage.reservedHigh = usage.reserved;
      break;
    case memPoolAttribute.usedMemHigh:
      if (value !== 0n) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      usage.usedHigh = usage.used;
      break;
    default:
      fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  }
}
