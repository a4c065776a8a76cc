// Barriers that count, and that say whether all or any of the block's threads have a true predicate.
extern "C" __global__ void barrier_votes(const int* in, int* out) {
  const int value = in[blockIdx.x * blockDim.x + threadIdx.x];
  int result = __syncthreads_count(value % 3 == 0) << 8;
  result |= __syncthreads_and(value >= 100) << 4;
  result |= (__syncthreads_or(value == 777) != 0) << 1;
  for (int limit = 0; limit < 300; limit += 100) result = result * 3 + __syncthreads_count(value > limit);
  if (threadIdx.x % 2) return;
  result = result * 128 + __syncthreads_count(1);
  out[blockIdx.x * blockDim.x + threadIdx.x] = result + (__syncthreads_and(value >= 100) ? 1 << 30 : 0);
}
