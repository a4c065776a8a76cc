// Between single and double precision in each direction, saturated and flushed. A NaN is stored as 1.
__device__ __forceinline__ unsigned bits_of(float value) { return isnan(value) ? 1 : __float_as_uint(value); }
__device__ __forceinline__ unsigned long long bits_of(double value) {
  return isnan(value) ? 1 : __double_as_longlong(value);
}

extern "C" __global__ void narrow(const double* values, unsigned* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const double value = values[i];
  unsigned* row = results + i * 8;
  row[0] = bits_of(__double2float_rn(value));
  row[1] = bits_of(__double2float_rz(value));
  row[2] = bits_of(__double2float_rd(value));
  row[3] = bits_of(__double2float_ru(value));
  float result;
  asm("cvt.rn.sat.f32.f64 %0, %1;" : "=f"(result) : "d"(value));
  row[4] = __float_as_uint(result);
  asm("cvt.rp.sat.f32.f64 %0, %1;" : "=f"(result) : "d"(value));
  row[5] = __float_as_uint(result);
  asm("cvt.rz.ftz.f32.f64 %0, %1;" : "=f"(result) : "d"(value));
  row[6] = bits_of(result);
  row[7] = bits_of(static_cast<float>(value) * 0.5f);
}

extern "C" __global__ void widen(const float* values, unsigned long long* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float value = values[i];
  unsigned long long* row = results + i * 6;
  row[0] = bits_of(static_cast<double>(value));
  double wide;
  asm("cvt.ftz.f64.f32 %0, %1;" : "=d"(wide) : "f"(value));
  row[1] = bits_of(wide);
  asm("cvt.sat.f64.f32 %0, %1;" : "=d"(wide) : "f"(value));
  row[2] = bits_of(wide);
  row[3] = __float_as_uint(__saturatef(value));
  float narrow;
  asm("cvt.rni.ftz.f32.f32 %0, %1;" : "=f"(narrow) : "f"(value));
  row[4] = bits_of(narrow);
  asm("cvt.rpi.sat.f32.f32 %0, %1;" : "=f"(narrow) : "f"(value));
  row[5] = bits_of(narrow);
}
