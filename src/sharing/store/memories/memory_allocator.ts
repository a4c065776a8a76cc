/**
 * Allocates the memory of a store, and lets those wait for whom there is none.
 *
 * @module
 */
import { allocationGranularity, memHandleType, memLocationType } from "../../../driver.ts";
import { type Cuda, sessionOf } from "../../../objects/cuda.ts";
import type { CudaDevice } from "../../../objects/cuda_device.ts";
import type { ShareableHandle } from "../../../memory/shareable_handle.ts";
import { wholeUnits } from "../../../memory/virtual/physical_memory.ts";
import { CudaError, SharingError } from "../../../support/errors.ts";
import { countOf } from "../../../support/printing.ts";
import { isSameUuid } from "../../../support/uuid.ts";
import { abortable } from "../../../support/waiting/abortable.ts";
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

/** Somebody who waits for memory. */
interface Waiting {
  readonly device: CudaDevice;
  /** Returns whether it need not wait any more. */
  readonly attempt: () => boolean;
}

/** Allocates memory of each device in the order in which it is asked for. */
export class MemoryAllocator implements Disposable {
  readonly #cuda: Cuda;
  readonly #limits: StoreLimits;
  readonly #budget: StoreBudget;
  readonly #evictable: (device: CudaDevice) => number;
  readonly #evictOne: (device: CudaDevice) => boolean;
  #isRetrying = false;
  /** Those for whom there was no memory, in order. */
  readonly #waiting = new Set<Waiting>();
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
   * Allocates at once what nobody has waited for longer. Undefined if there is no room, or others wait for the device.
   *
   * @throws {SharingError} `limit-exceeded`, `out-of-descriptors`
   * @throws {CudaError} If the driver refuses for another reason than that there is no memory
   */
  allocate(request: SpaceRequest): Grant | undefined {
    for (const { device } of this.#waiting) if (device === request.device) return undefined;
    return this.#tryAllocate(request);
  }

  /** Waits until there is room, behind those who wait already. Throws as `allocate` does. */
  async whenFree(request: SpaceRequest, signal: AbortSignal): Promise<Grant> {
    this.#retryTimer ??= setInterval(() => this.retry(), retryPause);
    try {
      return await abortable<Grant>((resolve, reject) => {
        const attempt = (): boolean => {
          try {
            const grant = this.#tryAllocate(request);
            if (grant !== undefined) resolve(grant);
            return grant !== undefined;
          } catch (error) {
            reject(error);
            return true;
          }
        };
        const waiting: Waiting = { device: request.device, attempt };
        this.#waiting.add(waiting);
        return () => void this.#waiting.delete(waiting);
      }, { signal });
    } finally {
      if (this.#waiting.size === 0) {
        clearInterval(this.#retryTimer);
        this.#retryTimer = undefined;
      }
    }
  }

  /** Lets those who wait try again: there may be room. */
  retry(): void {
    // What an attempt removes to have room would begin another one.
    if (this.#isRetrying) return;
    this.#isRetrying = true;
    try {
      // In order: a small request must not keep a large one from its turn.
      const full = new Set<CudaDevice>();
      for (const waiting of this.#waiting) {
        if (full.has(waiting.device)) continue;
        if (waiting.attempt()) this.#waiting.delete(waiting);
        else full.add(waiting.device);
      }
    } finally {
      this.#isRetrying = false;
    }
  }

  /** Stops trying. */
  [Symbol.dispose](): void {
    clearInterval(this.#retryTimer);
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
