// Copies and fills that LLVM makes into loops, and assignments of large structs.
#include "device.h"

struct Large {
  int32 words[40];
  uint8 bytes[8];
  double number;
};

struct __attribute__((packed)) Packed {
  uint8 first;
  int32 number;
  int16 odd[3];
  int64 last;
};

__device__ __noinline__ Large changed(Large large, int32 by) {
  large.words[by & 31] += by;
  large.bytes[by % 7] ^= 0x5a;
  large.number *= 2;
  return large;
}

__device__ __noinline__ int32 compare(const uint8* a, const uint8* b, uint64 count) {
  for (uint64 i = 0; i < count; i++) {
    if (a[i] != b[i]) return a[i] - b[i];
  }
  return 0;
}

extern "C" __global__ void block_copies(const Large* in, Large* out, uint8* bytes, int32 length) {
  const uint32 i = THREAD_INDEX();
  Large own = in[i];
  Large other;
  __builtin_memcpy(&other, &own, sizeof(Large));
  for (uint32 round = 0; round < i % 4; round++) other = changed(other, static_cast<int32>(i * 3 + round));
  own.words[39] = compare(reinterpret_cast<uint8*>(&own), reinterpret_cast<uint8*>(&other), 168);
  out[i * 2] = own;
  out[i * 2 + 1] = other;

  uint8* row = bytes + i * 128;
  __builtin_memset(row, static_cast<int32>(i + 1), static_cast<uint64>(length));
  __builtin_memset(row + 100, 0, 28);
  __builtin_memcpy(row + 3, &in[i].words[1], static_cast<uint64>(length) / 2);
  __builtin_memmove(row + 5, row + 1, 40);
  __builtin_memmove(row + 50, row + 53, 30);
  Packed packed = {static_cast<uint8>(i), own.words[2], {1, static_cast<int16>(length), -3}, own.words[3] * 0x100000001LL};
  packed.number += packed.first;
  packed.odd[i % 3]++;
  __builtin_memcpy(row + 101, &packed, sizeof(Packed));
}
