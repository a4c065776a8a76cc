import { CudaError } from "./errors.ts";

const lost = "the device's context is lost: nothing more can be done with CUDA in this process, end it";
/** What to try where a call gave an error, if nothing is known of the call. */
const advice: Readonly<Record<string, string>> = {
  cudaErrorMemoryAllocation: "free memory or ask for less",
  cudaErrorInvalidDeviceFunction: "build the module for this device, or load its PTX",
  cudaErrorUnsupportedPtxVersion: "build the PTX with an older nvcc, or install a newer driver",
  cudaErrorNotSupported: "CudaDevice.attribute tells what a device supports",
};
/** What to try whatever the call was. Undefined where the error's own message says it. */
const certainAdvice: Readonly<Record<string, string | undefined>> = {
  cudaErrorOperatingSystem: "the process may have no descriptor left: close some, or raise ulimit -n",
  cudaErrorCallRequiresNewerDriver: undefined,
  cudaErrorECCUncorrectable: lost,
  cudaErrorNvlinkUncorrectable: lost,
  cudaErrorContained: lost,
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
  cudaErrorTensorMemoryLeak: lost,
  cudaErrorExternalDevice: lost,
};

/**
 * The error to throw when a driver call that was to do something failed.
 *
 * @param what What was being done to what: "allocate 4 bytes from the pool on device 0".
 */
export function cannot(what: string, error: unknown, hint?: string): unknown {
  if (!(error instanceof CudaError)) return error;
  const tried = Object.hasOwn(certainAdvice, error.code) ? certainAdvice[error.code] : hint ?? advice[error.code];
  const message = `Cannot ${what}: ${error.message}${tried === undefined ? "" : `; ${tried}`}`;
  return new CudaError(error.number, error.call, message, { cause: error });
}

/** What to try where something of another process could not be opened. */
export function openingHint(error: unknown, what: string): string {
  if (error instanceof CudaError && error.code === "cudaErrorDeviceUninitialized") {
    return "what a process has exported it cannot open itself, only another process can";
  }
  return `it must be what exportHandle gave in another process, which still has the ${what}`;
}

/** What the driver gave, of an error that `cannot` has made of it: whoever can say more of it begins from that. */
export function givenByDriver(error: unknown): unknown {
  return error instanceof CudaError && error.cause instanceof CudaError ? error.cause : error;
}

/** Whether an error says that the device's context is lost. */
export function isLoss(error: unknown): boolean {
  return error instanceof CudaError && certainAdvice[error.code] === lost;
}

/** The `Cuda` object that something came from was disposed: it went with that. */
export class EndedError extends ReferenceError {
  static {
    // What is printed of an uncaught error begins with its class: the user knows this one as a ReferenceError.
    Object.defineProperty(this, "name", { value: "ReferenceError" });
  }
}

/**
 * Gives something back. Where the device was lost meanwhile there is nothing to give back, and the error that says so has
 * been thrown already, or will be by the next wait: in a block of `using`s it must not hide the first one. Nor is there
 * after the end of all.
 */
export function ignoreLoss(release: () => void): void {
  try {
    release();
  } catch (error) {
    if (!(error instanceof EndedError || isLoss(error))) throw error;
  }
}
