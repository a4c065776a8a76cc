// Floats to integers in each of the four directions: past the range its ends come out, of a NaN what the devices give.
#define CONVERT_TO_16(rounding, to, from, letter, result, value) \
  asm("cvt." rounding "." to "." from " %0, %1;" : "=h"(result) : letter(value))
#define CONVERT_TO_8(rounding, to, from, letter, result, value)                                                   \
  asm("{\n\t.reg .b8 narrow;\n\tcvt." rounding "." to "." from " narrow, %1;\n\tcvt.u16." to " %0, narrow;\n\t}" \
      : "=h"(result)                                                                                              \
      : letter(value))

extern "C" __global__ void convert_single(const float* values, unsigned long long* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float value = values[i];
  unsigned long long* row = results + i * 24;
  row[0] = static_cast<unsigned>(__float2int_rn(value));
  row[1] = __float2uint_rn(value);
  row[2] = __float2ll_rn(value);
  row[3] = __float2ull_rn(value);
  row[4] = static_cast<unsigned>(__float2int_rz(value));
  row[5] = __float2uint_rz(value);
  row[6] = __float2ll_rz(value);
  row[7] = __float2ull_rz(value);
  row[8] = static_cast<unsigned>(__float2int_rd(value));
  row[9] = __float2uint_rd(value);
  row[10] = __float2ll_rd(value);
  row[11] = __float2ull_rd(value);
  row[12] = static_cast<unsigned>(__float2int_ru(value));
  row[13] = __float2uint_ru(value);
  row[14] = __float2ll_ru(value);
  row[15] = __float2ull_ru(value);
  unsigned short narrow;
  CONVERT_TO_16("rni", "s16", "f32", "f", narrow, value);
  row[16] = narrow;
  CONVERT_TO_16("rzi", "u16", "f32", "f", narrow, value);
  row[17] = narrow;
  CONVERT_TO_16("rmi", "s16", "f32", "f", narrow, value);
  row[18] = narrow;
  CONVERT_TO_16("rpi", "u16", "f32", "f", narrow, value);
  row[19] = narrow;
  CONVERT_TO_8("rni", "u8", "f32", "f", narrow, value);
  row[20] = narrow;
  CONVERT_TO_8("rzi", "s8", "f32", "f", narrow, value);
  row[21] = narrow;
  CONVERT_TO_8("rmi", "u8", "f32", "f", narrow, value);
  row[22] = narrow;
  CONVERT_TO_8("rpi", "s8", "f32", "f", narrow, value);
  row[23] = narrow;
}

extern "C" __global__ void convert_double(const double* values, unsigned long long* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const double value = values[i];
  unsigned long long* row = results + i * 24;
  row[0] = static_cast<unsigned>(__double2int_rn(value));
  row[1] = __double2uint_rn(value);
  row[2] = __double2ll_rn(value);
  row[3] = __double2ull_rn(value);
  row[4] = static_cast<unsigned>(__double2int_rz(value));
  row[5] = __double2uint_rz(value);
  row[6] = __double2ll_rz(value);
  row[7] = __double2ull_rz(value);
  row[8] = static_cast<unsigned>(__double2int_rd(value));
  row[9] = __double2uint_rd(value);
  row[10] = __double2ll_rd(value);
  row[11] = __double2ull_rd(value);
  row[12] = static_cast<unsigned>(__double2int_ru(value));
  row[13] = __double2uint_ru(value);
  row[14] = __double2ll_ru(value);
  row[15] = __double2ull_ru(value);
  unsigned short narrow;
  CONVERT_TO_16("rni", "s16", "f64", "d", narrow, value);
  row[16] = narrow;
  CONVERT_TO_16("rzi", "u16", "f64", "d", narrow, value);
  row[17] = narrow;
  CONVERT_TO_16("rmi", "s16", "f64", "d", narrow, value);
  row[18] = narrow;
  CONVERT_TO_16("rpi", "u16", "f64", "d", narrow, value);
  row[19] = narrow;
  CONVERT_TO_8("rni", "u8", "f64", "d", narrow, value);
  row[20] = narrow;
  CONVERT_TO_8("rzi", "s8", "f64", "d", narrow, value);
  row[21] = narrow;
  CONVERT_TO_8("rmi", "u8", "f64", "d", narrow, value);
  row[22] = narrow;
  CONVERT_TO_8("rpi", "s8", "f64", "d", narrow, value);
  row[23] = narrow;
}
