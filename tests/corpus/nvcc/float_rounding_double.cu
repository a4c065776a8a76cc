// Arithmetic of double precision, rounded in each of the four directions. A NaN is stored as 1.
__device__ __forceinline__ unsigned long long bits_of(double value) {
  return isnan(value) ? 1 : __double_as_longlong(value);
}

extern "C" __global__ void round_double(const double* a, const double* b, const double* c, unsigned long long* results,
                                        unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const double x = a[i], y = b[i], z = c[i];
  unsigned long long* row = results + i * 28;
  row[0] = bits_of(__dadd_rn(x, y));
  row[1] = bits_of(__dadd_rz(x, y));
  row[2] = bits_of(__dadd_rd(x, y));
  row[3] = bits_of(__dadd_ru(x, y));
  row[4] = bits_of(__dsub_rn(x, y));
  row[5] = bits_of(__dsub_rz(x, y));
  row[6] = bits_of(__dsub_rd(x, y));
  row[7] = bits_of(__dsub_ru(x, y));
  row[8] = bits_of(__dmul_rn(x, y));
  row[9] = bits_of(__dmul_rz(x, y));
  row[10] = bits_of(__dmul_rd(x, y));
  row[11] = bits_of(__dmul_ru(x, y));
  row[12] = bits_of(__ddiv_rn(x, y));
  row[13] = bits_of(__ddiv_rz(x, y));
  row[14] = bits_of(__ddiv_rd(x, y));
  row[15] = bits_of(__ddiv_ru(x, y));
  row[16] = bits_of(__fma_rn(x, y, z));
  row[17] = bits_of(__fma_rz(x, y, z));
  row[18] = bits_of(__fma_rd(x, y, z));
  row[19] = bits_of(__fma_ru(x, y, z));
  row[20] = bits_of(__dsqrt_rn(x));
  row[21] = bits_of(__dsqrt_rz(x));
  row[22] = bits_of(__dsqrt_rd(x));
  row[23] = bits_of(__dsqrt_ru(x));
  row[24] = bits_of(__drcp_rn(x));
  row[25] = bits_of(__drcp_rz(x));
  row[26] = bits_of(__drcp_rd(x));
  row[27] = bits_of(__drcp_ru(x));
}
