/**
 * Allocates the memory of a store. Requests wait until enough memory is available.
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

/**
 * Milliseconds between attempts to allocate memory for waiting requests, because other programs may have freed memory.
 */
const retryPause = 100;

/** Newly allocated memory, which the budget charges as a grant until it is in the table. */
export interface Grant extends TakenMemory {
  readonly handle: ShareableHandle;
}

/** The dependencies of `MemoryAllocator`, which its store provides. */
interface AllocatorParts {
  readonly cuda: Cuda;
  readonly limits: BudgetLimits;
  readonly budget: StoreBudget;
  /** Returns the number of bytes of published memory on a device that no process maps. */
  readonly evictable: (device: CudaDevice) => number;
  /** Evicts one published memory on a device that no process maps. Returns false if there is none. */
  readonly evictOne: (device: CudaDevice) => boolean;
}

/** An attempt to satisfy a waiting request. Returns whether the wait is over. */
type Attempt = () => boolean;

/**
 * Allocates memory on each device. Requests of one user are served in order; requests of different users do not wait
 * for each other, because a request may wait forever.
 */
export class MemoryAllocator implements Disposable {
  readonly #cuda: Cuda;
  readonly #limits: BudgetLimits;
  readonly #budget: StoreBudget;
  readonly #evictable: (device: CudaDevice) => number;
  readonly #evictOne: (device: CudaDevice) => boolean;
  #isRetrying = false;
  /** The waiting requests, by device and user ID, in order. */
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

  /** Returns the number of bytes that memory of a given length occupies on a device. */
  wholeSize(device: CudaDevice, byteLength: number): number {
    const location = { type: memLocationType.device, id: device.ordinal };
    const props = { handleTypes: memHandleType.posixFileDescriptor, location };
    const { driver } = sessionOf(this.#cuda);
    return wholeUnits(byteLength, driver.memGetAllocationGranularity(props, allocationGranularity.minimum));
  }

  /**
   * Allocates without waiting. Returns undefined if not enough memory is available, or if earlier requests of the user
   * wait for the device.
   *
   * @throws {SharingError} `limit-exceeded`, `out-of-descriptors`
   * @throws {CudaError} If the driver fails for a reason other than lack of memory
   */
  allocate(request: SpaceRequest): Grant | undefined {
    return this.#waiting.get(request.device)?.has(request.uid) ? undefined : this.#tryAllocate(request);
  }

  /**
   * Allocates once enough memory is available and the user's earlier requests are served. Rejects with the errors of
   * `allocate`.
   */
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

  /** Retries waiting requests, because memory may have become available. */
  retry(): void {
    // Prevents recursion: an attempt may evict memory, which calls this function.
    if (this.#isRetrying) return;
    this.#isRetrying = true;
    try {
      // Stops at a user's first unsuccessful attempt, so that small requests do not overtake a large one.
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

  /** Stops retrying waiting requests. */
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

  /** Allocates new memory within the budget. Returns undefined if not enough is available. */
  #tryAllocate({ name, device, uid, size }: SpaceRequest): Grant | undefined {
    this.#budget.check({ name, device, uid, size }, 0);
    const handle = this.#budget.fitsUser(uid, size) ? this.#makeRoom(device, size) : undefined;
    if (handle === undefined) return undefined;
    const grant = { device: device.uuid, uid, size, handle };
    this.#budget.grant(grant);
    return grant;
  }

  /** Allocates new memory on a device. If necessary and allowed, evicts published memory that no process maps. */
  #makeRoom(device: CudaDevice, size: number): ShareableHandle | undefined {
    for (;;) {
      const handle = this.#budget.fits(device, size) ? createHandle(device, size) : undefined;
      if (handle !== undefined) return handle;
      // Evicts nothing if evicting everything would not suffice.
      const mayFit = this.#limits.evict && this.#budget.fits(device, size - this.#evictable(device));
      if (!mayFit || !this.#evictOne(device)) return undefined;
    }
  }
}

/** Creates new memory and returns its descriptor; undefined if the device is out of memory. */
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
