/**
 * The calls that programs make all the time, in the form that costs least, for both libraries side by side.
 *
 * Each is bound a second time: with the address of an out-parameter in place of a view of it, and with host memory as a
 * view in place of its address, which in Deno takes far longer to find than the call takes.
 *
 * @module
 */
import type { NativeFunctions } from "./host.ts";

/** `cudaMemcpyKind`. */
export const memcpyKind = { hostToDevice: 1, deviceToHost: 2, default: 4 } as const;

/** Which library serves them where both are there. */
export type FrequentCallsLibrary = "libcudart" | "libcuda";

/** The calls; each returns its library's error number. */
export interface FrequentFunctions {
  readonly mallocFromPoolAsync: (address: bigint, byteLength: bigint, pool: bigint, stream: bigint) => number;
  readonly freeAsync: (address: bigint, stream: bigint) => number;
  readonly eventRecord: (event: bigint, stream: bigint) => number;
  readonly eventQuery: (event: bigint) => number;
  readonly streamWaitEvent: (stream: bigint, event: bigint, flags: number) => number;
  readonly memPoolImportPointer: (address: bigint, pool: bigint, exportData: Uint8Array) => number;
  readonly memcpyHtoDAsync: (to: bigint, from: Uint8Array, byteLength: bigint, stream: bigint) => number;
  readonly memcpyDtoHAsync: (to: Uint8Array, from: bigint, byteLength: bigint, stream: bigint) => number;
}

/** The table that `dlopen` takes for libcudart. */
export const frequentRuntimeSymbols = {
  cudaMallocFromPoolAsync: {
    parameters: [
      "u64", // void **ptr
      "u64", // size_t size
      "u64", // cudaMemPool_t memPool
      "u64", // cudaStream_t stream
    ],
    result: "i32",
  },
  cudaFreeAsync: { parameters: ["u64", /* void *devPtr */ "u64" /* cudaStream_t hStream */], result: "i32" },
  cudaEventRecord: { parameters: ["u64", /* cudaEvent_t event */ "u64" /* cudaStream_t stream */], result: "i32" },
  cudaEventQuery: { parameters: ["u64" /* cudaEvent_t event */], result: "i32" },
  cudaStreamWaitEvent: {
    parameters: ["u64", /* cudaStream_t stream */ "u64", /* cudaEvent_t event */ "u32" /* unsigned int flags */],
    result: "i32",
  },
  cudaMemPoolImportPointer: {
    parameters: [
      "u64", // void **ptr
      "u64", // cudaMemPool_t memPool
      "buffer", // struct cudaMemPoolPtrExportData *exportData
    ],
    result: "i32",
  },
  cudaMemcpyAsync: {
    parameters: [
      "u64", // void *dst
      "buffer", // const void *src
      "u64", // size_t count
      "i32", // enum cudaMemcpyKind kind
      "u64", // cudaStream_t stream
    ],
    result: "i32",
  },
} as const;

/** Another for libcudart, whose one function copies either way. */
export const frequentRuntimeSymbolsToHost = {
  cudaMemcpyAsync: {
    parameters: [
      "buffer", // void *dst
      "u64", // const void *src
      "u64", // size_t count
      "i32", // enum cudaMemcpyKind kind
      "u64", // cudaStream_t stream
    ],
    result: "i32",
  },
} as const;

/** The table that `dlopen` takes for libcuda. */
export const frequentDriverSymbols = {
  cuMemAllocFromPoolAsync: {
    parameters: [
      "u64", // CUdeviceptr *dptr
      "u64", // size_t bytesize
      "u64", // CUmemoryPool pool
      "u64", // CUstream hStream
    ],
    result: "i32",
  },
  cuMemFreeAsync: { parameters: ["u64", /* CUdeviceptr dptr */ "u64" /* CUstream hStream */], result: "i32" },
  cuEventRecord: { parameters: ["u64", /* CUevent hEvent */ "u64" /* CUstream hStream */], result: "i32" },
  cuEventQuery: { parameters: ["u64" /* CUevent hEvent */], result: "i32" },
  cuStreamWaitEvent: {
    parameters: ["u64", /* CUstream hStream */ "u64", /* CUevent hEvent */ "u32" /* unsigned int Flags */],
    result: "i32",
  },
  cuMemPoolImportPointer: {
    parameters: [
      "u64", // CUdeviceptr *ptr_out
      "u64", // CUmemoryPool pool
      "buffer", // CUmemPoolPtrExportData *shareData
    ],
    result: "i32",
  },
  cuMemcpyHtoDAsync_v2: {
    parameters: [
      "u64", // CUdeviceptr dstDevice
      "buffer", // const void *srcHost
      "u64", // size_t ByteCount
      "u64", // CUstream hStream
    ],
    result: "i32",
  },
  cuMemcpyDtoHAsync_v2: {
    parameters: [
      "buffer", // void *dstHost
      "u64", // CUdeviceptr srcDevice
      "u64", // size_t ByteCount
      "u64", // CUstream hStream
    ],
    result: "i32",
  },
} as const;

/** The calls as libcudart serves them. */
export function ofRuntime(
  runtime: NativeFunctions<typeof frequentRuntimeSymbols>,
  toHost: NativeFunctions<typeof frequentRuntimeSymbolsToHost>,
): FrequentFunctions {
  return {
    mallocFromPoolAsync: runtime.cudaMallocFromPoolAsync,
    freeAsync: runtime.cudaFreeAsync,
    eventRecord: runtime.cudaEventRecord,
    eventQuery: runtime.cudaEventQuery,
    streamWaitEvent: runtime.cudaStreamWaitEvent,
    memPoolImportPointer: runtime.cudaMemPoolImportPointer,
    memcpyHtoDAsync: (to, from, byteLength, stream) =>
      runtime.cudaMemcpyAsync(to, from, byteLength, memcpyKind.hostToDevice, stream),
    memcpyDtoHAsync: (to, from, byteLength, stream) =>
      toHost.cudaMemcpyAsync(to, from, byteLength, memcpyKind.deviceToHost, stream),
  };
}

/** The calls as libcuda serves them, on the primary context that is current. */
export function ofDriver(driver: NativeFunctions<typeof frequentDriverSymbols>): FrequentFunctions {
  return {
    mallocFromPoolAsync: driver.cuMemAllocFromPoolAsync,
    freeAsync: driver.cuMemFreeAsync,
    eventRecord: driver.cuEventRecord,
    eventQuery: driver.cuEventQuery,
    streamWaitEvent: driver.cuStreamWaitEvent,
    memPoolImportPointer: driver.cuMemPoolImportPointer,
    memcpyHtoDAsync: driver.cuMemcpyHtoDAsync_v2,
    memcpyDtoHAsync: driver.cuMemcpyDtoHAsync_v2,
  };
}
