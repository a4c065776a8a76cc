import { type Cuda, sessionOf } from "../../objects/cuda.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import { checkStream, type CudaStream } from "../../objects/streams/cuda_stream.ts";
import type { DeviceBuffer } from "../../memory/device_buffer.ts";
import { SharingError } from "../../support/errors.ts";
import { type ImportedMemoryPool, importWhole, isUnused } from "../../memory/handles/imported_memory_pool.ts";
import { SharedMapping } from "../../memory/virtual/whole_memory.ts";
import { formatUuid, isSameUuid } from "../../support/uuid.ts";
import {
  type AllocationMessage,
  badMessage,
  limitExceeded,
  maximumIdentifiers,
  type OfferMessage,
  type PoolMessage,
} from "../protocol/messages.ts";
import type { PoolHandles } from "./pool_handles.ts";

/** The maximum number of pools that one exporter may announce, since each occupies a descriptor in this process. */
const maximumPools = 256;

interface RemotePool {
  readonly message: Omit<PoolMessage, "handle">;
  /**
   * The reference count: one for each announced allocation in the pool, one for each offer of the whole pool, and one
   * for each time that the application has imported the whole pool.
   */
  users: number;
  /**
   * The number of `users` that use the whole pool. As long as there are any, the pool's handle is needed for further
   * imports.
   */
  wholeUsers: number;
  /** The imported pool. Undefined until memory in the pool is first mapped. */
  imported: ImportedMemoryPool | undefined;
  /** The mapping of the memory, if the pool is a `PhysicalMemory` of the exporter. */
  readonly mapped: SharedMapping;
}

interface RemoteAllocation {
  readonly message: AllocationMessage;
  /** The reference count: one for each offer in the allocation, and one for each mapping of such an offer. */
  users: number;
}

/** The fields of an OFFER message that identify the offered memory. */
type MemoryRange = Pick<OfferMessage, "pool" | "allocation" | "byteOffset" | "byteLength">;

/**
 * The pools and allocations that an exporter has announced. A pool or an allocation is imported when it is first
 * mapped.
 */
export class RemoteMemory {
  readonly #cuda: Cuda;
  readonly #pools = new Map<number, RemotePool>();
  readonly #allocations = new Map<number, RemoteAllocation>();
  readonly #handles: PoolHandles;

  constructor(cuda: Cuda, handles: PoolHandles) {
    this.#cuda = cuda;
    this.#handles = handles;
  }

  /** Returns the device with the given UUID; undefined if the device is not visible to this process. */
  findDevice(uuid: string): CudaDevice | undefined {
    return this.#cuda.devices.find((device) => isSameUuid(device.uuid, uuid));
  }

  /** Throws unless the stream belongs to the importer's `Cuda` object and was not disposed. */
  checkStream(stream: CudaStream): void {
    checkStream(stream, sessionOf(this.#cuda));
    void stream.unsafeHandle;
  }

  definePool(message: PoolMessage): void {
    if (this.#pools.has(message.pool)) throw badMessage(`pool ${message.pool} is announced twice`);
    if (this.#pools.size >= maximumPools) {
      throw limitExceeded("accept another pool", `${maximumPools} pools of an exporter`);
    }
    const { handle, ...rest } = message;
    const mapped = new SharedMapping();
    this.#pools.set(message.pool, { message: rest, users: 0, wholeUsers: 0, imported: undefined, mapped });
    this.#handles.add(message.pool, handle);
  }

  defineAllocation(message: AllocationMessage): void {
    const { allocation } = message;
    if (this.#allocations.has(allocation)) throw badMessage(`allocation ${allocation} is announced twice`);
    if (this.#allocations.size >= maximumIdentifiers) {
      throw limitExceeded("accept another allocation", `${maximumIdentifiers} allocations of an exporter`);
    }
    const pool = this.#pools.get(message.pool);
    if (pool === undefined) throw badMessage(`allocation ${allocation} lies in unknown pool ${message.pool}`);
    if (pool.message.kind === "memory") checkIsMemory(message, pool);
    pool.users++;
    this.#allocations.set(allocation, { message, users: 0 });
  }

  /** Throws `bad-message` unless `range` is part of an announced allocation, or an entire announced pool. */
  checkRange(range: MemoryRange): void {
    if (!this.#pools.has(range.pool)) throw badMessage(`pool ${range.pool} was not announced`);
    if (range.allocation === 0) return;
    const allocation = this.#allocations.get(range.allocation)?.message;
    if (allocation === undefined) throw badMessage(`allocation ${range.allocation} was not announced`);
    if (allocation.pool !== range.pool) {
      throw badMessage(`allocation ${range.allocation} lies in pool ${allocation.pool}, not ${range.pool}`);
    }
    if (range.byteOffset + range.byteLength > allocation.byteLength) {
      throw badMessage(
        `bytes ${range.byteOffset} to ${range.byteOffset + range.byteLength} are offered of an allocation of ` +
          `${allocation.byteLength} bytes`,
      );
    }
  }

  /**
   * Increments the reference count of a pool or allocation, for a new offer or a new mapping. Until `release` is
   * called, the exporter must not send FORGET for the pool or allocation.
   */
  retain(range: MemoryRange): void {
    this.#use(range, 1);
  }

  release(range: MemoryRange): void {
    this.#use(range, -1);
  }

  forgetAllocation(identifier: number): void {
    const allocation = this.#allocations.get(identifier);
    if (allocation === undefined) throw badMessage(`allocation ${identifier} is forgotten and was not announced`);
    if (allocation.users > 0) throw badMessage(`allocation ${identifier} is forgotten while in use`);
    this.#allocations.delete(identifier);
    this.#pools.get(allocation.message.pool)!.users--;
  }

  /**
   * Handles FORGET for a pool. Returns the imported pool, which the caller must dispose of; undefined if the pool was
   * not imported.
   */
  forgetPool(identifier: number): ImportedMemoryPool | undefined {
    const pool = this.#pools.get(identifier);
    if (pool === undefined) throw badMessage(`pool ${identifier} is forgotten and was not announced`);
    if (pool.users > 0) throw badMessage(`pool ${identifier} is forgotten while in use`);
    this.#handles.delete(identifier);
    this.#pools.delete(identifier);
    return pool.imported;
  }

  /** Returns whether an offer can be mapped or imported without requesting the handle of its pool. */
  canMap({ pool: identifier, kind }: OfferMessage): boolean {
    if (this.#handles.get(identifier) !== undefined) return true;
    const pool = this.#pools.get(identifier);
    return kind !== "pool" && (pool?.imported !== undefined || pool?.mapped.isMapped === true);
  }

  /** Imports a pool. Each call returns a new `ImportedMemoryPool`. */
  importPool(identifier: number): ImportedMemoryPool {
    const { message } = this.#pools.get(identifier)!;
    if (message.kind === "memory") throw badMessage(`pool ${identifier} is a piece of virtual memory, and no pool`);
    return this.#deviceOf(message).importPool(this.#handles.get(identifier)!);
  }

  /** Maps a whole allocation. If the allocation is mapped already, only increments the mapping's reference count. */
  map(identifier: number): DeviceBuffer {
    const { exportData, byteLength, pool: poolIdentifier } = this.#allocations.get(identifier)!.message;
    const pool = this.#pools.get(poolIdentifier)!;
    const { message } = pool;
    if (message.kind === "memory") {
      const handle = this.#handles.get(poolIdentifier);
      return pool.mapped.map(sessionOf(this.#cuda), this.#deviceOf(message), { handle, byteLength });
    }
    if (pool.imported === undefined) {
      pool.imported = this.importPool(poolIdentifier);
      if (pool.wholeUsers === 0) this.#handles.onImported(poolIdentifier);
    }
    return importWhole(pool.imported, exportData, byteLength);
  }

  /**
   * If few descriptors are left, removes and returns the imported pools that have no mappings, except for the pool
   * `kept`. Their handles can be requested again. The caller must dispose of the pools.
   */
  takeUnused(kept: number): ImportedMemoryPool[] {
    if (!this.#handles.areFewLeft || !this.#handles.canRequest) return [];
    const unused: ImportedMemoryPool[] = [];
    for (const [identifier, pool] of this.#pools) {
      if (identifier === kept || pool.imported === undefined || !isUnused(pool.imported)) continue;
      unused.push(pool.imported);
      pool.imported = undefined;
    }
    return unused;
  }

  /** Returns whether a pool is in host memory and therefore belongs to no device. */
  isHostMemory(pool: number): boolean {
    return this.#pools.get(pool)!.message.kind === "host";
  }

  /** Returns whether an announced pool is a `PhysicalMemory` of the exporter, which is mapped as virtual memory. */
  isVirtual(pool: number): boolean {
    return this.#pools.get(pool)!.message.kind === "memory";
  }

  /** Removes all pools and allocations. The caller must dispose of the returned pools. */
  close(): ImportedMemoryPool[] {
    const pools = [...this.#pools.values()];
    this.#pools.clear();
    this.#allocations.clear();
    this.#handles.close();
    return pools.flatMap(({ imported }) => imported ?? []);
  }

  #use({ allocation, pool: identifier }: MemoryRange, count: 1 | -1): void {
    // The pool or allocation is undefined after `close`.
    if (allocation !== 0) {
      const used = this.#allocations.get(allocation);
      if (used !== undefined) used.users += count;
      return;
    }
    const pool = this.#pools.get(identifier);
    if (pool === undefined) return;
    pool.users += count;
    pool.wholeUsers += count;
  }

  #deviceOf({ kind, deviceUuid }: RemotePool["message"]): CudaDevice {
    if (kind === "host") return this.#cuda.device(0);
    const uuid = formatUuid(deviceUuid);
    const device = this.findDevice(uuid);
    if (device !== undefined) return device;
    throw new SharingError(
      "device-not-visible",
      `Cannot map memory of device ${uuid}: this process does not see it; see CUDA_VISIBLE_DEVICES`,
    );
  }
}

/**
 * Throws unless an allocation can represent an entire `PhysicalMemory`. The allocation must be the only one of its
 * pool: the memory is mapped once, and a second allocation could state a different size.
 */
function checkIsMemory({ allocation, exportData }: AllocationMessage, { users }: RemotePool): void {
  const what = "is a piece of virtual memory";
  if (exportData.some((byte) => byte !== 0)) throw badMessage(`allocation ${allocation} has export data, and ${what}`);
  if (users > 0) throw badMessage(`allocation ${allocation} ${what}, which has another one`);
}
