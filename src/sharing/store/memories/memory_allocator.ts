/**
 * Allocates the memory of a store. Requests wait as long as there is not enough.
 *
 * @module
 */
import { allocationGranularity, memHandleType, memLocationType } from "../../../driver.ts";
import { type Cuda, sessionOf } from "../../../objects/cuda.ts";
import type { CudaDevice } from "../../../objects/cuda_device.ts";
import type { ShareableHandle } from "../../../memory/handles/shareable_handle.ts";
import { wholeUnits } from "../../../memory/virtual/physical_memory.ts";
import { CudaError, SharingError } from "../../../support/errors.ts";
import { countOf } from "../../../support/printing.ts";
import { isSameUuid } from "../../../support/uuid.ts";
import type { PendingRequest } from "./pending_request.ts";
import type { BudgetLimits, SpaceRequest, StoreBudget, TakenMemory } from "./store_budget.ts";

/** Milliseconds between attempts to allocate memory that other programs may have freed. */
const retryPause = 100;

/** Allocated memory. The budget counts it as granted until it is in the table. */
export interface Grant extends TakenMemory {
  readonly handle: ShareableHandle;
}

/** What an allocator needs from its store. */
interface AllocatorParts {
  readonly cuda: Cuda;
  readonly limits: BudgetLimits;
  readonly budget: StoreBudget;
  /** The number of bytes of a device that no process maps. */
  readonly evictable: (device: CudaDevice) => number;
  /** Evicts a memory of a device that no process maps. Returns whether there was one. */
  readonly evictOne: (device: CudaDevice) => boolean;
}

/** A waiting request. Tries to allocate, and returns whether the wait is over. */
type Attempt = () => boolean;

/**
 * Allocates the memory of each device in the order of each user's requests. Requests of different users do not wait for
 * each other, because one may wait forever.
 */
export class MemoryAllocator implements Disposable {
  readonly #cuda: Cuda;
  readonly #limits: BudgetLimits;
  readonly #budget: StoreBudget;
  readonly #evictable: (device: CudaDevice) => number;
  readonly #evictOne: (device: CudaDevice) => boolean;
  #isRetrying = false;
  /** The waiting requests in order, by device and user. */
  readonly #waiting = new Map<CudaDevice, Map<number, Set<Attempt>>>();
  #retryTimer: ReturnType<typeof setInterval> | undefined;

  constructor({ cuda, limits, budget, evictable, evictOne }: AllocatorParts) {
    this.#cuda = cuda;
    this.#limits = limits;
    this.#budget = budget;
    this.#evictable = evictable;
    this.#evictOne = evictOne;
  }

  /**
   * Returns the device with a UUID.
   *
   * @throws {SharingError} `device-not-visible` if the store does not have it
   */
  deviceOf(uuid: string): CudaDevice {
    const device = this.#limits.devices.find((device) => isSameUuid(device.uuid, uuid));
    if (device !== undefined) return device;
    throw new SharingError(
      "device-not-visible",
      `Cannot create memory on device ${uuid}: the store does not have it; see its option devices and its ` +
        "CUDA_VISIBLE_DEVICES",
    );
  }

  /** The number of bytes that a memory of the given length occupies. */
  wholeSize(device: CudaDevice, byteLength: number): number {
    const location = { type: memLocationType.device, id: device.ordinal };
    const props = { handleTypes: memHandleType.posixFileDescriptor, location };
    const { driver } = sessionOf(this.#cuda);
    return wholeUnits(byteLength, driver.memGetAllocationGranularity(props, allocationGranularity.minimum));
  }

  /**
   * Allocates without waiting. Undefined if there is no room, or if other requests of the user wait for the device.
   *
   * @throws {SharingError} `limit-exceeded`, `out-of-descriptors`
   * @throws {CudaError} If the driver refuses for another reason than that there is no memory
   */
  allocate(request: SpaceRequest): Grant | undefined {
    return this.#waiting.get(request.device)?.has(request.uid) ? undefined : this.#tryAllocate(request);
  }

  /** Waits until there is room, behind the user's earlier requests. Throws as `allocate` does. */
  whenFree(request: SpaceRequest, pending: PendingRequest): Promise<Grant> {
    const { promise, resolve, reject } = Promise.withResolvers<Grant>();
    const attempt = (): boolean => {
      try {
        const grant = this.#tryAllocate(request);
        if (grant === undefined) return false;
        resolve(grant);
      } catch (error) {
        reject(error);
      }
      pending.endWait();
      return true;
    };
    const { device, uid } = request;
    pending.wait(() => {
      this.#endWait(device, uid, attempt);
      reject(pending.reason);
    });
    const users = this.#waiting.get(device) ?? new Map<number, Set<Attempt>>();
    this.#waiting.set(device, users.set(uid, (users.get(uid) ?? new Set()).add(attempt)));
    this.#retryTimer ??= setInterval(() => this.retry(), retryPause);
    return promise;
  }

  /** Lets waiting requests try again: there may be room. */
  retry(): void {
    // An attempt may evict memory, which would start another attempt.
    if (this.#isRetrying) return;
    this.#isRetrying = true;
    try {
      // In order, so that small requests do not overtake a large one.
      for (const [device, users] of this.#waiting) {
        for (const [uid, waiting] of users) {
          for (const attempt of waiting) {
            if (!attempt()) break;
            this.#endWait(device, uid, attempt);
          }
        }
      }
    } finally {
      this.#isRetrying = false;
    }
  }

  /** Stops trying. */
  [Symbol.dispose](): void {
    clearInterval(this.#retryTimer);
  }

  #endWait(device: CudaDevice, uid: number, attempt: Attempt): void {
    const users = this.#waiting.get(device);
    const waiting = users?.get(uid);
    waiting?.delete(attempt);
    if (waiting?.size === 0) users!.delete(uid);
    if (users?.size === 0) this.#waiting.delete(device);
    if (this.#waiting.size > 0) return;
    clearInterval(this.#retryTimer);
    this.#retryTimer = undefined;
  }

  /** Allocates new memory. Undefined if there is no room. */
  #tryAllocate({ name, device, uid, size }: SpaceRequest): Grant | undefined {
    this.#budget.check({ name, device, uid, size }, 0);
    const handle = this.#budget.fitsUser(uid, size) ? this.#makeRoom(device, size) : undefined;
    if (handle === undefined) return undefined;
    const grant = { device: device.uuid, uid, size, handle };
    this.#budget.grant(grant);
    return grant;
  }

  /** Allocates new memory, and evicts unmapped memory if that is allowed. */
  #makeRoom(device: CudaDevice, size: number): ShareableHandle | undefined {
    for (;;) {
      const handle = this.#budget.fits(device, size) ? createHandle(device, size) : undefined;
      if (handle !== undefined) return handle;
      // Evict nothing if it would not be enough.
      const mayFit = this.#limits.evict && this.#budget.fits(device, size - this.#evictable(device));
      if (!mayFit || !this.#evictOne(device)) return undefined;
    }
  }
}

/** Creates new memory and returns its descriptor. Undefined if the device is out of memory. */
function createHandle(device: CudaDevice, size: number): ShareableHandle | undefined {
  try {
    // The descriptor alone keeps the memory alive, so the driver's handle is released.
    using memory = device.createMemory(size, { handleType: "posix-fd" });
    return memory.exportHandle();
  } catch (error) {
    if (error instanceof CudaError && error.code === "cudaErrorMemoryAllocation") return undefined;
    if (error instanceof CudaError && error.code === "cudaErrorOperatingSystem") {
      throw new SharingError(
        "out-of-descriptors",
        `Cannot create memory of ${countOf(size, "byte")}: the store has no descriptor left; raise its limit of open ` +
          "files (ulimit -n)",
        { cause: error },
      );
    }
    throw error;
  }
}
