/**
 * The functions of the CUDA driver library that poolpass calls, as declared in `cuda.h`. Each returns a `CUresult`; a
 * comment beside each parameter has the C type and name. The last part has the driver-API equivalents of the runtime's
 * functions, which are called if no runtime library is used.
 *
 * The most frequently called functions are bound in the cheapest form. An out-parameter is an address instead of a
 * view; host memory is a view instead of an address, because in Deno obtaining an address takes far longer than the
 * call.
 *
 * @module
 */

/** The symbol table passed to `dlopen` for libcuda. */
export const libcuda = {
  cuInit: { parameters: ["u32" /* unsigned int Flags */], result: "i32" },
  cuDriverGetVersion: { parameters: ["buffer" /* int *driverVersion */], result: "i32" },
  cuDeviceGetName: {
    parameters: ["buffer", /* char *name */ "i32", /* int len */ "i32" /* CUdevice dev */],
    result: "i32",
  },
  cuDeviceGetUuid: { parameters: ["buffer", /* CUuuid *uuid */ "i32" /* CUdevice dev */], result: "i32" },
  cuDeviceGetUuid_v2: { parameters: ["buffer", /* CUuuid *uuid */ "i32" /* CUdevice dev */], result: "i32" },
  cuDeviceTotalMem_v2: { parameters: ["buffer", /* size_t *bytes */ "i32" /* CUdevice dev */], result: "i32" },
  cuPointerGetAttribute: {
    parameters: [
      "buffer", // void *data
      "i32", // CUpointer_attribute attribute
      "u64", // CUdeviceptr ptr
    ],
    result: "i32",
  },

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
  cuMemPoolImportPointer: {
    parameters: [
      "u64", // CUdeviceptr *ptr_out
      "u64", // CUmemoryPool pool
      "buffer", // CUmemPoolPtrExportData *shareData
    ],
    result: "i32",
  },
  cuMemGetAddressRange_v2: {
    parameters: ["u64", /* CUdeviceptr *pbase */ "u64", /* size_t *psize */ "u64" /* CUdeviceptr dptr */],
    result: "i32",
  },
  cuEventRecord: { parameters: ["u64", /* CUevent hEvent */ "u64" /* CUstream hStream */], result: "i32" },
  cuCtxRecordEvent: { parameters: ["u64", /* CUcontext hCtx */ "u64" /* CUevent hEvent */], result: "i32" },
  cuCtxGetCurrent: { parameters: ["buffer" /* CUcontext *pctx */], result: "i32" },
  cuEventQuery: { parameters: ["u64" /* CUevent hEvent */], result: "i32" },
  cuStreamWaitEvent: {
    parameters: ["u64", /* CUstream hStream */ "u64", /* CUevent hEvent */ "u32" /* unsigned int Flags */],
    result: "i32",
  },
  cuStreamIsCapturing: {
    parameters: ["u64", /* CUstream hStream */ "buffer" /* CUstreamCaptureStatus *captureStatus */],
    result: "i32",
  },
  cuStreamBeginCapture_v2: {
    parameters: ["u64", /* CUstream hStream */ "i32" /* CUstreamCaptureMode mode */],
    result: "i32",
  },
  cuStreamEndCapture: { parameters: ["u64", /* CUstream hStream */ "buffer" /* CUgraph *phGraph */], result: "i32" },
  cuStreamGetCaptureInfo_v2: {
    parameters: [
      "u64", // CUstream hStream
      "buffer", // CUstreamCaptureStatus *captureStatus_out
      "u64", // cuuint64_t *id_out
      "u64", // CUgraph *graph_out
      "u64", // const CUgraphNode **dependencies_out
      "u64", // size_t *numDependencies_out
    ],
    result: "i32",
  },
  cuStreamGetCaptureInfo_v3: {
    parameters: [
      "u64", // CUstream hStream
      "buffer", // CUstreamCaptureStatus *captureStatus_out
      "u64", // cuuint64_t *id_out
      "u64", // CUgraph *graph_out
      "u64", // const CUgraphNode **dependencies_out
      "u64", // const CUgraphEdgeData **edgeData_out
      "u64", // size_t *numDependencies_out
    ],
    result: "i32",
  },
  cuThreadExchangeStreamCaptureMode: { parameters: ["buffer" /* CUstreamCaptureMode *mode */], result: "i32" },
  cuEventRecordWithFlags: {
    parameters: ["u64", /* CUevent hEvent */ "u64", /* CUstream hStream */ "u32" /* unsigned int flags */],
    result: "i32",
  },
  cuGraphDestroy: { parameters: ["u64" /* CUgraph hGraph */], result: "i32" },
  cuGraphGetNodes: {
    parameters: ["u64", /* CUgraph hGraph */ "buffer", /* CUgraphNode *nodes */ "buffer" /* size_t *numNodes */],
    result: "i32",
  },
  cuGraphNodeGetType: {
    parameters: ["u64", /* CUgraphNode hNode */ "buffer" /* CUgraphNodeType *type */],
    result: "i32",
  },
  cuGraphGetEdges: {
    parameters: [
      "u64", // CUgraph hGraph
      "buffer", // CUgraphNode *from
      "buffer", // CUgraphNode *to
      "buffer", // size_t *numEdges
    ],
    result: "i32",
  },
  cuGraphGetEdges_v2: {
    parameters: [
      "u64", // CUgraph hGraph
      "buffer", // CUgraphNode *from
      "buffer", // CUgraphNode *to
      "buffer", // CUgraphEdgeData *edgeData
      "buffer", // size_t *numEdges
    ],
    result: "i32",
  },
  cuGraphInstantiateWithParams: {
    parameters: [
      "buffer", // CUgraphExec *phGraphExec
      "u64", // CUgraph hGraph
      "buffer", // CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams
    ],
    result: "i32",
  },
  cuGraphUpload: { parameters: ["u64", /* CUgraphExec hGraphExec */ "u64" /* CUstream hStream */], result: "i32" },
  cuGraphLaunch: { parameters: ["u64", /* CUgraphExec hGraphExec */ "u64" /* CUstream hStream */], result: "i32" },
  cuGraphExecDestroy: { parameters: ["u64" /* CUgraphExec hGraphExec */], result: "i32" },
  cuStreamBeginCaptureToGraph: {
    parameters: [
      "u64", // CUstream hStream
      "u64", // CUgraph hGraph
      "buffer", // const CUgraphNode *dependencies
      "u64", // const CUgraphEdgeData *dependencyData
      "u64", // size_t numDependencies
      "i32", // CUstreamCaptureMode mode
    ],
    result: "i32",
  },
  cuStreamUpdateCaptureDependencies: {
    parameters: [
      "u64", // CUstream hStream
      "buffer", // CUgraphNode *dependencies
      "u64", // size_t numDependencies
      "u32", // unsigned int flags
    ],
    result: "i32",
  },
  cuGraphCreate: { parameters: ["buffer", /* CUgraph *phGraph */ "u32" /* unsigned int flags */], result: "i32" },
  cuGraphClone: {
    parameters: ["buffer", /* CUgraph *phGraphClone */ "u64" /* CUgraph originalGraph */],
    result: "i32",
  },
  cuGraphNodeFindInClone: {
    parameters: [
      "buffer", // CUgraphNode *phNode
      "u64", // CUgraphNode hOriginalNode
      "u64", // CUgraph hClonedGraph
    ],
    result: "i32",
  },
  cuGraphAddKernelNode_v2: {
    parameters: [
      "buffer", // CUgraphNode *phGraphNode
      "u64", // CUgraph hGraph
      "buffer", // const CUgraphNode *dependencies
      "u64", // size_t numDependencies
      "buffer", // const CUDA_KERNEL_NODE_PARAMS *nodeParams
    ],
    result: "i32",
  },
  cuGraphKernelNodeSetAttribute: {
    parameters: [
      "u64", // CUgraphNode hNode
      "i32", // CUkernelNodeAttrID attr
      "buffer", // const CUkernelNodeAttrValue *value
    ],
    result: "i32",
  },
  cuGraphAddMemcpyNode: {
    parameters: [
      "buffer", // CUgraphNode *phGraphNode
      "u64", // CUgraph hGraph
      "buffer", // const CUgraphNode *dependencies
      "u64", // size_t numDependencies
      "buffer", // const CUDA_MEMCPY3D *copyParams
      "u64", // CUcontext ctx
    ],
    result: "i32",
  },
  cuGraphAddMemsetNode: {
    parameters: [
      "buffer", // CUgraphNode *phGraphNode
      "u64", // CUgraph hGraph
      "buffer", // const CUgraphNode *dependencies
      "u64", // size_t numDependencies
      "buffer", // const CUDA_MEMSET_NODE_PARAMS *memsetParams
      "u64", // CUcontext ctx
    ],
    result: "i32",
  },
  cuGraphAddEmptyNode: {
    parameters: [
      "buffer", // CUgraphNode *phGraphNode
      "u64", // CUgraph hGraph
      "buffer", // const CUgraphNode *dependencies
      "u64", // size_t numDependencies
    ],
    result: "i32",
  },
  cuGraphAddChildGraphNode: {
    parameters: [
      "buffer", // CUgraphNode *phGraphNode
      "u64", // CUgraph hGraph
      "buffer", // const CUgraphNode *dependencies
      "u64", // size_t numDependencies
      "u64", // CUgraph childGraph
    ],
    result: "i32",
  },
  cuGraphAddEventRecordNode: {
    parameters: [
      "buffer", // CUgraphNode *phGraphNode
      "u64", // CUgraph hGraph
      "buffer", // const CUgraphNode *dependencies
      "u64", // size_t numDependencies
      "u64", // CUevent event
    ],
    result: "i32",
  },
  cuGraphAddEventWaitNode: {
    parameters: [
      "buffer", // CUgraphNode *phGraphNode
      "u64", // CUgraph hGraph
      "buffer", // const CUgraphNode *dependencies
      "u64", // size_t numDependencies
      "u64", // CUevent event
    ],
    result: "i32",
  },
  cuGraphAddMemAllocNode: {
    parameters: [
      "buffer", // CUgraphNode *phGraphNode
      "u64", // CUgraph hGraph
      "buffer", // const CUgraphNode *dependencies
      "u64", // size_t numDependencies
      "buffer", // CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams
    ],
    result: "i32",
  },
  cuGraphAddMemFreeNode: {
    parameters: [
      "buffer", // CUgraphNode *phGraphNode
      "u64", // CUgraph hGraph
      "buffer", // const CUgraphNode *dependencies
      "u64", // size_t numDependencies
      "u64", // CUdeviceptr dptr
    ],
    result: "i32",
  },
  cuGraphConditionalHandleCreate: {
    parameters: [
      "buffer", // CUgraphConditionalHandle *pHandle_out
      "u64", // CUgraph hGraph
      "u64", // CUcontext ctx
      "u32", // unsigned int defaultLaunchValue
      "u32", // unsigned int flags
    ],
    result: "i32",
  },
  cuGraphAddNode_v2: {
    parameters: [
      "buffer", // CUgraphNode *phGraphNode
      "u64", // CUgraph hGraph
      "buffer", // const CUgraphNode *dependencies
      "u64", // const CUgraphEdgeData *dependencyData
      "u64", // size_t numDependencies
      "buffer", // CUgraphNodeParams *nodeParams
    ],
    result: "i32",
  },
  cuGraphAddDependencies: {
    parameters: [
      "u64", // CUgraph hGraph
      "buffer", // const CUgraphNode *from
      "buffer", // const CUgraphNode *to
      "u64", // size_t numDependencies
    ],
    result: "i32",
  },
  cuGraphRemoveDependencies: {
    parameters: [
      "u64", // CUgraph hGraph
      "buffer", // const CUgraphNode *from
      "buffer", // const CUgraphNode *to
      "u64", // size_t numDependencies
    ],
    result: "i32",
  },
  cuGraphDestroyNode: { parameters: ["u64" /* CUgraphNode hNode */], result: "i32" },
  cuGraphDebugDotPrint: {
    parameters: ["u64", /* CUgraph hGraph */ "buffer", /* const char *path */ "u32" /* unsigned int flags */],
    result: "i32",
  },
  cuGraphExecUpdate_v2: {
    parameters: [
      "u64", // CUgraphExec hGraphExec
      "u64", // CUgraph hGraph
      "buffer", // CUgraphExecUpdateResultInfo *resultInfo
    ],
    result: "i32",
  },
  cuGraphExecKernelNodeSetParams_v2: {
    parameters: [
      "u64", // CUgraphExec hGraphExec
      "u64", // CUgraphNode hNode
      "buffer", // const CUDA_KERNEL_NODE_PARAMS *nodeParams
    ],
    result: "i32",
  },
  cuGraphExecMemcpyNodeSetParams: {
    parameters: [
      "u64", // CUgraphExec hGraphExec
      "u64", // CUgraphNode hNode
      "buffer", // const CUDA_MEMCPY3D *copyParams
      "u64", // CUcontext ctx
    ],
    result: "i32",
  },
  cuGraphExecMemsetNodeSetParams: {
    parameters: [
      "u64", // CUgraphExec hGraphExec
      "u64", // CUgraphNode hNode
      "buffer", // const CUDA_MEMSET_NODE_PARAMS *memsetParams
      "u64", // CUcontext ctx
    ],
    result: "i32",
  },
  cuGraphExecEventRecordNodeSetEvent: {
    parameters: ["u64", /* CUgraphExec hGraphExec */ "u64", /* CUgraphNode hNode */ "u64" /* CUevent event */],
    result: "i32",
  },
  cuGraphExecEventWaitNodeSetEvent: {
    parameters: ["u64", /* CUgraphExec hGraphExec */ "u64", /* CUgraphNode hNode */ "u64" /* CUevent event */],
    result: "i32",
  },
  cuGraphExecChildGraphNodeSetParams: {
    parameters: ["u64", /* CUgraphExec hGraphExec */ "u64", /* CUgraphNode hNode */ "u64" /* CUgraph childGraph */],
    result: "i32",
  },
  cuGraphNodeSetEnabled: {
    parameters: [
      "u64", // CUgraphExec hGraphExec
      "u64", // CUgraphNode hNode
      "u32", // unsigned int isEnabled
    ],
    result: "i32",
  },
  cuGraphNodeGetEnabled: {
    parameters: [
      "u64", // CUgraphExec hGraphExec
      "u64", // CUgraphNode hNode
      "buffer", // unsigned int *isEnabled
    ],
    result: "i32",
  },
  cuDeviceGetGraphMemAttribute: {
    parameters: ["i32", /* CUdevice device */ "i32", /* CUgraphMem_attribute attr */ "buffer" /* void *value */],
    result: "i32",
  },
  cuDeviceSetGraphMemAttribute: {
    parameters: ["i32", /* CUdevice device */ "i32", /* CUgraphMem_attribute attr */ "buffer" /* void *value */],
    result: "i32",
  },
  cuDeviceGraphMemTrim: { parameters: ["i32" /* CUdevice device */], result: "i32" },
  cuStreamGetCtx: {
    parameters: ["u64", /* CUstream hStream */ "buffer" /* CUcontext *pctx */],
    result: "i32",
  },
  cuStreamGetDevice: {
    parameters: ["u64", /* CUstream hStream */ "buffer" /* CUdevice *device */],
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

  cuModuleLoadDataEx: {
    parameters: [
      "buffer", // CUmodule *module
      "buffer", // const void *image
      "u32", // unsigned int numOptions
      "buffer", // CUjit_option *options
      "buffer", // void **optionValues
    ],
    result: "i32",
  },
  cuLinkCreate_v2: {
    parameters: [
      "u32", // unsigned int numOptions
      "buffer", // CUjit_option *options
      "buffer", // void **optionValues
      "buffer", // CUlinkState *stateOut
    ],
    result: "i32",
  },
  cuLinkAddData_v2: {
    parameters: [
      "u64", // CUlinkState state
      "i32", // CUjitInputType type
      "buffer", // void *data
      "u64", // size_t size
      "buffer", // const char *name
      "u32", // unsigned int numOptions
      "buffer", // CUjit_option *options
      "buffer", // void **optionValues
    ],
    result: "i32",
  },
  cuLinkComplete: {
    parameters: ["u64", /* CUlinkState state */ "buffer", /* void **cubinOut */ "buffer" /* size_t *sizeOut */],
    result: "i32",
  },
  cuLinkDestroy: { parameters: ["u64" /* CUlinkState state */], result: "i32" },
  cuModuleUnload: { parameters: ["u64" /* CUmodule hmod */], result: "i32" },
  cuModuleGetGlobal_v2: {
    parameters: [
      "buffer", // CUdeviceptr *dptr
      "buffer", // size_t *bytes
      "u64", // CUmodule hmod
      "buffer", // const char *name
    ],
    result: "i32",
  },
  cuModuleGetFunction: {
    parameters: ["buffer", /* CUfunction *hfunc */ "u64", /* CUmodule hmod */ "buffer" /* const char *name */],
    result: "i32",
  },
  cuModuleGetFunctionCount: {
    parameters: ["buffer", /* unsigned int *count */ "u64" /* CUmodule mod */],
    result: "i32",
  },
  cuModuleEnumerateFunctions: {
    parameters: ["buffer", /* CUfunction *functions */ "u32", /* unsigned int numFunctions */ "u64" /* CUmodule mod */],
    result: "i32",
  },
  cuFuncGetName: { parameters: ["buffer", /* const char **name */ "u64" /* CUfunction hfunc */], result: "i32" },
  cuFuncGetParamInfo: {
    parameters: [
      "u64", // CUfunction func
      "u64", // size_t paramIndex
      "buffer", // size_t *paramOffset
      "buffer", // size_t *paramSize
    ],
    result: "i32",
  },
  cuFuncGetAttribute: {
    parameters: ["buffer", /* int *pi */ "i32", /* CUfunction_attribute attrib */ "u64" /* CUfunction hfunc */],
    result: "i32",
  },
  cuFuncSetAttribute: {
    parameters: ["u64", /* CUfunction hfunc */ "i32", /* CUfunction_attribute attrib */ "i32" /* int value */],
    result: "i32",
  },
  cuLaunchKernel: {
    parameters: [
      "u64", // CUfunction f
      "u32", // unsigned int gridDimX
      "u32", // unsigned int gridDimY
      "u32", // unsigned int gridDimZ
      "u32", // unsigned int blockDimX
      "u32", // unsigned int blockDimY
      "u32", // unsigned int blockDimZ
      "u32", // unsigned int sharedMemBytes
      "u64", // CUstream hStream
      "u64", // void **kernelParams
      "buffer", // void **extra
    ],
    result: "i32",
  },
  cuFuncSetCacheConfig: {
    parameters: ["u64", /* CUfunction hfunc */ "i32" /* CUfunc_cache config */],
    result: "i32",
  },
  cuTensorMapEncodeTiled: {
    parameters: [
      "buffer", // CUtensorMap *tensorMap
      "i32", // CUtensorMapDataType tensorDataType
      "u32", // cuuint32_t tensorRank
      "u64", // void *globalAddress
      "buffer", // const cuuint64_t *globalDim
      "buffer", // const cuuint64_t *globalStrides
      "buffer", // const cuuint32_t *boxDim
      "buffer", // const cuuint32_t *elementStrides
      "i32", // CUtensorMapInterleave interleave
      "i32", // CUtensorMapSwizzle swizzle
      "i32", // CUtensorMapL2promotion l2Promotion
      "i32", // CUtensorMapFloatOOBfill oobFill
    ],
    result: "i32",
  },
  cuTensorMapEncodeIm2col: {
    parameters: [
      "buffer", // CUtensorMap *tensorMap
      "i32", // CUtensorMapDataType tensorDataType
      "u32", // cuuint32_t tensorRank
      "u64", // void *globalAddress
      "buffer", // const cuuint64_t *globalDim
      "buffer", // const cuuint64_t *globalStrides
      "buffer", // const int *pixelBoxLowerCorner
      "buffer", // const int *pixelBoxUpperCorner
      "u32", // cuuint32_t channelsPerPixel
      "u32", // cuuint32_t pixelsPerColumn
      "buffer", // const cuuint32_t *elementStrides
      "i32", // CUtensorMapInterleave interleave
      "i32", // CUtensorMapSwizzle swizzle
      "i32", // CUtensorMapL2promotion l2Promotion
      "i32", // CUtensorMapFloatOOBfill oobFill
    ],
    result: "i32",
  },
  cuLaunchKernelEx: {
    parameters: [
      "buffer", // const CUlaunchConfig *config
      "u64", // CUfunction f
      "u64", // void **kernelParams
      "buffer", // void **extra
    ],
    result: "i32",
  },
  cuOccupancyMaxPotentialBlockSize: {
    parameters: [
      "buffer", // int *minGridSize
      "buffer", // int *blockSize
      "u64", // CUfunction func
      "u64", // CUoccupancyB2DSize blockSizeToDynamicSMemSize
      "u64", // size_t dynamicSMemSize
      "i32", // int blockSizeLimit
    ],
    result: "i32",
  },
  cuOccupancyMaxActiveClusters: {
    parameters: [
      "buffer",
      /* int *numClusters */ "u64",
      /* CUfunction func */ "buffer", /* const CUlaunchConfig *config */
    ],
    result: "i32",
  },
  cuOccupancyMaxActiveBlocksPerMultiprocessor: {
    parameters: [
      "buffer", // int *numBlocks
      "u64", // CUfunction func
      "i32", // int blockSize
      "u64", // size_t dynamicSMemSize
    ],
    result: "i32",
  },

  // driver_equivalents.ts uses the following functions to implement those of the runtime library.
  cuDeviceGetCount: { parameters: ["buffer" /* int *count */], result: "i32" },
  cuDevicePrimaryCtxRetain: { parameters: ["buffer", /* CUcontext *pctx */ "i32" /* CUdevice dev */], result: "i32" },
  cuDevicePrimaryCtxRelease_v2: { parameters: ["i32" /* CUdevice dev */], result: "i32" },
  cuCtxSetCurrent: { parameters: ["u64" /* CUcontext ctx */], result: "i32" },
  cuCtxSynchronize: { parameters: [], result: "i32" },
  cuCtxEnablePeerAccess: {
    parameters: ["u64", /* CUcontext peerContext */ "u32" /* unsigned int Flags */],
    result: "i32",
  },
  cuCtxDisablePeerAccess: { parameters: ["u64" /* CUcontext peerContext */], result: "i32" },
  cuDeviceGetAttribute: {
    parameters: ["buffer", /* int *pi */ "i32", /* CUdevice_attribute attrib */ "i32" /* CUdevice dev */],
    result: "i32",
  },
  cuDeviceCanAccessPeer: {
    parameters: ["buffer", /* int *canAccessPeer */ "i32", /* CUdevice dev */ "i32" /* CUdevice peerDev */],
    result: "i32",
  },
  cuMemGetInfo_v2: { parameters: ["buffer", /* size_t *free */ "buffer" /* size_t *total */], result: "i32" },
  cuCtxGetStreamPriorityRange: {
    parameters: ["buffer", /* int *leastPriority */ "buffer" /* int *greatestPriority */],
    result: "i32",
  },
  cuStreamCreateWithPriority: {
    parameters: ["buffer", /* CUstream *phStream */ "u32", /* unsigned int flags */ "i32" /* int priority */],
    result: "i32",
  },
  cuStreamDestroy_v2: { parameters: ["u64" /* CUstream hStream */], result: "i32" },
  cuStreamQuery: { parameters: ["u64" /* CUstream hStream */], result: "i32" },
  cuStreamGetFlags: {
    parameters: ["u64", /* CUstream hStream */ "buffer" /* unsigned int *flags */],
    result: "i32",
  },
  cuStreamGetPriority: {
    parameters: ["u64", /* CUstream hStream */ "buffer" /* int *priority */],
    result: "i32",
  },
  cuStreamSynchronize: { parameters: ["u64" /* CUstream hStream */], result: "i32" },
  cuEventCreate: { parameters: ["buffer", /* CUevent *phEvent */ "u32" /* unsigned int Flags */], result: "i32" },
  cuEventDestroy_v2: { parameters: ["u64" /* CUevent hEvent */], result: "i32" },
  cuEventSynchronize: { parameters: ["u64" /* CUevent hEvent */], result: "i32" },
  cuEventElapsedTime: {
    parameters: ["buffer", /* float *pMilliseconds */ "u64", /* CUevent hStart */ "u64" /* CUevent hEnd */],
    result: "i32",
  },
  cuIpcGetEventHandle: {
    parameters: ["buffer", /* CUipcEventHandle *pHandle */ "u64" /* CUevent event */],
    result: "i32",
  },
  cuDeviceGetDefaultMemPool: {
    parameters: ["buffer", /* CUmemoryPool *pool_out */ "i32" /* CUdevice dev */],
    result: "i32",
  },
  cuDeviceGetMemPool: { parameters: ["buffer", /* CUmemoryPool *pool */ "i32" /* CUdevice dev */], result: "i32" },
  cuDeviceSetMemPool: { parameters: ["i32", /* CUdevice dev */ "u64" /* CUmemoryPool pool */], result: "i32" },
  cuMemPoolCreate: {
    parameters: ["buffer", /* CUmemoryPool *pool */ "buffer" /* const CUmemPoolProps *poolProps */],
    result: "i32",
  },
  cuMemPoolDestroy: { parameters: ["u64" /* CUmemoryPool pool */], result: "i32" },
  cuMemPoolGetAttribute: {
    parameters: ["u64", /* CUmemoryPool pool */ "i32", /* CUmemPool_attribute attr */ "buffer" /* void *value */],
    result: "i32",
  },
  cuMemPoolSetAttribute: {
    parameters: ["u64", /* CUmemoryPool pool */ "i32", /* CUmemPool_attribute attr */ "buffer" /* void *value */],
    result: "i32",
  },
  cuMemPoolTrimTo: { parameters: ["u64", /* CUmemoryPool pool */ "u64" /* size_t minBytesToKeep */], result: "i32" },
  cuMemPoolGetAccess: {
    parameters: [
      "buffer", // CUmemAccess_flags *flags
      "u64", // CUmemoryPool memPool
      "buffer", // CUmemLocation *location
    ],
    result: "i32",
  },
  cuMemPoolSetAccess: {
    parameters: ["u64", /* CUmemoryPool pool */ "buffer", /* const CUmemAccessDesc *map */ "u64" /* size_t count */],
    result: "i32",
  },
  cuMemGetDefaultMemPool: {
    parameters: [
      "buffer", // CUmemoryPool *pool_out
      "buffer", // CUmemLocation *location
      "i32", // CUmemAllocationType type
    ],
    result: "i32",
  },
  cuMemGetMemPool: {
    parameters: [
      "buffer", // CUmemoryPool *pool
      "buffer", // CUmemLocation *location
      "i32", // CUmemAllocationType type
    ],
    result: "i32",
  },
  cuMemSetMemPool: {
    parameters: [
      "buffer", // CUmemLocation *location
      "i32", // CUmemAllocationType type
      "u64", // CUmemoryPool pool
    ],
    result: "i32",
  },
  cuMemHostRegister_v2: {
    parameters: ["u64", /* void *p */ "u64", /* size_t bytesize */ "u32" /* unsigned int Flags */],
    result: "i32",
  },
  cuMemHostUnregister: { parameters: ["u64" /* void *p */], result: "i32" },
  cuCtxGetLimit: { parameters: ["buffer", /* size_t *pvalue */ "i32" /* CUlimit limit */], result: "i32" },
  cuCtxSetLimit: { parameters: ["i32", /* CUlimit limit */ "u64" /* size_t value */], result: "i32" },
  // The 8 bytes of a CUmemLocation that is passed by value are in one register, as those of a u64: type | id << 32.
  cuMemAllocManaged: {
    parameters: ["buffer", /* CUdeviceptr *dptr */ "u64", /* size_t bytesize */ "u32" /* unsigned int flags */],
    result: "i32",
  },
  cuMemPrefetchAsync: {
    parameters: [
      "u64", // CUdeviceptr devPtr
      "u64", // size_t count
      "i32", // CUdevice dstDevice
      "u64", // CUstream hStream
    ],
    result: "i32",
  },
  cuMemPrefetchAsync_v2: {
    parameters: [
      "u64", // CUdeviceptr devPtr
      "u64", // size_t count
      "u64", // CUmemLocation location
      "u32", // unsigned int flags
      "u64", // CUstream hStream
    ],
    result: "i32",
  },
  cuMemAdvise: {
    parameters: [
      "u64", // CUdeviceptr devPtr
      "u64", // size_t count
      "i32", // CUmem_advise advice
      "i32", // CUdevice device
    ],
    result: "i32",
  },
  cuMemAdvise_v2: {
    parameters: [
      "u64", // CUdeviceptr devPtr
      "u64", // size_t count
      "i32", // CUmem_advise advice
      "u64", // CUmemLocation location
    ],
    result: "i32",
  },
  cuMemDiscardBatchAsync: {
    parameters: [
      "buffer", // CUdeviceptr *dptrs
      "buffer", // size_t *sizes
      "u64", // size_t count
      "u64", // unsigned long long flags
      "u64", // CUstream hStream
    ],
    result: "i32",
  },
  cuMemDiscardAndPrefetchBatchAsync: {
    parameters: [
      "buffer", // CUdeviceptr *dptrs
      "buffer", // size_t *sizes
      "u64", // size_t count
      "buffer", // CUmemLocation *prefetchLocs
      "buffer", // size_t *prefetchLocIdxs
      "u64", // size_t numPrefetchLocs
      "u64", // unsigned long long flags
      "u64", // CUstream hStream
    ],
    result: "i32",
  },
  cuMemRangeGetAttribute: {
    parameters: [
      "buffer", // void *data
      "u64", // size_t dataSize
      "i32", // CUmem_range_attribute attribute
      "u64", // CUdeviceptr devPtr
      "u64", // size_t count
    ],
    result: "i32",
  },
  cuMemAlloc_v2: { parameters: ["buffer", /* CUdeviceptr *dptr */ "u64" /* size_t bytesize */], result: "i32" },
  cuIpcGetMemHandle: {
    parameters: ["buffer", /* CUipcMemHandle *pHandle */ "u64" /* CUdeviceptr dptr */],
    result: "i32",
  },
  cuIpcCloseMemHandle: { parameters: ["u64" /* CUdeviceptr dptr */], result: "i32" },
  cuMemFree_v2: { parameters: ["u64" /* CUdeviceptr dptr */], result: "i32" },
  cuMemPoolExportToShareableHandle: {
    parameters: [
      "buffer", // void *handle_out
      "u64", // CUmemoryPool pool
      "i32", // CUmemAllocationHandleType handleType
      "u64", // unsigned long long flags
    ],
    result: "i32",
  },
  cuMemPoolImportFromShareableHandle: {
    parameters: [
      "buffer", // CUmemoryPool *pool_out
      "u64", // void *handle
      "i32", // CUmemAllocationHandleType handleType
      "u64", // unsigned long long flags
    ],
    result: "i32",
  },
  cuMemPoolExportPointer: {
    parameters: ["buffer", /* CUmemPoolPtrExportData *shareData_out */ "u64" /* CUdeviceptr ptr */],
    result: "i32",
  },
  cuMemGetAllocationGranularity: {
    parameters: [
      "buffer", // size_t *granularity
      "buffer", // const CUmemAllocationProp *prop
      "i32", // CUmemAllocationGranularity_flags option
    ],
    result: "i32",
  },
  cuMemCreate: {
    parameters: [
      "buffer", // CUmemGenericAllocationHandle *handle
      "u64", // size_t size
      "buffer", // const CUmemAllocationProp *prop
      "u64", // unsigned long long flags
    ],
    result: "i32",
  },
  cuMemRelease: { parameters: ["u64" /* CUmemGenericAllocationHandle handle */], result: "i32" },
  cuMemExportToShareableHandle: {
    parameters: [
      "buffer", // void *shareableHandle
      "u64", // CUmemGenericAllocationHandle handle
      "i32", // CUmemAllocationHandleType handleType
      "u64", // unsigned long long flags
    ],
    result: "i32",
  },
  cuMemImportFromShareableHandle: {
    parameters: [
      "buffer", // CUmemGenericAllocationHandle *handle
      "u64", // void *osHandle
      "i32", // CUmemAllocationHandleType shHandleType
    ],
    result: "i32",
  },
  cuMemGetAllocationPropertiesFromHandle: {
    parameters: ["buffer", /* CUmemAllocationProp *prop */ "u64" /* CUmemGenericAllocationHandle handle */],
    result: "i32",
  },
  cuMemAddressReserve: {
    parameters: [
      "buffer", // CUdeviceptr *ptr
      "u64", // size_t size
      "u64", // size_t alignment
      "u64", // CUdeviceptr addr
      "u64", // unsigned long long flags
    ],
    result: "i32",
  },
  cuMemAddressFree: { parameters: ["u64", /* CUdeviceptr ptr */ "u64" /* size_t size */], result: "i32" },
  cuMemMap: {
    parameters: [
      "u64", // CUdeviceptr ptr
      "u64", // size_t size
      "u64", // size_t offset
      "u64", // CUmemGenericAllocationHandle handle
      "u64", // unsigned long long flags
    ],
    result: "i32",
  },
  cuMemUnmap: { parameters: ["u64", /* CUdeviceptr ptr */ "u64" /* size_t size */], result: "i32" },
  cuMemSetAccess: {
    parameters: [
      "u64", // CUdeviceptr ptr
      "u64", // size_t size
      "buffer", // const CUmemAccessDesc *desc
      "u64", // size_t count
    ],
    result: "i32",
  },
  cuMemGetAccess: {
    parameters: [
      "buffer", // unsigned long long *flags
      "buffer", // const CUmemLocation *location
      "u64", // CUdeviceptr ptr
    ],
    result: "i32",
  },
  cuMemHostAlloc: {
    parameters: ["buffer", /* void **pp */ "u64", /* size_t bytesize */ "u32" /* unsigned int Flags */],
    result: "i32",
  },
  cuMemFreeHost: { parameters: ["u64" /* void *p */], result: "i32" },
  cuMemcpyAsync: {
    parameters: [
      "u64", // CUdeviceptr dst
      "u64", // CUdeviceptr src
      "u64", // size_t ByteCount
      "u64", // CUstream hStream
    ],
    result: "i32",
  },
  cuMemcpyPeerAsync: {
    parameters: [
      "u64", // CUdeviceptr dstDevice
      "u64", // CUcontext dstContext
      "u64", // CUdeviceptr srcDevice
      "u64", // CUcontext srcContext
      "u64", // size_t ByteCount
      "u64", // CUstream hStream
    ],
    result: "i32",
  },
  cuMemsetD8Async: {
    parameters: [
      "u64", // CUdeviceptr dstDevice
      "u8", // unsigned char uc
      "u64", // size_t N
      "u64", // CUstream hStream
    ],
    result: "i32",
  },
  cuMemsetD16Async: {
    parameters: [
      "u64", // CUdeviceptr dstDevice
      "u16", // unsigned short us
      "u64", // size_t N
      "u64", // CUstream hStream
    ],
    result: "i32",
  },
  cuMemsetD32Async: {
    parameters: [
      "u64", // CUdeviceptr dstDevice
      "u32", // unsigned int ui
      "u64", // size_t N
      "u64", // CUstream hStream
    ],
    result: "i32",
  },
  cuMemcpy3DAsync_v2: {
    parameters: ["buffer", /* const CUDA_MEMCPY3D *pCopy */ "u64" /* CUstream hStream */],
    result: "i32",
  },
  cuArray3DCreate_v2: {
    parameters: ["buffer", /* CUarray *pHandle */ "buffer" /* const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray */],
    result: "i32",
  },
  cuArrayDestroy: { parameters: ["u64" /* CUarray hArray */], result: "i32" },
  cuMipmappedArrayCreate: {
    parameters: [
      "buffer", // CUmipmappedArray *pHandle
      "buffer", // const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc
      "u32", // unsigned int numMipmapLevels
    ],
    result: "i32",
  },
  cuMipmappedArrayGetLevel: {
    parameters: [
      "buffer", // CUarray *pLevelArray
      "u64", // CUmipmappedArray hMipmappedArray
      "u32", // unsigned int level
    ],
    result: "i32",
  },
  cuMipmappedArrayDestroy: { parameters: ["u64" /* CUmipmappedArray hMipmappedArray */], result: "i32" },
  cuTexObjectCreate: {
    parameters: [
      "buffer", // CUtexObject *pTexObject
      "buffer", // const CUDA_RESOURCE_DESC *pResDesc
      "buffer", // const CUDA_TEXTURE_DESC *pTexDesc
      "buffer", // const CUDA_RESOURCE_VIEW_DESC *pResViewDesc
    ],
    result: "i32",
  },
  cuTexObjectDestroy: { parameters: ["u64" /* CUtexObject texObject */], result: "i32" },
  cuSurfObjectCreate: {
    parameters: ["buffer", /* CUsurfObject *pSurfObject */ "buffer" /* const CUDA_RESOURCE_DESC *pResDesc */],
    result: "i32",
  },
  cuSurfObjectDestroy: { parameters: ["u64" /* CUsurfObject surfObject */], result: "i32" },
  cuMemcpy3DPeerAsync: {
    parameters: ["buffer", /* const CUDA_MEMCPY3D_PEER *pCopy */ "u64" /* CUstream hStream */],
    result: "i32",
  },
  // CUDA 12.8.
  cuMemcpyBatchAsync: {
    parameters: [
      "buffer", // CUdeviceptr *dsts
      "buffer", // CUdeviceptr *srcs
      "buffer", // size_t *sizes
      "u64", // size_t count
      "buffer", // CUmemcpyAttributes *attrs
      "buffer", // size_t *attrsIdxs
      "u64", // size_t numAttrs
      "buffer", // size_t *failIdx
      "u64", // CUstream hStream
    ],
    result: "i32",
  },
  // CUDA 13.0.
  cuMemcpyBatchAsync_v2: {
    parameters: [
      "buffer", // CUdeviceptr *dsts
      "buffer", // CUdeviceptr *srcs
      "buffer", // size_t *sizes
      "u64", // size_t count
      "buffer", // CUmemcpyAttributes *attrs
      "buffer", // size_t *attrsIdxs
      "u64", // size_t numAttrs
      "u64", // CUstream hStream
    ],
    result: "i32",
  },
  cuMemsetD2D8Async: {
    parameters: [
      "u64", // CUdeviceptr dstDevice
      "u64", // size_t dstPitch
      "u8", // unsigned char uc
      "u64", // size_t Width
      "u64", // size_t Height
      "u64", // CUstream hStream
    ],
    result: "i32",
  },
  cuMemsetD2D16Async: {
    parameters: [
      "u64", // CUdeviceptr dstDevice
      "u64", // size_t dstPitch
      "u16", // unsigned short us
      "u64", // size_t Width
      "u64", // size_t Height
      "u64", // CUstream hStream
    ],
    result: "i32",
  },
  cuMemsetD2D32Async: {
    parameters: [
      "u64", // CUdeviceptr dstDevice
      "u64", // size_t dstPitch
      "u32", // unsigned int ui
      "u64", // size_t Width
      "u64", // size_t Height
      "u64", // CUstream hStream
    ],
    result: "i32",
  },

  cuProfilerStart: { parameters: [], result: "i32" },
  cuProfilerStop: { parameters: [], result: "i32" },
} as const;
