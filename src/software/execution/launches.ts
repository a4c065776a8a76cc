/**
 * Launches of a loaded module's kernels, checked as CUDA checks them.
 *
 * @module
 */
import { cudaErrorNumbers } from "../../support/cuda_error_codes.ts";
import { functionAttribute } from "../../driver.ts";
import { fail } from "../failure.ts";
import { activeBlocks, defaultDynamicSharedBytes, launchLimits } from "../software_device.ts";
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

/** A launch as work for a stream of the kernel's device. Throws the error of `cuLaunchKernel`. */
export function launchOf(
  { device, kernel, maxDynamicSharedBytes }: LoadedKernel,
  { grid, block, sharedMemoryBytes, parameters }: LaunchConfiguration,
  { linearMemory, memoryNames }: Pick<LaunchPlace, "linearMemory" | "memoryNames">,
): LaunchWork {
  const call = "cuLaunchKernel";
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

/** `cuOccupancyMaxActiveBlocksPerMultiprocessor`. */
export function occupancyOf(
  { kernel, maxDynamicSharedBytes }: LoadedKernel,
  { blockSize, sharedMemoryBytes }: { blockSize: number; sharedMemoryBytes: number },
): number {
  if (blockSize < 1) fail(cudaErrorNumbers.cudaErrorInvalidValue, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  if (sharedMemoryBytes > maxDynamicSharedBytes) return 0;
  return activeBlocks(blockSize, kernel.compiled.sharedBytes + sharedMemoryBytes);
}

/** `cuFuncGetAttribute`. */
export function kernelAttribute({ kernel, maxDynamicSharedBytes }: LoadedKernel, attribute: number): number {
  if (attribute === functionAttribute.sharedSizeBytes) return kernel.compiled.sharedBytes;
  if (attribute === functionAttribute.maxDynamicSharedSizeBytes) return maxDynamicSharedBytes;
  return fail(cudaErrorNumbers.cudaErrorInvalidValue, "cuFuncGetAttribute");
}

/** `cuFuncSetAttribute`. */
export function setKernelAttribute(loaded: LoadedKernel, attribute: number, value: number): void {
  const maximum = launchLimits.maxSharedMemoryPerBlockOptin - loaded.kernel.compiled.sharedBytes;
  const isValid = attribute === functionAttribute.maxDynamicSharedSizeBytes && value >= 0 && value <= maximum;
  if (!isValid) fail(cudaErrorNumbers.cudaErrorInvalidValue, "cuFuncSetAttribute");
  loaded.maxDynamicSharedBytes = value;
}
