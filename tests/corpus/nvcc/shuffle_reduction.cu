// Sums and extremes by shuffle: of a warp, then of a block through shared memory; floats in the order of a butterfly.
__device__ int warp_sum(int value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_down_sync(0xffffffff, value, distance);
  return value;
}

extern "C" __global__ void shuffle_reduction(const int* in, const float* floats, int* sums, int* largest,
                                             float* float_sums) {
  __shared__ int warp_sums[32];
  const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  int sum = warp_sum(in[i]);
  if (lane == 0) warp_sums[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = warp_sum(lane < warps ? warp_sums[lane] : 0);
    if (lane == 0) sums[blockIdx.x] = sum;
  }

  int high = in[i];
#pragma unroll 1
  for (int mask = 1; mask < 32; mask *= 2) high = max(high, __shfl_xor_sync(0xffffffff, high, mask));
  largest[i] = high;

  float float_sum = floats[i];
  for (int mask = 16; mask > 0; mask /= 2) {
    float_sum = __fadd_rn(float_sum, __shfl_xor_sync(0xffffffff, float_sum, mask));
  }
  float_sums[i] = float_sum;
}
