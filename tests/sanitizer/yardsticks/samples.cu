// The kernels of NVIDIA's samples for compute-sanitizer, written anew: each mistake, and beside it what is right.

__device__ int variable[2];

extern "C" __global__ void store_misaligned() { *(int*)((char*)&variable + 1) = 42; }

extern "C" __global__ void store_aligned() { *(int*)((char*)&variable + 4) = 42; }

__device__ __noinline__ void store_at(unsigned long long address) { *(int*)address = 42; }

extern "C" __global__ void store_anywhere(unsigned long long address) { store_at(address); }

const int threads = 128;
__shared__ int values[threads];

template <bool waits>
__device__ void sum_of_block(const int* data, int* sum) {
  int thread = threadIdx.x;
  values[thread] = data[thread] + thread;
  if (waits) __syncthreads();
  if (thread != 0) return;
  *sum = 0;
#pragma unroll 1
  for (int index = 0; index < threads; index++) *sum += values[index];
}

extern "C" __global__ void sum_without_barrier(const int* data, int* sum) { sum_of_block<false>(data, sum); }

extern "C" __global__ void sum_with_barrier(const int* data, int* sum) { sum_of_block<true>(data, sum); }

const int warps = 4;
__shared__ int sums[warps];

template <bool waits>
__device__ void sum_of_warps(const int* data, int* sum) {
  int thread = threadIdx.x, warp = thread / 32;
  values[thread] = data[thread] + thread;
  if (waits) __syncwarp();
  if (thread % 32 == 0) {
    sums[warp] = 0;
#pragma unroll 1
    for (int lane = 0; lane < 32; lane++) sums[warp] += values[warp * 32 + lane];
  }
  __syncthreads();
  if (thread != 0) return;
  *sum = 0;
  for (int index = 0; index < warps; index++) *sum += sums[index];
}

extern "C" __global__ void sum_without_warp_barrier(const int* data, int* sum) { sum_of_warps<false>(data, sum); }

extern "C" __global__ void sum_with_warp_barrier(const int* data, int* sum) { sum_of_warps<true>(data, sum); }

template <bool together>
__device__ void sum_in_steps(const int* data, int* sum, int count) {
  int thread = threadIdx.x;
  values[thread] = 0;
  __syncthreads();
  for (int step = 0; step < count; step += blockDim.x) {
    if (step + thread < count) {
      values[thread] += data[step + thread];
      if (!together) __syncthreads();
    }
    if (together) __syncthreads();
  }
  if (thread != 0) return;
  *sum = 0;
  for (int index = 0; index < blockDim.x; index++) *sum += values[index];
}

extern "C" __global__ void barrier_of_some(const int* data, int* sum, int count) {
  sum_in_steps<false>(data, sum, count);
}

extern "C" __global__ void barrier_of_all(const int* data, int* sum, int count) {
  sum_in_steps<true>(data, sum, count);
}

// The lanes up to `last` use a mask of those below 16.
extern "C" __global__ void warp_barrier(int* sum, int last) {
  int thread = threadIdx.x;
  unsigned mask = __ballot_sync(0xffffffff, thread < 16);
  if (thread <= last) {
    values[thread] = thread;
    __syncwarp(mask);
    if (thread == 0) {
      *sum = 0;
      for (int lane = 0; lane < 16; lane++) *sum += values[lane];
    }
  }
  __syncthreads();
}

extern "C" __global__ void add_index(int* data) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  data[index] += index;
}

extern "C" __global__ void twice(const int* from, int* to, int count) {
  int thread = threadIdx.x;
  if (thread < count) to[thread] = from[thread] * 2;
}

extern "C" __global__ void number_bytes(unsigned char* data) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  data[index] = index;
}
