// Two barriers in each round of a loop: the inclusive prefix sums of a block, by doubling the distance.
extern "C" __global__ void barrier_scan(const int* in, int* out) {
  __shared__ int sums[128];
  const unsigned int thread = threadIdx.x;
  const unsigned int i = blockIdx.x * blockDim.x + thread;
  sums[thread] = in[i];
  __syncthreads();
#pragma unroll 1
  for (unsigned int distance = 1; distance < blockDim.x; distance *= 2) {
    int before = 0;
    if (thread >= distance) before = sums[thread - distance];
    __syncthreads();
    sums[thread] += before;
    __syncthreads();
  }
  out[i] = sums[thread];
}
