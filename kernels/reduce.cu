// The sum, the minimum and the maximum of n floats. Each block reduces its share of them to output[blockIdx.x], and a
// second launch of one block reduces those: with a grid of g, reduce_sum(input, n, partial), and then
// reduce_sum(partial, g, output) with a grid of 1. Any grid and any block of one dimension will do.
//
// The order, on which the bits of a sum depend: each thread starts with 0 and adds elements a grid apart, first to
// last. In a block, thread i then adds the sum of thread i + width to its own, for each power of two `width` below the
// size of the block, from the largest down to 1. The same grid and block thus give the same bits on every device.
//
// input: n floats. output: one float for each block. Of no elements, the sum is 0, the minimum infinity, and the
// maximum -infinity. The sum of a NaN is a NaN; minimum and maximum ignore NaNs, as fminf and fmaxf do.
struct Sum {
  static __device__ float of_none() { return 0.0f; }
  static __device__ float of(float a, float b) { return a + b; }
};
struct Minimum {
  static __device__ float of_none() { return __int_as_float(0x7f800000); }  // infinity
  static __device__ float of(float a, float b) { return fminf(a, b); }
};
struct Maximum {
  static __device__ float of_none() { return -__int_as_float(0x7f800000); }
  static __device__ float of(float a, float b) { return fmaxf(a, b); }
};

template <typename Operation>
__device__ void reduce(const float* input, unsigned long long n, float* output) {
  __shared__ float partial[1024];
  const unsigned int thread = threadIdx.x;
  const unsigned long long stride = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  const unsigned long long first = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + thread;
  float result = Operation::of_none();
  for (unsigned long long i = first; i < n; i += stride) result = Operation::of(result, input[i]);
  partial[thread] = result;
  __syncthreads();
#pragma unroll 1
  for (unsigned int width = 512; width > 0; width /= 2) {
    if (thread < width && thread + width < blockDim.x) {
      partial[thread] = Operation::of(partial[thread], partial[thread + width]);
    }
    __syncthreads();
  }
  if (thread == 0) output[blockIdx.x] = partial[0];
}

extern "C" __global__ void reduce_sum(const float* input, unsigned long long n, float* output) {
  reduce<Sum>(input, n, output);
}

extern "C" __global__ void reduce_min(const float* input, unsigned long long n, float* output) {
  reduce<Minimum>(input, n, output);
}

extern "C" __global__ void reduce_max(const float* input, unsigned long long n, float* output) {
  reduce<Maximum>(input, n, output);
}
