/**
 * Allocates the memory of a store, and lets those wait for whom there is none.
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
import type { SpaceRequest, StoreBudget, StoreLimits, TakenMemory } from "./store_budget.ts";

/** Milliseconds between two attempts to get memory that others than the store may have freed. */
const retryPause = 100;

/** Memory that was allocated. It counts in the budget as granted, until the table has it. */
export interface Grant extends TakenMemory {
  readonly handle: ShareableHandle;
}

/** What an allocator needs from its store. */
interface AllocatorParts {
  readonly cuda: Cuda;
  readonly limits: StoreLimits;
  readonly budget: StoreBudget;
  /** The bytes of a device that nobody maps. */
  readonly evictable: (device: CudaDevice) => number;
  /** Removes memory of a device that nobody maps. Returns whether there was any. */
  readonly evictOne: (device: CudaDevice) => boolean;
}

/** Tries to get memory for somebody who waits. Returns whether it need not wait any more. */
type Attempt = () => boolean;

/**
 * Allocates memory of each device in the order in which each user asks for it. Nobody waits behind another user, who may
 * ask for what never comes.
 */
export class MemoryAllocator implements Disposable {
  readonly #cuda: Cuda;
  readonly #limits: StoreLimits;
  readonly #budget: StoreBudget;
  readonly #evictable: (device: CudaDevice) => number;
  readonly #evictOne: (device: CudaDevice) => boolean;
  #isRetrying = false;
  /** Those for whom there was no memory, by device and user, in order. */
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
   * The device with a UUID.
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

  /** The bytes that memory of a length takes. */
  wholeSize(device: CudaDevice, byteLength: number): number {
    const location = { type: memLocationType.device, id: device.ordinal };
    const props = { handleTypes: memHandleType.posixFileDescriptor, location };
    const { driver } = sessionOf(this.#cuda);
    return wholeUnits(byteLength, driver.memGetAllocationGranularity(props, allocationGranularity.minimum));
  }

  /**
   * Allocates at once. Undefined if there is no room, or others of the user wait for the device.
   *
   * @throws {SharingError} `limit-exceeded`, `out-of-descriptors`
   * @throws {CudaError} If the driver refuses for another reason than that there is no memory
   */
  allocate(request: SpaceRequest): Grant | undefined {
    return this.#waiting.get(request.device)?.has(request.uid) ? undefined : this.#tryAllocate(request);
  }

  /** Waits until there is room, behind those of the user who wait already. Throws as `allocate` does. */
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

  /** Lets those who wait try again: there may be room. */
  retry(): void {
    // What an attempt removes to have room would begin another one.
    if (this.#isRetrying) return;
    this.#isRetrying = true;
    try {
      // In order: a small request must not keep a large one from its turn.
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

  /** New memory, or undefined if there is no room. */
  #tryAllocate({ name, device, uid, size }: SpaceRequest): Grant | undefined {
    this.#budget.check({ name, device, uid, size }, 0);
    const handle = this.#budget.fitsUser(uid, size) ? this.#makeRoom(device, size) : undefined;
    if (handle === undefined) return undefined;
    const grant = { device: device.uuid, uid, size, handle };
    this.#budget.grant(grant);
    return grant;
  }

  /** New memory, for which what nobody maps gives way if it may. */
  #makeRoom(device: CudaDevice, size: number): ShareableHandle | undefined {
    for (;;) {
      const handle = this.#budget.fits(device, size) ? createHandle(device, size) : undefined;
      if (handle !== undefined) return handle;
      // Nothing goes in vain.
      const mayFit = this.#limits.evict && this.#budget.fits(device, size - this.#evictable(device));
      if (!mayFit || !this.#evictOne(device)) return undefined;
    }
  }
}

/** The descriptor of new memory, or undefined if the device has none left. */
function createHandle(device: CudaDevice, size: number): ShareableHandle | undefined {
  try {
    // The descriptor keeps the memory: a handle would be one more thing of the driver.
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
