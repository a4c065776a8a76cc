// Integers of 128 bits, products' high halves, checked arithmetic, and division of every width.
#include "device.h"

using int128 = __int128;
using uint128 = unsigned __int128;

__device__ __noinline__ uint128 mix(uint128 a, uint128 b, uint32 by) {
  const uint128 sum = a + b;
  const uint128 product = a * b;
  const uint128 shifted = product << by ^ sum >> (127 - by);
  return shifted - (a > b ? a : b);
}

__device__ void store(uint64* out, uint128 value) {
  out[0] = static_cast<uint64>(value);
  out[1] = static_cast<uint64>(value >> 64);
}

extern "C" __global__ void wide_integers(const int64* in, uint64* out) {
  const uint32 i = THREAD_INDEX();
  const int64 a = in[i * 2];
  const int64 b = in[i * 2 + 1];
  uint64* row = out + i * 18;
  const int128 wide = static_cast<int128>(a) << 64 | static_cast<uint64>(b);
  store(row, mix(static_cast<uint128>(wide), static_cast<uint128>(-wide), i % 128));
  store(row + 2, static_cast<uint128>(static_cast<int128>(a) * b));
  store(row + 4, static_cast<uint128>(wide >> (i * 4 % 128)));
  row[6] = static_cast<uint64>(static_cast<uint128>(static_cast<uint64>(a)) * static_cast<uint64>(b) >> 64);
  row[7] = (wide < 0) | (wide < static_cast<int128>(a)) << 1 |
           (static_cast<uint128>(wide) >= static_cast<uint128>(b)) << 2 | (wide == static_cast<int128>(b)) << 3;

  int64 result;
  row[8] = __builtin_add_overflow(a, b, &result);
  row[9] = static_cast<uint64>(result);
  row[10] = __builtin_mul_overflow(a >> 20, b >> 24, &result);
  row[11] = static_cast<uint64>(result);
  uint32 word;
  row[12] = __builtin_sub_overflow(static_cast<uint32>(a), static_cast<uint32>(b), &word);
  row[13] = word;
  const int64 divisor = b | 1;
  row[14] = static_cast<uint64>(a / 1000 + (a >> 1) / divisor + (a >> 1) % divisor);
  row[15] = static_cast<uint64>(a) / static_cast<uint64>(divisor) + static_cast<uint64>(a) % 1000003;
  row[16] = static_cast<uint64>(static_cast<int32>(a >> 1) / 7 + static_cast<int32>(a >> 34) % (static_cast<int32>(b) | 1));
  row[17] = static_cast<uint16>(a) / (static_cast<uint8>(b) | 1u) + static_cast<int8>(a) % 10 +
            static_cast<uint32>(a) % (static_cast<uint32>(b) | 1);
}
