/**
 * The first CUDA version that has a function or an option, so that an error on an older driver can say what is needed.
 *
 * @module
 */
import { cudaErrorNumbers } from "../src/support/cuda_error_codes.ts";
import { CudaError } from "../src/support/errors.ts";
import { formatVersion } from "../src/support/version.ts";

/**
 * The version by function: 11020 stands for CUDA 11.2. Functions of libcuda that CUDA 10.0 already has are left out.
 */
export const minimumVersions: Readonly<Record<string, number>> = {
  cuMemGetAllocationGranularity: 10020,
  cuMemCreate: 10020,
  cuMemRelease: 10020,
  cuMemExportToShareableHandle: 10020,
  cuMemImportFromShareableHandle: 10020,
  cuMemGetAllocationPropertiesFromHandle: 10020,
  cuMemAddressReserve: 10020,
  cuMemAddressFree: 10020,
  cuMemMap: 10020,
  cuMemUnmap: 10020,
  cuMemSetAccess: 10020,
  cuMemGetAccess: 10020,

  cuDevicePrimaryCtxRelease_v2: 11000,
  cuIpcOpenMemHandle_v2: 11000,

  cuMemAllocFromPoolAsync: 11020,
  cuMemFreeAsync: 11020,
  cuDeviceGetDefaultMemPool: 11020,
  cuDeviceGetMemPool: 11020,
  cuDeviceSetMemPool: 11020,
  cuMemPoolCreate: 11020,
  cuMemPoolDestroy: 11020,
  cuMemPoolGetAttribute: 11020,
  cuMemPoolSetAttribute: 11020,
  cuMemPoolTrimTo: 11020,
  cuMemPoolGetAccess: 11020,
  cuMemPoolSetAccess: 11020,
  cuMemPoolExportToShareableHandle: 11020,
  cuMemPoolImportFromShareableHandle: 11020,
  cuMemPoolExportPointer: 11020,
  cuMemPoolImportPointer: 11020,

  cuDeviceGetUuid_v2: 11040,

  cuLaunchKernelEx: 11060,
  cuOccupancyMaxActiveClusters: 11070,

  cuFuncGetName: 12030,
  cuFuncGetParamInfo: 12040,
  cuModuleGetFunctionCount: 12040,
  cuModuleEnumerateFunctions: 12040,
  cuCtxRecordEvent: 12050,

  cuStreamGetDevice: 12080,
};

/** The first version whose pool properties struct has `maxSize` and locations other than a device. */
export const minimumVersionOfPoolOptions = 12020;

/** The error of calling a function that the installed library lacks. `version` is the library's. */
export function missingFunction(name: string, version: number): CudaError {
  const minimum = minimumVersions[name] ?? 0;
  if (minimum > version) return newerVersionNeeded(name, { what: name, minimum, version });
  const message = `the installed library for CUDA ${formatVersion(version)} has no ${name}`;
  return new CudaError(cudaErrorNumbers.cudaErrorNotSupported, name, message);
}

/** The error of using something that is newer than the installed library. `version` is the library's. */
export function newerVersionNeeded(
  call: string,
  { what, minimum, version, library = "driver" }: { what: string; minimum: number; version: number; library?: string },
): CudaError {
  const message = `${what} needs CUDA ${formatVersion(minimum)}, and the installed ${library} is for CUDA ` +
    `${formatVersion(version)}; install a newer ${library}`;
  return new CudaError(cudaErrorNumbers.cudaErrorCallRequiresNewerDriver, call, message);
}
