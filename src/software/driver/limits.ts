/**
 * The driver calls about the limits of a device, of which the software device obeys those of the heap, of `printf` and of
 * the stack.
 *
 * @module
 */
import { cudaLimit, type Driver } from "../../driver.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import { fail } from "../failure.ts";
import type { DriverCore } from "./core.ts";

/** The driver calls about the limits of a device. */
type LimitCalls = Pick<Driver, "deviceGetLimit" | "deviceSetLimit">;

/** The limits of a device that the software device has: those of an H100, except for what it does not have. */
const defaults: Readonly<Record<number, number>> = {
  [cudaLimit.stackSize]: 1024,
  [cudaLimit.printfFifoSize]: 2 ** 20,
  [cudaLimit.mallocHeapSize]: 8 * 2 ** 20,
  [cudaLimit.pendingLaunchCount]: 2048,
  [cudaLimit.maxL2FetchGranularity]: 64,
  [cudaLimit.persistingL2CacheSize]: 0,
};
/** The greatest number of bytes of a thread's local memory. */
const maximumStackSize = 512 * 1024 - 1024;
const maximumL2FetchGranularity = 128;

/** Returns the driver calls about the limits of a device. */
export function limitCalls(core: DriverCore): LimitCalls {
  const { devices, linearMemory } = core;
  /** The limits that were set, of each device. */
  const limits = new Map<number, Map<number, number>>();
  const limitsOf = (device: number): Map<number, number> => {
    let found = limits.get(device);
    if (found === undefined) limits.set(device, found = new Map());
    return found;
  };
  return {
    deviceGetLimit(device, limit) {
      const call = "cudaDeviceGetLimit";
      devices.check(device, call);
      if (defaults[limit] === undefined) return fail(cudaErrorNumbers.cudaErrorUnsupportedLimit, call);
      return limitsOf(device).get(limit) ?? defaults[limit];
    },
    deviceSetLimit(device, limit, value) {
      const call = "cudaDeviceSetLimit";
      devices.check(device, call);
      if (defaults[limit] === undefined) return fail(cudaErrorNumbers.cudaErrorUnsupportedLimit, call);
      let accepted = value;
      if (limit === cudaLimit.stackSize && value > maximumStackSize) {
        return fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
      }
      if (limit === cudaLimit.mallocHeapSize) {
        // CUDA has given the heap its memory as soon as a kernel that uses it was loaded.
        if (linearMemory.heapOf(device) !== undefined) return fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
        linearMemory.limitHeap(device, value);
      }
      if (limit === cudaLimit.maxL2FetchGranularity) accepted = Math.min(value, maximumL2FetchGranularity);
      // The software device has no cache in which memory could be kept.
      if (limit === cudaLimit.persistingL2CacheSize) accepted = 0;
      limitsOf(device).set(limit, accepted);
    },
  };
}
