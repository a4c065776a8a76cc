// Arithmetic and comparisons of halves, one at a time. A NaN is stored as 1.
#include <cuda_fp16.h>

__device__ __forceinline__ unsigned short bits_of(__half value) {
  return __hisnan(value) ? 1 : __half_as_ushort(value);
}

// Divisions go through an approximate reciprocal, which can fall to either side of the middle between two numbers only
// where those are subnormal: such quotients are stored as 0.
__device__ __forceinline__ unsigned short bits_of_quotient(__half value) {
  const unsigned short bits = bits_of(value);
  return __hisnan(value) || (bits & 0x7fff) > 0x0400 ? bits : 0;
}

// PTX does not say which zero comes of a negative zero where what is negative becomes zero.
__device__ __forceinline__ unsigned short bits_of_positive(__half value) {
  const unsigned short bits = bits_of(value);
  return bits == 0x8000 ? 0 : bits;
}

extern "C" __global__ void compute_halves(const __half* a, const __half* b, const __half* c, unsigned short* results,
                                          unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const __half x = a[i], y = b[i], z = c[i];
  unsigned short* row = results + i * 20;
  row[0] = bits_of(__hadd(x, y));
  row[1] = bits_of(__hsub(x, y));
  row[2] = bits_of(__hmul(x, y));
  row[3] = bits_of(__hadd_rn(x, y));
  row[4] = bits_of(__hsub_rn(x, y));
  row[5] = bits_of(__hmul_rn(x, y));
  row[6] = bits_of_quotient(__hdiv(x, y));
  row[7] = bits_of(__hfma(x, y, z));
  row[8] = bits_of(__hadd_sat(x, y));
  row[9] = bits_of(__hsub_sat(x, y));
  row[10] = bits_of(__hmul_sat(x, y));
  row[11] = bits_of(__hfma_sat(x, y, z));
  row[12] = bits_of_positive(__hfma_relu(x, y, z));
  row[13] = bits_of(__hneg(x));
  row[14] = bits_of(__habs(x));
  row[15] = bits_of(__hmin(x, y));
  row[16] = bits_of(__hmax(x, y));
  row[17] = bits_of(__hmin_nan(x, y));
  row[18] = bits_of(__hmax_nan(x, y));
  row[19] = (__heq(x, y) ? 1 : 0) |
            (__hne(x, y) ? 2 : 0) |
            (__hlt(x, y) ? 4 : 0) |
            (__hle(x, y) ? 8 : 0) |
            (__hgt(x, y) ? 16 : 0) |
            (__hge(x, y) ? 32 : 0) |
            (__hequ(x, y) ? 64 : 0) |
            (__hneu(x, y) ? 128 : 0) |
            (__hltu(x, y) ? 256 : 0) |
            (__hleu(x, y) ? 512 : 0) |
            (__hgtu(x, y) ? 1024 : 0) |
            (__hgeu(x, y) ? 2048 : 0) |
            (__hisnan(x) ? 4096 : 0) | (__hisinf(x) != 0 ? 8192 : 0);
}
