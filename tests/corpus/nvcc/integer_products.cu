// Sums, differences and products of integers: the low half, the high half, the whole, alone and with an addend.
#define PRODUCT(text, type, letter, result, a, b) \
  asm(text " %0, %1, %2;" : "=" letter(result) : letter(static_cast<type>(a)), letter(static_cast<type>(b)))
#define PRODUCT_AND_SUM(text, type, letter, result, a, b, c)                                                       \
  asm(text " %0, %1, %2, %3;"                                                                                      \
      : "=" letter(result)                                                                                         \
      : letter(static_cast<type>(a)), letter(static_cast<type>(b)), letter(static_cast<type>(c)))

extern "C" __global__ void products_of_16_bits(const unsigned short* a, const unsigned short* b,
                                               const unsigned short* c, unsigned short* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  unsigned short* row = results + i * 9;
  PRODUCT("add.u16", unsigned short, "h", row[0], a[i], b[i]);
  PRODUCT("sub.s16", unsigned short, "h", row[1], a[i], b[i]);
  PRODUCT("mul.lo.u16", unsigned short, "h", row[2], a[i], b[i]);
  PRODUCT("mul.hi.u16", unsigned short, "h", row[3], a[i], b[i]);
  PRODUCT("mul.hi.s16", unsigned short, "h", row[4], a[i], b[i]);
  PRODUCT_AND_SUM("mad.lo.s16", unsigned short, "h", row[5], a[i], b[i], c[i]);
  PRODUCT_AND_SUM("mad.hi.u16", unsigned short, "h", row[6], a[i], b[i], c[i]);
  PRODUCT_AND_SUM("mad.hi.s16", unsigned short, "h", row[7], a[i], b[i], c[i]);
  row[8] = a[i] * b[i] - c[i];
}

extern "C" __global__ void products_of_32_bits(const unsigned* a, const unsigned* b, const unsigned* c,
                                               unsigned* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const unsigned x = a[i], y = b[i], z = c[i];
  unsigned* row = results + i * 16;
  row[0] = x + y;
  row[1] = x - y;
  row[2] = x * y;
  row[3] = __mulhi(static_cast<int>(x), static_cast<int>(y));
  row[4] = __umulhi(x, y);
  row[5] = x * y + z;
  PRODUCT_AND_SUM("mad.hi.s32", unsigned, "r", row[6], x, y, z);
  PRODUCT_AND_SUM("mad.hi.u32", unsigned, "r", row[7], x, y, z);
  row[8] = __mul24(static_cast<int>(x), static_cast<int>(y));
  row[9] = __umul24(x, y);
  PRODUCT("mul24.hi.s32", unsigned, "r", row[10], x, y);
  PRODUCT("mul24.hi.u32", unsigned, "r", row[11], x, y);
  PRODUCT_AND_SUM("mad24.lo.s32", unsigned, "r", row[12], x, y, z);
  PRODUCT_AND_SUM("mad24.hi.u32", unsigned, "r", row[13], x, y, z);
  row[14] = static_cast<int>(static_cast<short>(x)) * static_cast<short>(y) + z;
  row[15] = (x & 0xffff) * (y & 0xffff) + z;
}

extern "C" __global__ void products_of_64_bits(const unsigned long long* a, const unsigned long long* b,
                                               const unsigned long long* c, unsigned long long* results,
                                               unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const unsigned long long x = a[i], y = b[i], z = c[i];
  unsigned long long* row = results + i * 12;
  row[0] = x + y;
  row[1] = x - y;
  row[2] = x * y;
  row[3] = __mul64hi(static_cast<long long>(x), static_cast<long long>(y));
  row[4] = __umul64hi(x, y);
  row[5] = x * y + z;
  PRODUCT_AND_SUM("mad.hi.s64", unsigned long long, "l", row[6], x, y, z);
  PRODUCT_AND_SUM("mad.hi.u64", unsigned long long, "l", row[7], x, y, z);
  row[8] = static_cast<long long>(static_cast<int>(x)) * static_cast<int>(y);
  row[9] = static_cast<unsigned long long>(static_cast<unsigned>(x)) * static_cast<unsigned>(y);
  row[10] = static_cast<long long>(static_cast<int>(x)) * static_cast<int>(y) + static_cast<long long>(z);
  row[11] = static_cast<unsigned long long>(static_cast<unsigned>(x)) * static_cast<unsigned>(y) + z;
}
