import { type DeviceAttributeName, deviceAttributes } from "../support/device_attributes.ts";
import { memHandleType } from "../driver.ts";

/** Limits of a launch, as `cudaDeviceGetAttribute` tells them. */
export const launchLimits = {
  maxThreadsPerBlock: 1024,
  maxBlockDim: [1024, 1024, 64],
  maxGridDim: [2147483647, 65535, 65535],
  maxSharedMemoryPerBlock: 49152,
  /** For kernels whose own shared memory is more than that. */
  maxSharedMemoryPerBlockOptin: 232448,
} as const;

const multiProcessorCount = 4;
const maxThreadsPerMultiProcessor = 2048;
const maxBlocksPerMultiprocessor = 32;
const maxSharedMemoryPerMultiprocessor = 233472;
/** What the system takes for itself of a block's shared memory. */
const reservedSharedMemoryPerBlock = 1024;

/** What a software device says of itself; an attribute that is not here is 0. */
function attributeValues(sharing: boolean): Partial<Record<DeviceAttributeName, number>> {
  return {
    maxThreadsPerBlock: launchLimits.maxThreadsPerBlock,
    maxBlockDimX: launchLimits.maxBlockDim[0],
    maxBlockDimY: launchLimits.maxBlockDim[1],
    maxBlockDimZ: launchLimits.maxBlockDim[2],
    maxGridDimX: launchLimits.maxGridDim[0],
    maxGridDimY: launchLimits.maxGridDim[1],
    maxGridDimZ: launchLimits.maxGridDim[2],
    maxSharedMemoryPerBlock: launchLimits.maxSharedMemoryPerBlock,
    maxSharedMemoryPerBlockOptin: launchLimits.maxSharedMemoryPerBlockOptin,
    maxSharedMemoryPerMultiprocessor,
    warpSize: 32,
    multiProcessorCount,
    maxThreadsPerMultiProcessor,
    maxBlocksPerMultiprocessor,
    computeCapabilityMajor: 9,
    computeCapabilityMinor: 0,
    unifiedAddressing: 1,
    concurrentKernels: 1,
    memoryPoolsSupported: 1,
    memoryPoolSupportedHandleTypes: sharing ? memHandleType.posixFileDescriptor | memHandleType.fabric : 0,
    hostMemoryPoolsSupported: 1,
    hostNumaMemoryPoolsSupported: 1,
    ipcEventSupport: sharing ? 1 : 0,
  };
}

/** The value of an attribute by its number, or undefined where there is no such attribute. */
export function softwareAttribute(number: number, { sharing }: { sharing: boolean }): number | undefined {
  const entry = Object.entries(deviceAttributes).find(([, value]) => value === number);
  return entry === undefined ? undefined : attributeValues(sharing)[entry[0] as DeviceAttributeName] ?? 0;
}

/** The most shared memory that a block can have whose kernel declares so much of its own. */
export function maxSharedMemoryOf(declaredBytes: number): number {
  const { maxSharedMemoryPerBlock, maxSharedMemoryPerBlockOptin } = launchLimits;
  return declaredBytes <= maxSharedMemoryPerBlock ? maxSharedMemoryPerBlock : maxSharedMemoryPerBlockOptin;
}

/** How many blocks of a size fit on one multiprocessor. */
export function activeBlocks(blockSize: number, sharedMemoryBytes: number): number {
  if (blockSize > launchLimits.maxThreadsPerBlock) return 0;
  const byShared = Math.floor(maxSharedMemoryPerMultiprocessor / (sharedMemoryBytes + reservedSharedMemoryPerBlock));
  return Math.min(Math.floor(maxThreadsPerMultiProcessor / blockSize), maxBlocksPerMultiprocessor, byShared);
}

/** The UUID of the software device with an ordinal: the same in every process. */
export function softwareUuid(ordinal: number): Uint8Array<ArrayBuffer> {
  const uuid = new TextEncoder().encode("poolpass software").slice(0, 16);
  uuid[15] = ordinal;
  return uuid;
}

/**
 * The devices that `CUDA_VISIBLE_DEVICES` leaves visible, as CUDA reads it: ordinals or the begins of UUIDs, up to the
 * first that names no device.
 *
 * @param uuids of all devices, as text
 */
export function visibleDevices(variable: string | undefined, uuids: readonly string[]): number[] {
  if (variable === undefined) return uuids.map((_, ordinal) => ordinal);
  const visible: number[] = [];
  for (const entry of variable.split(",").map((text) => text.trim())) {
    const matches = /^\d+$/.test(entry)
      ? uuids[Number(entry)] === undefined ? [] : [Number(entry)]
      : uuids.flatMap((uuid, ordinal) => entry.startsWith("GPU-") && uuid.startsWith(entry) ? [ordinal] : []);
    // The begin of more than one UUID names no device, as CUDA's documentation has it: it must be unique.
    if (matches.length !== 1) break;
    // Of a device that is named twice it says nothing: the driver shows none at all then.
    if (visible.includes(matches[0]!)) return [];
    visible.push(matches[0]!);
  }
  return visible;
}
