/**
 * The resources that a kernel needs, and its cache preferences.
 *
 * @module
 */
import { type Driver, functionAttribute, functionCache, sharedCarveout } from "../../driver.ts";
import type { Dim3 } from "./launch_options.ts";
import { didYouMean, type KnownOptions, shown } from "../../support/validation.ts";
import { RangeError, TypeError } from "../../support/program_errors.ts";

/** The resources that a compiled kernel needs on its device. */
export interface KernelAttributes {
  /** Number of registers per thread. 0 on the software device, whose kernels are WebAssembly and have no registers. */
  readonly registers: number;
  /** Bytes of shared memory that the kernel declares for each block, without the dynamic shared memory of a launch. */
  readonly sharedMemoryBytes: number;
  /**
   * Bytes of local memory per thread: arrays, and on a GPU also variables that do not fit into registers (spills).
   */
  readonly localMemoryBytes: number;
  /** Bytes of constant memory: the `__constant__` variables of its module. */
  readonly constantMemoryBytes: number;
  /**
   * The largest number of threads in a block. It is less than the device's maximum if the kernel declares a limit
   * (`__launch_bounds__`) or needs too many registers.
   */
  readonly maxThreadsPerBlock: number;
  /** The architecture in the PTX: 90 for `.target sm_90`. */
  readonly ptxVersion: number;
  /** The architecture of the machine code: 90 for sm_90. On the software device, always 90. */
  readonly binaryVersion: number;
}

/**
 * The preference of a kernel on a device where the L1 cache and shared memory use the same hardware resources: more
 * shared memory, a larger L1 cache ("l1"), equal sizes, or no preference.
 */
export type CacheConfig = "none" | "shared" | "l1" | "equal";

/**
 * The shared memory carve-out that a kernel prefers: a percentage of the maximum shared memory per multiprocessor, or
 * one of the named values.
 */
export type SharedMemoryCarveout = number | "default" | "max-l1" | "max-shared";

/** Options of `CudaKernel.maxPotentialBlockSize`: the blocks to choose from. */
export interface PotentialBlockSizeOptions {
  /** Bytes of dynamic shared memory per block. Defaults to 0. */
  sharedMemoryBytes?: number;
  /** The maximum number of threads per block to consider. Defaults to the kernel's maximum. */
  blockSizeLimit?: number;
}

/** Options of `CudaKernel.maxActiveClusters`: the clusters to count. */
export interface ActiveClustersOptions {
  /** Number of threads per block. */
  block: Dim3;
  /** Number of blocks per cluster. Must match `__cluster_dims__` if the kernel declares it. */
  cluster: Dim3;
  /** Bytes of dynamic shared memory per block. Defaults to 0. */
  sharedMemoryBytes?: number;
}

/** Describes the options of `CudaKernel.maxPotentialBlockSize`, for validation by `checkOptions`. */
export const potentialBlockSizeOptions: KnownOptions<PotentialBlockSizeOptions> = {
  action: "choose a block size",
  names: { sharedMemoryBytes: true, blockSizeLimit: true },
};

/** Describes the options of `CudaKernel.maxActiveClusters`, for validation by `checkOptions`. */
export const activeClustersOptions: KnownOptions<ActiveClustersOptions> = {
  action: "compute how many clusters fit",
  names: { block: true, cluster: true, sharedMemoryBytes: true },
  required: "{ block, cluster }",
};

const cacheConfigs: Readonly<Record<CacheConfig, number>> = {
  none: functionCache.preferNone,
  shared: functionCache.preferShared,
  l1: functionCache.preferL1,
  equal: functionCache.preferEqual,
};

const carveouts: Readonly<Record<string, number>> = {
  default: sharedCarveout.default,
  "max-l1": sharedCarveout.maxL1,
  "max-shared": sharedCarveout.maxShared,
};

/** Reads the attributes of a kernel. */
export function readKernelAttributes(driver: Driver, kernel: bigint): KernelAttributes {
  const read = (name: keyof typeof functionAttribute) => driver.funcGetAttribute(kernel, functionAttribute[name]);
  return Object.freeze({
    registers: read("numRegs"),
    sharedMemoryBytes: read("sharedSizeBytes"),
    localMemoryBytes: read("localSizeBytes"),
    constantMemoryBytes: read("constSizeBytes"),
    maxThreadsPerBlock: read("maxThreadsPerBlock"),
    ptxVersion: read("ptxVersion"),
    binaryVersion: read("binaryVersion"),
  });
}

/** Returns CUDA's number for a cache configuration. */
export function cacheConfigOf(value: CacheConfig): number {
  if (typeof value === "string" && Object.hasOwn(cacheConfigs, value)) return cacheConfigs[value];
  throw new TypeError(
    `Cannot use ${shown(value)} as a kernel's cacheConfig: it must be "none", "shared", "l1" or "equal"` +
      didYouMean(value, Object.keys(cacheConfigs)),
  );
}

/** Returns CUDA's number for a shared memory carve-out. */
export function carveoutOf(value: SharedMemoryCarveout): number {
  if (typeof value === "string" && Object.hasOwn(carveouts, value)) return carveouts[value]!;
  const what = `Cannot use ${shown(value)} as a kernel's preferredSharedMemoryCarveout`;
  if (typeof value !== "number") {
    throw new TypeError(
      `${what}: it must be a number of percent, "default", "max-l1" or "max-shared"` +
        didYouMean(value, Object.keys(carveouts)),
    );
  }
  if (Number.isInteger(value) && value >= sharedCarveout.maxL1 && value <= sharedCarveout.maxShared) {
    // Native functions in Deno and Node refuse -0.
    return value + 0;
  }
  throw new RangeError(`${what}: it must be a whole number of percent, from 0 to 100`);
}
