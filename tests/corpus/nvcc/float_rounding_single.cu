// Arithmetic of single precision, rounded in each of the four directions. A NaN is stored as 1, where PTX leaves its
// bits open.
__device__ __forceinline__ unsigned bits_of(float value) { return isnan(value) ? 1 : __float_as_uint(value); }

extern "C" __global__ void round_single(const float* a, const float* b, const float* c, unsigned* results,
                                        unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float x = a[i], y = b[i], z = c[i];
  unsigned* row = results + i * 28;
  row[0] = __float_as_uint(__fadd_rn(x, y));
  row[1] = __float_as_uint(__fadd_rz(x, y));
  row[2] = __float_as_uint(__fadd_rd(x, y));
  row[3] = __float_as_uint(__fadd_ru(x, y));
  row[4] = __float_as_uint(__fsub_rn(x, y));
  row[5] = __float_as_uint(__fsub_rz(x, y));
  row[6] = __float_as_uint(__fsub_rd(x, y));
  row[7] = __float_as_uint(__fsub_ru(x, y));
  row[8] = __float_as_uint(__fmul_rn(x, y));
  row[9] = __float_as_uint(__fmul_rz(x, y));
  row[10] = __float_as_uint(__fmul_rd(x, y));
  row[11] = __float_as_uint(__fmul_ru(x, y));
  row[12] = bits_of(__fdiv_rn(x, y));
  row[13] = bits_of(__fdiv_rz(x, y));
  row[14] = bits_of(__fdiv_rd(x, y));
  row[15] = bits_of(__fdiv_ru(x, y));
  row[16] = __float_as_uint(__fmaf_rn(x, y, z));
  row[17] = __float_as_uint(__fmaf_rz(x, y, z));
  row[18] = __float_as_uint(__fmaf_rd(x, y, z));
  row[19] = __float_as_uint(__fmaf_ru(x, y, z));
  row[20] = bits_of(__fsqrt_rn(x));
  row[21] = bits_of(__fsqrt_rz(x));
  row[22] = bits_of(__fsqrt_rd(x));
  row[23] = bits_of(__fsqrt_ru(x));
  row[24] = bits_of(__frcp_rn(x));
  row[25] = bits_of(__frcp_rz(x));
  row[26] = bits_of(__frcp_rd(x));
  row[27] = bits_of(__frcp_ru(x));
}
