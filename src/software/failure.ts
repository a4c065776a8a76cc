import { SystemError } from "../../ffi/native/shim/shim.ts";
import { CudaError, cudaErrorName, cudaErrorNumbers } from "../support/errors.ts";
import { sharedMemoryRefusal } from "./memory/shared_file.ts";

/** Throws a `CudaError` of a call, with the given error number. */
export function fail(number: number, call: string): never {
  throw new CudaError(number, call);
}

/** Throws a `CudaError` of a call, with the given error number and a message that includes the reason. */
export function failBecause(number: number, call: string, reason: string): never {
  throw new CudaError(number, call, `${call} failed: ${cudaErrorName(number)} (${reason})`);
}

/**
 * Returns the result of `action`, which uses resources of the operating system. Converts a `SystemError` into a
 * `CudaError` of `call`.
 */
export function translateSystemErrors<T>(call: string, action: () => T): T {
  try {
    return action();
  } catch (cause) {
    if (!(cause instanceof SystemError)) throw cause;
    const number = cudaErrorNumbers.cudaErrorOperatingSystem;
    throw new CudaError(number, call, `${call} failed: ${cudaErrorName(number)} (${cause.message})`, { cause });
  }
}

/** Throws `cudaErrorNotSupported` if software devices cannot share memory on this system. */
export function checkSharing(call: string): void {
  const refusal = sharedMemoryRefusal();
  if (refusal !== undefined) failBecause(cudaErrorNumbers.cudaErrorNotSupported, call, refusal);
}
