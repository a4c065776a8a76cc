/**
 * The runtime's functions, implemented with the driver library alone, for machines without a usable libcudart. One
 * table has the driver-API equivalent of each runtime function. Where the two differ in more than their name, the entry
 * is an adapter.
 *
 * @module
 */
import type { libcuda } from "./libcuda.ts";
import type { libcudart } from "./libcudart.ts";
import { sharedAmongCopies } from "../src/support/library_copies.ts";
import type { NativeFunctions } from "./native/host.ts";
import { type FunctionAddresses, type IpcFunctions, ipcFunctions } from "./ipc_functions.ts";

/** The functions of libcudart, or their driver-API equivalents. */
export type RuntimeFunctions = NativeFunctions<typeof libcudart> & IpcFunctions;
/** The functions of libcuda. */
export type DriverFunctions = NativeFunctions<typeof libcuda>;

/** Builds the runtime's functions from the driver's. `library` is the driver library. */
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
    // The runtime accepts an empty list, and does nothing.
    cudaMemPoolSetAccess: (pool, descriptions, count) =>
      count === 0n ? 0 : driver.cuMemPoolSetAccess(pool, descriptions, count),
    // The runtime returns a null pointer for 0 bytes.
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
    // Ignores the kind: poolpass always passes cudaMemcpyDefault.
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
 * The primary contexts of the devices. Each is retained at its first use and until the process ends, as the runtime
 * library does: a program works the same with and without that library, and opening CUDA again is quick.
 */
class PrimaryContexts {
  readonly #driver: DriverFunctions;
  /** By device. All copies of this library on the thread share them. */
  readonly #contexts = sharedAmongCopies("primaryContexts", () => new Map<number, bigint>());
  readonly #out = new BigUint64Array(1);
  readonly #outBytes = new Uint8Array(this.#out.buffer);

  constructor(driver: DriverFunctions) {
    this.#driver = driver;
  }

  /**
   * Calls back with the device's context. Returns the call's `CUresult`, or that of a failure to retain the context.
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
