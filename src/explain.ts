import { CudaError } from "./errors.ts";

const advice: Readonly<Record<string, string>> = {
  cudaErrorMemoryAllocation: "free memory or ask for less",
  cudaErrorInvalidDeviceFunction: "build the module for this device, or load its PTX",
  cudaErrorUnsupportedPtxVersion: "build the PTX with an older nvcc, or install a newer driver",
  cudaErrorIllegalAddress: "the device's context is lost, end this process",
  cudaErrorMisalignedAddress: "the device's context is lost, end this process",
  cudaErrorLaunchFailure: "the device's context is lost, end this process",
  cudaErrorAssert: "the device's context is lost, end this process",
};

/**
 * The error to throw when a driver call that was to do something failed.
 *
 * @param what What was being done to what: "allocate 4 bytes from the pool on device 0".
 */
export function cannot(what: string, error: unknown, hint?: string): unknown {
  if (!(error instanceof CudaError)) return error;
  const tried = hint ?? advice[error.code];
  const message = `Cannot ${what}: ${error.message}${tried === undefined ? "" : `; ${tried}`}`;
  return new CudaError(error.number, error.call, message, { cause: error });
}
