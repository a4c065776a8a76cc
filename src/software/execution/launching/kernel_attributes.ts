/**
 * What a kernel of the software device needs, and which blocks of it fit.
 *
 * @module
 */
import { functionAttribute, sharedCarveout } from "../../../driver.ts";
import { cudaErrorNumbers } from "../../../support/errors.ts";
import { fail } from "../../failure.ts";
import { activeBlocks, computeCapability, launchLimits, warpSize } from "../../software_device.ts";
import { multiProcessorCount } from "../../abi/launch_record.ts";
import type { LoadedKernel } from "./launches.ts";

/** `cuFuncGetAttribute`. */
export function kernelAttribute(loaded: LoadedKernel, attribute: number): number {
  const { compiled } = loaded.kernel;
  switch (attribute) {
    case functionAttribute.maxThreadsPerBlock:
      return maxThreadsOf(loaded);
    case functionAttribute.sharedSizeBytes:
      return compiled.sharedBytes;
    case functionAttribute.constSizeBytes:
      return loaded.module.constantBytes;
    case functionAttribute.localSizeBytes:
      return compiled.localBytes;
    case functionAttribute.numRegs:
      // WebAssembly has locals, and its engine decides which of them are in registers.
      return 0;
    case functionAttribute.ptxVersion:
      return loaded.module.ptxVersion;
    case functionAttribute.binaryVersion:
      return computeCapability.major * 10 + computeCapability.minor;
    case functionAttribute.maxDynamicSharedSizeBytes:
      return loaded.maxDynamicSharedBytes;
    case functionAttribute.preferredSharedMemoryCarveout:
      return loaded.preferredSharedCarveout;
    default:
      return fail(cudaErrorNumbers.cudaErrorInvalidValue, "cuFuncGetAttribute");
  }
}

/** `cuFuncSetAttribute`. */
export function setKernelAttribute(loaded: LoadedKernel, attribute: number, value: number): void {
  const maximum = launchLimits.maxSharedMemoryPerBlockOptin - loaded.kernel.compiled.sharedBytes;
  if (attribute === functionAttribute.maxDynamicSharedSizeBytes && value >= 0 && value <= maximum) {
    loaded.maxDynamicSharedBytes = value;
  } else if (
    attribute === functionAttribute.preferredSharedMemoryCarveout &&
    value >= sharedCarveout.default && value <= sharedCarveout.maxShared
  ) {
    loaded.preferredSharedCarveout = value;
  } else {
    fail(cudaErrorNumbers.cudaErrorInvalidValue, "cuFuncSetAttribute");
  }
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

/**
 * `cuOccupancyMaxPotentialBlockSize`: of the sizes with the most threads on a multiprocessor the largest, and the blocks
 * that then fill the device.
 */
export function potentialBlockSize(
  loaded: LoadedKernel,
  { sharedMemoryBytes, blockSizeLimit }: { sharedMemoryBytes: number; blockSizeLimit: number },
): { minGridSize: number; blockSize: number } {
  if (blockSizeLimit < 0) fail(cudaErrorNumbers.cudaErrorInvalidValue, "cuOccupancyMaxPotentialBlockSize");
  const largest = Math.min(blockSizeLimit === 0 ? Infinity : blockSizeLimit, maxThreadsOf(loaded));
  const best = { blockSize: 0, blocks: 0 };
  for (let warps = Math.ceil(largest / warpSize); warps > 0; warps--) {
    const blockSize = Math.min(largest, warps * warpSize);
    const blocks = occupancyOf(loaded, { blockSize, sharedMemoryBytes });
    if (blocks * blockSize > best.blocks * best.blockSize) Object.assign(best, { blockSize, blocks });
  }
  return { minGridSize: best.blocks * multiProcessorCount, blockSize: best.blockSize };
}

function maxThreadsOf({ kernel }: LoadedKernel): number {
  return Math.min(kernel.compiled.maxThreadsPerBlock ?? Infinity, launchLimits.maxThreadsPerBlock);
}
