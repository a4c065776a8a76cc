// cudaMemPoolExportPointer leaves bytes 48 to 63 of cudaMemPoolPtrExportData uninitialized.
//
//     nvcc -o uninitialized_export_data uninitialized_export_data.cu && ./uninitialized_export_data
//
// These 64 bytes are meant to be sent to other processes. This program exports an allocation and looks up each 8-byte
// field in its own /proc/self/maps. Expected: no field is an address of the process.
// On 580.159.04: bytes 48 to 55 are an address of the stack and bytes 56 to 63 one of the code, so whoever gets export
// data can undo the address space layout randomization of the exporter.
// Exit code: 0 no field is such an address, 1 one is, 2 the test could not run.
#include <cuda_runtime.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  printf("could not run: %s: %s\n", call, cudaGetErrorName(error));
  exit(2);
}
#define CHECK(call) check(call, #call)

// Whether an address lies in a mapping of this process, whose line in /proc/self/maps is then printed.
bool printMapping(uint64_t address) {
  FILE* maps = fopen("/proc/self/maps", "r");
  if (!maps) perror("/proc/self/maps"), exit(2);
  char line[1024];
  bool isFound = false;
  while (!isFound && fgets(line, sizeof line, maps)) {
    uint64_t start, end;
    isFound = sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2 && address >= start && address < end;
  }
  fclose(maps);
  if (isFound) printf("  is an address of: %s", line);
  return isFound;
}

}  // namespace

int main() {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  properties.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool;
  int descriptor;
  void* memory;
  CHECK(cudaMemPoolCreate(&pool, &properties));
  CHECK(cudaMemPoolExportToShareableHandle(&descriptor, pool, cudaMemHandleTypePosixFileDescriptor, 0));
  CHECK(cudaMallocFromPoolAsync(&memory, 1 << 20, pool, nullptr));
  CHECK(cudaStreamSynchronize(nullptr));
  bool isPresent = false;
  for (int fill : {0x00, 0xaa}) {
    cudaMemPoolPtrExportData data;
    memset(&data, fill, sizeof data);
    CHECK(cudaMemPoolExportPointer(&data, memory));
    printf("exported into 64 bytes of %02x:\n", fill);
    for (int field = 0; field < 8; field++) {
      uint64_t value;
      memcpy(&value, data.reserved + 8 * field, 8);
      printf("  bytes %2d to %2d: %016" PRIx64 "\n", 8 * field, 8 * field + 7, value);
      isPresent |= printMapping(value);
    }
  }
  printf(isPresent ? "the export data has addresses of this process\n" : "no address of this process\n");
  return isPresent;
}
