/**
 * The host's clock and the device's, looked at together.
 *
 * @module
 */
import type { CudaKernel, CudaStream, DeviceBuffer } from "../../mod.ts";

/** Each look is off by as much as a launch takes; the best of them are what counts. */
const looks = 50;

/** Bytes that `lookAtClocks` needs on the device. */
export const clocksByteLength: number = looks * 8;

/** The device's time between two of the host's. */
export type Look = readonly [before: number, device: bigint, after: number];

/** Nanoseconds of this process. */
export function now(): number {
  return Math.round(performance.now() * 1e6);
}

/** Lets a kernel read the clock, again and again. */
export async function lookAtClocks(
  readClock: CudaKernel,
  { times, stream }: { times: DeviceBuffer; stream: CudaStream },
): Promise<Look[]> {
  const around: [before: number, after: number][] = [];
  for (let i = 0; i < looks; i++) {
    const before = now();
    readClock.launch({ grid: 1, block: 1, stream }, times, i);
    stream.synchronize();
    around.push([before, now()]);
  }
  const words = await times.read(BigUint64Array, { stream });
  return around.map(([before, after], i) => [before, words[i]!, after]);
}
