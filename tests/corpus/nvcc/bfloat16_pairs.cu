// nvcc -arch=compute_90
// Arithmetic and comparisons of bfloat16 in pairs, one instruction for both. A NaN is stored as 1.
#include <cuda_bf16.h>

__device__ __forceinline__ unsigned bits_of(__nv_bfloat162 value) {
  const unsigned low = __hisnan(__low2bfloat16(value)) ? 1 : __bfloat16_as_ushort(__low2bfloat16(value));
  const unsigned high = __hisnan(__high2bfloat16(value)) ? 1 : __bfloat16_as_ushort(__high2bfloat16(value));
  return high << 16 | low;
}

// PTX does not say which zero comes of a negative zero where what is negative becomes zero.
__device__ __forceinline__ unsigned bits_of_positive(__nv_bfloat162 value) {
  const unsigned bits = bits_of(value);
  const unsigned low = (bits & 0xffff) == 0x8000 ? 0 : bits & 0xffff;
  return bits >> 16 == 0x8000 ? low : (bits & 0xffff0000) | low;
}

extern "C" __global__ void compute_bfloat16_pairs(const __nv_bfloat162* a, const __nv_bfloat162* b,
                                                  const __nv_bfloat162* c, unsigned* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const __nv_bfloat162 x = a[i], y = b[i], z = c[i];
  unsigned* row = results + i * 23;
  row[0] = bits_of(__hadd2(x, y));
  row[1] = bits_of(__hsub2(x, y));
  row[2] = bits_of(__hmul2(x, y));
  row[3] = bits_of(__hadd2_rn(x, y));
  row[4] = bits_of(__hfma2(x, y, z));
  row[5] = bits_of(__hadd2_sat(x, y));
  row[6] = bits_of(__hmul2_sat(x, y));
  row[7] = bits_of_positive(__hfma2_relu(x, y, z));
  row[8] = bits_of(__hneg2(x));
  row[9] = bits_of(__habs2(x));
  row[10] = bits_of(__hmin2(x, y));
  row[11] = bits_of(__hmax2(x, y));
  row[12] = bits_of(__hmax2_nan(x, y));
  row[13] = bits_of(__heq2(x, y));
  row[14] = bits_of(__hgt2(x, y));
  row[15] = bits_of(__hleu2(x, y));
  row[16] = bits_of(__lows2bfloat162(x, y));
  row[17] = bits_of(__highs2bfloat162(x, y));
  row[18] = bits_of(__lowhigh2highlow(x));
  row[19] = bits_of(__low2bfloat162(x));
  row[20] = __hge2_mask(x, y);
  row[21] = __hneu2_mask(x, y);
  row[22] = (__hbeq2(x, y) ? 1 : 0) | (__hblt2(x, y) ? 2 : 0) | (__hbgeu2(x, y) ? 4 : 0);
}
