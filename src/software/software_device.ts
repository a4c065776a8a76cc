import { type DeviceAttributeName, deviceAttributes } from "../support/device_attributes.ts";
import { maxThreadsPerMultiProcessor, multiProcessorCount, warpSize } from "./abi/launch_record.ts";
import { memHandleType } from "../driver.ts";

/** The launch limits that `cudaDeviceGetAttribute` reports. */
export const launchLimits = {
  maxThreadsPerBlock: 1024,
  maxBlockDim: [1024, 1024, 64],
  maxGridDim: [2147483647, 65535, 65535],
  maxSharedMemoryPerBlock: 49152,
  /**
   * The maximum shared memory, in bytes, for kernels that opt in, or that declare more than `maxSharedMemoryPerBlock`
   * bytes.
   */
  maxSharedMemoryPerBlockOptin: 232448,
} as const;

/** The compute capability of the devices. */
export const computeCapability = { major: 9, minor: 0 } as const;
const maxBlocksPerMultiprocessor = 32;
const maxSharedMemoryPerMultiprocessor = 233472;
/** The number of bytes of shared memory that the system reserves in each block. */
const reservedSharedMemoryPerBlock = 1024;
/** The maximum pitch of a copy of rows in bytes. */
export const maxPitch: number = 2 ** 31 - 1;

/** Returns the attributes of a software device whose values are not 0. */
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
    warpSize,
    multiProcessorCount,
    maxThreadsPerMultiProcessor,
    maxBlocksPerMultiprocessor,
    maxPitch,
    ...textureLimits,
    computeCapabilityMajor: computeCapability.major,
    computeCapabilityMinor: computeCapability.minor,
    unifiedAddressing: 1,
    managedMemory: 1,
    clusterLaunch: 1,
    concurrentManagedAccess: 1,
    concurrentKernels: 1,
    cooperativeLaunch: 1,
    memoryPoolsSupported: 1,
    memoryPoolSupportedHandleTypes: sharing ? memHandleType.posixFileDescriptor | memHandleType.fabric : 0,
    hostMemoryPoolsSupported: 1,
    hostNumaMemoryPoolsSupported: 1,
    ipcEventSupport: sharing ? 1 : 0,
  };
}

/** The limits of textures and surfaces: those of an H100. */
export const textureLimits = {
  textureAlignment: 512,
  maxTexture1DWidth: 131072,
  maxTexture2DWidth: 131072,
  maxTexture2DHeight: 65536,
  maxTexture3DWidth: 16384,
  maxTexture3DHeight: 16384,
  maxTexture3DDepth: 16384,
  maxTexture2DLayeredWidth: 32768,
  maxTexture2DLayeredHeight: 32768,
  maxTexture2DLayeredLayers: 2048,
  surfaceAlignment: 512,
  maxTexture1DLayeredWidth: 32768,
  maxTexture1DLayeredLayers: 2048,
  maxTexture2DGatherWidth: 32768,
  maxTexture2DGatherHeight: 32768,
  maxTexture3DWidthAlt: 8192,
  maxTexture3DHeightAlt: 8192,
  maxTexture3DDepthAlt: 32768,
  texturePitchAlignment: 32,
  maxTextureCubemapWidth: 32768,
  maxTextureCubemapLayeredWidth: 32768,
  maxTextureCubemapLayeredLayers: 2046,
  maxSurface1DWidth: 32768,
  maxSurface2DWidth: 131072,
  maxSurface2DHeight: 65536,
  maxSurface3DWidth: 16384,
  maxSurface3DHeight: 16384,
  maxSurface3DDepth: 16384,
  maxSurface1DLayeredWidth: 32768,
  maxSurface1DLayeredLayers: 2048,
  maxSurface2DLayeredWidth: 32768,
  maxSurface2DLayeredHeight: 32768,
  maxSurface2DLayeredLayers: 2048,
  maxSurfaceCubemapWidth: 32768,
  maxSurfaceCubemapLayeredWidth: 32768,
  maxSurfaceCubemapLayeredLayers: 2046,
  maxTexture1DLinearWidth: 268435456,
  maxTexture2DLinearWidth: 131072,
  maxTexture2DLinearHeight: 65000,
  maxTexture2DLinearPitch: 2097120,
  maxTexture2DMipmappedWidth: 32768,
  maxTexture2DMipmappedHeight: 32768,
  maxTexture1DMipmappedWidth: 32768,
} as const;

/** Returns the value of the `cudaDeviceAttr` attribute with a number, or undefined if there is no such attribute. */
export function softwareAttribute(number: number, { sharing }: { sharing: boolean }): number | undefined {
  const entry = Object.entries(deviceAttributes).find(([, value]) => value === number);
  return entry === undefined ? undefined : attributeValues(sharing)[entry[0] as DeviceAttributeName] ?? 0;
}

/**
 * Returns the maximum dynamic shared memory, in bytes, of a block of a kernel that declares `staticBytes` of shared
 * memory and has not opted in to more.
 */
export function defaultDynamicSharedBytes(staticBytes: number): number {
  const { maxSharedMemoryPerBlock, maxSharedMemoryPerBlockOptin } = launchLimits;
  return (staticBytes <= maxSharedMemoryPerBlock ? maxSharedMemoryPerBlock : maxSharedMemoryPerBlockOptin) -
    staticBytes;
}

/** Returns the maximum number of blocks of `blockSize` threads that are resident on one multiprocessor. */
export function activeBlocks(blockSize: number, sharedMemoryBytes: number): number {
  if (blockSize > launchLimits.maxThreadsPerBlock) return 0;
  const byShared = Math.floor(maxSharedMemoryPerMultiprocessor / (sharedMemoryBytes + reservedSharedMemoryPerBlock));
  const byThreads = Math.floor(maxThreadsPerMultiProcessor / (Math.ceil(blockSize / warpSize) * warpSize));
  return Math.min(byThreads, maxBlocksPerMultiprocessor, byShared);
}

/** Returns the UUID of the software device with the given ordinal. The UUID is the same in every process. */
export function softwareUuid(ordinal: number): Uint8Array<ArrayBuffer> {
  const uuid = new TextEncoder().encode("poolpass software").slice(0, 16);
  uuid[15] = ordinal;
  return uuid;
}

/**
 * Returns the ordinals of the devices that `CUDA_VISIBLE_DEVICES` makes visible. As in CUDA, the variable lists
 * ordinals or prefixes of UUIDs, and the first entry that identifies no device and all entries after it are ignored.
 *
 * @param uuids the UUIDs of all devices, as strings
 */
export function visibleDevices(variable: string | undefined, uuids: readonly string[]): number[] {
  if (variable === undefined) return uuids.map((_, ordinal) => ordinal);
  const visible: number[] = [];
  for (const entry of variable.split(",").map((item) => item.trim())) {
    const matches = /^\d+$/.test(entry)
      ? uuids[Number(entry)] === undefined ? [] : [Number(entry)]
      : uuids.flatMap((uuid, ordinal) => entry.startsWith("GPU-") && uuid.startsWith(entry) ? [ordinal] : []);
    // CUDA's documentation requires a unique prefix, so a prefix of several UUIDs identifies no device.
    if (matches.length !== 1) break;
    // CUDA's documentation does not say what happens if a device is listed twice. In this case, no device is visible.
    if (visible.includes(matches[0]!)) return [];
    visible.push(matches[0]!);
  }
  return visible;
}
