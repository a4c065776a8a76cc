/**
 * Describes the machine that is measured.
 *
 * @module
 */
import { availableParallelism, cpus } from "node:os";
import { type CudaDevice, CudaError, open } from "../../mod.ts";

/** The first device and its driver. */
export interface DeviceDescription {
  readonly name: string;
  readonly uuid: string;
  readonly isSoftware: boolean;
  /** For example "13.0". */
  readonly driverVersion: string;
  /** The version of libcudart; undefined if only the driver library is used. */
  readonly runtimeVersion: string | undefined;
  /** The peak bandwidth of the memory in bytes per second, computed from its clock and the width of its bus. */
  readonly memoryPeak: number | undefined;
  /** The number of devices. */
  readonly count: number;
}

/** Describes the processor, such as "AMD EPYC, 2 cores". */
export function describeProcessor(): string {
  return `${cpus()[0]?.model ?? "unknown processor"}, ${availableParallelism()} cores`;
}

/** Describes the runtime of this program. */
export function describeRuntime(): string {
  return `Deno ${Deno.version.deno}, V8 ${Deno.version.v8}, ${Deno.build.target}`;
}

/** Opens the first device, describes it, and closes it. */
export function describeDevice(): DeviceDescription {
  using cuda = open();
  const device = cuda.device(0);
  return {
    name: device.name,
    uuid: device.uuid,
    isSoftware: cuda.driver === "software",
    driverVersion: formatVersion(cuda.driverVersion),
    runtimeVersion: cuda.runtimeVersion === undefined ? undefined : formatVersion(cuda.runtimeVersion),
    memoryPeak: cuda.driver === "software" ? undefined : memoryPeakOf(device),
    count: cuda.devices.length,
  };
}

/** Returns undefined if the driver does not report it. */
function memoryPeakOf(device: CudaDevice): number | undefined {
  try {
    // The clock is in kHz, with two transfers per cycle; the width is in bits.
    const clock = device.attribute("memoryClockRate");
    const width = device.attribute("globalMemoryBusWidth");
    return clock > 0 && width > 0 ? clock * 1000 * 2 * width / 8 : undefined;
  } catch (error) {
    if (error instanceof CudaError) return undefined;
    throw error;
  }
}

function formatVersion(version: number): string {
  return `${Math.floor(version / 1000)}.${version % 1000 / 10}`;
}
