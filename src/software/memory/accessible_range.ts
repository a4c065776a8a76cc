import type { DeviceAllocation } from "./allocations.ts";
import type { LinearMemory } from "./linear_memory.ts";

/** Memory outside of pools, and the devices whose kernels may access it. */
export class AccessibleRange implements DeviceAllocation {
  readonly begin: number;
  readonly byteLength: number;
  /** The device that the memory belongs to. Its kernels may access the memory only after `allow`. */
  readonly device: number;
  readonly #linearMemory: LinearMemory;
  readonly #devicesWithAccess = new Set<number>();

  constructor(linearMemory: LinearMemory, { begin, byteLength, device }: DeviceAllocation) {
    this.#linearMemory = linearMemory;
    this.begin = begin;
    this.byteLength = byteLength;
    this.device = device;
  }

  /** Whether a device's kernels may access the memory. */
  isAllowed(device: number): boolean {
    return this.#devicesWithAccess.has(device);
  }

  /** Grants a device's kernels access. */
  allow(device: number): void {
    this.#devicesWithAccess.add(device);
    this.#linearMemory.allow(device, this.begin, this.byteLength);
  }

  /** Revokes the access of a device's kernels. */
  deny(device: number): void {
    if (this.#devicesWithAccess.delete(device)) this.#linearMemory.deny(device, this.begin, this.byteLength);
  }

  /** Revokes the access of the kernels of all devices. */
  denyAll(): void {
    for (const device of this.#devicesWithAccess) this.deny(device);
  }
}
