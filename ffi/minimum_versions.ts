/**
 * Which CUDA version first had a function or an option, so that an older driver's user is told what is needed.
 *
 * @module
 */
import { cudaErrorNumbers } from "../src/support/cuda_error_codes.ts";
import { CudaError } from "../src/support/errors.ts";
import { formatVersion } from "../src/support/version.ts";

/** 11020 for CUDA 11.2. Those functions of `ffi/cuda.ts` that CUDA 10.0 had are left out. */
export const minimumVersions: Readonly<Record<string, number>> = {
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
};

/** What the struct of a pool's properties first had room for in CUDA 12.2. */
export const minimumVersionOfPoolOptions = 12020;

/** The error of calling a function that the installed library, of a version, has not. */
export function missingFunction(name: string, version: number): CudaError {
  const first = minimumVersions[name] ?? 0;
  if (first > version) return newerNeeded(name, { what: name, first, version });
  const message = `the installed library, of CUDA ${formatVersion(version)}, has no ${name}`;
  return new CudaError(cudaErrorNumbers.cudaErrorNotSupported, name, message);
}

/** The error of asking an older library for what came later. */
export function newerNeeded(
  call: string,
  { what, first, version, library = "driver" }: { what: string; first: number; version: number; library?: string },
): CudaError {
  const message = `${what} needs CUDA ${formatVersion(first)}, and the installed ${library} is of CUDA ` +
    `${formatVersion(version)}; install a newer ${library}`;
  return new CudaError(cudaErrorNumbers.cudaErrorCallRequiresNewerDriver, call, message);
}
