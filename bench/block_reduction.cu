// One sum of floats for each block: every thread adds up elements a grid apart, the warps add up their threads' sums by
// shuffles, and the first warp those of the warps, which it finds in shared memory. A block is of whole warps.
__device__ float sum_of_warp(float sum) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffff, sum, distance);
  return sum;
}

extern "C" __global__ void block_reduction(const float* in, float* sums, unsigned int n) {
  __shared__ float warp_sums[32];
  const unsigned int lane = threadIdx.x % 32;
  const unsigned int warp = threadIdx.x / 32;
  float sum = 0.0f;
#pragma unroll 1
  for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
  sum = sum_of_warp(sum);
  if (lane == 0) warp_sums[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = lane < blockDim.x / 32 ? warp_sums[lane] : 0.0f;
    sum = sum_of_warp(sum);
    if (lane == 0) sums[blockIdx.x] = sum;
  }
}
