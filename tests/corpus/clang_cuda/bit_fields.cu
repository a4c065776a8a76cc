// Bit fields, unions, packed structures, switches with gaps, arrays of functions.
#include <cuda_runtime.h>

struct Fields {
  unsigned a : 3;
  int b : 5;
  unsigned long long c : 37;
  bool d : 1;
  short e : 9;
  unsigned : 0;
  unsigned char f : 6;
};
struct __attribute__((packed)) Packed {
  char tag;
  int word;
  short half;
  long long wide;
};
union Pun {
  float number;
  unsigned word;
  unsigned char bytes[4];
};

__device__ __noinline__ int chosen(int value) {
  switch (value) {
    case 0: return 11;
    case 1: return value * 3;
    case 2:
    case 3: value += 5;  // falls through
    case 4: return value << 2;
    case 9: return -1;
    case 10: return ~value;
    case 11: return value * value;
    case 12: return value / 5;
    case 100 ... 120: return value - 100;
    case -2147483647 - 1: return 77;
    default: return value % 13;
  }
}
__device__ int first(int x) { return x + 1; }
__device__ int second(int x) { return x * 2; }
__device__ int third(int x) { return x ^ 3; }
typedef int (*Function)(int);
__device__ Function const table[] = {first, second, third, chosen};

extern "C" __global__ void bit_fields(const int* x, int* out, unsigned char* bytes) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int value = x[i];
  Fields fields{};
  fields.a = value;
  fields.b = value >> 3;
  fields.c = static_cast<unsigned long long>(value) * 1234567;
  fields.d = value & 64;
  fields.e = value >> 8;
  fields.f = i;
  fields.a++;
  fields.b -= 3;
  fields.e ^= fields.f;
  int* row = out + i * 6;
  row[0] = fields.a + fields.b * 10 + fields.d * 1000 + fields.e * 10000;
  row[1] = static_cast<int>(fields.c >> 7) ^ fields.f;
  row[2] = chosen(value % 130) + chosen(value == 5 ? -2147483647 - 1 : value & 15);
  row[3] = table[value & 3](i) + table[i & 1](value & 1023);
  Pun pun;
  pun.number = static_cast<float>(value & 0xffff);
  pun.bytes[3] ^= 0x80;
  row[4] = static_cast<int>(pun.number) + static_cast<int>(pun.word >> 20);
  auto* packed = reinterpret_cast<Packed*>(bytes + i * 16);
  packed->tag = value;
  packed->word = value * 3;
  packed->half = value >> 5;
  packed->wide = static_cast<long long>(value) << 20;
  Packed copy = *packed;
  copy.word++;
  row[5] = copy.word + copy.half + static_cast<int>(copy.wide >> 24);
}
