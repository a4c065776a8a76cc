// Which lanes hold the same value, of 32 and 64 bits, for whole warps and for the lanes of a branch.
extern "C" __global__ void match_lanes(const unsigned int* in, unsigned int* out) {
  const unsigned int i = threadIdx.x, lane = i % 32;
  const unsigned int value = in[i];
  const unsigned long long wide = (static_cast<unsigned long long>(value % 3) << 40) | value;
  unsigned int* row = out + i * 8;
  int same, wide_same;
  row[0] = __match_any_sync(0xffffffff, value);
  row[1] = __match_any_sync(0xffffffff, wide << (value & 1));
  row[2] = __match_all_sync(0xffffffff, value, &same);
  row[3] = __match_all_sync(0xffffffff, wide, &wide_same);
  row[4] = same * 2 + wide_same;
  if (lane >= 20) {
    row[5] = __match_any_sync(0xfff00000, value / 2);
    row[6] = __match_all_sync(0xfff00000, static_cast<long long>(value >> 31), &same);
    row[7] = same;
  } else if (lane % 2) {
    row[5] = __match_any_sync(0x000aaaaa, static_cast<float>(value % 2));
  }
}
