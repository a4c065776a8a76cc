// Running totals of n integers, modulo 2^32: scan_inclusive makes output[i] the sum of input[0] to input[i], and
// scan_exclusive the sum of the elements before input[i]. The bits are those of signed integers too.
//
// Each block scans one contiguous part, and starts with the total of the parts before it. With a grid of g, three
// launches scan any number of elements, with any block of one dimension:
//   scan_totals(input, n, totals)              grid g    the total of each part
//   scan_exclusive(totals, g, totals, null)    grid 1    the total of the parts before each part
//   scan_inclusive(input, n, output, totals)   grid g    or scan_exclusive
// For few elements the last one is enough, with a grid of 1 and null for the totals.
//
// input, output: n integers each; they may be the same. totals: one integer for each block.
__device__ unsigned long long begin_of_part(unsigned int part, unsigned long long n) {
  return min(n, part * ((n + gridDim.x - 1) / gridDim.x));
}

// Returns the sum of the values of this thread and the threads before it, and sets `total` to that of the whole block.
__device__ unsigned int scan_block(unsigned int value, unsigned int& total) {
  // Zeros before the sums serve the threads that have fewer than `distance` threads before them, without a branch.
  __shared__ unsigned int zeros_and_sums[1024 + 1024];
  const int threads = blockDim.x;
  unsigned int* sum = &zeros_and_sums[1024 + threadIdx.x];
  sum[-threads] = 0;
  *sum = value;
  __syncthreads();
#pragma unroll 1
  for (int distance = 1; distance < threads; distance *= 2) {
    value += sum[-distance];
    __syncthreads();
    *sum = value;
    __syncthreads();
  }
  total = zeros_and_sums[1024 + threads - 1];
  __syncthreads();
  return value;
}

template <bool inclusive>
__device__ void scan(const unsigned int* input, unsigned long long n, unsigned int* output,
                     const unsigned int* totals) {
  const unsigned long long end = begin_of_part(blockIdx.x + 1, n);
  unsigned int before = totals == nullptr ? 0 : totals[blockIdx.x];
#pragma unroll 1
  for (unsigned long long first = begin_of_part(blockIdx.x, n); first < end; first += blockDim.x) {
    const unsigned long long i = first + threadIdx.x;
    const unsigned int value = i < end ? input[i] : 0;
    unsigned int total;
    const unsigned int sum = before + scan_block(value, total);
    if (i < end) output[i] = inclusive ? sum : sum - value;
    before += total;
  }
}

extern "C" __global__ void scan_totals(const unsigned int* input, unsigned long long n, unsigned int* totals) {
  const unsigned long long end = begin_of_part(blockIdx.x + 1, n);
  unsigned int sum = 0, total;
  for (unsigned long long i = begin_of_part(blockIdx.x, n) + threadIdx.x; i < end; i += blockDim.x) sum += input[i];
  scan_block(sum, total);
  if (threadIdx.x == 0) totals[blockIdx.x] = total;
}

extern "C" __global__ void scan_inclusive(const unsigned int* input, unsigned long long n, unsigned int* output,
                                          const unsigned int* totals) {
  scan<true>(input, n, output, totals);
}

extern "C" __global__ void scan_exclusive(const unsigned int* input, unsigned long long n, unsigned int* output,
                                          const unsigned int* totals) {
  scan<false>(input, n, output, totals);
}
