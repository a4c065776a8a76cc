/**
 * Launches of loaded kernels with CUDA's argument checks, and the attributes and occupancy of kernels.
 *
 * @module
 */
import { cudaErrorNumbers } from "../../../support/errors.ts";
import { functionAttribute, type KernelLaunch, type LaunchAttributes, sharedCarveout } from "../../../driver.ts";
import type { GlobalAccesses } from "../../../kernel_checker.ts";
import { fail } from "../../failure.ts";
import { activeBlocks, computeCapability, defaultDynamicSharedBytes, launchLimits } from "../../software_device.ts";
import type { LoadedModule } from "../modules/loaded_module.ts";
import { launchInSlices, type LaunchWork, type SlicingOptions, threadMemoryBytes } from "./kernel_launch.ts";
import type { LaunchPlace } from "./launch_state.ts";
import type { SkippedChecks, SoftwareKernel } from "../modules/module_loader.ts";
import { maySpin } from "../scheduling/block_scheduler.ts";
import { blockMemorySizes, type GridWorkspaces, hasRoomFor } from "../residency/block_places.ts";
import { fittingBlocks } from "../residency/resident_blocks.ts";
import type { LaunchGeometry } from "../modules/kernel_versions.ts";
import type { LinearMemory } from "../../memory/linear_memory.ts";
import { scratch, wholePages } from "../../memory/memory_layout.ts";
import { mostClusterBlocks as mostBlocksOfCluster, multiProcessorCount, warpSize } from "../../abi/launch_record.ts";

/** A kernel of a loaded module. */
export class LoadedKernel {
  readonly module: LoadedModule;
  readonly kernel: SoftwareKernel;
  /** The maximum dynamic shared memory of a launch, in bytes. */
  maxDynamicSharedBytes: number;
  /**
   * The preferred carveout for shared memory in percent, or -1. Has no effect, since no cache competes with shared
   * memory.
   */
  preferredSharedCarveout: number = sharedCarveout.default;
  /** Whether launches may have clusters of more than 8 blocks. */
  allowsLargeClusters = false;

  constructor(module: LoadedModule, kernel: SoftwareKernel) {
    this.module = module;
    this.kernel = kernel;
    this.maxDynamicSharedBytes = defaultDynamicSharedBytes(kernel.compiled.sharedBytes);
  }

  /** The ordinal of the device for which the module was loaded. */
  get device(): number {
    return this.module.device;
  }

  /** Returns the version of the kernel that skips the given checks. */
  without(left: Partial<SkippedChecks>): LoadedKernel {
    if (!left.races && !left.accesses && !left.barriers) return this;
    const { maxDynamicSharedBytes, preferredSharedCarveout, allowsLargeClusters } = this;
    const version = new LoadedKernel(this.module, this.kernel.without(left));
    return Object.assign(version, { maxDynamicSharedBytes, preferredSharedCarveout, allowsLargeClusters });
  }
}

/** The configuration of a launch. */
export interface LaunchConfiguration extends LaunchGeometry {
  readonly sharedMemoryBytes: number;
  /** Whether all blocks must be resident at once. Default: false. */
  readonly cooperative?: boolean;
  /** The name of the CUDA call that launches the kernel, for error messages. */
  readonly call: string;
  /** The packed parameters. The launch copies them, so the caller may reuse the bytes. */
  readonly parameters: Uint8Array;
}

/**
 * Returns the size of a launch's clusters: that of its attributes, or of the kernel. Undefined if each block is a cluster
 * of its own. Throws if it is not one that CUDA accepts. All other attributes have no effect: kernels of one stream never
 * overlap.
 */
export function clusterOf(
  { kernel: { compiled }, allowsLargeClusters }: LoadedKernel,
  { attributes, call, grid }: {
    attributes: LaunchAttributes | undefined;
    call: string;
    grid: readonly [number, number, number];
  },
): LaunchGeometry["cluster"] {
  const { cudaErrorInvalidClusterSize } = cudaErrorNumbers;
  const { requiredCluster, mostClusterBlocks } = compiled;
  const cluster = attributes?.clusterDim ?? requiredCluster;
  if (cluster === undefined) return undefined;
  const blocks = cluster[0] * cluster[1] * cluster[2];
  const most = allowsLargeClusters ? largestCluster : portableCluster;
  const isValid = cluster.every((extent, axis) => {
    return extent >= 1 && grid[axis]! % extent === 0 && extent === (requiredCluster?.[axis] ?? extent);
  }) && blocks <= (mostClusterBlocks ?? most) && blocks <= most;
  if (!isValid) fail(cudaErrorInvalidClusterSize, call);
  return [...cluster];
}

/**
 * Returns the grid of a launch in blocks, and its blocks in threads. With the directive `.blocksareclusters`, a launch
 * counts clusters, and may leave the size of blocks to the kernel by giving 1.
 */
export function extentsOfLaunch(
  { kernel: { compiled } }: LoadedKernel,
  { gridX, gridY, gridZ, blockX, blockY, blockZ }: Pick<
    KernelLaunch,
    "gridX" | "gridY" | "gridZ" | "blockX" | "blockY" | "blockZ"
  >,
): Pick<LaunchConfiguration, "grid" | "block"> {
  const { blocksAreClusters, requiredThreads, requiredCluster } = compiled;
  if (!blocksAreClusters) return { grid: [gridX, gridY, gridZ], block: [blockX, blockY, blockZ] };
  const [x, y, z] = requiredCluster!;
  const statesBlock = blockX * blockY * blockZ !== 1;
  return {
    grid: [gridX * x, gridY * y, gridZ * z],
    block: statesBlock ? [blockX, blockY, blockZ] : requiredThreads!,
  };
}

/** The number of blocks of a cluster that every kernel may have, and the one that a kernel can opt in to. */
const [portableCluster, largestCluster] = [8, mostBlocksOfCluster];

/** The parts of the driver that a launch uses. */
interface LaunchServices extends
  Pick<
    LaunchPlace,
    "linearMemory" | "memoryNames" | "isDivided" | "order" | "checks" | "argumentRanges" | "shadow"
  > {
  readonly workspaces: GridWorkspaces;
  /** Returns how other threads can run blocks of the launch. Undefined, or returns undefined, if they cannot. */
  readonly sharing?: SlicingOptions["sharing"];
  /** Returns the bounds table's entry for an offset when the launch begins. Undefined if that is the entry of now. */
  readonly entryAt?: (offset: number) => number | undefined;
  /** All global memory that the launch accesses. Undefined if it is unknown which memory the launch accesses. */
  readonly accesses?: GlobalAccesses | undefined;
}

/**
 * Creates the work of a launch, for a stream of the kernel's device. Throws the error that CUDA returns if the launch
 * is invalid.
 */
export function launchOf(
  loaded: LoadedKernel,
  configuration: LaunchConfiguration,
  services: LaunchServices,
): LaunchWork {
  checkLaunch(loaded, configuration);
  const { device, kernel } = loaded;
  const { block, sharedMemoryBytes, parameters } = configuration;
  const { linearMemory, shadow, workspaces, accesses, sharing } = services;
  const packed = new Uint8Array(kernel.compiled.parameterBytes);
  packed.set(parameters);
  const bounds = linearMemory.boundsTableOf(device);
  // Copying the properties one by one takes much less time than a rest pattern, in each launch.
  const place: LaunchPlace = {
    linearMemory,
    memoryNames: services.memoryNames,
    isDivided: services.isDivided,
    order: services.order,
    checks: services.checks,
    argumentRanges: services.argumentRanges,
    shadow,
    parameters: packed,
    bounds,
    sharedMemoryBytes,
  };
  const hasReadOnly = linearMemory.hasReadOnly(device);
  const usual = workOf(kernel, configuration, { device, place, workspaces, sharing });
  const mayBeProven = shadow !== undefined && accesses !== undefined && !kernel.compiled.mayReadUnset;
  if (!kernel.compiled.ordersAccesses && !mayBeProven && !hasReadOnly) return usual;
  let chosen: LaunchWork | undefined;
  // Chooses the version only when earlier work is done, because only then is it known which allocations the pointers
  // point to and which memory is initialized. For other threads it is chosen before that, with `entryAt`.
  const choose = (entryAt?: LaunchServices["entryAt"]): LaunchWork => {
    const isProven = mayBeProven && shadow.admit(accesses);
    if (isProven) place.checks?.leaveOutInitialization();
    const least = isProven || hasReadOnly ? kernel.without({ initialization: isProven, writes: !hasReadOnly }) : kernel;
    const version = least.compiled.ordersAccesses
      ? least.versions.for(block, { parameters: packed, bounds, entryAt }) ?? least
      : least;
    if (version === kernel) return usual;
    usual.release?.();
    chosen = { run: () => true };
    const placeOfVersion = isProven ? { ...place, shadow: undefined } : place;
    return workOf(version, configuration, { device, place: placeOfVersion, workspaces, sharing });
  };
  const areWorkersReady = () => sharing?.()?.workers.areReady === true;
  return {
    run: () => (chosen ??= choose()).run(),
    release: () => (chosen ?? usual).release?.(),
    delegate: (after) => areWorkersReady() ? (chosen ??= choose(services.entryAt)).delegate?.(after) : undefined,
    takesLong: () => areWorkersReady() && (chosen ??= choose(services.entryAt)).takesLong?.() === true,
  };
}

/** Creates the work of a launch that runs one version of a kernel. Reserves the memory of the launch. */
function workOf(
  kernel: SoftwareKernel,
  configuration: LaunchConfiguration,
  { device, place, workspaces, sharing }:
    & { device: number; place: LaunchPlace }
    & Pick<LaunchServices, "workspaces" | "sharing">,
): LaunchWork {
  const { grid, block, cluster, call, cooperative = false } = configuration;
  const { linearMemory } = place;
  const memoryBytes = threadMemoryBytes(kernel.compiled, block[0] * block[1] * block[2]);
  const reservedBytes = memoryBytes <= scratch.local.byteLength ? 0 : wholePages(memoryBytes);
  if (reservedBytes === 0 && !cooperative) return launchInSlices(kernel, { grid, block, cluster }, place, { sharing });
  const threadMemory = reservedBytes === 0 ? undefined : linearMemory.reserve(reservedBytes);
  const workspace = cooperative ? workspaces.take(device) : undefined;
  const releaseMemory = () => {
    if (workspace !== undefined) workspaces.release(device, workspace);
    if (threadMemory !== undefined) {
      linearMemory.discardAndRelease(threadMemory, reservedBytes, { isShared: false });
    }
  };
  const hasMemory = (reservedBytes === 0 || threadMemory !== undefined) && (!cooperative || workspace !== undefined) &&
    (!cooperative || hasRoomForGrid(linearMemory, kernel, configuration));
  if (!hasMemory) {
    releaseMemory();
    fail(cudaErrorNumbers.cudaErrorLaunchOutOfResources, call);
  }
  const { release, ...work } = launchInSlices(kernel, { grid, block, cluster }, { ...place, threadMemory, workspace }, {
    sharing,
  });
  return {
    ...work,
    release() {
      release?.();
      releaseMemory();
    },
  };
}

/**
 * Returns false if blocks of the grid may wait for each other and linear memory has no room for all of them at once.
 */
function hasRoomForGrid(
  linearMemory: LinearMemory,
  { compiled }: SoftwareKernel,
  { grid, block, sharedMemoryBytes }: LaunchConfiguration,
): boolean {
  if (!maySpin(compiled.suspensions ?? [])) return true;
  const sizes = blockMemorySizes(compiled, { threads: block[0] * block[1] * block[2], sharedMemoryBytes });
  return hasRoomFor(linearMemory, grid[0] * grid[1] * grid[2] - 1, sizes);
}

/**
 * Checks the configuration of a launch as CUDA does. Throws the error that CUDA returns if the configuration is
 * invalid.
 */
function checkLaunch(
  { kernel: { compiled }, maxDynamicSharedBytes }: LoadedKernel,
  { grid, block, sharedMemoryBytes, call, parameters, cooperative = false }: LaunchConfiguration,
): void {
  const { cudaErrorInvalidValue, cudaErrorLaunchOutOfResources, cudaErrorCooperativeLaunchTooLarge } = cudaErrorNumbers;
  const { maxThreadsPerBlock, requiredThreads, parameterBytes, sharedBytes } = compiled;
  const threads = block[0] * block[1] * block[2];
  const fits = grid.every((blocks, axis) => blocks >= 1 && blocks <= launchLimits.maxGridDim[axis]!) &&
    block.every((threads, axis) => threads >= 1 && threads <= launchLimits.maxBlockDim[axis]!) &&
    threads <= (maxThreadsPerBlock ?? launchLimits.maxThreadsPerBlock) &&
    block.every((threads, axis) => threads === (requiredThreads?.[axis] ?? threads)) &&
    sharedMemoryBytes <= maxDynamicSharedBytes;
  if (!fits) fail(cudaErrorInvalidValue, call);
  if (parameters.byteLength > parameterBytes) fail(cudaErrorLaunchOutOfResources, call);
  // Like CUDA, accepts fewer bytes than the size of the parameters, but not 0 bytes. The missing bytes are 0.
  if (parameters.byteLength === 0 && parameterBytes > 0) fail(cudaErrorInvalidValue, call);
  if (cooperative && grid[0] * grid[1] * grid[2] > fittingBlocks(threads, sharedBytes + sharedMemoryBytes)) {
    fail(cudaErrorCooperativeLaunchTooLarge, call);
  }
}

/** Implements `cuFuncGetAttribute`. */
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
      // Returns 0 registers: WebAssembly code has locals, which the engine maps to registers on its own.
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

/** Implements `cuFuncSetAttribute`. */
export function setKernelAttribute(loaded: LoadedKernel, attribute: number, value: number): void {
  const maximum = launchLimits.maxSharedMemoryPerBlockOptin - loaded.kernel.compiled.sharedBytes;
  if (attribute === functionAttribute.maxDynamicSharedSizeBytes && value >= 0 && value <= maximum) {
    loaded.maxDynamicSharedBytes = value;
  } else if (
    attribute === functionAttribute.preferredSharedMemoryCarveout &&
    value >= sharedCarveout.default && value <= sharedCarveout.maxShared
  ) {
    loaded.preferredSharedCarveout = value;
  } else if (attribute === functionAttribute.nonPortableClusterSizeAllowed && (value === 0 || value === 1)) {
    loaded.allowsLargeClusters = value === 1;
  } else {
    fail(cudaErrorNumbers.cudaErrorInvalidValue, "cuFuncSetAttribute");
  }
}

/** Implements `cuOccupancyMaxActiveBlocksPerMultiprocessor`. */
export function occupancyOf(
  { kernel, maxDynamicSharedBytes }: LoadedKernel,
  { blockSize, sharedMemoryBytes }: { blockSize: number; sharedMemoryBytes: number },
): number {
  if (blockSize < 1) fail(cudaErrorNumbers.cudaErrorInvalidValue, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  if (sharedMemoryBytes > maxDynamicSharedBytes) return 0;
  return activeBlocks(blockSize, kernel.compiled.sharedBytes + sharedMemoryBytes);
}

/**
 * Implements `cuOccupancyMaxPotentialBlockSize`: finds the block size with the most threads on a multiprocessor, and
 * the largest such size if there are several. Returns the block size and the number of such blocks that fill the
 * device.
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
