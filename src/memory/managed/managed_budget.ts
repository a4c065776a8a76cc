import type { CudaDevice } from "../../objects/cuda_device.ts";
import { outOfMemory } from "../pools/pool_contents.ts";

/** How many bytes may be allocated before the device's free memory is asked for again, which takes the driver a while. */
const askingInterval = 64 * 2 ** 20;

/** What a pool of managed memory may allocate. */
export interface ManagedPool {
  /** The device that is the preferred location of the memory. Undefined if no device is. */
  readonly preferredDevice: CudaDevice | undefined;
  /** Whether the pool may allocate more than fits a device. */
  readonly oversubscribe: boolean;
}

/**
 * Counts the managed memory of a session, and refuses what would not fit a device. CUDA itself would move other managed
 * memory back to the host, and a program whose memory does not fit may wait for copies most of the time.
 */
export class ManagedBudget {
  /** Returns the bytes that pools of managed memory have reserved and not allocated. */
  readonly #unused: () => number;
  #byteLength = 0;
  #sinceAsked = 0;
  /** For each device, the bytes that managed memory may have in total. */
  readonly #limits = new Map<CudaDevice, number>();

  constructor(unused: () => number) {
    this.#unused = unused;
  }

  /** Throws `cudaErrorMemoryAllocation` if `byteLength` more bytes of managed memory do not fit a device. */
  check(byteLength: number, device: CudaDevice, call?: string): void {
    const total = this.#byteLength + byteLength;
    const known = this.#limits.get(device);
    this.#sinceAsked += byteLength;
    if (known !== undefined && total <= known && this.#sinceAsked < askingInterval) return;
    this.#sinceAsked = 0;
    const { free, total: whole } = device.memoryInfo();
    if (byteLength > whole) throw outOfMemory(`device ${device.ordinal} has ${whole} bytes`, call);
    // CUDA counts managed memory as used on a device only if it has resided there. The amount that fits is therefore at
    // least the free memory, and at most the free memory plus all managed memory. Within these bounds, it is the memory
    // that was free before any managed memory was allocated.
    const most = free + this.#byteLength + this.#unused();
    const limit = Math.min(Math.max(known ?? free, free), most);
    this.#limits.set(device, limit);
    if (total <= limit) return;
    throw outOfMemory(
      `${this.#byteLength} bytes of managed memory are allocated, and ${limit} bytes fit device ${device.ordinal}`,
      call,
    );
  }

  add(byteLength: number): void {
    this.#byteLength += byteLength;
  }

  delete(byteLength: number): void {
    this.#byteLength -= byteLength;
  }
}

/** Advice for an allocation of managed memory that was refused because it does not fit. */
export const adviceToOversubscribe =
  "free memory or ask for less, or allocate from a pool created with { oversubscribe: true }, which may be very slow";
