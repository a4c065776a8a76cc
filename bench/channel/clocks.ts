/**
 * Samples of the host's clock and the device's clock, taken together.
 *
 * @module
 */
import type { CudaKernel, CudaStream, DeviceBuffer } from "../../mod.ts";

/** The error of a sample is up to the duration of a launch, so many samples are taken and the best ones count. */
const sampleCount = 50;

/** The number of bytes that `sampleClocks` needs on the device. */
export const clocksByteLength: number = sampleCount * 8;

/** A time of the device between two times of the host. */
export type ClockSample = readonly [before: number, device: bigint, after: number];

/** Returns the time of this process in nanoseconds. */
export function now(): number {
  return Math.round(performance.now() * 1e6);
}

/** Reads the device's clock repeatedly with a kernel. */
export async function sampleClocks(
  readClock: CudaKernel,
  { times, stream }: { times: DeviceBuffer; stream: CudaStream },
): Promise<ClockSample[]> {
  const around: [before: number, after: number][] = [];
  for (let i = 0; i < sampleCount; i++) {
    const before = now();
    readClock.launch({ grid: 1, block: 1, stream }, times, i);
    stream.synchronize();
    around.push([before, now()]);
  }
  const words = await times.read(BigUint64Array, { stream });
  return around.map(([before, after], i) => [before, words[i]!, after]);
}
