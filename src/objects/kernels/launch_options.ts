/**
 * The options of launches, and the shape of a grid: extents, limits, and error messages about them.
 *
 * @module
 */
import type { CudaStream } from "../streams/cuda_stream.ts";
import { type OptionNames, whatIs } from "../../support/validation.ts";
import type { CudaDevice } from "../cuda_device.ts";
import type { DeviceAttributeName } from "../../support/device_attributes.ts";
import { RangeError, TypeError } from "../../support/program_errors.ts";

/** Numbers of blocks or threads in x, y and z. A plain number is the number in x; omitted numbers are 1. */
export type Dim3 = number | readonly [x: number, y?: number, z?: number];

/** The shape of a launch, its stream, and its attributes. */
export interface LaunchOptions {
  /** Number of blocks. */
  grid: Dim3;
  /** Number of threads per block. */
  block: Dim3;
  /** The stream to launch on. Defaults to the device's default stream. */
  stream?: CudaStream;
  /**
   * Bytes of dynamic shared memory per block. The sum of this and the static shared memory that the kernel declares
   * must not exceed the device's `attribute("maxSharedMemoryPerBlockOptin")`. The launch opts in to more than 48 KiB if
   * needed. Defaults to 0.
   */
  sharedMemoryBytes?: number;
  /**
   * Number of blocks per cluster. The blocks of a cluster run concurrently on neighboring multiprocessors, and can
   * access each other's shared memory. In each dimension, the grid's size must be a multiple of the cluster's. Needs a
   * GPU of compute capability 9.0 or higher, on which every kernel can have clusters of 8 blocks. The launch opts in to
   * larger clusters if needed. Kernels with `__cluster_dims__` do not need this option. Defaults to no clusters.
   */
  cluster?: Dim3;
  /**
   * Whether all blocks run concurrently, so that they can wait for each other, as in `grid.sync()`. The launch fails
   * with `cudaErrorCooperativeLaunchTooLarge` if they do not fit on the device. Defaults to false.
   */
  cooperative?: boolean;
  /**
   * The priority of the launch, within `CudaDevice.streamPriorityRange()`; lower numbers are greater priorities.
   * Defaults to the priority of the stream. The software device checks the priority, but otherwise ignores it.
   */
  priority?: number;
  /**
   * Whether the kernel may start before the preceding kernel on the stream has ended (programmatic dependent launch).
   * The kernel starts when all blocks of the preceding kernel have called `cudaTriggerProgrammaticLaunchCompletion()`
   * or ended. Before it accesses memory that earlier work uses, it must call `cudaGridDependencySynchronize()`, which
   * waits until the preceding kernel is done. This also applies to memory that earlier work has freed and that was then
   * allocated again. The function waits only for the directly preceding kernel: if the third of three kernels needs
   * results of the first, the second must also call it. Needs a GPU of compute capability 9.0 or higher. On the
   * software device, no kernel starts early. Defaults to false.
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
/** Advice for the error message, keyed by the name of an equivalent option in another library. */
export const optionsInstead: Readonly<Record<string, string>> = {
  args: giveArguments,
  arguments: giveArguments,
  params: giveArguments,
  programmaticDependentLaunch: isDependent,
  pdl: isDependent,
};

/** A copy of `maximumInt`, because each launch reads it six times, and reading an import takes longer. */
const maximumExtent = 2 ** 31 - 1;

/**
 * Returns the number of blocks or threads in one dimension, or 0 if it is not valid; `refuseShape` then throws the
 * error.
 */
export function extentOf(dimensions: Dim3, axis: 0 | 1 | 2): number {
  let value: unknown;
  if (typeof dimensions === "number") value = axis === 0 ? dimensions : 1;
  else if (axis === 0) value = Array.isArray(dimensions) && dimensions.length <= 3 ? dimensions[0] : 0;
  else value = dimensions?.[axis] === undefined ? 1 : dimensions[axis];
  return Number.isInteger(value) && (value as number) >= 1 && (value as number) <= maximumExtent ? value as number : 0;
}

/** Throws an error that reports the invalid extent of a launch, for which `extentOf` has returned 0. */
export function refuseShape(kernel: string, { grid, block }: LaunchOptions): never {
  const isGridInvalid = ([0, 1, 2] as const).some((axis) => extentOf(grid, axis) === 0);
  refuseExtents(`launch ${kernel}`, isGridInvalid ? "grid" : "block", isGridInvalid ? grid : block);
}

/**
 * Throws an error that reports an invalid extent, for which `extentOf` has returned 0. In the message, `action` follows
 * "Cannot".
 */
export function refuseExtents(action: string, what: "grid" | "block" | "cluster", dimensions: unknown): never {
  if (typeof dimensions === "object" && Array.isArray(dimensions)) {
    const { length } = dimensions;
    if (length < 1 || length > 3) {
      throw new RangeError(
        `Cannot ${action} with a ${what} of ${length} dimensions: it must have from one to three`,
      );
    }
    const other = dimensions.find((extent) => extent !== undefined && typeof extent !== "number");
    if (other !== undefined) {
      throw new TypeError(
        `Cannot ${action} with ${whatIs(other)} as an extent of its ${what}: it must be a number`,
      );
    }
  } else if (typeof dimensions !== "number") {
    throw new TypeError(
      `Cannot ${action} with ${whatIs(dimensions)} as its ${what}: give a number, or an array of up to three` +
        instead(dimensions),
    );
  }
  throw new RangeError(
    `Cannot ${action} with a ${what} of ${
      formatShape(dimensions as Dim3)
    }: each extent must be a whole number from 1 to ` +
      maximumExtent + adviceFor(dimensions as Dim3, what),
  );
}

/** Returns advice to append to an error message: how to write `dimensions`, which is not a `Dim3`, as a `Dim3`. */
function instead(dimensions: unknown): string {
  if (typeof dimensions === "string") return "; convert the string with Number";
  if (typeof dimensions !== "object" || dimensions === null || !("x" in dimensions)) return "";
  const { x, y = 1, z = 1 } = dimensions as Readonly<Record<"x" | "y" | "z", unknown>>;
  return [x, y, z].every((extent) => typeof extent === "number") ? `: [${x}, ${y}, ${z}]` : "";
}

/**
 * Returns advice to append to an error message for a `Dim3` with an extent that is not a whole number of at least 1.
 */
function adviceFor(dimensions: Dim3, what: "grid" | "block" | "cluster"): string {
  const extents = typeof dimensions === "number" ? [dimensions] : dimensions;
  if (extents.some((extent) => extent === 0)) {
    return what === "cluster" ? "; leave it out to launch without clusters" : "; skip a launch that has nothing to do";
  }
  if (extents.some((extent) => Number.isNaN(extent))) return "; a calculation with undefined results in NaN";
  const isFraction = (extent?: number) => Number.isFinite(extent) && !Number.isInteger(extent);
  return extents.some(isFraction) ? "; round up with Math.ceil" : "";
}

/** Formats extents: "4", or "4 x 2 x 1". */
export function formatShape(dimensions: Dim3): string {
  return typeof dimensions === "number"
    ? String(dimensions)
    : Array.from(dimensions, (extent, axis) => axis > 0 && extent === undefined ? 1 : extent).join(" x ");
}

/** Describes the device limit that a launch exceeds; undefined if it exceeds none. */
export function exceededLimit(
  device: CudaDevice,
  { grid, block }: LaunchOptions,
): string | undefined {
  const [blocks, threads] = [extentsOf(grid), extentsOf(block)];
  const sizes: [DeviceAttributeName, number][] = [
    ["maxThreadsPerBlock", threads[0] * threads[1] * threads[2]],
    ["maxBlockDimX", threads[0]],
    ["maxBlockDimY", threads[1]],
    ["maxBlockDimZ", threads[2]],
    ["maxGridDimX", blocks[0]],
    ["maxGridDimY", blocks[1]],
    ["maxGridDimZ", blocks[2]],
  ];
  const exceeded = sizes.find(([name, size]) => size > device.attribute(name));
  return exceeded && `the device's attribute("${exceeded[0]}") is ${device.attribute(exceeded[0])}`;
}

/** Returns the extents in x, y and z, with 0 for those that are not valid. */
export function extentsOf(dimensions: Dim3): [x: number, y: number, z: number] {
  return [extentOf(dimensions, 0), extentOf(dimensions, 1), extentOf(dimensions, 2)];
}
