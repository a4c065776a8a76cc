// Halves from and to floats and integers in each of the four directions. A NaN is stored as 1.
#include <cuda_fp16.h>

__device__ __forceinline__ unsigned short bits_of(__half value) {
  return __hisnan(value) ? 1 : __half_as_ushort(value);
}
__device__ __forceinline__ unsigned float_bits(float value) { return isnan(value) ? 1 : __float_as_uint(value); }

extern "C" __global__ void singles_to_halves(const float* values, unsigned short* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float value = values[i];
  unsigned short* row = results + i * 4;
  row[0] = bits_of(__float2half_rn(value));
  row[1] = bits_of(__float2half_rz(value));
  row[2] = bits_of(__float2half_rd(value));
  row[3] = bits_of(__float2half_ru(value));
}

extern "C" __global__ void doubles_to_halves(const double* values, unsigned short* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const double value = values[i];
  unsigned short* row = results + i * 1;
  row[0] = bits_of(__double2half(value));
}

extern "C" __global__ void integers_to_halves(const unsigned long long* values, unsigned short* results,
                                              unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const unsigned long long value = values[i];
  unsigned short* row = results + i * 24;
  row[0] = bits_of(__int2half_rn(static_cast<int>(value)));
  row[1] = bits_of(__int2half_rz(static_cast<int>(value)));
  row[2] = bits_of(__int2half_rd(static_cast<int>(value)));
  row[3] = bits_of(__int2half_ru(static_cast<int>(value)));
  row[4] = bits_of(__uint2half_rn(static_cast<unsigned>(value)));
  row[5] = bits_of(__uint2half_rz(static_cast<unsigned>(value)));
  row[6] = bits_of(__uint2half_rd(static_cast<unsigned>(value)));
  row[7] = bits_of(__uint2half_ru(static_cast<unsigned>(value)));
  row[8] = bits_of(__short2half_rn(static_cast<short>(value)));
  row[9] = bits_of(__short2half_rz(static_cast<short>(value)));
  row[10] = bits_of(__short2half_rd(static_cast<short>(value)));
  row[11] = bits_of(__short2half_ru(static_cast<short>(value)));
  row[12] = bits_of(__ushort2half_rn(static_cast<unsigned short>(value)));
  row[13] = bits_of(__ushort2half_rz(static_cast<unsigned short>(value)));
  row[14] = bits_of(__ushort2half_rd(static_cast<unsigned short>(value)));
  row[15] = bits_of(__ushort2half_ru(static_cast<unsigned short>(value)));
  row[16] = bits_of(__ll2half_rn(static_cast<long long>(value)));
  row[17] = bits_of(__ll2half_rz(static_cast<long long>(value)));
  row[18] = bits_of(__ll2half_rd(static_cast<long long>(value)));
  row[19] = bits_of(__ll2half_ru(static_cast<long long>(value)));
  row[20] = bits_of(__ull2half_rn(value));
  row[21] = bits_of(__ull2half_rz(value));
  row[22] = bits_of(__ull2half_rd(value));
  row[23] = bits_of(__ull2half_ru(value));
}

extern "C" __global__ void halves_to_others(const __half* values, unsigned long long* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const __half value = values[i];
  unsigned long long* row = results + i * 29;
  row[0] = static_cast<unsigned>(__half2int_rn(value));
  row[1] = static_cast<unsigned>(__half2int_rz(value));
  row[2] = static_cast<unsigned>(__half2int_rd(value));
  row[3] = static_cast<unsigned>(__half2int_ru(value));
  row[4] = __half2uint_rn(value);
  row[5] = __half2uint_rz(value);
  row[6] = __half2uint_rd(value);
  row[7] = __half2uint_ru(value);
  row[8] = static_cast<unsigned short>(__half2short_rn(value));
  row[9] = static_cast<unsigned short>(__half2short_rz(value));
  row[10] = static_cast<unsigned short>(__half2short_rd(value));
  row[11] = static_cast<unsigned short>(__half2short_ru(value));
  row[12] = __half2ushort_rn(value);
  row[13] = __half2ushort_rz(value);
  row[14] = __half2ushort_rd(value);
  row[15] = __half2ushort_ru(value);
  row[16] = __half2ll_rn(value);
  row[17] = __half2ll_rz(value);
  row[18] = __half2ll_rd(value);
  row[19] = __half2ll_ru(value);
  row[20] = __half2ull_rn(value);
  row[21] = __half2ull_rz(value);
  row[22] = __half2ull_rd(value);
  row[23] = __half2ull_ru(value);
  row[24] = float_bits(__half2float(value));
  row[25] = bits_of(hfloor(value));
  row[26] = bits_of(hceil(value));
  row[27] = bits_of(htrunc(value));
  row[28] = bits_of(hrint(value));
}
