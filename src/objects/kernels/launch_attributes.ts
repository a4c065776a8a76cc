/**
 * Launches with attributes, such as clusters and cooperative grids, and with dynamic shared memory.
 *
 * @module
 */
import type { CudaDevice } from "../cuda_device.ts";
import type { CudaKernel } from "./cuda_kernel.ts";
import { defaultStream, functionAttribute, type KernelLaunch, type LaunchAttributes } from "../../driver.ts";
import { CudaError } from "../../support/errors.ts";
import { cannot } from "../../support/driver_errors.ts";
import type { ActiveClustersOptions } from "./kernel_attributes.ts";
import {
  type Dim3,
  exceededLimit,
  extentOf,
  extentsOf,
  formatShape,
  type LaunchOptions,
  refuseExtents,
} from "./launch_options.ts";
import type { Session } from "../../session.ts";
import { checkBoolean, checkByteLength } from "../../support/validation.ts";
import { checkPriority } from "../streams/device_streams.ts";
import { RangeError } from "../../support/program_errors.ts";

/** The number of blocks per cluster that every device with cluster support accepts. */
const portableClusterSize = 8;

type Extents = [x: number, y: number, z: number];

/** The kernel that is launched with attributes. */
export interface LaunchedKernel {
  readonly name: string;
  readonly handle: bigint;
  readonly device: CudaDevice;
  readonly session: Session;
}

/** Launches a kernel with attributes. Each kernel has one such object, which is reused by all launches. */
export class AttributedLaunches implements LaunchAttributes {
  clusterDim: Extents | undefined;
  cooperative: boolean = false;
  programmaticStreamSerialization: boolean = false;
  priority: number | undefined;
  readonly #kernel: LaunchedKernel;
  readonly #cluster: Extents = [1, 1, 1];
  /** The priority that was checked last. The device's range is only queried for a different one. */
  #checkedPriority = 0;
  #allowsNonPortableClusters = false;

  constructor(kernel: LaunchedKernel) {
    this.#kernel = kernel;
  }

  /**
   * Reads the attributes from a launch's options. Returns this object, or undefined if the options request no
   * attributes.
   */
  read(options: LaunchOptions): AttributedLaunches | undefined {
    const { grid, cluster, cooperative = false, priority, programmaticStreamSerialization = false } = options;
    checkBoolean(cooperative, "a launch's cooperative");
    checkBoolean(programmaticStreamSerialization, "a launch's programmaticStreamSerialization");
    if (priority !== undefined && priority !== this.#checkedPriority) {
      checkPriority(priority, this.#kernel.device, "a launch");
      this.#checkedPriority = priority;
    }
    this.clusterDim = undefined;
    if (cluster !== undefined) {
      this.#readCluster(cluster, `launch ${this.#kernel.name}`);
      this.#checkGrid(grid, cluster);
    }
    this.cooperative = cooperative;
    this.programmaticStreamSerialization = programmaticStreamSerialization;
    this.priority = priority;
    const isPlain = cluster === undefined && !cooperative && !programmaticStreamSerialization && priority === undefined;
    return isPlain ? undefined : this;
  }

  /** Reads the size of a cluster. `action` follows "Cannot" in errors. */
  #readCluster(cluster: Dim3, action: string): Readonly<Extents> {
    const extents = this.#cluster;
    for (const axis of [0, 1, 2] as const) {
      const extent = extentOf(cluster, axis);
      if (extent === 0) refuseExtents(action, "cluster", cluster);
      extents[axis] = extent;
    }
    return this.clusterDim = extents;
  }

  #checkGrid(grid: Dim3, cluster: Dim3): void {
    const extents = extentsOf(grid);
    // An invalid extent of the grid is reported later, by the launch itself.
    if (extents.includes(0)) return;
    for (const axis of [0, 1, 2] as const) {
      const [blocks, clusterBlocks] = [extents[axis], this.#cluster[axis]];
      if (blocks % clusterBlocks === 0) continue;
      const name = "xyz"[axis];
      throw new RangeError(
        `Cannot launch ${this.#kernel.name} with a grid of ${formatShape(grid)} blocks in clusters of ` +
          `${formatShape(cluster)}: the ${blocks} blocks in ${name} must be a multiple of the cluster's ` +
          `${clusterBlocks}, such as ${Math.ceil(blocks / clusterBlocks) * clusterBlocks}`,
      );
    }
  }

  /** Launches the kernel with these attributes. */
  launch(launch: KernelLaunch): void {
    this.#allowCluster();
    this.#kernel.session.driver.launchKernelEx(launch, this);
  }

  /** Returns a copy of the attributes for a node of a graph. */
  forNode(): LaunchAttributes {
    this.#allowCluster();
    const { clusterDim, cooperative, programmaticStreamSerialization, priority } = this;
    return { clusterDim: clusterDim && [...clusterDim], cooperative, programmaticStreamSerialization, priority };
  }

  /** Returns how many clusters can be active at the same time. Overwrites the fields of `launch`. */
  maxActiveClusters(launch: KernelLaunch, { block, cluster, sharedMemoryBytes = 0 }: ActiveClustersOptions): number {
    const { device, name, session } = this.#kernel;
    const action = `compute how many clusters of ${name} fit`;
    const [blockX, blockY, blockZ] = extentsOf(block);
    if (blockX * blockY * blockZ === 0) refuseExtents(action, "block", block);
    const [gridX, gridY, gridZ] = this.#readCluster(cluster, action);
    this.cooperative = this.programmaticStreamSerialization = false;
    this.priority = undefined;
    Object.assign(launch, { gridX, gridY, gridZ, blockX, blockY, blockZ, sharedMemoryBytes, stream: defaultStream });
    try {
      this.#allowCluster();
      return session.driver.occupancyMaxActiveClusters(launch, this);
    } catch (error) {
      const shared = sharedMemoryBytes === 0 ? "" : ` and ${sharedMemoryBytes} bytes of shared memory each`;
      const clusters = `${formatShape(cluster)} blocks of ${formatShape(block)} threads${shared}`;
      const hint = shapeHint(error, { grid: cluster, block, cluster }, device);
      throw cannot(`compute how many clusters of ${clusters} of ${name} fit`, error, hint);
    }
  }

  /**
   * Allows the kernel to be launched in clusters of more blocks than every device supports. CUDA requires an opt-in for
   * such clusters. The first launch that requests one opts in.
   */
  #allowCluster(): void {
    const { device, handle, session } = this.#kernel;
    const [x, y, z] = this.clusterDim ?? [1, 1, 1];
    if (x * y * z <= portableClusterSize || this.#allowsNonPortableClusters) return;
    // On a device without clusters, no opt-in is possible, and the launch itself reports the error.
    if (device.attribute("clusterLaunch") === 0) return;
    session.driver.funcSetAttribute(handle, functionAttribute.nonPortableClusterSizeAllowed, 1);
    this.#allowsNonPortableClusters = true;
  }
}

/** Returns the error to throw if the driver has refused a launch. */
export function launchError(
  error: unknown,
  options: LaunchOptions,
  { kernel, device }: { kernel: Pick<CudaKernel, "name" | "maxActiveBlocksPerMultiprocessor">; device: CudaDevice },
): unknown {
  if (!(error instanceof CudaError)) return error;
  const { grid, block, sharedMemoryBytes = 0, cluster, cooperative } = options;
  const shared = sharedMemoryBytes === 0 ? "" : ` and ${sharedMemoryBytes} bytes of shared memory each`;
  const clusters = cluster === undefined ? "" : ` in clusters of ${formatShape(cluster)} blocks`;
  const others = `${shared}${clusters}${cooperative ? ", all at once" : ""}`;
  return cannot(
    `launch ${kernel.name} with a grid of ${formatShape(grid)} blocks of ${formatShape(block)} threads${others}`,
    error,
    error.code === "cudaErrorCooperativeLaunchTooLarge"
      ? fittingBlocks(options, { kernel, device })
      : shapeHint(error, options, device),
  );
}

/** Returns advice for a cooperative launch of too many blocks. */
function fittingBlocks(
  { block, sharedMemoryBytes }: LaunchOptions,
  { kernel, device }: { kernel: Pick<CudaKernel, "maxActiveBlocksPerMultiprocessor">; device: CudaDevice },
): string {
  const [x, y, z] = extentsOf(block);
  const fitting = kernel.maxActiveBlocksPerMultiprocessor(x * y * z, sharedMemoryBytes);
  const count = device.attribute("multiProcessorCount");
  return `at most ${fitting * count} such blocks run at once, ${fitting} on each of ${count} multiprocessors: ` +
    "launch fewer, and let each do more";
}

/** Returns advice for blocks, threads and clusters that the driver refused. */
function shapeHint(error: unknown, options: LaunchOptions, device: CudaDevice): string | undefined {
  const { cluster } = options;
  switch (error instanceof CudaError ? error.code : undefined) {
    case "cudaErrorNotSupported":
      return missingAttribute(device, options);
    case "cudaErrorInvalidClusterSize":
      return clusterHint;
    case "cudaErrorInvalidValue":
      return exceededLimit(device, options) ?? missingAttribute(device, options) ??
        (cluster !== undefined
          ? clusterHint
          : "the kernel itself may allow less: maxActiveBlocksPerMultiprocessor is 0 for a block that does not fit");
  }
  return undefined;
}

/** Returns advice for a device that does not support a requested attribute at all. */
function missingAttribute(
  device: CudaDevice,
  { cluster, cooperative }: Pick<LaunchOptions, "cluster" | "cooperative">,
): string | undefined {
  const isMissing = (name: "clusterLaunch" | "cooperativeLaunch") => device.attribute(name) === 0;
  const missing = cluster !== undefined && isMissing("clusterLaunch")
    ? "clusterLaunch"
    : cooperative && isMissing("cooperativeLaunch")
    ? "cooperativeLaunch"
    : undefined;
  return missing && `the device's attribute("${missing}") is 0: run this on a GPU that supports it`;
}

/** Advice in the error message for a cluster that the device refuses. */
const clusterHint = "maxActiveClusters says how many clusters fit; " +
  `every device with clusters supports ${portableClusterSize} blocks in each`;

/** The largest number of bytes of shared memory that can be passed to CUDA, as an unsigned int. */
const maximumSharedMemoryBytes = 2 ** 32 - 1;

const optsIn = "launch opts in to as much shared memory as its sharedMemoryBytes by itself";
/** Advice for the error message, keyed by the name of another library's option for opting in to more shared memory. */
export const optInInstead: Readonly<Record<string, string>> = {
  maxDynamicSharedMemorySize: optsIn,
  max_dynamic_shared_size_bytes: optsIn,
};

/**
 * The dynamic shared memory that a kernel's blocks may have. If CUDA's default limit for the kernel is too low but the
 * device supports more, the kernel opts in to the device's maximum.
 */
export class KernelSharedMemory {
  readonly #kernel: LaunchedKernel;
  /** A lower bound on the dynamic shared memory that a block may have, in bytes: raised when a launch needs more. */
  #limit = 0;

  constructor(kernel: LaunchedKernel) {
    this.#kernel = kernel;
  }

  /** Throws unless the blocks of a launch can have `byteLength` bytes of dynamic shared memory. */
  prepare(byteLength: number): void {
    checkSharedMemory(byteLength);
    if (byteLength <= this.#limit) return;
    try {
      if (!this.allows(byteLength)) this.refuse(byteLength, "launch");
    } catch (error) {
      throw cannot(`launch ${this.#kernel.name} with ${byteLength} bytes of shared memory for each block`, error);
    }
  }

  /** Returns whether a block can have `byteLength` bytes of dynamic shared memory. Opts in if necessary. */
  allows(byteLength: number): boolean {
    if (byteLength <= this.#limit) return true;
    const { device, handle, session: { driver } } = this.#kernel;
    const { maxDynamicSharedSizeBytes } = functionAttribute;
    this.#limit = driver.funcGetAttribute(handle, maxDynamicSharedSizeBytes);
    if (byteLength <= this.#limit) return true;
    const supported = device.attribute("maxSharedMemoryPerBlockOptin") - this.#declaredBytes();
    if (byteLength > supported) return false;
    driver.funcSetAttribute(handle, maxDynamicSharedSizeBytes, supported);
    this.#limit = supported;
    return true;
  }

  /** Returns the size of the kernel's static shared memory in bytes. */
  #declaredBytes(): number {
    const { handle, session: { driver } } = this.#kernel;
    return driver.funcGetAttribute(handle, functionAttribute.sharedSizeBytes);
  }

  /**
   * Throws an error that reports a request for more shared memory than the device supports. In the message, `action`
   * follows "Cannot".
   */
  refuse(byteLength: number, action: string): never {
    const declared = this.#declaredBytes();
    const beside = declared === 0 ? "" : ` beside the ${declared} bytes that the kernel declares`;
    const { device, name } = this.#kernel;
    throw new RangeError(
      `Cannot ${action} ${name} with ${byteLength} bytes of shared memory for each block${beside}: ` +
        `the device's attribute("maxSharedMemoryPerBlockOptin") is ${device.attribute("maxSharedMemoryPerBlockOptin")}`,
    );
  }
}

/** Throws unless a number is valid as the size in bytes of a launch's shared memory. */
export function checkSharedMemory(byteLength: number): void {
  checkByteLength(byteLength, "a launch's sharedMemoryBytes");
  if (byteLength <= maximumSharedMemoryBytes) return;
  throw new RangeError(
    `Cannot use ${byteLength} as a launch's sharedMemoryBytes: it must be at most ${maximumSharedMemoryBytes}`,
  );
}
