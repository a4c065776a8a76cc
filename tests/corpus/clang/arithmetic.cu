// clang -ffp-contract=off
// Floating-point arithmetic, comparisons and conversions.
#include "device.h"

template <typename Number>
__device__ __noinline__ Number polynomial(Number x, const Number* coefficients, int32 count) {
  Number sum = 0;
  for (int32 i = 0; i < count; i++) sum = sum * x + coefficients[i];
  return sum;
}

template <typename Number>
__device__ void arithmetic_of(Number a, Number b, Number* row) {
  row[0] = a + b;
  row[1] = a - b;
  row[2] = a * b;
  row[3] = a / b;
  row[4] = -a;
  row[5] = a < b ? a : b;
  row[6] = a >= b || b != b ? a : b;
  const Number coefficients[4] = {a, b, static_cast<Number>(0.5), -a};
  row[7] = polynomial(b, coefficients, 4);
}

__device__ uint32 comparisons(double a, double b, float c) {
  return (a == b) | (a != b) << 1 | (a < b) << 2 | (a <= b) << 3 | (a > b) << 4 | (a >= b) << 5 |
         (__builtin_isnan(a) != 0) << 6 | __builtin_isunordered(a, b) << 7 | __builtin_islessgreater(a, b) << 8 |
         !(a < b) << 9 | (c == static_cast<float>(b)) << 10 | (a < 0 && b > 0) << 11 | (c != c || a > 1) << 12 |
         (__builtin_signbit(a) != 0) << 13;
}

extern "C" __global__ void arithmetic(const double* in, const double* special, float* singles, double* doubles, int64* integers) {
  const uint32 i = THREAD_INDEX();
  const double a = in[i * 2];
  const double b = in[i * 2 + 1];
  const float c = static_cast<float>(a);
  const float d = static_cast<float>(b);
  arithmetic_of(c, d, singles + i * 16);
  float* row = singles + i * 16 + 8;
  row[0] = __nvvm_sqrt_rn_f(d);
  row[1] = __builtin_fmaf(c, d, c);
  row[2] = __builtin_fminf(c, d);
  row[3] = __builtin_fmaxf(c, d);
  row[4] = __builtin_fabsf(c);
  row[5] = __builtin_floorf(d) + __builtin_truncf(d);
  row[6] = __builtin_ceilf(d) - __builtin_rintf(d);
  row[7] = static_cast<float>(static_cast<int64>(i) * 0x1234567890LL) + static_cast<float>(i * 0x87654321u);

  arithmetic_of(a, b, doubles + i * 16);
  double* wide = doubles + i * 16 + 8;
  wide[0] = __nvvm_sqrt_rn_d(b);
  wide[1] = __builtin_fma(a, b, a);
  wide[2] = __builtin_fmin(a, b);
  wide[3] = __builtin_fmax(a, b);
  wide[4] = c;
  wide[5] = __builtin_floor(b) + __builtin_trunc(b);
  wide[6] = __builtin_ceil(b) - __builtin_rint(b);
  wide[7] = static_cast<double>(static_cast<uint64>(i) << 60) + static_cast<double>(static_cast<int32>(i * 0x87654321u));

  int64* counts = integers + i * 6;
  const double bounded = b > 1e6 || !(b > -1e6) ? 7.75 : b;
  const float magnitude = static_cast<float>(bounded < 0 ? -bounded : bounded);
  counts[0] = comparisons(special[i % 8], special[i / 8 % 8], static_cast<float>(special[i % 8]));
  counts[1] = static_cast<int8>(static_cast<int32>(bounded)) + static_cast<int32>(bounded);
  counts[2] = static_cast<int64>(bounded * 1e9);
  counts[3] = static_cast<int64>(static_cast<uint64>(magnitude)) + static_cast<uint32>(magnitude);
  counts[4] = static_cast<uint16>(static_cast<int32>(magnitude) & 0xff) + static_cast<int16>(bounded / 64);
  counts[5] = __builtin_bit_cast(int64, a) ^ __builtin_bit_cast(int32, d);
}
