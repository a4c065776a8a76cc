/**
 * Loaded modules: their kernels, as work for a stream, and their variables.
 *
 * @module
 */
import { cudaErrorNumbers } from "../cuda_error_codes.ts";
import { CudaError } from "../errors.ts";
import { ptxText } from "../ptx/ptx_text.ts";
import { PtxError } from "../ptx/syntax.ts";
import { AccessibleRange } from "./accessible_range.ts";
import { fail } from "./failure.ts";
import { activeBlocks, launchLimits } from "./software_device.ts";
import {
  type Geometry,
  launchInSlices,
  loadModule,
  type SoftwareKernel,
  type SoftwareModule,
} from "./software_kernel.ts";
import type { Window } from "./window.ts";

/** A module, and the device that it was loaded for. */
export class LoadedModule {
  readonly device: number;
  /** The handles of its functions. */
  readonly functions: bigint[] = [];
  readonly kernels: ReadonlyMap<string, SoftwareKernel>;
  readonly variables: ReadonlyMap<string, ModuleVariable>;
  readonly #window: Window;
  readonly #memory: SoftwareModule["memory"];

  private constructor(window: Window, device: number, { kernels, variables, memory }: SoftwareModule) {
    this.#window = window;
    this.device = device;
    this.kernels = kernels;
    this.variables = new Map(
      [...variables].map(([name, variable]) => [name, new ModuleVariable(window, { ...variable, device })]),
    );
    this.#memory = memory;
  }

  /** `cuModuleLoadDataEx`. */
  static load(window: Window, device: number, image: string | Uint8Array): LoadedModule {
    const call = "cuModuleLoadDataEx";
    const ptx = ptxText(image);
    if (ptx === undefined) {
      const message = "Cannot load the module: the software device runs PTX, and this image is binary";
      throw new CudaError(cudaErrorNumbers.cudaErrorNoKernelImageForDevice, call, message);
    }
    const reserve = (byteLength: number) =>
      window.reserve(byteLength) ?? fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
    try {
      return new LoadedModule(window, device, loadModule(ptx, window, { reserve }));
    } catch (cause) {
      if (!(cause instanceof PtxError)) throw cause;
      const message = `Cannot load the module: ${cause.message}`;
      throw new CudaError(cudaErrorNumbers.cudaErrorInvalidPtx, call, message, { cause });
    }
  }

  /** Gives the memory of its variables back. */
  release(): void {
    if (this.#memory === undefined) return;
    this.#window.giveBack(this.#memory.begin, this.#memory.byteLength, { isShared: false });
  }
}

/** A variable of a module. */
export class ModuleVariable extends AccessibleRange {
  readonly kind = "variable";
}

/** What a launch has beside its kernel. */
export interface LaunchOptions extends Geometry {
  readonly sharedMemoryBytes: number;
  /** Packed as they lie in memory; the caller's to change afterwards. */
  readonly parameters: Uint8Array;
}

/** A launch as work for a stream of the device, or `cuLaunchKernel`'s error. */
export function launchOf(
  kernel: SoftwareKernel,
  { grid, block, sharedMemoryBytes, parameters }: LaunchOptions,
  { window, device }: { window: Window; device: number },
): () => boolean {
  const { maxThreadsPerBlock, requiredThreads, sharedBytes } = kernel.compiled;
  const fits = grid.every((blocks, axis) => blocks >= 1 && blocks <= launchLimits.maxGridDim[axis]!) &&
    block.every((threads, axis) => threads >= 1 && threads <= launchLimits.maxBlockDim[axis]!) &&
    block[0] * block[1] * block[2] <= (maxThreadsPerBlock ?? launchLimits.maxThreadsPerBlock) &&
    block.every((threads, axis) => threads === (requiredThreads?.[axis] ?? threads)) &&
    sharedBytes + sharedMemoryBytes <= launchLimits.maxSharedMemoryPerBlock;
  if (!fits) fail(cudaErrorNumbers.cudaErrorInvalidValue, "cuLaunchKernel");
  return launchInSlices(kernel, { grid, block }, {
    window,
    parameters: parameters.slice(),
    limits: window.limitsOf(device),
    sharedMemoryBytes,
  });
}

/** `cuOccupancyMaxActiveBlocksPerMultiprocessor`. */
export function occupancyOf(
  { compiled }: SoftwareKernel,
  { blockSize, sharedMemoryBytes }: { blockSize: number; sharedMemoryBytes: number },
): number {
  if (blockSize < 1) fail(cudaErrorNumbers.cudaErrorInvalidValue, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  return activeBlocks(blockSize, compiled.sharedBytes + sharedMemoryBytes);
}
