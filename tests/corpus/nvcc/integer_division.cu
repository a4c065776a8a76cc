// Quotients and remainders of every type, by what is read and by constants. No divisor is 0, and no quotient overflows.
template <typename Type>
__device__ __forceinline__ void divide(const Type* a, const Type* b, Type* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  Type* row = results + i * 6;
  row[0] = static_cast<Type>(a[i] / b[i]);
  row[1] = static_cast<Type>(a[i] % b[i]);
  row[2] = static_cast<Type>(a[i] / 7);
  row[3] = static_cast<Type>(a[i] % 10);
  row[4] = static_cast<Type>(a[i] / 64);
  row[5] = static_cast<Type>(a[i] % 125);
}

#define DIVISION(name, Type)                                                                                   \
  extern "C" __global__ void name(const Type* a, const Type* b, Type* results, unsigned count) {               \
    divide(a, b, results, count);                                                                              \
  }

DIVISION(divide_s16, short)
DIVISION(divide_u16, unsigned short)
DIVISION(divide_s32, int)
DIVISION(divide_u32, unsigned)
DIVISION(divide_s64, long long)
DIVISION(divide_u64, unsigned long long)
