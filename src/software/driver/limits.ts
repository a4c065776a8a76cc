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

/** The limits of a device before one is set: those of an H200. */
const defaults: Readonly<Record<number, number>> = {
  [cudaLimit.stackSize]: 1024,
  [cudaLimit.printfFifoSize]: 132 * 65536,
  [cudaLimit.mallocHeapSize]: 8 * 2 ** 20,
  [cudaLimit.pendingLaunchCount]: 2048,
  [cudaLimit.maxL2FetchGranularity]: 64,
  [cudaLimit.persistingL2CacheSize]: 11_796_480,
};
/** The limits that a device has but does not tell, and whether it has them. */
const untoldLimits: Readonly<Record<number, boolean>> = { 3: false, 7: true, 8: true, 9: false };

const stackAlignment = 16;
/** The greatest size in bytes of a thread's local memory, less what the frames of functions may need. */
const maximumStackSize = 512 * 1024 - 1024;
const minimumPrintfFifoSize = 524_288;
const minimumHeapSize = 4 * 2 ** 20;
const minimumPendingLaunches = 32;
const maximumL2FetchGranularity = 128;
/** The unit of a part of the L2 cache: a sixteenth of it, of which ten can be set aside. */
const l2Part = 3_932_160;
const maximumL2Parts = 10;

/** Returns what a limit is when it is set to a value. Undefined if it cannot be set to it. */
function accepted(limit: number, value: number): number | undefined {
  switch (limit) {
    case cudaLimit.stackSize:
      return value > maximumStackSize ? undefined : Math.ceil(value / stackAlignment) * stackAlignment;
    case cudaLimit.printfFifoSize:
      return Math.max(value, minimumPrintfFifoSize);
    case cudaLimit.mallocHeapSize:
      return Math.max(value, minimumHeapSize);
    case cudaLimit.pendingLaunchCount:
      return Math.max(value, minimumPendingLaunches);
    case cudaLimit.maxL2FetchGranularity:
      return value > maximumL2FetchGranularity ? undefined : value;
    default:
      return value > maximumL2Parts * l2Part ? undefined : Math.ceil(value / l2Part) * l2Part;
  }
}

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
  const { cudaErrorInvalidValue, cudaErrorUnsupportedLimit, cudaErrorNotPermitted } = cudaErrorNumbers;
  const get = (device: number, limit: number): number | undefined => limitsOf(device).get(limit) ?? defaults[limit];
  return {
    deviceGetLimit(device, limit) {
      const call = "cudaDeviceGetLimit";
      devices.check(device, call);
      const value = get(device, limit);
      if (value !== undefined) return value;
      const isUntold = untoldLimits[limit];
      if (isUntold === undefined) return fail(cudaErrorInvalidValue, call);
      return isUntold ? 0 : fail(cudaErrorUnsupportedLimit, call);
    },
    deviceSetLimit(device, limit, value) {
      const call = "cudaDeviceSetLimit";
      devices.check(device, call);
      if (defaults[limit] === undefined) {
        const isUntold = untoldLimits[limit];
        if (isUntold === undefined) return fail(cudaErrorInvalidValue, call);
        return fail(isUntold ? cudaErrorNotPermitted : cudaErrorUnsupportedLimit, call);
      }
      const result = accepted(limit, value) ?? fail(cudaErrorInvalidValue, call);
      if (limit === cudaLimit.stackSize && result !== get(device, limit)) {
        // CUDA gives the threads other stacks when nothing uses them.
        core.finishWork(device, call);
        core.stackBytes.set(device, result);
      } else if (limit === cudaLimit.mallocHeapSize) {
        // CUDA has given the heap its memory as soon as a kernel that uses it was loaded.
        if (linearMemory.heapOf(device) !== undefined) return fail(cudaErrorInvalidValue, call);
        linearMemory.limitHeap(device, result);
      } else if (limit === cudaLimit.printfFifoSize) linearMemory.limitPrint(device, result);
      limitsOf(device).set(limit, result);
    },
  };
}
