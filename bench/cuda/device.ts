/**
 * What is measured on.
 *
 * @module
 */
import { type CudaDevice, CudaError, open } from "../../mod.ts";

/** The first device, and what drives it. */
export interface DeviceDescription {
  readonly name: string;
  readonly uuid: string;
  readonly isSoftware: boolean;
  /** "13.0", say. */
  readonly driverVersion: string;
  /** Of libcudart; undefined where the driver library serves alone. */
  readonly runtimeVersion: string | undefined;
  /** Bytes for each second that the memory can move, by its clock and the width of its bus. */
  readonly memoryPeak: number | undefined;
  /** How many devices there are. */
  readonly count: number;
}

/** Looks at the device, and leaves it. */
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

/** Not every driver tells it. */
function memoryPeakOf(device: CudaDevice): number | undefined {
  try {
    // Kilohertz, and twice in each of its cycles; bits.
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
