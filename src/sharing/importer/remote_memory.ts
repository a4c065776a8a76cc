import { type Cuda, sessionOf } from "../../objects/cuda.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import { checkStream, type CudaStream } from "../../objects/cuda_stream.ts";
import type { DeviceBuffer } from "../../memory/device_buffer.ts";
import { SharingError } from "../../support/errors.ts";
import type { ImportedMemoryPool } from "../../memory/imported_memory_pool.ts";
import { formatUuid, isSameUuid } from "../../support/uuid.ts";
import {
  type AllocationMessage,
  badMessage,
  maximumIdentifiers,
  type OfferMessage,
  type PoolMessage,
} from "../protocol/messages.ts";

/** As many as an exporter may have at once: each pool is a descriptor here. */
const maximumPools = 256;

interface RemotePool {
  readonly message: PoolMessage;
  /** Allocations that lie in it, and offers and imports of all of it. */
  users: number;
  /** Once something in it was mapped. */
  imported: ImportedMemoryPool | undefined;
}

interface RemoteAllocation {
  readonly message: AllocationMessage;
  /** Offers that lie in it, and holds on them. */
  users: number;
}

/** Where an offer lies. */
type Place = Pick<OfferMessage, "pool" | "allocation" | "byteOffset" | "byteLength">;

/** What an exporter has told of its pools and allocations. Nothing is imported before it is needed. */
export class RemoteMemory {
  readonly #cuda: Cuda;
  readonly #pools = new Map<number, RemotePool>();
  readonly #allocations = new Map<number, RemoteAllocation>();

  constructor(cuda: Cuda) {
    this.#cuda = cuda;
  }

  /** The device with a UUID, if this process sees it. */
  findDevice(uuid: string): CudaDevice | undefined {
    return this.#cuda.devices.find((device) => isSameUuid(device.uuid, uuid));
  }

  /** Throws unless it is a stream of the `Cuda` object that the memory is for, and was not disposed. */
  checkStream(stream: CudaStream): void {
    checkStream(stream, sessionOf(this.#cuda));
    void stream.unsafeHandle;
  }

  definePool(message: PoolMessage): void {
    if (this.#pools.has(message.pool)) throw badMessage(`pool ${message.pool} is announced twice`);
    if (this.#pools.size >= maximumPools) throw badMessage(`more than ${maximumPools} pools are announced`);
    this.#pools.set(message.pool, { message, users: 0, imported: undefined });
  }

  defineAllocation(message: AllocationMessage): void {
    const { allocation } = message;
    if (this.#allocations.has(allocation)) throw badMessage(`allocation ${allocation} is announced twice`);
    if (this.#allocations.size >= maximumIdentifiers) {
      throw badMessage(`more than ${maximumIdentifiers} allocations are announced`);
    }
    const pool = this.#pools.get(message.pool);
    if (pool === undefined) throw badMessage(`allocation ${allocation} lies in pool ${message.pool}, unknown`);
    pool.users++;
    this.#allocations.set(allocation, { message, users: 0 });
  }

  /** Refuses ranges that are not in an allocation of a pool. */
  check(range: Place): void {
    if (!this.#pools.has(range.pool)) throw badMessage(`pool ${range.pool} was not announced`);
    if (range.allocation === 0) return;
    const allocation = this.#allocations.get(range.allocation)?.message;
    if (allocation === undefined) throw badMessage(`allocation ${range.allocation} was not announced`);
    if (allocation.pool !== range.pool) {
      throw badMessage(`allocation ${range.allocation} lies in pool ${allocation.pool}, not ${range.pool}`);
    }
    if (range.byteOffset + range.byteLength > allocation.byteLength) {
      throw badMessage(
        `bytes ${range.byteOffset} to ${range.byteOffset + range.byteLength} are offered of an allocation that has ` +
          `${allocation.byteLength}`,
      );
    }
  }

  /** An offer lies there, or is held: until `leave`, the exporter may not forget what it lies in. */
  use({ allocation, pool }: Place): void {
    const used = allocation === 0 ? this.#pools.get(pool)! : this.#allocations.get(allocation)!;
    used.users++;
  }

  leave({ allocation, pool }: Place): void {
    // After the end, nothing is known any more.
    const used = allocation === 0 ? this.#pools.get(pool) : this.#allocations.get(allocation);
    if (used !== undefined) used.users--;
  }

  forgetAllocation(identifier: number): void {
    const allocation = this.#allocations.get(identifier);
    if (allocation === undefined) throw badMessage(`allocation ${identifier} is forgotten, and unknown`);
    if (allocation.users > 0) throw badMessage(`allocation ${identifier} is forgotten, and in use`);
    this.#allocations.delete(identifier);
    this.#pools.get(allocation.message.pool)!.users--;
  }

  /** Takes a pool out: what was imported of it is the caller's to dispose of. */
  forgetPool(identifier: number): ImportedMemoryPool | undefined {
    const pool = this.#pools.get(identifier);
    if (pool === undefined) throw badMessage(`pool ${identifier} is forgotten, and unknown`);
    if (pool.users > 0) throw badMessage(`pool ${identifier} is forgotten, and in use`);
    this.#pools.delete(identifier);
    pool.message.handle[Symbol.dispose]();
    return pool.imported;
  }

  /** The pool, for the application. */
  importPool(identifier: number): ImportedMemoryPool {
    const { message } = this.#pools.get(identifier)!;
    return this.#deviceOf(message).importPool(message.handle);
  }

  /** Maps a whole allocation; another time where it is mapped already is only counted. */
  map(identifier: number): { whole: DeviceBuffer; pool: ImportedMemoryPool } {
    const { exportData, byteLength, pool: poolIdentifier } = this.#allocations.get(identifier)!.message;
    const pool = this.#pools.get(poolIdentifier)!;
    pool.imported ??= this.importPool(poolIdentifier);
    return { whole: pool.imported.importPointer(exportData, byteLength), pool: pool.imported };
  }

  /** Whether a pool is in host memory, which is of no device. */
  isHostMemory(pool: number): boolean {
    return this.#pools.get(pool)!.message.kind === "host";
  }

  /** Forgets all, and gives what was imported to the caller, to dispose of. */
  close(): ImportedMemoryPool[] {
    const pools = [...this.#pools.values()];
    this.#pools.clear();
    this.#allocations.clear();
    for (const { message } of pools) message.handle[Symbol.dispose]();
    return pools.flatMap(({ imported }) => imported ?? []);
  }

  #deviceOf({ kind, deviceUuid }: PoolMessage): CudaDevice {
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
