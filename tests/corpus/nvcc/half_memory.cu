// Numbers of 16 bits in memory: loaded, widened, narrowed again, and as pairs.

#include <cuda_fp16.h>

extern "C" __global__ void widen(const __half* in, float* floats, double* doubles, int* integers, unsigned short* bits) {
  int thread = blockIdx.x * blockDim.x + threadIdx.x;
  __half value = in[thread];
  floats[thread] = __half2float(value);
  doubles[thread] = (double)__half2float(value) * 2.0;
  integers[thread] = __half2int_rz(value);
  bits[thread] = __half_as_ushort(__hneg(value));
}

extern "C" __global__ void narrow(const float* in, __half* nearest, __half* to_zero, __half* up, __half* down) {
  int thread = blockIdx.x * blockDim.x + threadIdx.x;
  nearest[thread] = __float2half_rn(in[thread]);
  to_zero[thread] = __float2half_rz(in[thread]);
  up[thread] = __float2half_ru(in[thread]);
  down[thread] = __float2half_rd(in[thread]);
}

extern "C" __global__ void pairs(const __half2* in, __half2* swapped, float2* widened, __half* shared_out) {
  __shared__ __half shared[64];
  __half2 pair = in[threadIdx.x];
  swapped[threadIdx.x] = __lowhigh2highlow(pair);
  widened[threadIdx.x] = __half22float2(pair);
  shared[2 * threadIdx.x] = __low2half(pair);
  shared[2 * threadIdx.x + 1] = __high2half(pair);
  __syncthreads();
  shared_out[threadIdx.x] = shared[63 - threadIdx.x];
}
