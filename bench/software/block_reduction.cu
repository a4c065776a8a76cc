// Sums floats: each block adds up one contiguous part. Each thread adds up elements a block size apart, each warp adds
// up the sums of its threads by shuffles, and the first warp adds up the sums of the warps, which lie in shared memory.
// The block size is a multiple of the warp size.
__device__ float sum_of_warp(float sum) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffff, sum, distance);
  return sum;
}

extern "C" __global__ void block_reduction(const float* in, float* sums, unsigned int n) {
  __shared__ float warp_sums[32];
  const unsigned int lane = threadIdx.x % 32;
  const unsigned int warp = threadIdx.x / 32;
  const unsigned int part = (n + gridDim.x - 1) / gridDim.x;
  const unsigned int end = min(n, (blockIdx.x + 1) * part);
  float sum = 0.0f;
#pragma unroll 1
  for (unsigned int i = blockIdx.x * part + threadIdx.x; i < end; i += blockDim.x) sum += in[i];
  sum = sum_of_warp(sum);
  if (lane == 0) warp_sums[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = lane < blockDim.x / 32 ? warp_sums[lane] : 0.0f;
    sum = sum_of_warp(sum);
    if (lane == 0) sums[blockIdx.x] = sum;
  }
}
