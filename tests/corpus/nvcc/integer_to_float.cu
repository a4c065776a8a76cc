// Integers to floats in each of the four directions.

extern "C" __global__ void convert_to_single(const unsigned long long* values, unsigned* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const unsigned long long value = values[i];
  unsigned* row = results + i * 18;
  row[0] = __float_as_uint(__int2float_rn(static_cast<int>(value)));
  row[1] = __float_as_uint(__uint2float_rn(static_cast<unsigned>(value)));
  row[2] = __float_as_uint(__ll2float_rn(static_cast<long long>(value)));
  row[3] = __float_as_uint(__ull2float_rn(value));
  row[4] = __float_as_uint(__int2float_rz(static_cast<int>(value)));
  row[5] = __float_as_uint(__uint2float_rz(static_cast<unsigned>(value)));
  row[6] = __float_as_uint(__ll2float_rz(static_cast<long long>(value)));
  row[7] = __float_as_uint(__ull2float_rz(value));
  row[8] = __float_as_uint(__int2float_rd(static_cast<int>(value)));
  row[9] = __float_as_uint(__uint2float_rd(static_cast<unsigned>(value)));
  row[10] = __float_as_uint(__ll2float_rd(static_cast<long long>(value)));
  row[11] = __float_as_uint(__ull2float_rd(value));
  row[12] = __float_as_uint(__int2float_ru(static_cast<int>(value)));
  row[13] = __float_as_uint(__uint2float_ru(static_cast<unsigned>(value)));
  row[14] = __float_as_uint(__ll2float_ru(static_cast<long long>(value)));
  row[15] = __float_as_uint(__ull2float_ru(value));
  row[16] = __float_as_uint(static_cast<float>(static_cast<signed char>(value)));
  row[17] = __float_as_uint(static_cast<float>(static_cast<unsigned short>(value)));
}

extern "C" __global__ void convert_to_double(const unsigned long long* values, unsigned long long* results,
                                             unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const unsigned long long value = values[i];
  unsigned long long* row = results + i * 12;
  row[0] = __double_as_longlong(__int2double_rn(static_cast<int>(value)));
  row[1] = __double_as_longlong(__uint2double_rn(static_cast<unsigned>(value)));
  row[2] = __double_as_longlong(__ll2double_rn(static_cast<long long>(value)));
  row[3] = __double_as_longlong(__ull2double_rn(value));
  row[4] = __double_as_longlong(__ll2double_rz(static_cast<long long>(value)));
  row[5] = __double_as_longlong(__ull2double_rz(value));
  row[6] = __double_as_longlong(__ll2double_rd(static_cast<long long>(value)));
  row[7] = __double_as_longlong(__ull2double_rd(value));
  row[8] = __double_as_longlong(__ll2double_ru(static_cast<long long>(value)));
  row[9] = __double_as_longlong(__ull2double_ru(value));
  row[10] = __double_as_longlong(static_cast<double>(static_cast<signed char>(value)));
  row[11] = __double_as_longlong(static_cast<double>(static_cast<unsigned short>(value)));
}
