import type { DeviceAllocation } from "./allocations.ts";
import type { LinearMemory } from "./linear_memory.ts";

/** Memory that is of no pool, and the devices whose kernels may access it. */
export class AccessibleRange implements DeviceAllocation {
  readonly begin: number;
  readonly byteLength: number;
  /** The device that has the memory; its kernels may not access it before they are let. */
  readonly device: number;
  readonly #linearMemory: LinearMemory;
  readonly #accessing = new Set<number>();

  constructor(linearMemory: LinearMemory, { begin, byteLength, device }: DeviceAllocation) {
    this.#linearMemory = linearMemory;
    this.begin = begin;
    this.byteLength = byteLength;
    this.device = device;
  }

  /** Whether a device's kernels may access it. */
  isAllowed(device: number): boolean {
    return this.#accessing.has(device);
  }

  /** Lets a device's kernels access it. */
  allow(device: number): void {
    this.#accessing.add(device);
    this.#linearMemory.allow(device, this.begin, this.byteLength);
  }

  /** Takes access from a device's kernels. */
  deny(device: number): void {
    if (this.#accessing.delete(device)) this.#linearMemory.deny(device, this.begin, this.byteLength);
  }

  /** Takes access from the kernels of all devices. */
  denyAll(): void {
    for (const device of this.#accessing) this.deny(device);
  }
}
