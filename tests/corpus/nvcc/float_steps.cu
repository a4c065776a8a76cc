// Floats to integers that are floats, remainders of divisions, and numbers taken apart. A NaN is stored as 1.
__device__ __forceinline__ unsigned bits_of(float value) { return isnan(value) ? 1 : __float_as_uint(value); }
__device__ __forceinline__ unsigned long long bits_of(double value) {
  return isnan(value) ? 1 : __double_as_longlong(value);
}

extern "C" __global__ void step_single(const float* a, const float* b, unsigned* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float x = a[i], y = b[i];
  unsigned* row = results + i * 13;
  row[0] = bits_of(floorf(x));
  row[1] = bits_of(ceilf(x));
  row[2] = bits_of(truncf(x));
  row[3] = bits_of(rintf(x));
  row[4] = bits_of(roundf(x));
  row[5] = bits_of(nearbyintf(x));
  row[6] = bits_of(fmodf(x, y));
  row[7] = bits_of(remainderf(x, y));
  float whole;
  row[8] = bits_of(modff(x, &whole));
  row[9] = bits_of(whole);
  row[10] = bits_of(ldexpf(x, 3));
  row[11] = bits_of(fdimf(x, y));
  row[12] = bits_of(nextafterf(x, y));
}

extern "C" __global__ void step_double(const double* a, const double* b, unsigned long long* results,
                                       unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const double x = a[i], y = b[i];
  unsigned long long* row = results + i * 13;
  row[0] = bits_of(floor(x));
  row[1] = bits_of(ceil(x));
  row[2] = bits_of(trunc(x));
  row[3] = bits_of(rint(x));
  row[4] = bits_of(round(x));
  row[5] = bits_of(nearbyint(x));
  row[6] = bits_of(fmod(x, y));
  row[7] = bits_of(remainder(x, y));
  double whole;
  row[8] = bits_of(modf(x, &whole));
  row[9] = bits_of(whole);
  row[10] = bits_of(ldexp(x, 3));
  row[11] = bits_of(fdim(x, y));
  row[12] = bits_of(nextafter(x, y));
}
