/**
 * Allocates the memory of a store. Requests wait until enough memory is available.
 *
 * @module
 */
import { allocationGranularity, memHandleType, memLocationType } from "../../../driver.ts";
import { type Cuda, sessionOf } from "../../../objects/cuda.ts";
import type { CudaDevice } from "../../../objects/cuda_device.ts";
import { createMemoryFile } from "../../../../ffi/native/shim/memory_files.ts";
import { ShareableHandle } from "../../../memory/handles/shareable_handle.ts";
import { CudaError, SharingError } from "../../../support/errors.ts";
import { countOf } from "../../../support/printing.ts";
import { roundUp } from "../../../support/rounding.ts";
import { isSameUuid } from "../../../support/uuid.ts";
import type { PendingRequest } from "./pending_request.ts";
import type { BudgetLimits, SpaceRequest, StoreBudget, TakenMemory } from "./store_budget.ts";
import { isCounted, type Stored } from "./store_table.ts";

/** Milliseconds between attempts to allocate memory for waiting requests, in case other programs have freed memory. */
const retryPause = 100;

/** Newly allocated memory. `StoreBudget.grant` charges the user for it until it is registered in the store. */
export interface Grant extends TakenMemory {
  readonly handle: ShareableHandle;
}

/** The answer to a request for which there will be room once its client has moved an allocation to host memory. */
export interface NeededMove {
  readonly offload: Stored;
}

/** The dependencies of `MemoryAllocator`, which its store provides. */
interface AllocatorParts {
  readonly cuda: Cuda;
  readonly limits: BudgetLimits;
  readonly budget: StoreBudget;
  /**
   * Returns the published allocations on a request's device that may be evicted for it, or moved from the device by its
   * client, the least recently used one first.
   */
  readonly evictable: (request: SpaceRequest) => readonly Stored[];
  /** Evicts a published allocation. */
  readonly evict: (memory: Stored) => void;
}

/**
 * Attempts to satisfy a waiting request. Returns "waits" if the request must keep waiting, "moves" if its client has to
 * move an allocation first, and "over" if it has succeeded or failed.
 */
type Attempt = () => "waits" | "moves" | "over";

/**
 * Allocates memory on each device. Requests of one user are served in order. Requests of different users do not wait
 * for each other, because a request for a large amount of memory may wait forever.
 */
export class MemoryAllocator implements Disposable {
  readonly #cuda: Cuda;
  readonly #limits: BudgetLimits;
  readonly #budget: StoreBudget;
  readonly #evictable: (request: SpaceRequest) => readonly Stored[];
  readonly #evict: (memory: Stored) => void;
  #isRetrying = false;
  /** The waiting requests of each device and user ID, oldest first. */
  readonly #waiting = new Map<CudaDevice, Map<number, Set<Attempt>>>();
  #retryTimer: ReturnType<typeof setInterval> | undefined;

  constructor({ cuda, limits, budget, evictable, evict }: AllocatorParts) {
    this.#cuda = cuda;
    this.#limits = limits;
    this.#budget = budget;
    this.#evictable = evictable;
    this.#evict = evict;
  }

  /**
   * Returns the device with the given UUID.
   *
   * @throws {SharingError} `device-not-visible` if memory cannot be created on this device
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

  /** Rounds a size in bytes up to a multiple of the device's allocation granularity. */
  wholeSize(device: CudaDevice, byteLength: number): number {
    const location = { type: memLocationType.device, id: device.ordinal };
    const props = { handleTypes: memHandleType.posixFileDescriptor, location };
    const { driver } = sessionOf(this.#cuda);
    return roundUp(byteLength, driver.memGetAllocationGranularity(props, allocationGranularity.minimum));
  }

  /**
   * Allocates memory without waiting. Returns undefined if not enough memory is available, or if earlier requests of
   * the user wait for memory on the same device. If the client can make room, returns what it has to move instead.
   *
   * @throws {SharingError} `limit-exceeded`, `out-of-descriptors`
   * @throws {CudaError} If the driver fails for a reason other than lack of memory
   */
  allocate(request: SpaceRequest): Grant | NeededMove | undefined {
    return this.#waiting.get(request.device)?.has(request.uid) ? undefined : this.#tryAllocate(request);
  }

  /**
   * Allocates memory once enough is available and the user's earlier requests are served, or resolves to what the client
   * has to move. Rejects with the errors of `allocate`.
   */
  whenFree(request: SpaceRequest, pending: PendingRequest): Promise<Grant | NeededMove> {
    const { promise, resolve, reject } = Promise.withResolvers<Grant | NeededMove>();
    const attempt: Attempt = () => {
      let found: Grant | NeededMove | undefined;
      try {
        found = this.#tryAllocate(request);
        if (found === undefined) return "waits";
        resolve(found);
      } catch (error) {
        reject(error);
      }
      pending.endWait();
      return found !== undefined && "offload" in found ? "moves" : "over";
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

  /** Tries to satisfy the waiting requests. Called when memory may have become available. */
  retry(): void {
    // Prevent recursion: an attempt may evict memory, which calls `retry`.
    if (this.#isRetrying) return;
    this.#isRetrying = true;
    try {
      // Stop at a user's first unsuccessful attempt, so that small requests do not overtake a large one, and so that not
      // all clients move the same allocation.
      for (const [device, users] of this.#waiting) {
        for (const [uid, waiting] of users) {
          for (const attempt of waiting) {
            const result = attempt();
            if (result !== "waits") this.#endWait(device, uid, attempt);
            if (result !== "over") break;
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

  /**
   * Allocates new memory and charges the user. Returns undefined if the allocation would currently exceed the user's
   * quota or the memory available on the device.
   */
  #tryAllocate(request: SpaceRequest): Grant | NeededMove | undefined {
    const { device, uid, size } = request;
    this.#budget.check(request, 0);
    const handle = this.#budget.fitsUser(uid, size) ? this.#makeRoom(request) : undefined;
    if (handle === undefined || "offload" in handle) return handle;
    const grant = { device: device.uuid, uid, size, handle };
    this.#budget.grant(grant);
    return grant;
  }

  /**
   * Allocates new memory on a device. If necessary and permitted, evicts published memory that no process has mapped.
   * Returns undefined if not enough memory is available.
   */
  #makeRoom(request: SpaceRequest): ShareableHandle | NeededMove | undefined {
    const { device, size } = request;
    const { evict } = this.#limits;
    for (;;) {
      const handle = this.#budget.fits(device, size) ? createHandle(device, size) : undefined;
      if (handle !== undefined || evict === false) return handle;
      const evictable = this.#evictable(request);
      const [oldest] = evictable;
      // Evict nothing if evicting all unmapped memory would not suffice.
      const byteLength = evictable.filter(isCounted).reduce((sum, { size }) => sum + size, 0);
      if (oldest === undefined || !this.#budget.fits(device, size - byteLength)) return undefined;
      if (evict === "host") return { offload: oldest };
      this.#evict(oldest);
    }
  }
}

/**
 * Creates a memory file of a size for memory that moves to the host. It is not mapped, and its pages are not locked: they
 * exist once they are written.
 *
 * @throws {SharingError} `out-of-descriptors`
 */
export function createHostMemory(size: number): ShareableHandle {
  try {
    return ShareableHandle.fromFd(createMemoryFile("poolpass-host", size));
  } catch (cause) {
    const message = `Cannot create host memory of ${countOf(size, "byte")}: ${(cause as Error).message}`;
    throw new SharingError("out-of-descriptors", message, { cause });
  }
}

/** Allocates memory on a device and returns a descriptor of it; undefined if the device is out of memory. */
function createHandle(device: CudaDevice, size: number): ShareableHandle | undefined {
  try {
    // Release the driver's handle, because the descriptor alone keeps the memory allocated.
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
