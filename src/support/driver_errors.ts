import { startStackAbove } from "./printing.ts";
import { startStackAtProgram } from "./program_errors.ts";
import { CudaError } from "./errors.ts";
import { contextIsLost, explainLoss, noteMadeFrom, noteUnseen, softwareContextIsLost } from "./lost_devices.ts";

/**
 * The codes of the errors after which the device's context is lost. The value states whether a kernel of this process
 * caused the error.
 */
const losses: Readonly<Record<string, boolean>> = {
  cudaErrorECCUncorrectable: false,
  cudaErrorNvlinkUncorrectable: false,
  cudaErrorContained: false,
  cudaErrorContextIsDestroyed: false,
  cudaErrorMpsClientTerminated: false,
  cudaErrorExternalDevice: false,
  cudaErrorIllegalAddress: true,
  cudaErrorLaunchTimeout: true,
  cudaErrorAssert: true,
  cudaErrorHardwareStackError: true,
  cudaErrorIllegalInstruction: true,
  cudaErrorMisalignedAddress: true,
  cudaErrorInvalidAddressSpace: true,
  cudaErrorInvalidPc: true,
  cudaErrorLaunchFailure: true,
  cudaErrorTensorMemoryLeak: true,
};
/** The driver's errors whose messages already state where the fault is. */
const located = new WeakSet<CudaError>();
/** Maps error codes to the advice that `cannot` gives if its caller passes no hint. */
const fallbackAdvice: Readonly<Record<string, string>> = {
  cudaErrorMemoryAllocation: "free memory or ask for less",
  cudaErrorInvalidDeviceFunction: "build the module for this device, or load its PTX",
  cudaErrorUnsupportedPtxVersion: "build the PTX with an older nvcc, or install a newer driver",
  cudaErrorNotSupported: "see CudaDevice.attribute for what the device supports",
};
/**
 * Maps error codes to advice that replaces the `hint` passed to `cannot`. The value is undefined if the error's own
 * message already contains advice.
 */
const overridingAdvice: Readonly<Record<string, string | undefined>> = {
  cudaErrorOperatingSystem: "the process may have run out of file descriptors: close some, or raise ulimit -n",
  cudaErrorCallRequiresNewerDriver: undefined,
};

/**
 * Maps each error that `cannot` has created to the driver's error. The driver's error is not stored as `cause`, because
 * the new message repeats all of it, and runtimes print the stack of every cause of an uncaught error.
 */
const driverErrors = new WeakMap<CudaError, CudaError>();

/**
 * Returns the error to throw for a failed driver call: a `CudaError` whose message states the action, the reason, and
 * advice. It has the same `cause` as the driver's error, such as a system error. An error that is not a `CudaError` is
 * returned unchanged.
 *
 * @param what The failed action, phrased to follow "Cannot": "allocate 4 bytes from the pool on device 0".
 * @param hint The advice, unless `overridingAdvice` has an entry for the error.
 */
export function cannot(what: string, error: unknown, hint?: string): unknown {
  if (!(error instanceof CudaError)) return error;
  const advice = adviceFor(what, error, hint);
  const message = `Cannot ${what}: ${error.message}${advice === undefined ? "" : `; ${advice}`}`;
  const failed = new CudaError(
    error.number,
    error.call,
    message,
    { code: error.code, ..."cause" in error ? { cause: error.cause } : {} },
  );
  // Makes the stack, and the source excerpt that runtimes print, begin at the failed call.
  startStackAtProgram(startStackAbove(failed, cannot));
  driverErrors.set(failed, error);
  noteMadeFrom(failed, error);
  return failed;
}

function adviceFor(what: string, error: CudaError, hint: string | undefined): string | undefined {
  const { code } = error;
  if (isLoss(error)) {
    // An error that `cannot` created already states that the context is lost.
    if (driverErrorOf(error) !== error) return undefined;
    // Only the software device's messages state where the fault is.
    if (located.has(error)) return softwareContextIsLost;
    return losses[code] ? explainLoss(what, error) : contextIsLost;
  }
  return Object.hasOwn(overridingAdvice, code) ? overridingAdvice[code] : hint ?? fallbackAdvice[code];
}

/** Records that the message of a driver's error states where the fault is. Returns the error. */
export function locatesFault(error: CudaError): CudaError {
  located.add(error);
  return error;
}

/** Returns advice for a failure to open the memory or event of another process. `what` is "memory" or "event". */
export function openingHint(error: unknown, what: string): string {
  if (error instanceof CudaError && error.code === "cudaErrorDeviceUninitialized") {
    return "a process cannot open what it has exported itself: open it in another process";
  }
  return `it must be the result of exportHandle in another process that still has the ${what}`;
}

/** Returns the driver's error from which `cannot` created the given error. Returns other errors unchanged. */
export function driverErrorOf(error: unknown): unknown {
  return error instanceof CudaError ? driverErrors.get(error) ?? error : error;
}

/** Returns whether an error means that the device's context is lost. */
export function isLoss(error: unknown): boolean {
  return error instanceof CudaError && Object.hasOwn(losses, error.code);
}

/**
 * Returns an error's message without the parts that concern only this process: the launches that may have lost a
 * device, or the fault itself, which names kernels, addresses and files of this program.
 */
export function messageForPeers(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  if (!isLoss(error)) return message;
  let root = error as CudaError;
  for (let from = driverErrors.get(root); from !== undefined; from = driverErrors.get(root)) root = from;
  if (located.has(root)) return `${root.call} failed: ${root.code} (${root.number})`;
  return message.split("\n", 1)[0]!;
}

/** The error for using an object after the `Cuda` object that created it was disposed. */
export class EndedError extends ReferenceError {
  static {
    // Sets the name, because uncaught errors are printed with their class's name, and this class is documented as a
    // ReferenceError.
    Object.defineProperty(this, "name", { value: "ReferenceError" });
  }
}

/**
 * Runs a cleanup, and ignores the errors of a lost context or a disposed `Cuda` object: the resource is gone already,
 * and an error thrown from a `using` block would hide the first one. An error about the lost context was thrown
 * earlier, or will be thrown by the next wait.
 */
export function ignoreLoss(release: () => void): void {
  try {
    release();
  } catch (error) {
    if (!(error instanceof EndedError || isLoss(error))) throw error;
    noteUnseen(error);
  }
}
