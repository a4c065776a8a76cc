import { SystemError } from "../../ffi/shim/system_error.ts";
import { cudaErrorNumbers } from "../support/cuda_error_codes.ts";
import { CudaError, cudaErrorName } from "../support/errors.ts";
import { sharedMemoryRefusal } from "./memory/shared_file.ts";

/** Ends a call with the error that the real driver gives. */
export function fail(number: number, call: string): never {
  throw new CudaError(number, call);
}

/** Does what takes something of the operating system, and says which CUDA call it was for when it gives nothing. */
export function outOfSystem<T>(call: string, take: () => T): T {
  try {
    return take();
  } catch (cause) {
    if (!(cause instanceof SystemError)) throw cause;
    const number = cudaErrorNumbers.cudaErrorOperatingSystem;
    throw new CudaError(number, call, `${call} failed: ${cudaErrorName(number)} (${cause.message})`, { cause });
  }
}

/** Fails where memory of software devices cannot be seen from outside of them. */
export function checkSharing(call: string): void {
  const refusal = sharedMemoryRefusal();
  if (refusal === undefined) return;
  const number = cudaErrorNumbers.cudaErrorNotSupported;
  throw new CudaError(number, call, `${call} failed: ${cudaErrorName(number)} (${refusal})`);
}
