// A barrier in a loop: the sum of n words by halving, in dynamic shared memory, for blocks of any size.
extern "C" __global__ void barrier_tree_reduction(const unsigned int* in, unsigned int n, unsigned int* sums) {
  extern __shared__ unsigned int partial[];
  const unsigned int thread = threadIdx.x;
  unsigned int sum = 0;
  for (unsigned int i = blockIdx.x * blockDim.x + thread; i < n; i += gridDim.x * blockDim.x) sum += in[i];
  partial[thread] = sum;
  __syncthreads();
  for (unsigned int count = blockDim.x; count > 1;) {
    const unsigned int kept = (count + 1) / 2;
    if (thread + kept < count) partial[thread] += partial[thread + kept];
    __syncthreads();
    count = kept;
  }
  if (thread == 0) sums[blockIdx.x] = partial[0];
}
