/**
 * Loaded modules: their kernels, as work for a stream, and their variables.
 *
 * @module
 */
import { cudaErrorNumbers } from "../../support/cuda_error_codes.ts";
import { explainedError } from "../../support/errors.ts";
import { isPtx, ptxText } from "../../ptx/ptx_text.ts";
import { PtxError } from "../../ptx/syntax.ts";
import { AccessibleRange } from "../memory/accessible_range.ts";
import { PtxVersionError } from "../compiler/compile.ts";
import { fail } from "../failure.ts";
import { activeBlocks, launchLimits, maxSharedMemoryOf } from "../software_device.ts";
import { launchInSlices, type SoftwareKernel, threadMemoryBytes } from "./kernel_launch.ts";
import type { Geometry } from "./kernel_pack.ts";
import { loadModule, type ModulePlace, type SoftwareModule } from "./software_kernel.ts";
import { type LinearMemory, scratch, wholePages } from "../memory/linear_memory.ts";

const loadCall = "cuModuleLoadDataEx";
/** What a fatbin begins with. */
const fatbinMagic = 0xba55ed50;
/** What a cubin, which is an ELF file, begins with, and the machine that it says it is for. */
const elfMagic = 0x464c457f;
const cudaElfMachine = 190;

/** A module, and the device that it was loaded for. */
export class LoadedModule {
  readonly device: number;
  /** The handles of its functions that were asked for, by name. */
  readonly functions: Map<string, bigint> = new Map();
  readonly kernels: ReadonlyMap<string, SoftwareKernel>;
  readonly variables: ReadonlyMap<string, ModuleVariable>;
  readonly #window: LinearMemory;
  readonly #memory: SoftwareModule["memory"];

  private constructor(window: LinearMemory, device: number, { kernels, variables, memory }: SoftwareModule) {
    this.#window = window;
    this.device = device;
    this.kernels = kernels;
    this.variables = new Map(
      [...variables].map(([name, variable]) => [name, new ModuleVariable(window, { ...variable, device })]),
    );
    this.#memory = memory;
  }

  /** `cuModuleLoadDataEx`. */
  static load(
    window: LinearMemory,
    image: string | Uint8Array,
    { device, ...options }: { device: number } & Omit<ModulePlace, "reserve">,
  ): LoadedModule {
    const ptx = textOf(image);
    const reserve = (byteLength: number) =>
      window.reserve(byteLength) ?? fail(cudaErrorNumbers.cudaErrorMemoryAllocation, loadCall);
    try {
      return new LoadedModule(window, device, loadModule(ptx, window, { reserve, ...options }));
    } catch (cause) {
      if (!(cause instanceof PtxError)) throw cause;
      const { cudaErrorInvalidPtx, cudaErrorUnsupportedPtxVersion } = cudaErrorNumbers;
      const number = cause instanceof PtxVersionError ? cudaErrorUnsupportedPtxVersion : cudaErrorInvalidPtx;
      throw explainedError(number, loadCall, cause.message, { cause });
    }
  }

  /** Gives the memory of its variables back. */
  release(): void {
    if (this.#memory === undefined) return;
    this.#window.discardAndRelease(this.#memory.begin, this.#memory.byteLength, { isShared: false });
  }
}

/** The PTX of an image. */
function textOf(image: string | Uint8Array): string {
  const { cudaErrorInvalidKernelImage, cudaErrorNoKernelImageForDevice } = cudaErrorNumbers;
  const text = ptxText(image);
  if (text !== undefined && isPtx(text)) return text;
  const isCode = typeof image !== "string" && isDeviceCode(image);
  const number = isCode ? cudaErrorNoKernelImageForDevice : cudaErrorInvalidKernelImage;
  const reason = isCode
    ? "the software device runs PTX, and this image is binary"
    : "PTX begins with its .version, and this image does not";
  throw explainedError(number, loadCall, reason);
}

/** Whether an image is a cubin or a fatbin. */
function isDeviceCode(image: Uint8Array): boolean {
  const view = new DataView(image.buffer, image.byteOffset, image.byteLength);
  if (image.byteLength < 20) return false;
  const magic = view.getUint32(0, true);
  return magic === fatbinMagic || (magic === elfMagic && view.getUint16(18, true) === cudaElfMachine);
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

/** A launch as work for a stream. */
export interface LaunchWork {
  /** Runs some blocks and returns whether none is left. */
  readonly run: () => boolean;
  /** Gives back what was reserved for the launch, which is not run again. */
  readonly release?: () => void;
}

/** A launch as work for a stream of the device, or `cuLaunchKernel`'s error. */
export function launchOf(
  kernel: SoftwareKernel,
  { grid, block, sharedMemoryBytes, parameters }: LaunchOptions,
  { window, device }: { window: LinearMemory; device: number },
): LaunchWork {
  const call = "cuLaunchKernel";
  const { cudaErrorInvalidValue, cudaErrorLaunchOutOfResources } = cudaErrorNumbers;
  const { maxThreadsPerBlock, requiredThreads, sharedBytes, parameterBytes } = kernel.compiled;
  const fits = grid.every((blocks, axis) => blocks >= 1 && blocks <= launchLimits.maxGridDim[axis]!) &&
    block.every((threads, axis) => threads >= 1 && threads <= launchLimits.maxBlockDim[axis]!) &&
    block[0] * block[1] * block[2] <= (maxThreadsPerBlock ?? launchLimits.maxThreadsPerBlock) &&
    block.every((threads, axis) => threads === (requiredThreads?.[axis] ?? threads)) &&
    sharedBytes + sharedMemoryBytes <= maxSharedMemoryOf(sharedBytes);
  if (!fits) fail(cudaErrorInvalidValue, call);
  if (parameters.byteLength > parameterBytes) fail(cudaErrorLaunchOutOfResources, call);
  // CUDA takes fewer bytes than the kernel has, but not none. What is not given is 0 here.
  if (parameters.byteLength === 0 && parameterBytes > 0) fail(cudaErrorInvalidValue, call);
  const packed = new Uint8Array(parameterBytes);
  packed.set(parameters);
  const place = { window, parameters: packed, limits: window.boundsTableOf(device), sharedMemoryBytes };
  const memoryBytes = threadMemoryBytes(kernel.compiled, block[0] * block[1] * block[2]);
  if (memoryBytes <= scratch.local.byteLength) return { run: launchInSlices(kernel, { grid, block }, place) };
  const reservedBytes = wholePages(memoryBytes);
  const threadMemory = window.reserve(reservedBytes) ?? fail(cudaErrorLaunchOutOfResources, call);
  return {
    run: launchInSlices(kernel, { grid, block }, { ...place, threadMemory }),
    release: () => window.discardAndRelease(threadMemory, reservedBytes, { isShared: false }),
  };
}

/** `cuOccupancyMaxActiveBlocksPerMultiprocessor`. */
export function occupancyOf(
  { compiled }: SoftwareKernel,
  { blockSize, sharedMemoryBytes }: { blockSize: number; sharedMemoryBytes: number },
): number {
  if (blockSize < 1) fail(cudaErrorNumbers.cudaErrorInvalidValue, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  const { sharedBytes } = compiled;
  if (sharedBytes + sharedMemoryBytes > maxSharedMemoryOf(sharedBytes)) return 0;
  return activeBlocks(blockSize, sharedBytes + sharedMemoryBytes);
}
