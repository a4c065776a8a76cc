/**
 * The functions that NVIDIA's IPC samples call and this library does not, because it uses others: attributes instead of
 * the device properties, whose layout differs between versions; explicit pools; the driver library's occupancy for
 * kernels without a host function, and its equivalents of the calls that programs make most often. They are bound here
 * so that the tests check every function of the samples with the installed libraries.
 *
 * @module
 */

/** Functions of libcudart. Each returns a `cudaError_t`. */
export const sampleRuntimeSymbols = {
  cudaGetDeviceProperties: {
    parameters: ["buffer", /* struct cudaDeviceProp *prop */ "i32" /* int device */],
    result: "i32",
  },
  cudaStreamCreateWithFlags: {
    parameters: ["buffer", /* cudaStream_t *pStream */ "u32" /* unsigned int flags */],
    result: "i32",
  },
  cudaEventCreate: { parameters: ["buffer" /* cudaEvent_t *event */], result: "i32" },
  cudaMallocAsync: {
    parameters: ["buffer", /* void **devPtr */ "u64", /* size_t size */ "u64" /* cudaStream_t hStream */],
    result: "i32",
  },
  cudaMallocFromPoolAsync: {
    parameters: [
      "buffer", // void **ptr
      "u64", // size_t size
      "u64", // cudaMemPool_t memPool
      "u64", // cudaStream_t stream
    ],
    result: "i32",
  },
  cudaFreeAsync: { parameters: ["u64", /* void *devPtr */ "u64" /* cudaStream_t hStream */], result: "i32" },
  cudaMemPoolImportPointer: {
    parameters: [
      "buffer", // void **ptr
      "u64", // cudaMemPool_t memPool
      "buffer", // struct cudaMemPoolPtrExportData *exportData
    ],
    result: "i32",
  },
  cudaEventRecord: { parameters: ["u64", /* cudaEvent_t event */ "u64" /* cudaStream_t stream */], result: "i32" },
  cudaStreamWaitEvent: {
    parameters: ["u64", /* cudaStream_t stream */ "u64", /* cudaEvent_t event */ "u32" /* unsigned int flags */],
    result: "i32",
  },
  cudaOccupancyMaxActiveBlocksPerMultiprocessor: {
    parameters: [
      "buffer", // int *numBlocks
      "u64", // const void *func: a host function, or a cudaKernel_t
      "i32", // int blockSize
      "u64", // size_t dynamicSMemSize
    ],
    result: "i32",
  },
} as const;

/** Functions of libcuda. Each returns a `CUresult`. */
export const sampleDriverSymbols = {
  cuDeviceGet: { parameters: ["buffer", /* CUdevice *device */ "i32" /* int ordinal */], result: "i32" },
} as const;
