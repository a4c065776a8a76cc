/*
 * Stands in for the libcuda of other machines. It does no more than bench/overhead/cuda.c, with which it is linked;
 * functions here take precedence. The properties of the machine come from the variable MACHINE and can be changed by
 * machine_set. The test selects the functions that a version exports.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { success, invalid_value, not_supported = 801 };
enum { location_device = 1 };
enum { event_interprocess = 4 };

/* The settings, in the order of tests/ffi/other_machines/machines.ts. */
enum {
  init_result,
  version,
  device_count,
  reported_handle_types,
  accepted_handle_types,
  ipc_events,
  mig_instance,
  uses_mps,
  import_limit,
  settings
};

static int machine[settings];

__attribute__((constructor)) static void read_machine(void) {
  char *text = getenv("MACHINE");
  for (int i = 0; i < settings && text != NULL && *text != 0; i++) {
    machine[i] = (int)strtol(text, &text, 10);
    text += *text == ',';
  }
}

void machine_set(int setting, int value) { machine[setting] = value; }

static int put(void *out, int value) {
  memcpy(out, &value, sizeof value);
  return success;
}

static int put_handle(void *out) {
  static uint64_t latest = 0x100000;
  latest += 16;
  memcpy(out, &latest, sizeof latest);
  return success;
}

int cuInit(unsigned flags) { return machine[init_result]; }
int cuDriverGetVersion(int *out) { return put(out, machine[version]); }
int cuDeviceGetCount(int *count) { return put(count, machine[device_count]); }

int cuDeviceGetName(char *name, int length, int device) {
  if (machine[mig_instance] == 0) snprintf(name, length, "Simulated GPU");
  else snprintf(name, length, "Simulated GPU MIG 1g.5gb");
  return success;
}

static int gpu_uuid(unsigned char *uuid, int device) {
  for (int i = 0; i < 16; i++) uuid[i] = 0xa0 + i;
  uuid[15] = device;
  return success;
}

/* Returns the UUID of the GPU, whichever MIG instance the process has. */
int cuDeviceGetUuid(unsigned char *uuid, int device) { return gpu_uuid(uuid, device); }

int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
  gpu_uuid(uuid, device);
  uuid[0] += machine[mig_instance];
  return success;
}

static int put_since(int first, int *out, int value) {
  return machine[version] < first ? invalid_value : put(out, value);
}

int cuDeviceGetAttribute(int *out, int attribute, int device) {
  switch (attribute) {
    case 97: return put(out, 232448);
    case 75: return put(out, 8);
    case 76: return put(out, 0);
    case 115: return put_since(11020, out, 1);
    case 119: return put_since(11030, out, machine[reported_handle_types]);
    case 125: return put_since(12000, out, machine[ipc_events]);
    case 133: return put_since(12020, out, machine[uses_mps]);
    case 142: return put_since(12090, out, 1);
    case 144: return put_since(13000, out, 1);
    default: return put(out, 1);
  }
}

int cuMemPoolCreate(void *pool, const int *properties) {
  int handle_types = properties[1], location = properties[2];
  if ((handle_types & ~machine[accepted_handle_types]) != 0) return invalid_value;
  if (location != location_device && machine[version] < 12020) return invalid_value;
  return put_handle(pool);
}

/* The latest allocations of pools and imports of them, and what memory was last set to. */
static struct { uint64_t address; size_t size; } allocations[256];
static unsigned char latest_byte;

static size_t size_at(uint64_t address) {
  for (int i = 0; i < 256; i++) {
    if (allocations[i].address == address) return allocations[i].size;
  }
  return (size_t)1 << 21;
}

static int put_allocation(uint64_t *address, size_t size) {
  static uint64_t count;
  put_handle(address);
  allocations[count % 256].address = *address;
  allocations[count++ % 256].size = size;
  return success;
}

int cuMemAllocFromPoolAsync(uint64_t *address, size_t size, void *pool, void *stream) {
  return put_allocation(address, size);
}

/* The address is the second word of the export data. */
int cuMemPoolImportPointer(uint64_t *address, void *pool, const uint64_t *data) {
  size_t size = size_at(data[1]);
  /* Not raise(): a runtime's handler would return from that. */
  if (machine[import_limit] != 0 && size >> 20 > machine[import_limit]) *(volatile int *)8 = 0;
  return put_allocation(address, size);
}

int cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t address) {
  *base = address;
  *size = size_at(address);
  return success;
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t count, void *stream) {
  if (count == 1) memcpy(to, &latest_byte, 1);
  return success;
}

int cuEventCreate(void *event, unsigned flags) {
  if ((flags & event_interprocess) != 0 && !machine[ipc_events]) return not_supported;
  return put_handle(event);
}

int cuDeviceCanAccessPeer(int *out, int device, int peer) { return put(out, 0); }
int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return 0;
}

int cuDeviceGetDefaultMemPool(void *pool, int device) { return put_handle(pool); }
int cuDeviceGetMemPool(void *pool, int device) { return put_handle(pool); }
int cuDeviceSetMemPool(int device, void *pool) { return success; }
int cuMemAlloc_v2(void *address, size_t size) { return put_handle(address); }
int cuIpcGetMemHandle(void *handle, uint64_t address) { return success; }
int cuIpcGetEventHandle(void *handle, void *event) { return success; }
int cuIpcCloseMemHandle(uint64_t address) { return success; }
int cuIpcOpenEventHandle(void *event) { return put_handle(event); }
int cuIpcOpenMemHandle_v2(void *address) { return put_handle(address); }
int cuCtxSynchronize(void) { return success; }
int cuCtxGetCurrent(uint64_t *context) { return *context = 0xc000, success; }
int cuStreamGetCtx(void *stream, uint64_t *context) { return *context = 0xc000, success; }
int cuStreamGetDevice(void *stream, int *out) { return put(out, 0); }
int cuStreamGetFlags(void *stream, unsigned *out) { return put(out, 0); }
int cuStreamGetPriority(void *stream, int *out) { return put(out, -3); }
int cuProfilerStart(void) { return success; }
int cuProfilerStop(void) { return success; }
int cuCtxRecordEvent(void *context, void *event) { return success; }
int cuCtxEnablePeerAccess(void *context, unsigned flags) { return success; }
int cuCtxDisablePeerAccess(void *context) { return success; }
int cuStreamQuery(void *stream) { return success; }
int cuStreamIsCapturing(void *stream, int *out) { return put(out, 0); }
int cuThreadExchangeStreamCaptureMode(int *mode) { return success; }
int cuEventSynchronize(void *event) { return success; }
int cuEventElapsedTime(float *out, void *start, void *end) { return put(out, 0); }
int cuMemPoolGetAttribute(void *pool, int attribute, void *value) { return put(value, 0); }
int cuMemGetAllocationGranularity(size_t *out, const void *properties, int option) { return *out = 1 << 21, success; }
int cuMemCreate(void *memory, size_t size, const void *properties, uint64_t flags) { return put_handle(memory); }
int cuMemRelease(uint64_t memory) { return success; }
int cuMemExportToShareableHandle(int *out, uint64_t memory, int type, uint64_t flags) {
  *out = memfd_create("memory", MFD_ALLOW_SEALING);
  return ftruncate(*out, 1 << 21) == 0 && fcntl(*out, F_ADD_SEALS, F_SEAL_SHRINK) == 0 ? success : invalid_value;
}
int cuMemImportFromShareableHandle(void *memory, uint64_t handle, int type) { return put_handle(memory); }
int cuMemGetAllocationPropertiesFromHandle(int *properties, uint64_t memory) {
  properties[2] = location_device;
  properties[3] = 0;
  return success;
}
int cuMemAddressReserve(void *address, size_t size, size_t alignment, uint64_t wanted, uint64_t flags) {
  return put_handle(address);
}
int cuMemAddressFree(uint64_t address, size_t size) { return success; }
int cuMemMap(uint64_t address, size_t size, size_t offset, uint64_t memory, uint64_t flags) { return success; }
int cuMemUnmap(uint64_t address, size_t size) { return success; }
int cuMemSetAccess(uint64_t address, size_t size, const void *descriptions, size_t count) { return success; }
int cuMemGetAccess(uint64_t *out, const void *location, uint64_t address) { return *out = 3, success; }
int cuMemPoolTrimTo(void *pool, size_t kept) { return success; }
int cuMemPoolSetAccess(void *pool, const void *descriptions, size_t count) { return success; }
int cuPointerGetAttribute(void *out, int attribute, uint64_t address) {
  enum { memory_type = 2, range_start = 11, range_size = 12 };
  switch (attribute) {
    case memory_type: return put(out, 2);
    case range_start: return memcpy(out, &address, sizeof address), success;
    case range_size: return put(out, 1024);
    default: return put(out, 0);
  }
}
int cuModuleGetGlobal_v2(void *address, size_t *size, void *module, const char *name) { return put_handle(address); }

/* The options of the JIT, in cuda.h's numbers. */
enum { jit_max_registers, jit_info_log = 3, jit_error_log = 5, jit_optimization_level = 7, jit_debug = 11, jit_verbose, jit_lines };
enum { invalid_ptx = 218, unsupported_ptx_version = 222 };

static void *jit_value(unsigned count, const int *options, void **values, int option) {
  for (unsigned i = 0; i < count; i++) {
    if (options[i] == option) return values[i];
  }
  return NULL;
}

/* Writes the options to the log. The buffer for it is larger. */
static void log_options(unsigned count, const int *options, void **values) {
  char *log = jit_value(count, options, values, jit_info_log);
  if (log == NULL) return;
  const char *names[] = {[jit_max_registers] = "registers", [jit_optimization_level] = "level", [jit_debug] = "debug",
                         [jit_verbose] = "verbose", [jit_lines] = "lines"};
  for (unsigned i = 0; i < count; i++) {
    int option = options[i];
    if (option == jit_max_registers || option == jit_optimization_level || option >= jit_debug)
      log += sprintf(log, "%s %d\n", names[option], (int)(intptr_t)values[i]);
  }
}

int cuModuleLoadDataEx(void *module, const void *image, unsigned count, const int *options, void **values) {
  log_options(count, options, values);
  return put_handle(module);
}

static char *link_errors;

int cuLinkCreate_v2(unsigned count, const int *options, void **values, void *state) {
  log_options(count, options, values);
  link_errors = jit_value(count, options, values, jit_error_log);
  return put_handle(state);
}
int cuLinkAddData_v2(void *state, int type, const char *data, size_t size, const char *name, unsigned count,
                     const int *options, void **values) {
  int is_ptx = type == 1;
  if (is_ptx && (size == 0 || data[size - 1] != 0)) return invalid_value;
  if (is_ptx && strstr(data, "newer") != NULL) {
    sprintf(link_errors, "ptxas %s: Unsupported .version", name);
    return unsupported_ptx_version;
  }
  if (is_ptx && strstr(data, "broken") != NULL) {
    sprintf(link_errors, "ptxas %s, line 4; fatal", name);
    return invalid_ptx;
  }
  return is_ptx || type == 0 ? success : invalid_value;
}
int cuLinkComplete(void *state, const void **cubin, size_t *size) {
  static const char linked[] = "linked";
  *cubin = linked;
  *size = sizeof linked;
  return success;
}
int cuLinkDestroy(void *state) { return success; }

/* A kernel of the type (float, char, void *), in a module of its own. */
int cuModuleGetFunctionCount(unsigned *count, void *module) { return put(count, 1); }
int cuModuleEnumerateFunctions(void *functions, unsigned count, void *module) { return put_handle(functions); }
int cuFuncGetName(const char **name, void *function) {
  *name = "kernel_of_cubin";
  return success;
}
int cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *size) {
  static const size_t offsets[] = {0, 4, 8}, sizes[] = {4, 1, 8};
  if (index >= 3) return invalid_value;
  *offset = offsets[index];
  *size = sizes[index];
  return success;
}
int cuFuncGetAttribute(int *out, int attribute, void *function) {
  return put(out, attribute == 8 ? 49152 : attribute < 8 ? 100 + attribute : -1);
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
  if (attribute == 9) return value == 100 ? success : invalid_value;
  if (attribute == 14) return value == 1 ? success : invalid_value;
  return attribute == 8 && value <= 232448 ? success : invalid_value;
}
int cuFuncSetCacheConfig(void *function, int config) { return config == 2 ? success : invalid_value; }
int cuOccupancyMaxPotentialBlockSize(int *grid, int *block, void *function, void *callback, size_t memory, int limit) {
  put(grid, 264);
  put(block, limit);
  return callback == NULL && memory == 1024 ? success : invalid_value;
}

/* Returns whether a configuration is that of try_features.ts: every attribute, and nothing else. */
static int is_expected(const char *config) {
  const unsigned shape[] = {32, 2, 3, 64, 4, 1, 2048}, expected[] = {16, 2, 1};
  unsigned count, id, found = 0;
  const char *attributes;
  uint64_t stream;
  memcpy(&stream, config + 32, sizeof stream);
  memcpy(&attributes, config + 40, sizeof attributes);
  memcpy(&count, config + 48, sizeof count);
  if (memcmp(config, shape, sizeof shape) != 0 || stream == 0 || count != 4) return 0;
  for (unsigned i = 0; i < count; i++, attributes += 72) {
    int value;
    memcpy(&id, attributes, sizeof id);
    memcpy(&value, attributes + 8, sizeof value);
    if (id == 4 && memcmp(attributes + 8, expected, sizeof expected) != 0) return 0;
    if (id == 8 && value != -5) return 0;
    if ((id == 2 || id == 6) && value != 1) return 0;
    found |= 1u << id;
  }
  return found == (1u << 2 | 1u << 4 | 1u << 6 | 1u << 8);
}

int cuLaunchKernelEx(const char *config, void *function, void **parameters, void **extra) {
  return is_expected(config) && (parameters == NULL) != (extra == NULL) ? success : invalid_value;
}

int cuOccupancyMaxActiveClusters(int *out, void *function, const char *config) {
  unsigned grid, count;
  memcpy(&grid, config, sizeof grid);
  memcpy(&count, config + 48, sizeof count);
  put(out, 66);
  return grid == 2 && count == 1 ? success : invalid_value;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, void *function, int size, size_t memory) { return put(out, 1); }
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t count, void *stream) { return success; }
int cuMemcpyPeerAsync(uint64_t to, void *a, uint64_t from, void *b, size_t count, void *stream) { return success; }
int cuMemsetD8Async(uint64_t address, unsigned char byte, size_t count, void *stream) {
  latest_byte = byte;
  return success;
}
int cuMemsetD16Async(uint64_t address, unsigned short value, size_t count, void *stream) {
  return value == 0x1234 && count == 8 ? success : invalid_value;
}
int cuMemsetD32Async(uint64_t address, unsigned value, size_t count, void *stream) {
  return value == 0xfedcba98 && count == 8 ? success : invalid_value;
}
int cuMemsetD2D32Async(uint64_t address, size_t pitch, unsigned value, size_t width, size_t height, void *stream) {
  const unsigned expected = address % 8 == 0 ? 0x89abcdef : 0x01234567;
  return pitch == 8 && value == expected && width == 1 && height == 8 ? success : invalid_value;
}

/* Managed memory: its advice, and where it was last moved. Before CUDA 12.2, a place is a device, or -1 for the host. */
enum { place_none, place_device, place_host };
typedef struct { int type, id; } place;
static place preferred, last_prefetch;
static int is_read_mostly;

static place older_place(int device) {
  place found = {device == -1 ? place_host : place_device, device == -1 ? 0 : device};
  return found;
}
static int older_device(place place) {
  if (place.type == place_none) return -2;
  return place.type == place_device ? place.id : -1;
}
static int advise(int advice, place place) {
  const struct { int type, id; } none = {place_none, 0};
  if (advice == 1 || advice == 2) is_read_mostly = advice == 1;
  if (advice == 3) preferred = place;
  if (advice == 4) memcpy(&preferred, &none, sizeof none);
  return success;
}

int cuMemAllocManaged(uint64_t *address, size_t size, unsigned flags) {
  return flags == 1 ? put_allocation(address, size) : invalid_value;
}
int cuMemPrefetchAsync(uint64_t address, size_t size, int device, void *stream) {
  last_prefetch = older_place(device);
  return size == 4096 ? success : invalid_value;
}
int cuMemPrefetchAsync_v2(uint64_t address, size_t size, place place, unsigned flags, void *stream) {
  last_prefetch = place;
  return size == 4096 && flags == 0 ? success : invalid_value;
}
int cuMemAdvise(uint64_t address, size_t size, int advice, int device) { return advise(advice, older_place(device)); }
int cuMemAdvise_v2(uint64_t address, size_t size, int advice, place place) { return advise(advice, place); }
int cuMemDiscardBatchAsync(uint64_t *addresses, size_t *sizes, size_t count, uint64_t flags, void *stream) {
  return count == 1 && sizes[0] == 4096 && flags == 0 ? success : invalid_value;
}
int cuMemDiscardAndPrefetchBatchAsync(uint64_t *addresses, size_t *sizes, size_t count, place *places, size_t *indices,
                                      size_t place_count, uint64_t flags, void *stream) {
  last_prefetch = places[0];
  return count == 1 && sizes[0] == 4096 && place_count == 1 && indices[0] == 0 ? success : invalid_value;
}
int cuMemRangeGetAttribute(int *data, size_t size, int attribute, uint64_t address, size_t count) {
  for (size_t i = 0; i < size / 4; i++) data[i] = -2;
  if (attribute > 4 && machine[version] < 12020) return invalid_value;
  switch (attribute) {
    case 1: return put(data, is_read_mostly);
    case 2: return put(data, older_device(preferred));
    case 3: return success;
    case 4: return put(data, older_device(last_prefetch));
    case 5: return put(data, preferred.type);
    case 6: return put(data, preferred.id);
    case 7: return put(data, last_prefetch.type);
    case 8: return put(data, last_prefetch.id);
    default: return invalid_value;
  }
}
int cuMemGetDefaultMemPool(void *pool, place *place, int type) {
  return place->type == place_host && type == 1 ? put_handle(pool) : invalid_value;
}
