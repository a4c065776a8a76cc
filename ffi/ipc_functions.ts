/**
 * CUDA's two functions that take a 64-byte struct by value. Not every runtime can pass one, so the shim calls them: it
 * takes the struct by address.
 *
 * @module
 */
import { cudaErrorNumbers } from "../src/support/cuda_error_codes.ts";
import { CudaError } from "../src/support/errors.ts";
import { shim } from "./native/shim/shim.ts";

/** Looks up the addresses of a library's functions. */
export interface FunctionAddresses {
  addressOfFunction(name: string): bigint | undefined;
}

/** The two functions. Each returns its library's error number. */
export interface IpcFunctions {
  /** Writes the event to `out`. `handle` is the 64 bytes. */
  readonly cudaIpcOpenEventHandle: (out: Uint8Array, handle: Uint8Array) => number;
  /** Writes the address to `out`. `handle` is the 64 bytes. */
  readonly cudaIpcOpenMemHandle: (out: Uint8Array, handle: Uint8Array, flags: number) => number;
}

/** Binds the two functions of a library. `names` are their names in it. */
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
