import type { DeviceAllocation } from "./allocations.ts";
import type { Window } from "./window.ts";

/** Memory that is of no pool, and the devices whose kernels may access it. */
export class AccessibleRange implements DeviceAllocation {
  readonly begin: number;
  readonly byteLength: number;
  /** The device that has the memory; its kernels may not access it before they are let. */
  readonly device: number;
  readonly #window: Window;
  readonly #accessing = new Set<number>();

  constructor(window: Window, { begin, byteLength, device }: DeviceAllocation) {
    this.#window = window;
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
    this.#window.allow(device, this.begin, this.byteLength);
  }

  /** Takes access from a device's kernels. */
  deny(device: number): void {
    if (this.#accessing.delete(device)) this.#window.deny(device, this.begin, this.byteLength);
  }

  /** Takes access from the kernels of all devices. */
  denyAll(): void {
    for (const device of this.#accessing) this.deny(device);
  }
}
