// Parameters and results of 1, 8 and 16 bits, and structs by value.
#include "device.h"

struct Mixed {
  bool flag;
  int8 small;
  int16 medium;
  int64 large;
  uint8 tail[3];
};

struct Single {
  float value;
};

__device__ __noinline__ bool both(bool a, bool b) { return a && !b; }
__device__ __noinline__ int8 add_bytes(int8 a, uint8 b) { return static_cast<int8>(a + b); }
__device__ __noinline__ uint16 multiply(uint16 a, int16 b) { return static_cast<uint16>(a * b); }
__device__ __noinline__ int64 widen(int8 a, uint8 b, int16 c, uint16 d) { return a + b * 3LL + c * 5LL + d * 7LL; }
__device__ __noinline__ Single half_of(Single single) { return {single.value * 0.5f}; }

__device__ __noinline__ Mixed turn(Mixed mixed, bool negate) {
  Mixed turned = mixed;
  turned.flag = !mixed.flag;
  turned.small = static_cast<int8>(negate ? -mixed.small : mixed.medium);
  turned.medium = mixed.small;
  turned.large = mixed.large * 3 + mixed.tail[1];
  turned.tail[0] = mixed.tail[2];
  turned.tail[2] = static_cast<uint8>(mixed.tail[0] + 200);
  return turned;
}

extern "C" __global__ void narrow_parameters(bool flag, int8 small, uint16 medium, Mixed mixed, Single single,
                                             int64* integers, float* floats) {
  const uint32 i = THREAD_INDEX();
  int64* row = integers + i * 8;
  row[0] = both(flag, i & 2) | both(i & 1, !flag) << 1;
  row[1] = add_bytes(static_cast<int8>(small + i * 9), static_cast<uint8>(i * 31));
  row[2] = multiply(static_cast<uint16>(medium + i), static_cast<int16>(i * -1000));
  row[3] = widen(static_cast<int8>(i * 17), static_cast<uint8>(i * 17), static_cast<int16>(i * 4099),
                 static_cast<uint16>(i * 4099));
  for (uint32 round = 0; round <= i % 4; round++) mixed = turn(mixed, round & 1);
  row[4] = mixed.flag + 2 * mixed.small;
  row[5] = mixed.medium;
  row[6] = mixed.large;
  row[7] = mixed.tail[0] | mixed.tail[1] << 8 | mixed.tail[2] << 16;
  floats[i] = half_of(half_of({single.value + static_cast<float>(i)})).value;
}
