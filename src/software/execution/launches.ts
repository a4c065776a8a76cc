/**
 * Launches of a loaded module's kernels, checked as CUDA checks them.
 *
 * @module
 */
import { cudaErrorNumbers } from "../../support/cuda_error_codes.ts";
import { type LaunchAttributes, sharedCarveout } from "../../driver.ts";
import { explainedError } from "../../support/errors.ts";
import { fail } from "../failure.ts";
import { defaultDynamicSharedBytes, launchLimits } from "../software_device.ts";
import type { LoadedModule } from "./loaded_module.ts";
import { launchInSlices, type LaunchPlace, type SoftwareKernel, threadMemoryBytes } from "./kernel_launch.ts";
import type { Geometry } from "./gang_versions.ts";
import { scratch, wholePages } from "../memory/linear_memory.ts";

/** A kernel of a loaded module. */
export class LoadedKernel {
  readonly module: LoadedModule;
  readonly kernel: SoftwareKernel;
  /** The largest dynamic shared memory that a launch may have, in bytes. */
  maxDynamicSharedBytes: number;
  /** In percent, or -1. Only remembered: there is no cache that shares its memory with shared memory. */
  preferredSharedCarveout: number = sharedCarveout.default;

  constructor(module: LoadedModule, kernel: SoftwareKernel) {
    this.module = module;
    this.kernel = kernel;
    this.maxDynamicSharedBytes = defaultDynamicSharedBytes(kernel.compiled.sharedBytes);
  }

  /** The device that the module was loaded for. */
  get device(): number {
    return this.module.device;
  }
}

/** The configuration of a launch. */
export interface LaunchConfiguration extends Geometry {
  readonly sharedMemoryBytes: number;
  /** The call that launches it, for errors. */
  readonly call: string;
  /** Packed as in memory. The caller may reuse the bytes afterwards. */
  readonly parameters: Uint8Array;
}

/** A launch as work for a stream. */
export interface LaunchWork {
  /** Runs some blocks, and returns whether all are done. */
  readonly run: () => boolean;
  /** Frees what was reserved for the launch, which is not run again. */
  readonly release?: () => void;
}

/**
 * Refuses a launch with attributes that the device does not support. The others need nothing: a kernel of a stream always
 * runs after the one in front of it has ended, and streams of all priorities take turns.
 */
export function checkLaunchAttributes({ clusterDim, cooperative }: LaunchAttributes, call: string): void {
  const { cudaErrorNotSupported } = cudaErrorNumbers;
  if (clusterDim !== undefined && clusterDim[0] * clusterDim[1] * clusterDim[2] > 1) {
    const reason = `the software device has no clusters of blocks, and the option "cluster" asks for them`;
    throw explainedError(cudaErrorNotSupported, call, reason);
  }
  if (cooperative) {
    const reason =
      `the software device runs blocks one after another, and the option "cooperative" asks for all at once`;
    throw explainedError(cudaErrorNotSupported, call, reason);
  }
}

/** A launch as work for a stream of the kernel's device. Throws the error of `call`. */
export function launchOf(
  { device, kernel, maxDynamicSharedBytes }: LoadedKernel,
  { grid, block, sharedMemoryBytes, call, parameters }: LaunchConfiguration,
  { linearMemory, memoryNames }: Pick<LaunchPlace, "linearMemory" | "memoryNames">,
): LaunchWork {
  const { cudaErrorInvalidValue, cudaErrorLaunchOutOfResources } = cudaErrorNumbers;
  const { maxThreadsPerBlock, requiredThreads, parameterBytes } = kernel.compiled;
  const fits = grid.every((blocks, axis) => blocks >= 1 && blocks <= launchLimits.maxGridDim[axis]!) &&
    block.every((threads, axis) => threads >= 1 && threads <= launchLimits.maxBlockDim[axis]!) &&
    block[0] * block[1] * block[2] <= (maxThreadsPerBlock ?? launchLimits.maxThreadsPerBlock) &&
    block.every((threads, axis) => threads === (requiredThreads?.[axis] ?? threads)) &&
    sharedMemoryBytes <= maxDynamicSharedBytes;
  if (!fits) fail(cudaErrorInvalidValue, call);
  if (parameters.byteLength > parameterBytes) fail(cudaErrorLaunchOutOfResources, call);
  // CUDA accepts fewer bytes than the kernel's parameters have, but not none. Missing bytes are 0 here.
  if (parameters.byteLength === 0 && parameterBytes > 0) fail(cudaErrorInvalidValue, call);
  const packed = new Uint8Array(parameterBytes);
  packed.set(parameters);
  const bounds = linearMemory.boundsTableOf(device);
  const place: LaunchPlace = {
    linearMemory,
    parameters: packed,
    bounds,
    sharedMemoryBytes,
    ...memoryNames && { memoryNames },
  };
  const memoryBytes = threadMemoryBytes(kernel.compiled, block[0] * block[1] * block[2]);
  if (memoryBytes <= scratch.local.byteLength) return { run: launchInSlices(kernel, { grid, block }, place) };
  const reservedBytes = wholePages(memoryBytes);
  const threadMemory = linearMemory.reserve(reservedBytes) ?? fail(cudaErrorLaunchOutOfResources, call);
  return {
    run: launchInSlices(kernel, { grid, block }, { ...place, threadMemory }),
    release: () => linearMemory.discardAndRelease(threadMemory, reservedBytes, { isShared: false }),
  };
}
