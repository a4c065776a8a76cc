// Comparisons, NaN among the operands, and what selects or changes signs without computing.
#define TEST(property, type, letter, result, value)                                                       \
  asm("{\n\t.reg .pred holds;\n\ttestp." property "." type " holds, %1;\n\tselp.u32 %0, 1, 0, holds;\n\t}" \
      : "=r"(result)                                                                                      \
      : letter(value))
#define COMPARE(comparison, type, letter, result, a, b) \
  asm("set." comparison ".u32." type " %0, %1, %2;" : "=r"(result) : letter(a), letter(b))

template <typename Type>
__device__ __forceinline__ unsigned relations(Type x, Type y) {
  return (x == y ? 1 : 0) | (x != y ? 2 : 0) | (x < y ? 4 : 0) | (x <= y ? 8 : 0) | (x > y ? 16 : 0) |
         (x >= y ? 32 : 0) | (isnan(x) || isnan(y) ? 64 : 0) | (!(x < y) ? 128 : 0) | (!(x >= y) ? 256 : 0) |
         (x < y || x > y ? 512 : 0) | (isnan(x) ? 1024 : 0) | (isinf(x) ? 2048 : 0) | (isfinite(x) ? 4096 : 0) |
         (signbit(x) ? 8192 : 0);
}

extern "C" __global__ void compare_single(const float* a, const float* b, unsigned* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float x = a[i], y = b[i];
  unsigned* row = results + i * 20;
  row[0] = relations(x, y);
  row[1] = __float_as_uint(fminf(x, y));
  row[2] = __float_as_uint(fmaxf(x, y));
  row[3] = __float_as_uint(copysignf(x, y));
  const float magnitude = fabsf(x), opposite = -x;
  row[4] = isnan(magnitude) ? 1 : __float_as_uint(magnitude);
  row[5] = isnan(opposite) ? 1 : __float_as_uint(opposite);
  TEST("finite", "f32", "f", row[6], x);
  TEST("infinite", "f32", "f", row[7], x);
  TEST("number", "f32", "f", row[8], x);
  TEST("notanumber", "f32", "f", row[9], x);
  TEST("normal", "f32", "f", row[10], x);
  TEST("subnormal", "f32", "f", row[11], x);
  COMPARE("equ", "f32", "f", row[12], x, y);
  COMPARE("neu", "f32", "f", row[13], x, y);
  COMPARE("ltu", "f32", "f", row[14], x, y);
  COMPARE("leu", "f32", "f", row[15], x, y);
  COMPARE("gtu", "f32", "f", row[16], x, y);
  COMPARE("geu", "f32", "f", row[17], x, y);
  COMPARE("num", "f32", "f", row[18], x, y);
  COMPARE("nan", "f32", "f", row[19], x, y);
}

extern "C" __global__ void compare_double(const double* a, const double* b, unsigned long long* results,
                                          unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const double x = a[i], y = b[i];
  unsigned long long* row = results + i * 20;
  row[0] = relations(x, y);
  const double least = fmin(x, y), most = fmax(x, y), magnitude = fabs(x), opposite = -x;
  row[1] = isnan(least) ? 1 : __double_as_longlong(least);
  row[2] = isnan(most) ? 1 : __double_as_longlong(most);
  row[3] = __double_as_longlong(copysign(x, y));
  row[4] = isnan(magnitude) ? 1 : __double_as_longlong(magnitude);
  row[5] = isnan(opposite) ? 1 : __double_as_longlong(opposite);
  unsigned result;
#define TEST_DOUBLE(column, property)         \
  TEST(property, "f64", "d", result, x);      \
  row[column] = result
  TEST_DOUBLE(6, "finite");
  TEST_DOUBLE(7, "infinite");
  TEST_DOUBLE(8, "number");
  TEST_DOUBLE(9, "notanumber");
  TEST_DOUBLE(10, "normal");
  TEST_DOUBLE(11, "subnormal");
#define COMPARE_DOUBLE(column, comparison)         \
  COMPARE(comparison, "f64", "d", result, x, y);   \
  row[column] = result
  COMPARE_DOUBLE(12, "equ");
  COMPARE_DOUBLE(13, "neu");
  COMPARE_DOUBLE(14, "ltu");
  COMPARE_DOUBLE(15, "leu");
  COMPARE_DOUBLE(16, "gtu");
  COMPARE_DOUBLE(17, "geu");
  COMPARE_DOUBLE(18, "num");
  COMPARE_DOUBLE(19, "nan");
}
