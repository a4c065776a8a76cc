// Functions that wait for the rest of the block or of the warp: called from several places, in loops, recursively.
__device__ __noinline__ int block_sum(int value, int* shared) {
  const unsigned int thread = threadIdx.x;
  shared[thread] = value;
  __syncthreads();
  for (unsigned int distance = blockDim.x / 2; distance > 0; distance /= 2) {
    if (thread < distance) shared[thread] += shared[thread + distance];
    __syncthreads();
  }
  const int sum = shared[0];
  __syncthreads();
  return sum;
}

__device__ __noinline__ int rotated(int value, int by) { return __shfl_sync(0xffffffff, value, threadIdx.x + by); }

__device__ __noinline__ int voted(int value, int depth) {
  const int count = __popc(__ballot_sync(0xffffffff, value & 1));
  return depth == 0 ? count : count + 2 * voted(rotated(value, depth) + count, depth - 1);
}

__device__ __noinline__ int last_of_half(int value) {
  if (threadIdx.x % 32 < 16) return __shfl_sync(0x0000ffff, value, 15);
  return -__shfl_sync(0xffff0000, value, 31);
}

extern "C" __global__ void calls_with_barriers(const int* in, int* out) {
  __shared__ int shared[128];
  const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  int value = in[i];
  int sum = block_sum(value, shared);
  for (int round = 0; round < 3; round++) sum = sum * 3 + block_sum(rotated(value, round + 1) ^ round, shared);
  if (blockIdx.x == 1) sum ^= block_sum(sum & 255, shared);
  out[i] = sum + voted(value, 3) + last_of_half(value);
}
