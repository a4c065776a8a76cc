/*
 * Stands for a libcudart, of VERSION, over the libcuda of cuda.c. Where RESULT is not 0, that is what every call gives.
 */
#include <stddef.h>
#include <stdint.h>

#define TWIN(name, twin, parameters, arguments) \
  int twin parameters;                          \
  int name parameters { return RESULT == 0 ? twin arguments : RESULT; }
#define NOTHING(name) \
  int name() { return RESULT; }

int cudaRuntimeGetVersion(int *version) {
  *version = VERSION;
  return RESULT;
}
int cudaIpcOpenEventHandle(void *event) { return RESULT; }
int cudaIpcOpenMemHandle(void *address) { return RESULT; }

TWIN(cudaDriverGetVersion, cuDriverGetVersion, (int *out), (out))
TWIN(cudaGetDeviceCount, cuDeviceGetCount, (int *out), (out))
TWIN(cudaDeviceGetAttribute, cuDeviceGetAttribute, (int *out, int attribute, int device), (out, attribute, device))
TWIN(cudaDeviceCanAccessPeer, cuDeviceCanAccessPeer, (int *out, int device, int peer), (out, device, peer))
TWIN(cudaMemGetInfo, cuMemGetInfo_v2, (size_t *free, size_t *total), (free, total))
TWIN(cudaDeviceGetStreamPriorityRange, cuCtxGetStreamPriorityRange, (int *least, int *greatest), (least, greatest))
TWIN(cudaStreamCreateWithPriority, cuStreamCreateWithPriority, (void *out, unsigned flags, int priority),
     (out, flags, priority))
TWIN(cudaEventCreateWithFlags, cuEventCreate, (void *out, unsigned flags), (out, flags))
TWIN(cudaDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, (void *out, int device), (out, device))
TWIN(cudaDeviceGetMemPool, cuDeviceGetMemPool, (void *out, int device), (out, device))
TWIN(cudaMemPoolCreate, cuMemPoolCreate, (void *out, const int *properties), (out, properties))
TWIN(cudaMemPoolGetAttribute, cuMemPoolGetAttribute, (void *pool, int attribute, void *out), (pool, attribute, out))
TWIN(cudaMemPoolGetAccess, cuMemPoolGetAccess, (int *out, void *pool, const void *location), (out, pool, location))
TWIN(cudaMalloc, cuMemAlloc_v2, (void *out, size_t size), (out, size))
TWIN(cudaHostAlloc, cuMemHostAlloc, (void *out, size_t size, unsigned flags), (out, size, flags))
TWIN(cudaFreeHost, cuMemFreeHost, (void *address), (address))
TWIN(cudaMemPoolExportPointer, cuMemPoolExportPointer, (void *out, uint64_t address), (out, address))
TWIN(cudaMemPoolExportToShareableHandle, cuMemPoolExportToShareableHandle,
     (void *out, void *pool, int type, uint64_t flags), (out, pool, type, 0))
TWIN(cudaMemPoolImportFromShareableHandle, cuMemPoolImportFromShareableHandle,
     (void *out, void *handle, int type, uint64_t flags), (out, handle, type, 0))

NOTHING(cudaGetLastError)
NOTHING(cudaSetDevice)
NOTHING(cudaDeviceSynchronize)
NOTHING(cudaDeviceEnablePeerAccess)
NOTHING(cudaDeviceDisablePeerAccess)
NOTHING(cudaStreamDestroy)
NOTHING(cudaStreamQuery)
NOTHING(cudaStreamSynchronize)
NOTHING(cudaEventDestroy)
NOTHING(cudaEventSynchronize)
NOTHING(cudaEventElapsedTime)
NOTHING(cudaIpcGetEventHandle)
NOTHING(cudaDeviceSetMemPool)
NOTHING(cudaMemPoolDestroy)
NOTHING(cudaMemPoolSetAttribute)
NOTHING(cudaMemPoolTrimTo)
NOTHING(cudaMemPoolSetAccess)
NOTHING(cudaFree)
NOTHING(cudaIpcGetMemHandle)
NOTHING(cudaIpcCloseMemHandle)
NOTHING(cudaMemcpyAsync)
NOTHING(cudaMemcpyPeerAsync)
NOTHING(cudaMemsetAsync)
