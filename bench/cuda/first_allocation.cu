// The shortest program that allocates from a pool.
#include <cstdint>
#include <cstdio>

int main() {
  cudaStream_t stream;
  cudaMemPool_t pool;
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  uint64_t threshold = UINT64_MAX;
  void *address;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess ||
      cudaMemPoolCreate(&pool, &properties) != cudaSuccess ||
      cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold) != cudaSuccess ||
      cudaMallocFromPoolAsync(&address, 1 << 20, pool, stream) != cudaSuccess) {
    fprintf(stderr, "first_allocation.cu: %s\n", cudaGetErrorString(cudaGetLastError()));
    return 1;
  }
  puts("allocated");
  fflush(stdout);
  return cudaFreeAsync(address, stream) != cudaSuccess;
}
