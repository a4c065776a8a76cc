// Shifts by amounts up to and past the width, funnel shifts and rotations.
#define SHIFT(text, letter, result, value, amount) \
  asm(text " %0, %1, %2;" : "=" letter(result) : letter(value), "r"(amount))

extern "C" __global__ void shifts_of_16_bits(const unsigned short* a, const unsigned* amounts,
                                             unsigned short* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  unsigned short* row = results + i * 3;
  SHIFT("shl.b16", "h", row[0], a[i], amounts[i]);
  SHIFT("shr.u16", "h", row[1], a[i], amounts[i]);
  SHIFT("shr.s16", "h", row[2], a[i], amounts[i]);
}

extern "C" __global__ void shifts_of_32_bits(const unsigned* a, const unsigned* b, const unsigned* amounts,
                                             unsigned* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const unsigned x = a[i], y = b[i], amount = amounts[i], places = amount & 31;
  unsigned* row = results + i * 13;
  SHIFT("shl.b32", "r", row[0], x, amount);
  SHIFT("shr.u32", "r", row[1], x, amount);
  SHIFT("shr.s32", "r", row[2], x, amount);
  row[3] = __funnelshift_l(x, y, amount);
  row[4] = __funnelshift_r(x, y, amount);
  row[5] = __funnelshift_lc(x, y, amount);
  row[6] = __funnelshift_rc(x, y, amount);
  row[7] = x << places | x >> (-places & 31);
  row[8] = x >> places | x << (-places & 31);
  row[9] = x << 7 | x >> 25;
  row[10] = x << places;
  row[11] = static_cast<int>(x) >> places;
  row[12] = (x << 5) + (y >> 3);
}

extern "C" __global__ void shifts_of_64_bits(const unsigned long long* a, const unsigned* amounts,
                                             unsigned long long* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const unsigned long long x = a[i];
  const unsigned places = amounts[i] & 63;
  unsigned long long* row = results + i * 8;
  SHIFT("shl.b64", "l", row[0], x, amounts[i]);
  SHIFT("shr.u64", "l", row[1], x, amounts[i]);
  SHIFT("shr.s64", "l", row[2], x, amounts[i]);
  row[3] = x << places | x >> (-places & 63);
  row[4] = x << 41 | x >> 23;
  row[5] = x >> places;
  row[6] = static_cast<long long>(x) >> places;
  row[7] = x << 32 | x >> 32;
}
