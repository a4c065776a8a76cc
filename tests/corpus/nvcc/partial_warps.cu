// Blocks whose last warp has fewer than 32 threads: shuffles and votes among those that there are.
extern "C" __global__ void partial_warps(unsigned int* masks, int* out) {
  const unsigned int thread = threadIdx.x, lane = thread % 32;
  const unsigned int i = blockIdx.x * blockDim.x + thread;
  const unsigned int lanes = min(32u, blockDim.x - (thread - lane));
  const unsigned int mask = 0xffffffffu >> (32 - lanes);
  masks[i] = __ballot_sync(mask, thread % 3 != 1);
  int value = static_cast<int>(i * i + 1);
  int sum = value;
  for (unsigned int distance = 16; distance > 0; distance /= 2) {
    const int other = __shfl_down_sync(mask, sum, distance);
    if (lane + distance < lanes) sum += other;
  }
  const int total = __shfl_sync(mask, sum, 0);
  const int last = __shfl_sync(mask, value, lanes - 1);
  const int previous = __shfl_up_sync(mask, value, 1);
  out[i] = total + 3 * last + 5 * previous + (__all_sync(mask, lane < 4) ? 7 : 0);
}
