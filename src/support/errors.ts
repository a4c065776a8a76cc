/**
 * The errors that poolpass throws besides `TypeError`, `RangeError` and `ReferenceError`, the numbers of `enum
 * cudaError` from `driver_types.h` of CUDA 13.0, and functions that run several steps and collect their errors.
 *
 * @module
 */
import { escapeControls, escapeControlsInLines, type JsonFields, nameClass, writeAsJson } from "./printing.ts";
import { startStackAtProgram } from "./program_errors.ts";

/** The number of each `cudaError` by its name. */
export const cudaErrorNumbers = {
  cudaSuccess: 0,
  cudaErrorInvalidValue: 1,
  cudaErrorMemoryAllocation: 2,
  cudaErrorInitializationError: 3,
  cudaErrorCudartUnloading: 4,
  cudaErrorProfilerDisabled: 5,
  cudaErrorProfilerNotInitialized: 6,
  cudaErrorProfilerAlreadyStarted: 7,
  cudaErrorProfilerAlreadyStopped: 8,
  cudaErrorInvalidConfiguration: 9,
  cudaErrorInvalidPitchValue: 12,
  cudaErrorInvalidSymbol: 13,
  cudaErrorInvalidHostPointer: 16,
  cudaErrorInvalidDevicePointer: 17,
  cudaErrorInvalidTexture: 18,
  cudaErrorInvalidTextureBinding: 19,
  cudaErrorInvalidChannelDescriptor: 20,
  cudaErrorInvalidMemcpyDirection: 21,
  cudaErrorAddressOfConstant: 22,
  cudaErrorTextureFetchFailed: 23,
  cudaErrorTextureNotBound: 24,
  cudaErrorSynchronizationError: 25,
  cudaErrorInvalidFilterSetting: 26,
  cudaErrorInvalidNormSetting: 27,
  cudaErrorMixedDeviceExecution: 28,
  cudaErrorNotYetImplemented: 31,
  cudaErrorMemoryValueTooLarge: 32,
  cudaErrorStubLibrary: 34,
  cudaErrorInsufficientDriver: 35,
  cudaErrorCallRequiresNewerDriver: 36,
  cudaErrorInvalidSurface: 37,
  cudaErrorDuplicateVariableName: 43,
  cudaErrorDuplicateTextureName: 44,
  cudaErrorDuplicateSurfaceName: 45,
  cudaErrorDevicesUnavailable: 46,
  cudaErrorIncompatibleDriverContext: 49,
  cudaErrorMissingConfiguration: 52,
  cudaErrorPriorLaunchFailure: 53,
  cudaErrorLaunchMaxDepthExceeded: 65,
  cudaErrorLaunchFileScopedTex: 66,
  cudaErrorLaunchFileScopedSurf: 67,
  cudaErrorSyncDepthExceeded: 68,
  cudaErrorLaunchPendingCountExceeded: 69,
  cudaErrorInvalidDeviceFunction: 98,
  cudaErrorNoDevice: 100,
  cudaErrorInvalidDevice: 101,
  cudaErrorDeviceNotLicensed: 102,
  cudaErrorSoftwareValidityNotEstablished: 103,
  cudaErrorStartupFailure: 127,
  cudaErrorInvalidKernelImage: 200,
  cudaErrorDeviceUninitialized: 201,
  cudaErrorMapBufferObjectFailed: 205,
  cudaErrorUnmapBufferObjectFailed: 206,
  cudaErrorArrayIsMapped: 207,
  cudaErrorAlreadyMapped: 208,
  cudaErrorNoKernelImageForDevice: 209,
  cudaErrorAlreadyAcquired: 210,
  cudaErrorNotMapped: 211,
  cudaErrorNotMappedAsArray: 212,
  cudaErrorNotMappedAsPointer: 213,
  cudaErrorECCUncorrectable: 214,
  cudaErrorUnsupportedLimit: 215,
  cudaErrorDeviceAlreadyInUse: 216,
  cudaErrorPeerAccessUnsupported: 217,
  cudaErrorInvalidPtx: 218,
  cudaErrorInvalidGraphicsContext: 219,
  cudaErrorNvlinkUncorrectable: 220,
  cudaErrorJitCompilerNotFound: 221,
  cudaErrorUnsupportedPtxVersion: 222,
  cudaErrorJitCompilationDisabled: 223,
  cudaErrorUnsupportedExecAffinity: 224,
  cudaErrorUnsupportedDevSideSync: 225,
  cudaErrorContained: 226,
  cudaErrorInvalidSource: 300,
  cudaErrorFileNotFound: 301,
  cudaErrorSharedObjectSymbolNotFound: 302,
  cudaErrorSharedObjectInitFailed: 303,
  cudaErrorOperatingSystem: 304,
  cudaErrorInvalidResourceHandle: 400,
  cudaErrorIllegalState: 401,
  cudaErrorLossyQuery: 402,
  cudaErrorSymbolNotFound: 500,
  cudaErrorNotReady: 600,
  cudaErrorIllegalAddress: 700,
  cudaErrorLaunchOutOfResources: 701,
  cudaErrorLaunchTimeout: 702,
  cudaErrorLaunchIncompatibleTexturing: 703,
  cudaErrorPeerAccessAlreadyEnabled: 704,
  cudaErrorPeerAccessNotEnabled: 705,
  cudaErrorSetOnActiveProcess: 708,
  cudaErrorContextIsDestroyed: 709,
  cudaErrorAssert: 710,
  cudaErrorTooManyPeers: 711,
  cudaErrorHostMemoryAlreadyRegistered: 712,
  cudaErrorHostMemoryNotRegistered: 713,
  cudaErrorHardwareStackError: 714,
  cudaErrorIllegalInstruction: 715,
  cudaErrorMisalignedAddress: 716,
  cudaErrorInvalidAddressSpace: 717,
  cudaErrorInvalidPc: 718,
  cudaErrorLaunchFailure: 719,
  cudaErrorCooperativeLaunchTooLarge: 720,
  cudaErrorTensorMemoryLeak: 721,
  cudaErrorNotPermitted: 800,
  cudaErrorNotSupported: 801,
  cudaErrorSystemNotReady: 802,
  cudaErrorSystemDriverMismatch: 803,
  cudaErrorCompatNotSupportedOnDevice: 804,
  cudaErrorMpsConnectionFailed: 805,
  cudaErrorMpsRpcFailure: 806,
  cudaErrorMpsServerNotReady: 807,
  cudaErrorMpsMaxClientsReached: 808,
  cudaErrorMpsMaxConnectionsReached: 809,
  cudaErrorMpsClientTerminated: 810,
  cudaErrorCdpNotSupported: 811,
  cudaErrorCdpVersionMismatch: 812,
  cudaErrorStreamCaptureUnsupported: 900,
  cudaErrorStreamCaptureInvalidated: 901,
  cudaErrorStreamCaptureMerge: 902,
  cudaErrorStreamCaptureUnmatched: 903,
  cudaErrorStreamCaptureUnjoined: 904,
  cudaErrorStreamCaptureIsolation: 905,
  cudaErrorStreamCaptureImplicit: 906,
  cudaErrorCapturedEvent: 907,
  cudaErrorStreamCaptureWrongThread: 908,
  cudaErrorTimeout: 909,
  cudaErrorGraphExecUpdateFailure: 910,
  cudaErrorExternalDevice: 911,
  cudaErrorInvalidClusterSize: 912,
  cudaErrorFunctionNotLoaded: 913,
  cudaErrorInvalidResourceType: 914,
  cudaErrorInvalidResourceConfiguration: 915,
  cudaErrorUnknown: 999,
  cudaErrorApiFailureBase: 10000,
} as const;

let namesByNumber: ReadonlyMap<number, string> | undefined;

/**
 * Returns CUDA's name for an error number: `"cudaErrorInvalidValue"` for 1. Returns `"cudaErrorUnknown"` for a number
 * that is not in the headers of CUDA 13.0, such as one of a newer driver.
 */
export function cudaErrorName(number: number): string {
  namesByNumber ??= new Map(Object.entries(cudaErrorNumbers).map(([name, number]) => [number, name]));
  return namesByNumber.get(number) ?? "cudaErrorUnknown";
}

/** The error of a failed CUDA call. */
export class CudaError extends Error {
  /** Always `"CudaError"`. */
  declare readonly name: "CudaError";
  /** CUDA's name for the error, such as `"cudaErrorInvalidValue"`; `"cudaErrorUnknown"` for a number without a name. */
  readonly code: string;
  /** CUDA's number for the error. */
  readonly number: number;
  /** The CUDA function that failed, such as `"cudaMemPoolImportPointer"`. */
  readonly call: string;

  static {
    nameErrors(this, "CudaError", ["code", "number", "call"]);
  }

  /**
   * Creates the error of a CUDA call that failed.
   *
   * @param number the `cudaError` that the call returned
   * @param call the name of the CUDA function
   * @param message the failed action and advice; by default, the names of the call and of the error
   * @param options the `cause`, and a `code` for an error that does not come from CUDA
   */
  constructor(number: number, call: string, message?: string, options: ErrorOptions & { readonly code?: string } = {}) {
    const { code = cudaErrorName(number) } = options;
    super(
      escapeControlsInLines(message ?? `${call} failed: ${code} (${number})`),
      "cause" in options ? { cause: options.cause } : undefined,
    );
    this.code = code;
    this.number = number;
    this.call = call;
  }
}

/** Returns the error of a call that also returned an explanation, as the PTX compiler does. */
export function explainedError(number: number, call: string, why: string): CudaError {
  return new CudaError(number, call, `${call} failed: ${cudaErrorName(number)}: ${why}`);
}

/**
 * The error thrown if CUDA cannot be used on this system: no permission, no driver, or no device. Other failures throw
 * other error classes.
 */
export class CudaUnavailableError extends Error {
  /** Always `"CudaUnavailableError"`. */
  declare readonly name: "CudaUnavailableError";

  static {
    nameErrors(this, "CudaUnavailableError", []);
  }
}

/**
 * The reason for a `SharingError`. New codes may be added.
 *
 * - `"peer-gone"`: the other process has exited, or has closed the connection; or a rank of a communicator has exited
 *   or aborted;
 * - `"timed-out"`: the other process did not send its greeting, or did not complete a message, in time; or not all
 *   ranks of a communicator took part;
 * - `"bad-message"`: the other process sent something that the protocol does not allow, or does not run poolpass;
 * - `"version-mismatch"`: the two processes have no protocol version in common;
 * - `"not-permitted"`: a user may not connect or may not use the socket's path, or other users could replace the
 *   socket;
 * - `"limit-exceeded"`: the other process, or this one, exceeded a limit; the message names the limit and its value;
 * - `"device-lost"`: the other process or this one has lost its device: its unfinished work will never finish;
 * - `"internal-error"`: the other process or this one failed to handle a message that was correct;
 * - `"device-not-visible"`: the memory is on a device that this process does not see;
 * - `"size-mismatch"`: the memory's size differs from the size that the other process stated;
 * - `"too-large"`: a pool allocation is too large for any process to import; the message says what can be shared
 *   instead;
 * - `"address-in-use"`: another file or another listener is at the path;
 * - `"path-too-long"`: a socket's path is longer than 107 bytes in UTF-8;
 * - `"not-found"`: there is no such file or folder, or the offer was withdrawn or never made;
 * - `"not-listening"`: there is a file at the path, but no process listens there;
 * - `"cut-off"`: the exporter has asked for its memory back, or has disconnected an importer that kept it; or this
 *   process has aborted or shrunk a communicator with unfinished collectives;
 * - `"out-of-descriptors"`: the process may open no more descriptors;
 * - `"not-supported"`: the system, or this build for it, lacks something that sharing needs;
 * - `"in-use"`: other processes have the memory mapped, so that it cannot be moved;
 * - `"incompatible"`: weights were made by a version of a library, or for a device, that this process does not have;
 * - `"layout-changed"`: the newest generation of weights has other tensors, or has them at other places in the memory;
 * - `"digest-mismatch"`: the bytes in memory are not those whose digest was stated.
 */
export type SharingErrorCode =
  | "peer-gone"
  | "timed-out"
  | "bad-message"
  | "version-mismatch"
  | "not-permitted"
  | "limit-exceeded"
  | "device-lost"
  | "internal-error"
  | "device-not-visible"
  | "size-mismatch"
  | "too-large"
  | "address-in-use"
  | "path-too-long"
  | "not-found"
  | "not-listening"
  | "cut-off"
  | "out-of-descriptors"
  | "not-supported"
  | "in-use"
  | "incompatible"
  | "layout-changed"
  | "digest-mismatch";

/** All codes of `SharingError`. */
export const sharingErrorCodes: readonly SharingErrorCode[] = [
  "peer-gone",
  "timed-out",
  "bad-message",
  "version-mismatch",
  "not-permitted",
  "limit-exceeded",
  "device-lost",
  "internal-error",
  "device-not-visible",
  "size-mismatch",
  "too-large",
  "address-in-use",
  "path-too-long",
  "not-found",
  "not-listening",
  "cut-off",
  "out-of-descriptors",
  "not-supported",
  "in-use",
  "incompatible",
  "layout-changed",
  "digest-mismatch",
];

/** The error thrown if sharing with another process fails. */
export class SharingError extends Error {
  /** Always `"SharingError"`. */
  declare readonly name: "SharingError";
  /** The machine-readable reason. */
  readonly code: SharingErrorCode;

  static {
    nameErrors(this, "SharingError", ["code"]);
  }

  /**
   * Creates an error for a failure to share with another process.
   *
   * @param code the machine-readable reason
   * @param message what could not be done, why, and what to do; control characters are escaped, because the message may
   * quote the other process
   */
  constructor(code: SharingErrorCode, message: string, options?: ErrorOptions) {
    super(escapeControls(message), options);
    this.code = code;
    startStackAtProgram(this);
  }
}

/**
 * Sets the name of an error class on its prototype instead of on each error, so that the first line of the stack has
 * the name and runtimes do not print it again as a property. `JSON.stringify` writes an error's name, its message and
 * `fields`.
 */
export function nameErrors<E extends Error>(
  constructor: { readonly prototype: E },
  name: string,
  fields: JsonFields<E>,
): void {
  nameClass(constructor, name);
  Object.defineProperty(constructor.prototype, "name", { value: name, configurable: true, writable: true });
  writeAsJson(constructor.prototype, ["name", "message", ...fields] as JsonFields<E>);
}

/** Runs every step, even if others throw. Returns the errors in the order in which they were thrown. */
export function errorsOf(steps: Iterable<() => void>): unknown[] {
  const errors: unknown[] = [];
  for (const step of steps) {
    try {
      step();
    } catch (error) {
      errors.push(error);
    }
  }
  return errors;
}

/** Runs every step, even if others throw. Each error is reported as uncaught. */
export function runEach(...steps: readonly (() => void)[]): void {
  for (const error of errorsOf(steps)) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
