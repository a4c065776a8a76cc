import type { CudaStream } from "../streams/cuda_stream.ts";
import type { OptionNames } from "../../support/validation.ts";

/** Numbers of blocks or threads in x, y and z. A plain number is the one in x; the others are 1 if omitted. */
export type Dim3 = number | readonly [x: number, y?: number, z?: number];

/** How many threads run a kernel, and on which stream. */
export interface LaunchOptions {
  /** Number of blocks. */
  grid: Dim3;
  /** Number of threads per block. */
  block: Dim3;
  /** The stream to launch on. Defaults to the device's default stream. */
  stream?: CudaStream;
  /**
   * Bytes of dynamic shared memory per block. Together with the static shared memory that the kernel declares, at most
   * the device's `attribute("maxSharedMemoryPerBlockOptin")`. The launch opts in to more than 48 KiB if needed.
   * Defaults to 0.
   */
  sharedMemoryBytes?: number;
  /**
   * Number of blocks per cluster: they run at the same time on neighboring multiprocessors, and can access each other's
   * shared memory. The grid must be a multiple of it in each dimension. Needs a GPU of compute capability 9.0 or
   * higher, on which every kernel can have clusters of 8 blocks. The launch opts in to larger clusters if needed.
   * Kernels with `__cluster_dims__` do not need this option. The software device has no clusters. Defaults to no
   * clusters.
   */
  cluster?: Dim3;
  /**
   * Whether all blocks run at once, so that they may wait for each other, as `grid.sync()` does. The launch fails with
   * `cudaErrorCooperativeLaunchTooLarge` if they do not fit on the device. Defaults to false.
   */
  cooperative?: boolean;
  /**
   * The priority of the launch, within `CudaDevice.streamPriorityRange()`; lower numbers are greater priorities.
   * Defaults to the priority of the stream. The software device checks and ignores it.
   */
  priority?: number;
  /**
   * Whether the kernel may start before the kernel in front of it on the stream has ended (programmatic dependent
   * launch). It starts when all blocks of that kernel have called `cudaTriggerProgrammaticLaunchCompletion()` or ended.
   * Before it accesses memory that earlier work uses, it must call `cudaGridDependencySynchronize()`, which waits until
   * the kernel in front is done. This includes memory that earlier work has freed and that was then allocated again.
   * The call waits for the kernel directly in front only: of three kernels, if the third needs results of the first,
   * the second must call it, too. Needs a GPU of compute capability 9.0 or higher. On the software device, no kernel
   * starts early. Defaults to false.
   */
  programmaticStreamSerialization?: boolean;
}

/** The name of every option. */
export const launchOptionNames: OptionNames<LaunchOptions> = {
  grid: true,
  block: true,
  stream: true,
  sharedMemoryBytes: true,
  cluster: true,
  cooperative: true,
  priority: true,
  programmaticStreamSerialization: true,
};

const giveArguments = "give the arguments after the options, as in launch({ grid, block }, ...args)";
const isDependent = 'the option is "programmaticStreamSerialization"';
/** What others name options, or where others give a launch's arguments. */
export const optionsInstead: Readonly<Record<string, string>> = {
  args: giveArguments,
  arguments: giveArguments,
  params: giveArguments,
  programmaticDependentLaunch: isDependent,
  pdl: isDependent,
};
