/**
 * The two functions of CUDA that take a 64-byte struct by value, which not every runtime can pass: the shim, which takes
 * it by its address, calls them.
 *
 * @module
 */
import { cudaErrorNumbers } from "../src/support/cuda_error_codes.ts";
import { CudaError } from "../src/support/errors.ts";
import { shim } from "./shim/shim.ts";

/** Where the functions of a library lie. */
export interface FunctionAddresses {
  addressOfFunction(name: string): bigint | undefined;
}

/** Both functions; each returns its library's error number. */
export interface IpcFunctions {
  /** @param out receives the event @param handle the 64 bytes */
  readonly cudaIpcOpenEventHandle: (out: Uint8Array, handle: Uint8Array) => number;
  /** @param out receives the address @param handle the 64 bytes */
  readonly cudaIpcOpenMemHandle: (out: Uint8Array, handle: Uint8Array, flags: number) => number;
}

/** Binds them, under the names that they have in a library. */
export function ipcFunctions(
  library: FunctionAddresses,
  names: { readonly openEvent: string; readonly openMemory: string },
): IpcFunctions {
  let openEvent: bigint | undefined;
  let openMemory: bigint | undefined;
  return {
    cudaIpcOpenEventHandle(out, handle) {
      openEvent ??= find(library, names.openEvent);
      return shim().poolpass_ipc_open_event_handle(openEvent, out, handle);
    },
    cudaIpcOpenMemHandle(out, handle, flags) {
      openMemory ??= find(library, names.openMemory);
      return shim().poolpass_ipc_open_mem_handle(openMemory, out, handle, flags);
    },
  };
}

function find(library: FunctionAddresses, name: string): bigint {
  const address = library.addressOfFunction(name);
  if (address !== undefined) return address;
  const message = `the installed CUDA has no ${name}; install a newer CUDA`;
  throw new CudaError(cudaErrorNumbers.cudaErrorCallRequiresNewerDriver, name, message);
}
