/**
 * Tests of the checks of kernels, by pairs of a correct and an incorrect kernel.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { CudaError, open, type SanitizerCheck, type SanitizerReport } from "../../mod.ts";

/** How a kernel is launched. */
export interface KernelLaunch {
  /** Default: 1 block, of 32 threads. */
  readonly grid?: number;
  readonly block?: number | readonly [number, number];
  readonly sharedMemoryBytes?: number;
  readonly cooperative?: boolean;
  /** Whether the device stops it. */
  readonly fails?: boolean;
}

const elements = 1024;

/**
 * Launches a kernel that takes two arrays of 1024 integers, from 1 on and zeros, and the number of threads. Returns the
 * reports, each as often as it was made with other stacks.
 *
 * @param ptx the PTX, or its file
 */
export function reportsOf(
  ptx: string | URL,
  kernel: string,
  { check, grid = 1, block = 32, sharedMemoryBytes = 0, cooperative = false, fails = false }: KernelLaunch & {
    readonly check: SanitizerCheck;
  },
): SanitizerReport[] {
  const reports: SanitizerReport[] = [];
  using cuda = open({ driver: "software", sanitize: [check], onReport: (report) => reports.push(report) });
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using stream = gpu.createStream();
  using input = pool.allocateArray(Int32Array, elements, stream);
  using output = pool.allocateArray(Int32Array, elements, stream);
  input.copyFrom(Int32Array.from({ length: elements }, (_, index) => index + 1));
  output.fill(0);
  using module = gpu.loadModule(typeof ptx === "string" ? ptx : readFileSync(ptx, "utf8"));
  const [x, y] = typeof block === "number" ? [block, 1] : block;
  const options = { grid, block: [x, y, 1], stream, sharedMemoryBytes, cooperative } as const;
  module.kernel(kernel).launch(options, input, output, grid * x * y);
  try {
    stream.synchronize();
  } catch (error) {
    if (!fails || !(error instanceof CudaError)) throw error;
  }
  return reports;
}
