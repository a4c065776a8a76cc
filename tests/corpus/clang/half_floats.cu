// clang -ffp-contract=off -Xclang -fnative-half-type -Xclang -fnative-half-arguments-and-returns
// Arithmetic in 16 bits, alone and in pairs.
#include "device.h"

typedef __fp16 half;
typedef __fp16 half2 __attribute__((ext_vector_type(2)));

__device__ __noinline__ half multiply_add(half a, half b, half c) { return a * b + c; }

extern "C" __global__ void half_floats(const half* in, half* out, half2* pairs, float* floats, int32* integers) {
  const uint32 i = THREAD_INDEX();
  const half a = in[i * 2];
  const half b = in[i * 2 + 1];
  half* row = out + i * 8;
  row[0] = a + b;
  row[1] = a - b;
  row[2] = a * b;
  row[3] = a / b;
  row[4] = multiply_add(a, b, static_cast<half>(0.5f));
  row[5] = -a;
  row[6] = a < b ? a : b;
  row[7] = static_cast<half>(static_cast<int32>(i) * 3 - 7);
  const half2 pair = *reinterpret_cast<const half2*>(in + i * 2);
  pairs[i * 2] = pair + pair.yx;
  pairs[i * 2 + 1] = pair * pair.yx - pair;
  floats[i * 2] = a;
  floats[i * 2 + 1] = static_cast<float>(b) * 3.0f;
  integers[i] = static_cast<int32>(a) + (a > b ? 1 << 20 : 0) + (a == b ? 1 << 21 : 0);
}
