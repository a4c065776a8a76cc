import { CudaError } from "./errors.ts";

const lost = "the device's context is lost: nothing more can be done with CUDA in this process, end it";
/** What to try where a call gave an error. */
const advice: Readonly<Record<string, string>> = {
  cudaErrorMemoryAllocation: "free memory or ask for less",
  cudaErrorInvalidDeviceFunction: "build the module for this device, or load its PTX",
  cudaErrorUnsupportedPtxVersion: "build the PTX with an older nvcc, or install a newer driver",
  cudaErrorOperatingSystem: "the process may have no descriptor left: close some, or raise ulimit -n",
  cudaErrorNotSupported: "CudaDevice.attribute tells what a device supports",
  cudaErrorDeviceUninitialized: "what a process has exported it cannot open itself, only another process can",
  cudaErrorECCUncorrectable: lost,
  cudaErrorNvlinkUncorrectable: lost,
  cudaErrorContextIsDestroyed: lost,
  cudaErrorMpsClientTerminated: lost,
  cudaErrorIllegalAddress: lost,
  cudaErrorLaunchTimeout: lost,
  cudaErrorAssert: lost,
  cudaErrorHardwareStackError: lost,
  cudaErrorIllegalInstruction: lost,
  cudaErrorMisalignedAddress: lost,
  cudaErrorInvalidAddressSpace: lost,
  cudaErrorInvalidPc: lost,
  cudaErrorLaunchFailure: lost,
};

/**
 * The error to throw when a driver call that was to do something failed.
 *
 * @param what What was being done to what: "allocate 4 bytes from the pool on device 0".
 */
export function cannot(what: string, error: unknown, hint?: string): unknown {
  if (!(error instanceof CudaError)) return error;
  const usual = advice[error.code];
  const tried = usual === lost ? lost : hint ?? usual;
  const message = `Cannot ${what}: ${error.message}${tried === undefined ? "" : `; ${tried}`}`;
  return new CudaError(error.number, error.call, message, { cause: error });
}

/** Whether an error says that the device's context is lost. */
export function isLoss(error: unknown): boolean {
  return error instanceof CudaError && advice[error.code] === lost;
}

/** The `Cuda` object that something came from was disposed: it went with that. */
export class EndedError extends ReferenceError {}

/**
 * Gives something back. Where the device was lost meanwhile there is nothing to give back, and the error that says so has
 * been thrown already, or will be by the next wait: in a block of `using`s it must not hide the first one. Nor is there
 * after the end of all.
 */
export function giveBack(release: () => void): void {
  try {
    release();
  } catch (error) {
    if (!(error instanceof EndedError || isLoss(error))) throw error;
  }
}
