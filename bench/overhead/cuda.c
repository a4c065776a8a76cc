/*
 * A stub of CUDA whose calls return immediately, so that the time of a call is the caller's own. Built into
 * libcuda.so.1 for bench/overhead.ts, and for tests/ffi/other_machines_test.ts together with stand-ins for the
 * libraries of other machines. There is one device without any state: handles and addresses are only distinct.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t latest_handle = 0x1000;
static unsigned latest_allocation;

static int create_handle(void *out) {
  latest_handle += 16;
  memcpy(out, &latest_handle, sizeof latest_handle);
  return 0;
}

static const uint64_t first_address = 0x7f0000000000;
static uint64_t sizes[4096];

static int create_address(void *out, uint64_t size) {
  unsigned index = latest_allocation++ % 4096;
  uint64_t address = first_address + ((uint64_t)index << 21);
  sizes[index] = size;
  memcpy(out, &address, sizeof address);
  return 0;
}

static int store_int(void *out, int value) {
  memcpy(out, &value, sizeof value);
  return 0;
}

/* The process, the offset in the pool and the size are where CUDA's driver has them. */
static int export_pointer(void *data, uint64_t address) {
  uint64_t offset = address - first_address;
  uint64_t words[8] = {(uint64_t)getpid(), address, 0, offset, sizes[offset >> 21 & 4095]};
  memcpy(data, words, sizeof words);
  return 0;
}

/* The caller closes the descriptor. Only sealed memory files and NVIDIA's devices are taken for pools. */
static int export_pool(void *handle) {
  int file = memfd_create("stub-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK);
  return store_int(handle, file);
}

static int allocate_host(void *out, size_t size) {
  void *address = malloc(size);
  memcpy(out, &address, sizeof address);
  return 0;
}

static int free_host(void *address) {
  free(address);
  return 0;
}

static int import_pointer(void *out, const void *data) {
  uint64_t address;
  memcpy(&address, (const char *)data + 8, sizeof address);
  address += 0x10000000000;
  memcpy(out, &address, sizeof address);
  return 0;
}

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { return store_int(version, 13000); }
int cuDeviceGetCount(int *count) { return store_int(count, 1); }
int cuDevicePrimaryCtxRetain(void *context, int device) { return create_handle(context); }
int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuCtxGetCurrent(void *context) { return create_handle(context); }
int cuCtxRecordEvent(void *context, void *event) { return 0; }
int cuStreamCreateWithPriority(void *stream, unsigned flags, int priority) { return create_handle(stream); }
int cuStreamDestroy_v2(void *stream) { return 0; }
int cuStreamQuery(void *stream) { return 0; }
int cuStreamIsCapturing(void *stream, int *status) { return store_int(status, 0); }
int cuThreadExchangeStreamCaptureMode(int *mode) { return 0; }
int cuStreamSynchronize(void *stream) { return 0; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) { return 0; }
int cuEventCreate(void *event, unsigned flags) { return create_handle(event); }
int cuEventDestroy_v2(void *event) { return 0; }
int cuEventRecord(void *event, void *stream) { return 0; }
int cuEventQuery(void *event) { return 0; }
int cuEventSynchronize(void *event) { return 0; }
int cuEventElapsedTime(float *milliseconds, void *begin, void *end) { *milliseconds = 1; return 0; }
int cuCtxGetStreamPriorityRange(int *least, int *greatest) { *least = 0; *greatest = -5; return 0; }
int cuMemGetInfo_v2(size_t *free, size_t *total) {
  *free = *total = (size_t)1 << 33;
  return 0;
}
int cuMemPoolCreate(void *pool, const void *props) { return create_handle(pool); }
int cuMemPoolDestroy(void *pool) { return 0; }
int cuMemPoolSetAttribute(void *pool, int attribute, void *value) { return 0; }
int cuMemPoolGetAccess(int *flags, void *pool, const void *location) { return store_int(flags, 3); }
int cuMemAllocFromPoolAsync(void *address, size_t size, void *pool, void *stream) {
  return create_address(address, size);
}
int cuMemFreeAsync(uint64_t address, void *stream) { return 0; }
int cuMemFree_v2(uint64_t address) { return 0; }
int cuMemPoolExportToShareableHandle(void *handle, void *pool, int type, uint64_t flags) { return export_pool(handle); }
int cuMemPoolImportFromShareableHandle(void *pool, void *handle, int type, uint64_t flags) {
  return create_handle(pool);
}
int cuMemPoolExportPointer(void *data, uint64_t address) { return export_pointer(data, address); }
int cuMemPoolImportPointer(void *address, void *pool, const void *data) { return import_pointer(address, data); }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t count, void *stream) { return 0; }
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t count, void *stream) { return 0; }
int cuMemHostAlloc(void *address, size_t size, unsigned flags) { return allocate_host(address, size); }
int cuMemFreeHost(void *address) { return free_host(address); }
int cuModuleLoadDataEx(void *module, const void *image, unsigned options, void *names, void *values) {
  return create_handle(module);
}
int cuModuleUnload(void *module) { return 0; }
int cuModuleGetFunction(void *function, void *module, const char *name) { return create_handle(function); }
int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_memory, void *stream, void **parameters,
                   void **extra) {
  return 0;
}

int cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t address) {
  *base = address;
  *size = 1 << 21;
  return 0;
}
