/*
 * Stands in for a libcudart of version VERSION, which calls the libcuda of cuda.c. If RESULT is not 0, every call
 * returns it.
 */
#include <stddef.h>
#include <stdint.h>

#define FORWARD(name, equivalent, parameters, arguments) \
  int equivalent parameters;                             \
  int name parameters { return RESULT == 0 ? equivalent arguments : RESULT; }
#define STUB(name) \
  int name() { return RESULT; }

int cudaRuntimeGetVersion(int *version) {
  *version = VERSION;
  return RESULT;
}
int cudaIpcOpenEventHandle(void *event) { return RESULT; }
int cudaIpcOpenMemHandle(void *address) { return RESULT; }

FORWARD(cudaDriverGetVersion, cuDriverGetVersion, (int *out), (out))
FORWARD(cudaGetDeviceCount, cuDeviceGetCount, (int *out), (out))
FORWARD(cudaDeviceGetAttribute, cuDeviceGetAttribute, (int *out, int attribute, int device), (out, attribute, device))
FORWARD(cudaDeviceCanAccessPeer, cuDeviceCanAccessPeer, (int *out, int device, int peer), (out, device, peer))
FORWARD(cudaMemGetInfo, cuMemGetInfo_v2, (size_t *free, size_t *total), (free, total))
FORWARD(cudaDeviceGetStreamPriorityRange, cuCtxGetStreamPriorityRange, (int *least, int *greatest), (least, greatest))
FORWARD(cudaStreamCreateWithPriority, cuStreamCreateWithPriority, (void *out, unsigned flags, int priority),
     (out, flags, priority))
FORWARD(cudaEventCreateWithFlags, cuEventCreate, (void *out, unsigned flags), (out, flags))
FORWARD(cudaDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, (void *out, int device), (out, device))
FORWARD(cudaDeviceGetMemPool, cuDeviceGetMemPool, (void *out, int device), (out, device))
FORWARD(cudaMemPoolCreate, cuMemPoolCreate, (void *out, const int *properties), (out, properties))
FORWARD(cudaMemPoolGetAttribute, cuMemPoolGetAttribute, (void *pool, int attribute, void *out), (pool, attribute, out))
FORWARD(cudaMemPoolGetAccess, cuMemPoolGetAccess, (int *out, void *pool, const void *location), (out, pool, location))
FORWARD(cudaMalloc, cuMemAlloc_v2, (void *out, size_t size), (out, size))
FORWARD(cudaHostAlloc, cuMemHostAlloc, (void *out, size_t size, unsigned flags), (out, size, flags))
FORWARD(cudaFreeHost, cuMemFreeHost, (void *address), (address))
FORWARD(cudaMemPoolExportPointer, cuMemPoolExportPointer, (void *out, uint64_t address), (out, address))
FORWARD(cudaMemPoolExportToShareableHandle, cuMemPoolExportToShareableHandle,
     (void *out, void *pool, int type, uint64_t flags), (out, pool, type, 0))
FORWARD(cudaMemPoolImportFromShareableHandle, cuMemPoolImportFromShareableHandle,
     (void *out, void *handle, int type, uint64_t flags), (out, handle, type, 0))

FORWARD(cudaStreamGetFlags, cuStreamGetFlags, (void *stream, unsigned *out), (stream, out))
FORWARD(cudaStreamGetPriority, cuStreamGetPriority, (void *stream, int *out), (stream, out))

STUB(cudaGetLastError)
STUB(cudaSetDevice)
STUB(cudaDeviceSynchronize)
STUB(cudaDeviceEnablePeerAccess)
STUB(cudaDeviceDisablePeerAccess)
STUB(cudaStreamDestroy)
STUB(cudaStreamQuery)
STUB(cudaStreamSynchronize)
STUB(cudaEventDestroy)
STUB(cudaEventSynchronize)
STUB(cudaEventElapsedTime)
STUB(cudaIpcGetEventHandle)
STUB(cudaDeviceSetMemPool)
STUB(cudaMemPoolDestroy)
STUB(cudaMemPoolSetAttribute)
STUB(cudaMemPoolTrimTo)
STUB(cudaMemPoolSetAccess)
STUB(cudaProfilerStart)
STUB(cudaProfilerStop)
STUB(cudaFree)
STUB(cudaIpcGetMemHandle)
STUB(cudaIpcCloseMemHandle)
STUB(cudaMemcpyAsync)
STUB(cudaMemcpyPeerAsync)
STUB(cudaMemsetAsync)
