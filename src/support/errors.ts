/**
 * The errors that are thrown beside `TypeError`, `RangeError` and `ReferenceError`.
 *
 * @module
 */
import { cudaErrorNumbers } from "./cuda_error_codes.ts";
import { nameClass } from "./printing.ts";

const namesByNumber: ReadonlyMap<number, string> = new Map(
  Object.entries(cudaErrorNumbers).map(([name, number]) => [number, name]),
);

/**
 * The name that CUDA gives to an error number, `"cudaErrorInvalidValue"` for 1. A number that is not in the headers of
 * CUDA 13.0, such as one of a newer driver, is `"cudaErrorUnknown"`.
 */
export function cudaErrorName(number: number): string {
  return namesByNumber.get(number) ?? "cudaErrorUnknown";
}

/** A CUDA call gave an error. */
export class CudaError extends Error {
  /** Always `"CudaError"`. */
  declare readonly name: "CudaError";
  /** CUDA's name of the error, `"cudaErrorInvalidValue"`; `"cudaErrorUnknown"` for a number that has no name yet. */
  readonly code: string;
  /** CUDA's number of the error. */
  readonly number: number;
  /** The function that gave it, `"cudaMemPoolImportPointer"`. */
  readonly call: string;

  static {
    nameErrors(this, "CudaError");
  }

  /**
   * An error that a CUDA call gave.
   *
   * @param number the `cudaError` that the call returned
   * @param call the name of the CUDA function
   * @param message what could not be done to what, and what to try; the call, the error's name and number unless given
   */
  constructor(number: number, call: string, message?: string, options?: ErrorOptions) {
    const code = cudaErrorName(number);
    super(message ?? `${call} failed: ${code} (${number})`, options);
    this.code = code;
    this.number = number;
    this.call = call;
  }
}

/** The error of a call that also says why, as the compiler of PTX does. */
export function explainedError(number: number, call: string, why: string, options?: ErrorOptions): CudaError {
  return new CudaError(number, call, `${call} failed: ${cudaErrorName(number)}: ${why}`, options);
}

/** There is no CUDA here to be used: no permission, no driver, or no device. Any other failure is another error. */
export class CudaUnavailableError extends Error {
  /** Always `"CudaUnavailableError"`. */
  declare readonly name: "CudaUnavailableError";

  static {
    nameErrors(this, "CudaUnavailableError");
  }
}

/**
 * Why something could not be shared. The set is open: more codes may come.
 *
 * - `"peer-gone"`: the other process has ended, has closed the connection, or has lost its device;
 * - `"timed-out"`: it did not greet, or did not complete a message, in the time that there is for that;
 * - `"bad-message"`: it said what the protocol does not allow, or is no poolpass;
 * - `"version-mismatch"`: there is no version of the protocol that both know;
 * - `"not-permitted"`: a user that is not allowed, a folder that other users can change, or as many importers as may be;
 * - `"device-not-visible"`: the memory is of a device that this process does not see;
 * - `"size-mismatch"`: the memory is smaller than it was said to be;
 * - `"address-in-use"`: something else is at the path, or listens there;
 * - `"path-too-long"`: a socket's path has at most 107 bytes in UTF-8;
 * - `"not-found"`: there is no such file or folder, or the offer was withdrawn or never made;
 * - `"not-listening"`: there is a file at the path, and nobody listens there;
 * - `"cut-off"`: the exporter asks for its memory back, or has ended the connection of an importer that kept it;
 * - `"out-of-descriptors"`: the process may open no more descriptors;
 * - `"not-supported"`: the system, or this build for it, has not what sharing needs.
 */
export type SharingErrorCode =
  | "peer-gone"
  | "timed-out"
  | "bad-message"
  | "version-mismatch"
  | "not-permitted"
  | "device-not-visible"
  | "size-mismatch"
  | "address-in-use"
  | "path-too-long"
  | "not-found"
  | "not-listening"
  | "cut-off"
  | "out-of-descriptors"
  | "not-supported";

/** Sharing with another process failed. */
export class SharingError extends Error {
  /** Always `"SharingError"`. */
  declare readonly name: "SharingError";
  /** What went wrong, for programs. */
  readonly code: SharingErrorCode;

  static {
    nameErrors(this, "SharingError");
  }

  /**
   * An error of sharing.
   *
   * @param code what went wrong, for programs
   * @param message what could not be done to what, why, and what to do
   */
  constructor(code: SharingErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** On the prototype, not on each error, the name is in the stack's first line, and is not printed once more after it. */
function nameErrors(constructor: { readonly prototype: Error }, name: string): void {
  nameClass(constructor, name);
  Object.defineProperty(constructor.prototype, "name", { value: name, configurable: true, writable: true });
}
