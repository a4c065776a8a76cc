import { startStackAbove } from "./printing.ts";
import { CudaError } from "./errors.ts";
import { contextIsLost, explainLoss, noteMadeFrom, noteUnseen } from "./lost_devices.ts";

/** By the code of each error after which the device's context is lost: whether a kernel of the process has caused it. */
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
/** The driver's errors whose messages say where the fault is. */
const located = new WeakSet<CudaError>();
/** What to try, by error code, if the caller of `cannot` gives no hint. */
const fallbackAdvice: Readonly<Record<string, string>> = {
  cudaErrorMemoryAllocation: "free memory or ask for less",
  cudaErrorInvalidDeviceFunction: "build the module for this device, or load its PTX",
  cudaErrorUnsupportedPtxVersion: "build the PTX with an older nvcc, or install a newer driver",
  cudaErrorNotSupported: "see CudaDevice.attribute for what the device supports",
};
/** What to try, by error code, for every call. Undefined if the error's own message already says it. */
const overridingAdvice: Readonly<Record<string, string | undefined>> = {
  cudaErrorOperatingSystem: "the process may have run out of file descriptors: close some, or raise ulimit -n",
  cudaErrorCallRequiresNewerDriver: undefined,
};

/**
 * The driver's errors from which `cannot` has made others. Not their `cause`: the message repeats all that they say, and
 * runtimes print the stack of every cause of an uncaught error.
 */
const driverErrors = new WeakMap<CudaError, CudaError>();

/**
 * The error to throw when a driver call failed: a `CudaError` that says what could not be done, why, and what to try.
 * Its cause is that of the driver's error, such as an error of the system. An error that is not a `CudaError` is
 * returned unchanged.
 *
 * @param what What was being done, as it follows "Cannot": "allocate 4 bytes from the pool on device 0".
 * @param hint What to try, unless other advice holds for every call with this error.
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
  // The stack starts where the call failed, and so does the excerpt that runtimes print of the source.
  startStackAbove(failed, cannot);
  driverErrors.set(failed, error);
  noteMadeFrom(failed, error);
  return failed;
}

function adviceFor(what: string, error: CudaError, hint: string | undefined): string | undefined {
  const { code } = error;
  if (isLoss(error)) {
    // The message of an error that `cannot` has made says it already.
    if (driverErrorOf(error) !== error) return undefined;
    return losses[code] && !located.has(error) ? explainLoss(what, error) : contextIsLost;
  }
  return Object.hasOwn(overridingAdvice, code) ? overridingAdvice[code] : hint ?? fallbackAdvice[code];
}

/** Records that the message of a driver's error says where the fault is. Returns the error. */
export function locatesFault(error: CudaError): CudaError {
  located.add(error);
  return error;
}

/** What to try if another process's memory or event, `what`, could not be opened. */
export function openingHint(error: unknown, what: string): string {
  if (error instanceof CudaError && error.code === "cudaErrorDeviceUninitialized") {
    return "a process cannot open what it has exported itself: open it in another process";
  }
  return `it must be the result of exportHandle in another process that still has the ${what}`;
}

/** The driver's own error from which `cannot` made this one, for a caller that can explain it better. */
export function driverErrorOf(error: unknown): unknown {
  return error instanceof CudaError ? driverErrors.get(error) ?? error : error;
}

/** Whether an error means that the device's context is lost. */
export function isLoss(error: unknown): boolean {
  return error instanceof CudaError && Object.hasOwn(losses, error.code);
}

/**
 * An error's message, without what concerns this process alone: the launches that may have lost a device, or the fault
 * itself, which names kernels, addresses and this program's files.
 */
export function messageForPeers(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  if (!isLoss(error)) return message;
  let root = error as CudaError;
  for (let from = driverErrors.get(root); from !== undefined; from = driverErrors.get(root)) root = from;
  if (located.has(root)) return `${root.call} failed: ${root.code} (${root.number})`;
  return message.split("\n", 1)[0]!;
}

/** Thrown when an object is used after the `Cuda` object that created it was disposed. */
export class EndedError extends ReferenceError {
  static {
    // An uncaught error is printed with the name of its class. Users know this one as a ReferenceError.
    Object.defineProperty(this, "name", { value: "ReferenceError" });
  }
}

/**
 * Runs a cleanup, and ignores a lost context or a disposed `Cuda`: the resource is gone already, and throwing from a
 * `using` block would hide the first error. The loss of a context has been thrown before, or the next wait throws it.
 */
export function ignoreLoss(release: () => void): void {
  try {
    release();
  } catch (error) {
    if (!(error instanceof EndedError || isLoss(error))) throw error;
    noteUnseen(error);
  }
}
