// Builtins on bits, of every width.
#include "device.h"

extern "C" __global__ void bits(const uint64* in, uint64* out) {
  const uint32 i = THREAD_INDEX();
  const uint64 wide = in[i];
  const uint32 word = static_cast<uint32>(wide >> 7);
  const uint16 half = static_cast<uint16>(wide >> 13);
  const uint8 byte = static_cast<uint8>(wide >> 29);
  uint64* row = out + i * 22;
  row[0] = __builtin_popcountll(wide);
  row[1] = __builtin_popcount(word) + __builtin_popcount(half) * 100;
  row[2] = wide ? __builtin_clzll(wide) : 64;
  row[3] = word ? __builtin_clz(word) : 32;
  row[4] = wide ? __builtin_ctzll(wide) : 64;
  row[5] = word ? __builtin_ctz(word) : 32;
  row[6] = __builtin_ffsll(static_cast<int64>(wide)) + __builtin_parity(word) * 100;
  row[7] = __builtin_bitreverse64(wide);
  row[8] = __builtin_bitreverse32(word);
  row[9] = __builtin_bitreverse16(half) | __builtin_bitreverse8(byte) << 16;
  row[10] = __builtin_bswap64(wide);
  row[11] = __builtin_bswap32(word);
  row[12] = __builtin_bswap16(half);
  row[13] = __builtin_rotateleft64(wide, i);
  row[14] = __builtin_rotateright32(word, i);
  row[15] = __builtin_rotateleft16(half, i % 16) | static_cast<uint32>(__builtin_rotateright8(byte, i % 8)) << 16;
  row[16] = word << (i & 31) | word >> (31 - (i & 31));
  row[17] = (wide >> (i & 63)) ^ static_cast<uint64>(static_cast<int64>(wide) >> (i * 3 & 63));
  row[18] = static_cast<uint64>(static_cast<int16>(half) >> (i & 15)) ^ static_cast<uint8>(byte << (i & 7));
  row[19] = (word & half) | (word ^ ~byte) | static_cast<uint64>(static_cast<int8>(byte));
  row[20] = (wide >> 17 & 0x1fff) | (wide & ~(0xffULL << 20));
  row[21] = __builtin_clrsbll(static_cast<int64>(wide)) + __builtin_clzs(half | 1);
}
