// Fences of every level, and a sum over all blocks that the last block to come finishes.

__device__ unsigned arrived = 0;

extern "C" __global__ void sum_all(const int* in, int count, volatile int* partial, int* total) {
  __shared__ int sums[32];
  __shared__ bool is_last;
  int sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) sum += in[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    int own = 0;
    for (int i = 0; i < 32; i++) own += sums[i];
    partial[blockIdx.x] = own;
    __threadfence();
    // Back to 0 with the last block, so that the next launch starts anew.
    is_last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (is_last && threadIdx.x == 0) {
    int all = 0;
    for (unsigned i = 0; i < gridDim.x; i++) all += partial[i];
    *total += all;
  }
}

// Two threads: whoever stores before a fence and loads after it cannot both miss the other's store.
extern "C" __global__ void store_then_load(volatile int* flags, int* seen) {
  int thread = threadIdx.x;
  for (int level = 0; level < 3; level++) {
    volatile int* pair = flags + 2 * level;
    pair[thread] = 1;
    if (level == 0) __threadfence_block();
    if (level == 1) __threadfence();
    if (level == 2) __threadfence_system();
    int other = pair[1 - thread];
    atomicOr(&seen[level], other);
  }
}
