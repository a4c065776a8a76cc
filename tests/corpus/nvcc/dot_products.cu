// Products of the bytes or halves of words, summed, with every mixture of signs.
#define DOT(text, result, a, b, c) asm(text " %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c))

extern "C" __global__ void dot_products(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* results,
                                        unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const unsigned x = a[i], y = b[i], z = c[i];
  const int signed_x = static_cast<int>(x), signed_y = static_cast<int>(y), signed_z = static_cast<int>(z);
  unsigned* row = results + i * 13;
  row[0] = __dp4a(signed_x, signed_y, signed_z);
  row[1] = __dp4a(x, y, z);
  DOT("dp4a.s32.u32", row[2], x, y, z);
  DOT("dp4a.u32.s32", row[3], x, y, z);
  row[4] = __dp2a_lo(signed_x, signed_y, signed_z);
  row[5] = __dp2a_hi(signed_x, signed_y, signed_z);
  row[6] = __dp2a_lo(x, y, z);
  row[7] = __dp2a_hi(x, y, z);
  DOT("dp2a.lo.s32.u32", row[8], x, y, z);
  DOT("dp2a.hi.s32.u32", row[9], x, y, z);
  DOT("dp2a.lo.u32.s32", row[10], x, y, z);
  DOT("dp2a.hi.u32.s32", row[11], x, y, z);
  row[12] = __dp4a(make_char4(1, -2, 3, -4), *reinterpret_cast<const char4*>(&y), signed_z);
}
