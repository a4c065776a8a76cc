/**
 * The functions of the CUDA runtime library that poolpass calls, as declared in `cuda_runtime_api.h`. Each returns a
 * `cudaError_t`; a comment beside each parameter has the C type and name.
 *
 * @module
 */

/** The symbol table passed to `dlopen` for libcudart. */
export const libcudart = {
  cudaDriverGetVersion: { parameters: ["buffer" /* int *driverVersion */], result: "i32" },
  cudaRuntimeGetVersion: { parameters: ["buffer" /* int *runtimeVersion */], result: "i32" },
  cudaGetLastError: { parameters: [], result: "i32" },

  cudaGetDeviceCount: { parameters: ["buffer" /* int *count */], result: "i32" },
  cudaSetDevice: { parameters: ["i32" /* int device */], result: "i32" },
  cudaDeviceGetAttribute: {
    parameters: ["buffer", /* int *value */ "i32", /* enum cudaDeviceAttr attr */ "i32" /* int device */],
    result: "i32",
  },
  cudaDeviceSynchronize: { parameters: [], result: "i32" },
  cudaDeviceCanAccessPeer: {
    parameters: ["buffer", /* int *canAccessPeer */ "i32", /* int device */ "i32" /* int peerDevice */],
    result: "i32",
  },
  cudaDeviceEnablePeerAccess: {
    parameters: ["i32", /* int peerDevice */ "u32" /* unsigned int flags */],
    result: "i32",
  },
  cudaDeviceDisablePeerAccess: { parameters: ["i32" /* int peerDevice */], result: "i32" },
  cudaMemGetInfo: { parameters: ["buffer", /* size_t *free */ "buffer" /* size_t *total */], result: "i32" },

  cudaDeviceGetStreamPriorityRange: {
    parameters: ["buffer", /* int *leastPriority */ "buffer" /* int *greatestPriority */],
    result: "i32",
  },
  cudaStreamCreateWithPriority: {
    parameters: ["buffer", /* cudaStream_t *pStream */ "u32", /* unsigned int flags */ "i32" /* int priority */],
    result: "i32",
  },
  cudaStreamDestroy: { parameters: ["u64" /* cudaStream_t stream */], result: "i32" },
  cudaStreamQuery: { parameters: ["u64" /* cudaStream_t stream */], result: "i32" },
  cudaStreamGetFlags: {
    parameters: ["u64", /* cudaStream_t hStream */ "buffer" /* unsigned int *flags */],
    result: "i32",
  },
  cudaStreamGetPriority: {
    parameters: ["u64", /* cudaStream_t hStream */ "buffer" /* int *priority */],
    result: "i32",
  },
  cudaStreamSynchronize: { parameters: ["u64" /* cudaStream_t stream */], result: "i32" },

  cudaEventCreateWithFlags: {
    parameters: ["buffer", /* cudaEvent_t *event */ "u32" /* unsigned int flags */],
    result: "i32",
  },
  cudaEventDestroy: { parameters: ["u64" /* cudaEvent_t event */], result: "i32" },
  cudaEventSynchronize: { parameters: ["u64" /* cudaEvent_t event */], result: "i32" },
  cudaEventElapsedTime: {
    parameters: ["buffer", /* float *ms */ "u64", /* cudaEvent_t start */ "u64" /* cudaEvent_t end */],
    result: "i32",
  },
  cudaIpcGetEventHandle: {
    parameters: ["buffer", /* cudaIpcEventHandle_t *handle */ "u64" /* cudaEvent_t event */],
    result: "i32",
  },

  cudaDeviceGetDefaultMemPool: {
    parameters: ["buffer", /* cudaMemPool_t *memPool */ "i32" /* int device */],
    result: "i32",
  },
  cudaDeviceGetMemPool: { parameters: ["buffer", /* cudaMemPool_t *memPool */ "i32" /* int device */], result: "i32" },
  cudaDeviceSetMemPool: { parameters: ["i32", /* int device */ "u64" /* cudaMemPool_t memPool */], result: "i32" },
  cudaMemPoolCreate: {
    parameters: ["buffer", /* cudaMemPool_t *memPool */ "buffer" /* const struct cudaMemPoolProps *poolProps */],
    result: "i32",
  },
  cudaMemPoolDestroy: { parameters: ["u64" /* cudaMemPool_t memPool */], result: "i32" },
  cudaMemPoolGetAttribute: {
    parameters: ["u64", /* cudaMemPool_t memPool */ "i32", /* enum cudaMemPoolAttr attr */ "buffer" /* void *value */],
    result: "i32",
  },
  cudaMemPoolSetAttribute: {
    parameters: ["u64", /* cudaMemPool_t memPool */ "i32", /* enum cudaMemPoolAttr attr */ "buffer" /* void *value */],
    result: "i32",
  },
  cudaMemPoolTrimTo: {
    parameters: ["u64", /* cudaMemPool_t memPool */ "u64" /* size_t minBytesToKeep */],
    result: "i32",
  },
  cudaMemPoolGetAccess: {
    parameters: [
      "buffer", // enum cudaMemAccessFlags *flags
      "u64", // cudaMemPool_t memPool
      "buffer", // struct cudaMemLocation *location
    ],
    result: "i32",
  },
  cudaMemPoolSetAccess: {
    parameters: [
      "u64", // cudaMemPool_t memPool
      "buffer", // const struct cudaMemAccessDesc *descList
      "u64", // size_t count
    ],
    result: "i32",
  },
  cudaMalloc: { parameters: ["buffer", /* void **devPtr */ "u64" /* size_t size */], result: "i32" },
  cudaFree: { parameters: ["u64" /* void *devPtr */], result: "i32" },
  cudaIpcGetMemHandle: {
    parameters: ["buffer", /* cudaIpcMemHandle_t *handle */ "u64" /* void *devPtr */],
    result: "i32",
  },
  cudaIpcCloseMemHandle: { parameters: ["u64" /* void *devPtr */], result: "i32" },

  cudaMemPoolExportToShareableHandle: {
    parameters: [
      "buffer", // void *shareableHandle: an int, or a cudaMemFabricHandle_t
      "u64", // cudaMemPool_t memPool
      "i32", // enum cudaMemAllocationHandleType handleType
      "u32", // unsigned int flags
    ],
    result: "i32",
  },
  cudaMemPoolImportFromShareableHandle: {
    parameters: [
      "buffer", // cudaMemPool_t *memPool
      "u64", // void *shareableHandle: the descriptor itself, or a cudaMemFabricHandle_t's address
      "i32", // enum cudaMemAllocationHandleType handleType
      "u32", // unsigned int flags
    ],
    result: "i32",
  },
  cudaMemPoolExportPointer: {
    parameters: ["buffer", /* struct cudaMemPoolPtrExportData *exportData */ "u64" /* void *ptr */],
    result: "i32",
  },

  cudaHostAlloc: {
    parameters: ["buffer", /* void **pHost */ "u64", /* size_t size */ "u32" /* unsigned int flags */],
    result: "i32",
  },
  cudaFreeHost: { parameters: ["u64" /* void *ptr */], result: "i32" },
  cudaMemcpyAsync: {
    parameters: [
      "u64", // void *dst
      "u64", // const void *src
      "u64", // size_t count
      "i32", // enum cudaMemcpyKind kind
      "u64", // cudaStream_t stream
    ],
    result: "i32",
  },
  cudaMemcpyPeerAsync: {
    parameters: [
      "u64", // void *dst
      "i32", // int dstDevice
      "u64", // const void *src
      "i32", // int srcDevice
      "u64", // size_t count
      "u64", // cudaStream_t stream
    ],
    result: "i32",
  },
  cudaMemsetAsync: {
    parameters: [
      "u64", // void *devPtr
      "i32", // int value
      "u64", // size_t count
      "u64", // cudaStream_t stream
    ],
    result: "i32",
  },

  cudaProfilerStart: { parameters: [], result: "i32" },
  cudaProfilerStop: { parameters: [], result: "i32" },
} as const;
