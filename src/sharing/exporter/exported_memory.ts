import type { Allocation } from "../../memory/allocation.ts";
import { exportDataByteLength } from "../../driver.ts";
import { allocationOf } from "../../memory/device_buffer.ts";
import { MemoryPool, whenPoolDisposed } from "../../memory/pools/memory_pool.ts";
import type { PhysicalMemory } from "../../memory/virtual/physical_memory.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { ShareableHandle } from "../../memory/handles/shareable_handle.ts";
import { isSameUuid, parseUuid } from "../../support/uuid.ts";
import type { AllocationMessage, ForgetMessage, PoolMessage } from "../protocol/messages.ts";
import type { OfferRecord } from "./offer.ts";
import { TypeError } from "../../support/program_errors.ts";

const zeroUuid = new Uint8Array(16);

/**
 * An exported `MemoryPool`, or an exported `PhysicalMemory`, which is announced like a pool with a single allocation.
 * The source is exported once, for all offers and importers.
 */
export interface ExportedPool {
  readonly source: MemoryPool | PhysicalMemory;
  /** The device that the memory is on; undefined for host memory. */
  readonly device: CudaDevice | undefined;
  /** The message that announces the pool to importers. */
  readonly message: PoolMessage;
  readonly handle: ShareableHandle;
  /** The number of exported allocations in the pool plus the number of offers of the whole pool. */
  users: number;
  isDisposed: boolean;
  stopWatching: () => void;
}

/**
 * An allocation that contains offered memory: the memory of one buffer, or a slab that an allocator has divided into
 * many buffers. An allocation is exported once, for all offers, and stays exported until it is freed.
 */
export interface ExportedAllocation {
  readonly pool: ExportedPool;
  /** The message that announces the allocation to importers. */
  readonly message: AllocationMessage;
  /** The number of exported buffers in the allocation. */
  users: number;
  isFreed: boolean;
  /** Removes the exporter from the holders of the allocation, so that it no longer delays the release of the memory. */
  readonly releaseMemory: () => void;
}

/**
 * A buffer that is offered as a whole or in parts. The memory of the buffer is not reused until all offers have ended.
 * A buffer that is part of a slab is unexported as soon as its last offer ends, even if the buffer is not freed:
 * freeing memory that is still held requires an event, whereas exporting the buffer again costs nothing.
 */
export interface ExportedBuffer {
  readonly memory: Allocation;
  readonly isPart: boolean;
  readonly allocation: ExportedAllocation;
  /** The buffer's offset in the allocation in bytes. */
  readonly byteOffset: number;
  /** The offers of the buffer, or of parts of it, that have not ended. */
  readonly offers: OfferRecord[];
  isFreed: boolean;
  /**
   * Removes the exporter from the holders of the buffer's memory, so that it no longer delays the release of the
   * memory.
   */
  readonly releaseMemory: () => void;
}

/** The pools, allocations and buffers that an exporter has exported. */
export class ExportedMemory {
  readonly #pools = new Map<MemoryPool | PhysicalMemory, ExportedPool>();
  readonly #allocations = new Map<Allocation, ExportedAllocation>();
  readonly #buffers = new Map<Allocation, ExportedBuffer>();
  readonly #onForget: (message: ForgetMessage) => void;
  readonly #onFree: (buffer: ExportedBuffer) => void;
  readonly #onPoolDisposed: (pool: ExportedPool) => void;
  readonly #poolIdentifiers = new IdentifierAllocator();
  readonly #allocationIdentifiers = new IdentifierAllocator();

  /**
   * `onForget` sends FORGET to importers; `onFree` is called when a buffer with offers was freed, and `onPoolDisposed`
   * when a pool was disposed.
   */
  constructor(
    { onForget, onFree, onPoolDisposed }: {
      onForget: (message: ForgetMessage) => void;
      onFree: (buffer: ExportedBuffer) => void;
      onPoolDisposed: (pool: ExportedPool) => void;
    },
  ) {
    this.#onForget = onForget;
    this.#onFree = onFree;
    this.#onPoolDisposed = onPoolDisposed;
  }

  /** Exports a pool for an offer of the whole pool, and increments the number of the pool's users. */
  retainPool(pool: MemoryPool): ExportedPool {
    const exported = this.#pools.get(pool) ?? this.#exportPool(pool);
    exported.users++;
    return exported;
  }

  /**
   * Decrements the number of a pool's users, because an offer of the whole pool has ended or an allocation in the pool
   * is no longer exported.
   */
  releasePool(exported: ExportedPool): void {
    exported.users--;
    if (exported.users === 0 && exported.isDisposed) this.#unexportPool(exported);
  }

  /** Exports a buffer for an offer of the buffer or a part of it. The caller must then call `addOffer`. */
  exportBuffer(memory: Allocation): ExportedBuffer {
    return this.#buffers.get(memory) ?? this.#exportBuffer(memory);
  }

  /** Adds an offer of a buffer. */
  addOffer(exported: ExportedBuffer, offer: OfferRecord): void {
    offer.index = exported.offers.push(offer) - 1;
  }

  /** Removes an offer of a buffer after the offer has ended. */
  removeOffer(exported: ExportedBuffer, offer: OfferRecord): void {
    const { offers } = exported;
    const last = offers.pop()!;
    if (last !== offer) {
      offers[offer.index] = last;
      last.index = offer.index;
    }
    if (offers.length > 0) return;
    if (exported.isPart && !exported.isFreed) this.#buffers.delete(exported.memory);
    if (exported.isPart || exported.isFreed) this.#unexportBuffer(exported);
  }

  /** Returns the device with the given UUID; undefined if none of the device's memory was exported. */
  findDevice(uuid: string): CudaDevice | undefined {
    for (const { device } of this.#pools.values()) {
      if (device !== undefined && isSameUuid(device.uuid, uuid)) return device;
    }
    return undefined;
  }

  /** Unexports all memory that is not offered. Offered memory is unexported when its last offer ends. */
  close(): void {
    for (const exported of this.#allocations.values()) {
      exported.isFreed = true;
      if (exported.users === 0) this.#unexportAllocation(exported);
    }
    this.#allocations.clear();
    for (const exported of this.#buffers.values()) {
      exported.isFreed = true;
      if (exported.offers.length === 0) this.#unexportBuffer(exported);
    }
    this.#buffers.clear();
    for (const exported of [...this.#pools.values()]) {
      exported.isDisposed = true;
      if (exported.users === 0) this.#unexportPool(exported);
    }
  }

  #exportPool(pool: MemoryPool): ExportedPool {
    checkShareable(pool, "offer memory");
    return this.#exportHandle(
      pool,
      pool.device === undefined ? "host" : "device",
      (exported) =>
        whenPoolDisposed(pool, () => {
          exported.isDisposed = true;
          exported.users++;
          this.#onPoolDisposed(exported);
          this.releasePool(exported);
        }),
    );
  }

  /** Exports a `PhysicalMemory`. The export ends when its only allocation is no longer exported. */
  #exportMemory(memory: PhysicalMemory): ExportedPool {
    const exported = this.#exportHandle(memory, "memory", () => () => {});
    exported.isDisposed = true;
    exported.users++;
    return exported;
  }

  #exportHandle(
    source: MemoryPool | PhysicalMemory,
    kind: PoolMessage["kind"],
    watch: (exported: ExportedPool) => () => void,
  ): ExportedPool {
    const handle = source.exportHandle();
    const { device } = source;
    const deviceUuid = device === undefined ? zeroUuid : parseUuid(device.uuid);
    const exported: ExportedPool = {
      source,
      device,
      handle,
      message: { type: "pool", pool: this.#poolIdentifiers.take(), kind, deviceUuid, handle },
      users: 0,
      isDisposed: false,
      stopWatching: () => {},
    };
    exported.stopWatching = watch(exported);
    this.#pools.set(source, exported);
    return exported;
  }

  #exportBuffer(memory: Allocation): ExportedBuffer {
    const { part } = memory.owner;
    const slab = part === undefined ? memory : allocationOf(part.slab);
    const allocation = this.#allocations.get(slab) ?? this.#exportAllocation(slab);
    const exported: ExportedBuffer = {
      memory,
      isPart: part !== undefined,
      allocation,
      byteOffset: part?.byteOffset ?? 0,
      offers: [],
      isFreed: false,
      releaseMemory: memory.keep(() => {
        exported.isFreed = true;
        this.#buffers.delete(memory);
        if (exported.offers.length === 0) this.#unexportBuffer(exported);
        else this.#onFree(exported);
      }),
    };
    allocation.users++;
    this.#buffers.set(memory, exported);
    return exported;
  }

  #exportAllocation(memory: Allocation): ExportedAllocation {
    const { physical } = memory.owner;
    const pool = physical === undefined ? this.retainPool(poolOf(memory)) : this.#exportMemory(physical);
    try {
      const exportData = physical === undefined ? memory.exportPointer() : new Uint8Array(exportDataByteLength);
      const exported: ExportedAllocation = {
        pool,
        message: {
          type: "allocation",
          allocation: this.#allocationIdentifiers.take(),
          pool: pool.message.pool,
          byteLength: physical?.byteLength ?? memory.byteLength,
          exportData,
        },
        users: 0,
        isFreed: false,
        releaseMemory: memory.keep(() => {
          exported.isFreed = true;
          this.#allocations.delete(memory);
          if (exported.users === 0) this.#unexportAllocation(exported);
        }),
      };
      this.#allocations.set(memory, exported);
      return exported;
    } catch (error) {
      this.releasePool(pool);
      throw error;
    }
  }

  #unexportBuffer(exported: ExportedBuffer): void {
    const { allocation, releaseMemory } = exported;
    releaseMemory();
    allocation.users--;
    if (allocation.users === 0 && allocation.isFreed) this.#unexportAllocation(allocation);
  }

  #unexportAllocation(exported: ExportedAllocation): void {
    const identifier = exported.message.allocation;
    this.#onForget({ type: "forget", kind: "allocation", identifier });
    this.#allocationIdentifiers.release(identifier);
    exported.releaseMemory();
    this.releasePool(exported.pool);
  }

  #unexportPool(exported: ExportedPool): void {
    if (!this.#pools.delete(exported.source)) return;
    exported.stopWatching();
    const identifier = exported.message.pool;
    this.#onForget({ type: "forget", kind: "pool", identifier });
    this.#poolIdentifiers.release(identifier);
    exported.handle[Symbol.dispose]();
  }
}

/** Returns the pool that memory was allocated from. Throws a `TypeError` if the memory cannot be offered. */
function poolOf({ pool, owner }: Allocation): MemoryPool {
  if (owner.isManaged) {
    throw new TypeError(
      "Cannot offer managed memory: no other process can map it; copy it to memory that can be shared",
    );
  }
  if (pool instanceof MemoryPool) return pool;
  throw new TypeError(
    pool === undefined
      ? 'Cannot offer memory that belongs to no pool: allocate it from one created with handleType "posix-fd", or by ' +
        'CudaDevice.allocate(byteLength, { handleType: "posix-fd" })'
      : "Cannot offer memory that was imported: only the process that allocated it can",
  );
}

/**
 * Throws a `TypeError` unless other processes can import the pool. `what` names the operation, for the error message.
 */
export function checkShareable(pool: MemoryPool, what: string): void {
  if (pool.handleType === "posix-fd") return;
  if (pool.isManaged) {
    throw new TypeError(
      `Cannot ${what}: its pool provides managed memory, which no other process can map; use a pool of a device`,
    );
  }
  throw new TypeError(
    `Cannot ${what}: its pool was created with handleType "${pool.handleType}"; create it with "posix-fd"`,
  );
}

/** The largest identifier that fits in a message's 32-bit field. */
const maximum = 2 ** 32 - 1;

/** Allocates identifiers in ascending order, from 1. Reuses released numbers only after the counter wraps around. */
export class IdentifierAllocator {
  readonly #used = new Set<number>();
  #latest = 0;

  /** Returns an unused identifier. */
  take(): number {
    do {
      this.#latest = this.#latest % maximum + 1;
    } while (this.#used.has(this.#latest));
    this.#used.add(this.#latest);
    return this.#latest;
  }

  /** Makes an identifier available again. */
  release(identifier: number): void {
    this.#used.delete(identifier);
  }
}
