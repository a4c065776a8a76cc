// Truth values: combined, chosen by, carried around loops, stored, and counted.
#include "device.h"

__device__ __noinline__ bool majority(bool a, bool b, bool c) { return (a & b) | (b & c) | (a & c); }

__device__ __noinline__ uint32 runs(uint32 value) {
  bool last = false;
  bool parity = true;
  uint32 count = 0;
  for (uint32 bit = 0; bit < 32; bit++) {
    const bool now = value >> bit & 1;
    if (now != last) count++;
    parity ^= now;
    last = parity ? now : !now && bit > 3;
  }
  return count * 2 + parity;
}

extern "C" __global__ void predicates(const int32* in, uint32* out, bool* flags) {
  const uint32 i = THREAD_INDEX();
  const int32 a = in[i * 2];
  const int32 b = in[i * 2 + 1];
  const bool less = a < b;
  const bool even = !(a & 1);
  const bool high = static_cast<uint32>(b) > 0x80000000u;
  uint32* row = out + i * 6;
  row[0] = less + even * 2 + high * 4 + (less ^ even) * 8 + (less != high) * 16 + (less <= even) * 32;
  row[1] = majority(less, even, high) ? runs(static_cast<uint32>(a)) : runs(static_cast<uint32>(b));
  row[2] = static_cast<uint32>((less && a > 0) || (even && !high) ? a : b);
  row[3] = (a > b ? a > 5 : b > 5) ? 11 : (less == even ? 12 : 13);
  bool all = true;
  bool any = false;
  uint32 at = 0;
  while (all && at < 10) {
    all = in[(i + at) % 64] > -1500000000;
    any |= in[(i + at) % 64] % 16 == 3;
    at++;
  }
  row[4] = all + any * 2 + at * 4;
  for (uint32 flag = 0; flag < 4; flag++) flags[i * 4 + flag] = flag == 3 ? any : a >> flag & 1;
  const bool* chosen = flags + i * 4 + (i & 3);
  row[5] = *chosen ? (chosen[-static_cast<int32>(i & 3)] ? 3 : 2) : !high;
}
