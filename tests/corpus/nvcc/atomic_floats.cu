// Atomic additions of floating-point numbers, global and shared. The sums are of small whole numbers and quarters: every
// partial sum is exact, so that their order does not show.

#include <cuda_fp16.h>

extern "C" __global__ void add_up(const int* in, float* floats, double* doubles, __half2* halves) {
  __shared__ float shared_float;
  __shared__ double shared_double;
  __shared__ __half2 shared_halves;
  int thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) {
    shared_float = -1.0f;
    shared_double = 0.5;
    shared_halves = __floats2half2_rn(1.0f, -1.0f);
  }
  __syncthreads();
  int number = in[thread] % 16;
  __half2 pair = __floats2half2_rn(number * 0.25f, (float)-number);
  atomicAdd(&floats[0], number * 0.25f);
  atomicAdd(&doubles[0], number * 0.125);
  atomicAdd(&halves[0], pair);
  atomicAdd(&shared_float, (float)number);
  atomicAdd(&shared_double, number * 1e6);
  atomicAdd(&shared_halves, pair);
  __syncthreads();
  if (threadIdx.x == 0) {
    floats[1 + blockIdx.x] = shared_float;
    doubles[1 + blockIdx.x] = shared_double;
    halves[1 + blockIdx.x] = shared_halves;
  }
}

// The result is what was there before: each multiple of the addend comes once.
extern "C" __global__ void take_numbers(float* float_next, double* double_next, __half2* half_next, unsigned* taken) {
  atomicAdd(&taken[(int)(atomicAdd(float_next, 0.5f) * 2.0f)], 1u);
  atomicAdd(&taken[64 + (int)(atomicAdd(double_next, 0.25) * 4.0)], 1u);
  __half2 pair = atomicAdd(half_next, __floats2half2_rn(1.0f, 2.0f));
  atomicAdd(&taken[128 + (int)__low2float(pair)], 1u);
  atomicAdd(&taken[192 + (int)__high2float(pair)], 1u);
}
