import { cudaLimit } from "../driver.ts";
import type { Session } from "../session.ts";
import { cannot } from "../support/driver_errors.ts";
import { CudaError } from "../support/errors.ts";
import { printObjectAs, stateOf } from "../support/printing.ts";
import { TypeError } from "../support/program_errors.ts";
import { checkByteLength, checkNumber, suggestName } from "../support/validation.ts";

/**
 * The limits of a device for its kernels. Each can be set; CUDA may round the value, or limit it. Comes from
 * `CudaDevice.limits`.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
 */
export interface DeviceLimits {
  /**
   * The size in bytes of each thread's stack, on which functions that call themselves, or whose size the compiler does
   * not know, need room. To change it waits for the device's work. On the software device it holds for modules that are
   * loaded afterwards.
   */
  stackSize: number;
  /**
   * The size in bytes of the buffer for the output of `printf`. On a GPU it can be set before the first kernel that
   * prints. The software device prints at once; it is the size of the longest output of one call.
   */
  printfFifoSize: number;
  /** The size in bytes of the heap for `malloc` in kernels. It can be set before the first kernel that uses the heap. */
  mallocHeapSize: number;
  /**
   * The size in bytes of the part of the L2 cache for data that stays there, which CUDA rounds up to some parts of the
   * cache. 0 for a device without such a cache. It has no effect on the software device.
   */
  persistingL2CacheSize: number;
  /** How many bytes the L2 cache fetches at a time, from 0 to 128: a hint. */
  maxL2FetchGranularity: number;
  /** How many launches by kernels may be pending. */
  pendingLaunchCount: number;
}

const names = Object.keys(cudaLimit) as (keyof DeviceLimits)[];

/** Returns an object whose properties read and set the limits of a device. */
export function limitsOf(session: Session, device: number): DeviceLimits {
  const limits = {} as DeviceLimits;
  for (const name of names) {
    Object.defineProperty(limits, name, {
      enumerable: true,
      get() {
        try {
          return session.driver.deviceGetLimit(device, cudaLimit[name]);
        } catch (error) {
          throw cannot(`read the limit ${name} of device ${device}`, error);
        }
      },
      set(value: number) {
        try {
          session.driver.deviceSetLimit(device, cudaLimit[name], value);
        } catch (error) {
          throw cannot(`set the limit ${name} of device ${device} to ${value}`, error, adviceFor(name, error));
        }
      },
    });
  }
  printObjectAs(limits, printLimits, names);
  return new Proxy(limits, refusingMistypedNames);
}

/** What to do about a value that CUDA refuses. */
const adviceAbout: Readonly<Partial<Record<keyof DeviceLimits, string>>> = {
  stackSize: "a thread's local memory has at most 512 KiB",
  mallocHeapSize: "set it before the first kernel that uses malloc",
  printfFifoSize: "set it before the first kernel that uses printf",
  persistingL2CacheSize: "the attribute maxPersistingL2CacheSize is the maximum",
  maxL2FetchGranularity: "it must be at most 128",
};

function adviceFor(name: keyof DeviceLimits, error: unknown): string | undefined {
  if (!(error instanceof CudaError) || error.code !== "cudaErrorInvalidValue") return undefined;
  return adviceAbout[name];
}

/** Throws for unknown names: an ordinary object would silently accept any property. */
const refusingMistypedNames: ProxyHandler<DeviceLimits> = {
  set(limits, property, value) {
    const name = names.find((known) => known === property);
    if (name === undefined) {
      const suggestion = suggestName(String(property), names, "the limits are");
      throw new TypeError(`Cannot set the limit "${String(property)}": there is no such limit; ${suggestion}`);
    }
    checkNumber(value, `the limit ${name}`);
    checkByteLength(value, `the limit ${name}`);
    return Reflect.set(limits, name, value);
  },
};

function printLimits(limits: DeviceLimits): string {
  return `DeviceLimits { ${names.map((name) => `${name}: ${stateOf(() => String(limits[name]))}`).join(", ")} }`;
}
