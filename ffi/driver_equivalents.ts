/**
 * The functions of the runtime library, implemented with the driver library alone, for machines without a usable
 * libcudart. A table has the driver-API equivalent of each runtime function. Where the two differ in more than their
 * name, the entry is an adapter.
 *
 * Two functions have a 64-byte struct as a parameter by value. Not every JavaScript runtime can pass such a struct, so
 * the shim, which receives the struct's address, calls them.
 *
 * @module
 */
import { CudaError, cudaErrorNumbers } from "../src/support/errors.ts";
import { shim } from "./native/shim/shim.ts";
import type { libcuda } from "./libcuda.ts";
import type { libcudart } from "./libcudart.ts";
import { sharedAmongCopies } from "../src/support/version.ts";
import type { NativeFunctions } from "./native/host.ts";

/** Looks up the addresses of a library's functions. */
export interface FunctionAddresses {
  addressOfFunction(name: string): bigint | undefined;
}

/** The two IPC functions to which a struct is passed by value. Each returns its library's error number. */
export interface IpcFunctions {
  /** Opens another process's event. `handle` is the 64-byte struct; the event's handle is written to `out`. */
  readonly cudaIpcOpenEventHandle: (out: Uint8Array, handle: Uint8Array) => number;
  /** Opens another process's memory. `handle` is the 64-byte struct; the memory's address is written to `out`. */
  readonly cudaIpcOpenMemHandle: (out: Uint8Array, handle: Uint8Array, flags: number) => number;
}

/** Binds the two IPC functions of a library. `names` contains their names in that library. */
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

/** The functions of libcudart, or their driver-API equivalents. */
export type RuntimeFunctions = NativeFunctions<typeof libcudart> & IpcFunctions;
/** The functions of libcuda. */
export type DriverFunctions = NativeFunctions<typeof libcuda>;

/** Returns implementations of the runtime's functions that call the driver library, `library`. */
export function driverEquivalentsOf(driver: DriverFunctions, library: FunctionAddresses): RuntimeFunctions {
  const contexts = new PrimaryContexts(driver);
  return {
    cudaDriverGetVersion: driver.cuDriverGetVersion,
    cudaRuntimeGetVersion: driver.cuDriverGetVersion,
    cudaGetLastError: () => 0,

    cudaGetDeviceCount: driver.cuDeviceGetCount,
    cudaSetDevice: (device) => contexts.with(device, (context) => driver.cuCtxSetCurrent(context)),
    cudaDeviceGetAttribute: driver.cuDeviceGetAttribute,
    cudaDeviceSynchronize: driver.cuCtxSynchronize,
    cudaDeviceCanAccessPeer: driver.cuDeviceCanAccessPeer,
    cudaDeviceEnablePeerAccess: (peer, flags) =>
      contexts.with(peer, (context) => driver.cuCtxEnablePeerAccess(context, flags)),
    cudaDeviceDisablePeerAccess: (peer) => contexts.with(peer, (context) => driver.cuCtxDisablePeerAccess(context)),
    cudaMemGetInfo: driver.cuMemGetInfo_v2,

    cudaDeviceGetStreamPriorityRange: driver.cuCtxGetStreamPriorityRange,
    cudaStreamCreateWithPriority: driver.cuStreamCreateWithPriority,
    cudaStreamDestroy: driver.cuStreamDestroy_v2,
    cudaStreamQuery: driver.cuStreamQuery,
    cudaStreamGetFlags: driver.cuStreamGetFlags,
    cudaStreamGetPriority: driver.cuStreamGetPriority,
    cudaStreamSynchronize: driver.cuStreamSynchronize,

    cudaEventCreateWithFlags: driver.cuEventCreate,
    cudaEventDestroy: driver.cuEventDestroy_v2,
    cudaEventSynchronize: driver.cuEventSynchronize,
    cudaEventElapsedTime: driver.cuEventElapsedTime,
    cudaIpcGetEventHandle: driver.cuIpcGetEventHandle,

    cudaDeviceGetDefaultMemPool: driver.cuDeviceGetDefaultMemPool,
    cudaDeviceGetMemPool: driver.cuDeviceGetMemPool,
    cudaDeviceSetMemPool: driver.cuDeviceSetMemPool,
    cudaMemPoolCreate: driver.cuMemPoolCreate,
    cudaMemPoolDestroy: driver.cuMemPoolDestroy,
    cudaMemPoolGetAttribute: driver.cuMemPoolGetAttribute,
    cudaMemPoolSetAttribute: driver.cuMemPoolSetAttribute,
    cudaMemPoolTrimTo: driver.cuMemPoolTrimTo,
    cudaMemPoolGetAccess: driver.cuMemPoolGetAccess,
    // Like the runtime, accepts an empty list and does nothing for it.
    cudaMemPoolSetAccess: (pool, descriptions, count) =>
      count === 0n ? 0 : driver.cuMemPoolSetAccess(pool, descriptions, count),
    // Like the runtime, returns a null pointer for 0 bytes.
    cudaMalloc: (address, byteLength) =>
      byteLength === 0n ? writeNull(address) : driver.cuMemAlloc_v2(address, byteLength),
    cudaFree: (address) => address === 0n ? 0 : driver.cuMemFree_v2(address),
    cudaIpcGetMemHandle: driver.cuIpcGetMemHandle,
    cudaIpcCloseMemHandle: driver.cuIpcCloseMemHandle,
    ...ipcFunctions(library, { openEvent: "cuIpcOpenEventHandle", openMemory: "cuIpcOpenMemHandle_v2" }),

    cudaMemPoolExportToShareableHandle: (handle, pool, type, flags) =>
      driver.cuMemPoolExportToShareableHandle(handle, pool, type, BigInt(flags)),
    cudaMemPoolImportFromShareableHandle: (pool, handle, type, flags) =>
      driver.cuMemPoolImportFromShareableHandle(pool, handle, type, BigInt(flags)),
    cudaMemPoolExportPointer: driver.cuMemPoolExportPointer,

    cudaHostAlloc: driver.cuMemHostAlloc,
    cudaFreeHost: driver.cuMemFreeHost,
    // The kind is ignored: poolpass always passes cudaMemcpyDefault.
    cudaMemcpyAsync: (destination, source, count, _kind, stream) =>
      driver.cuMemcpyAsync(destination, source, count, stream),
    cudaMemcpyPeerAsync: (destination, destinationDevice, source, sourceDevice, count, stream) =>
      contexts.with(destinationDevice, (to) =>
        contexts.with(
          sourceDevice,
          (from) => driver.cuMemcpyPeerAsync(destination, to, source, from, count, stream),
        )),
    cudaMemsetAsync: (address, value, count, stream) => driver.cuMemsetD8Async(address, value & 0xff, count, stream),

    cudaProfilerStart: driver.cuProfilerStart,
    cudaProfilerStop: driver.cuProfilerStop,
  };
}

/**
 * The primary contexts of the devices. As in the runtime library, each context is retained on first use and kept until
 * the process exits. Programs thus behave the same with and without that library, and opening CUDA again is fast.
 */
class PrimaryContexts {
  readonly #driver: DriverFunctions;
  /** The retained contexts by device ordinal. All copies of this library on the thread share this map. */
  readonly #contexts = sharedAmongCopies("primaryContexts", () => new Map<number, bigint>());
  readonly #out = new BigUint64Array(1);
  readonly #outBytes = new Uint8Array(this.#out.buffer);

  constructor(driver: DriverFunctions) {
    this.#driver = driver;
  }

  /**
   * Calls `call` with the device's context. Returns the `CUresult` of the call, or of a failure to retain the context.
   */
  with(device: number, call: (context: bigint) => number): number {
    let context = this.#contexts.get(device);
    if (context === undefined) {
      const result = this.#driver.cuDevicePrimaryCtxRetain(this.#outBytes, device);
      if (result !== 0) return result;
      context = this.#out[0]!;
      this.#contexts.set(device, context);
    }
    return call(context);
  }
}

function writeNull(out: Uint8Array | null): number {
  out?.fill(0, 0, 8);
  return 0;
}
