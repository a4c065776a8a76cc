// Prefix sums: of a warp by shuffles, of a block by those of its warps' totals.
__device__ unsigned long long warp_scan(unsigned long long value, unsigned int lane) {
  for (unsigned int distance = 1; distance < 32; distance *= 2) {
    const unsigned long long before = __shfl_up_sync(0xffffffff, value, distance);
    if (lane >= distance) value += before;
  }
  return value;
}

extern "C" __global__ void shuffle_scan(const unsigned long long* in, unsigned long long* out) {
  __shared__ unsigned long long totals[32];
  const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned long long sum = warp_scan(in[i], lane);
  if (lane == 31) totals[warp] = sum;
  __syncthreads();
  if (warp == 0) totals[lane] = warp_scan(lane < blockDim.x / 32 ? totals[lane] : 0, lane);
  __syncthreads();
  if (warp > 0) sum += totals[warp - 1];
  out[i] = sum;
}
