import { type DeviceBuffer, keepMemory, slabPartOf } from "../../memory/device_buffer.ts";
import { MemoryPool, whenDisposed } from "../../memory/memory_pool.ts";
import type { ShareableHandle } from "../../memory/shareable_handle.ts";
import { isSameUuid, parseUuid } from "../../support/uuid.ts";
import { Identifiers } from "./identifiers.ts";
import type { AllocationMessage, ForgetMessage, PoolMessage } from "../protocol/messages.ts";
import type { OfferRecord } from "./offer_record.ts";

const noUuid = new Uint8Array(16);

/** A pool whose memory is offered: exported once, for all offers and all importers. */
export interface ExportedPool {
  readonly pool: MemoryPool;
  /** What tells an importer of it. */
  readonly message: PoolMessage;
  readonly handle: ShareableHandle;
  /** Allocations that are known, and offers of the pool itself. */
  users: number;
  isDisposed: boolean;
  readonly stopWatching: () => void;
}

/**
 * An allocation that offers lie in: exported once, for all of them. It stays known until it is freed. It is a buffer's, or
 * a slab that an allocator has cut into many.
 */
export interface ExportedAllocation {
  readonly pool: ExportedPool;
  /** What tells an importer of it. */
  readonly message: AllocationMessage;
  /** Buffers in it that are known. */
  users: number;
  isFreed: boolean;
  /** Lets the memory go, if its user has freed it. */
  readonly letGo: () => void;
}

/**
 * A buffer that offers lie in. Its memory is nobody else's until they have ended. A part of a slab is not known any longer
 * than that: to free what is kept takes an event, and to export it again takes nothing.
 */
export interface ExportedBuffer {
  readonly whole: DeviceBuffer;
  readonly isPart: boolean;
  readonly allocation: ExportedAllocation;
  /** Where in the allocation it begins. */
  readonly byteOffset: number;
  /** They lie in it and have not ended. */
  readonly offers: OfferRecord[];
  isFreed: boolean;
  /** Lets the memory go, if its user has freed it. */
  readonly letGo: () => void;
}

/** What an exporter has exported. */
export class ExportedMemory {
  readonly #pools = new Map<MemoryPool, ExportedPool>();
  readonly #allocations = new Map<DeviceBuffer, ExportedAllocation>();
  readonly #buffers = new Map<DeviceBuffer, ExportedBuffer>();
  readonly #onForget: (message: ForgetMessage) => void;
  readonly #onFree: (buffer: ExportedBuffer) => void;
  readonly #onPoolDisposed: (pool: ExportedPool) => void;
  readonly #poolIdentifiers = new Identifiers();
  readonly #allocationIdentifiers = new Identifiers();

  /**
   * `onForget` tells importers that an identifier is gone; `onFree` that a buffer with offers in it was freed, and
   * `onPoolDisposed` that a pool was disposed.
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

  /** Exports a pool for an offer of all of it. */
  usePool(pool: MemoryPool): ExportedPool {
    const exported = this.#pools.get(pool) ?? this.#exportPool(pool);
    exported.users++;
    return exported;
  }

  /** An offer of a pool has ended, or an allocation in it is gone. */
  leavePool(exported: ExportedPool): void {
    exported.users--;
    if (exported.users === 0 && exported.isDisposed) this.#forgetPool(exported);
  }

  /** Exports a buffer for an offer of it or of a part of it, for which `useBuffer` is then called. */
  exportBuffer(whole: DeviceBuffer): ExportedBuffer {
    return this.#buffers.get(whole) ?? this.#exportBuffer(whole);
  }

  /** There is an offer of a buffer. */
  useBuffer(exported: ExportedBuffer, offer: OfferRecord): void {
    offer.place = exported.offers.push(offer) - 1;
  }

  /** An offer of a buffer has ended. */
  leaveBuffer(exported: ExportedBuffer, offer: OfferRecord): void {
    const { offers } = exported;
    const last = offers.pop()!;
    if (last !== offer) {
      offers[offer.place] = last;
      last.place = offer.place;
    }
    if (offers.length > 0) return;
    if (exported.isPart && !exported.isFreed) this.#buffers.delete(exported.whole);
    if (exported.isPart || exported.isFreed) this.#forgetBuffer(exported);
  }

  /** The device with a UUID, of those whose memory was exported. */
  findDevice(uuid: string): MemoryPool["device"] {
    for (const { device } of this.#pools.keys()) {
      if (device !== undefined && isSameUuid(device.uuid, uuid)) return device;
    }
    return undefined;
  }

  /** Lets go of what no offer uses any more, and of the rest when its last offer ends. */
  close(): void {
    for (const exported of this.#allocations.values()) {
      exported.isFreed = true;
      if (exported.users === 0) this.#forgetAllocation(exported);
    }
    this.#allocations.clear();
    for (const exported of this.#buffers.values()) {
      exported.isFreed = true;
      if (exported.offers.length === 0) this.#forgetBuffer(exported);
    }
    this.#buffers.clear();
    for (const exported of [...this.#pools.values()]) {
      exported.isDisposed = true;
      if (exported.users === 0) this.#forgetPool(exported);
    }
  }

  #exportPool(pool: MemoryPool): ExportedPool {
    checkShareable(pool, "offer memory");
    const handle = pool.exportHandle();
    const { device } = pool;
    const exported: ExportedPool = {
      pool,
      handle,
      message: {
        type: "pool",
        pool: this.#poolIdentifiers.take(),
        kind: device === undefined ? "host" : "device",
        deviceUuid: device === undefined ? noUuid : parseUuid(device.uuid),
        handle,
      },
      users: 0,
      isDisposed: false,
      stopWatching: whenDisposed(pool, () => {
        exported.isDisposed = true;
        exported.users++;
        this.#onPoolDisposed(exported);
        this.leavePool(exported);
      }),
    };
    this.#pools.set(pool, exported);
    return exported;
  }

  #exportBuffer(whole: DeviceBuffer): ExportedBuffer {
    const part = slabPartOf(whole);
    const { slab, byteOffset } = part ?? { slab: whole, byteOffset: 0 };
    const allocation = this.#allocations.get(slab) ?? this.#exportAllocation(slab);
    const exported: ExportedBuffer = {
      whole,
      isPart: part !== undefined,
      allocation,
      byteOffset,
      offers: [],
      isFreed: false,
      letGo: keepMemory(whole, () => {
        exported.isFreed = true;
        this.#buffers.delete(whole);
        if (exported.offers.length === 0) this.#forgetBuffer(exported);
        else this.#onFree(exported);
      }),
    };
    allocation.users++;
    this.#buffers.set(whole, exported);
    return exported;
  }

  #exportAllocation(whole: DeviceBuffer): ExportedAllocation {
    if (!(whole.pool instanceof MemoryPool)) {
      throw new TypeError(
        whole.pool === undefined
          ? 'Cannot offer memory that is of no pool: allocate it from one created with handleType "posix-fd"'
          : "Cannot offer memory that was imported: only the process that allocated it can",
      );
    }
    const pool = this.usePool(whole.pool);
    try {
      const exportData = whole.exportPointer();
      const exported: ExportedAllocation = {
        pool,
        message: {
          type: "allocation",
          allocation: this.#allocationIdentifiers.take(),
          pool: pool.message.pool,
          byteLength: whole.byteLength,
          exportData,
        },
        users: 0,
        isFreed: false,
        letGo: keepMemory(whole, () => {
          exported.isFreed = true;
          this.#allocations.delete(whole);
          if (exported.users === 0) this.#forgetAllocation(exported);
        }),
      };
      this.#allocations.set(whole, exported);
      return exported;
    } catch (error) {
      this.leavePool(pool);
      throw error;
    }
  }

  #forgetBuffer(exported: ExportedBuffer): void {
    const { allocation, letGo } = exported;
    letGo();
    allocation.users--;
    if (allocation.users === 0 && allocation.isFreed) this.#forgetAllocation(allocation);
  }

  #forgetAllocation(exported: ExportedAllocation): void {
    const identifier = exported.message.allocation;
    this.#onForget({ type: "forget", kind: "allocation", identifier });
    this.#allocationIdentifiers.giveBack(identifier);
    exported.letGo();
    this.leavePool(exported.pool);
  }

  #forgetPool(exported: ExportedPool): void {
    if (!this.#pools.delete(exported.pool)) return;
    exported.stopWatching();
    const identifier = exported.message.pool;
    this.#onForget({ type: "forget", kind: "pool", identifier });
    this.#poolIdentifiers.giveBack(identifier);
    exported.handle[Symbol.dispose]();
  }
}

/** Throws unless the pool is one that other processes can have. */
export function checkShareable(pool: MemoryPool, what: string): void {
  if (pool.handleType === "posix-fd") return;
  throw new TypeError(
    `Cannot ${what}: its pool was created with handleType "${pool.handleType}"; create it with "posix-fd"`,
  );
}
