// Functions of halves: what CUDA makes of single precision, and the approximate instructions on halves themselves.
#include <cuda_fp16.h>

// From -8 to 8.
extern "C" __global__ void functions_of_halves(const float* values, float* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const __half value = __float2half(values[i]);
  float* row = results + i * 8;
  row[0] = __half2float(hsin(value));
  row[1] = __half2float(hcos(value));
  row[2] = __half2float(hexp(value));
  row[3] = __half2float(hexp2(value));
  row[4] = __half2float(hexp10(__hmul(value, __float2half(0.5f))));
  row[5] = __half2float(htanh(value));
  unsigned short result;
  asm("ex2.approx.f16 %0, %1;" : "=h"(result) : "h"(__half_as_ushort(value)));
  row[6] = __half2float(__ushort_as_half(result));
  asm("tanh.approx.f16 %0, %1;" : "=h"(result) : "h"(__half_as_ushort(value)));
  row[7] = __half2float(__ushort_as_half(result));
}

// Positive.
extern "C" __global__ void functions_of_positive_halves(const float* values, float* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const __half value = __float2half(values[i]);
  float* row = results + i * 6;
  row[0] = __half2float(hlog(value));
  row[1] = __half2float(hlog2(value));
  row[2] = __half2float(hlog10(value));
  row[3] = __half2float(hsqrt(value));
  row[4] = __half2float(hrsqrt(value));
  row[5] = __half2float(hrcp(value));
}
