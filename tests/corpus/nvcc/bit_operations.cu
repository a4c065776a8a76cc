// Bits counted, found and reversed, bytes permuted.
#define PERMUTE(mode, result, a, b, selector) \
  asm("prmt.b32." mode " %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(selector))

extern "C" __global__ void bits_of_32(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* results,
                                      unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const unsigned x = a[i], y = b[i], z = c[i];
  unsigned* row = results + i * 18;
  row[0] = __brev(x);
  row[1] = __clz(static_cast<int>(x));
  row[2] = __ffs(static_cast<int>(x));
  row[3] = __popc(x);
  row[4] = __byte_perm(x, y, z);
  row[5] = __byte_perm(x, y, 0x0123);
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(row[6]) : "r"(x), "r"(y), "r"(z));
  PERMUTE("f4e", row[7], x, y, z);
  PERMUTE("b4e", row[8], x, y, z);
  PERMUTE("rc8", row[9], x, y, z);
  PERMUTE("ecl", row[10], x, y, z);
  PERMUTE("ecr", row[11], x, y, z);
  PERMUTE("rc16", row[12], x, y, z);
  row[13] = (x & y) | (~x & z);
  row[14] = (x & y) ^ (x & z) ^ (y & z);
  row[15] = x ^ y ^ z;
  row[16] = ~(x | y) & z;
  row[17] = x & (x - 1);
}

extern "C" __global__ void bits_of_64(const unsigned long long* a, unsigned long long* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const unsigned long long x = a[i];
  unsigned long long* row = results + i * 6;
  row[0] = __brevll(x);
  row[1] = __clzll(static_cast<long long>(x));
  row[2] = __ffsll(static_cast<long long>(x));
  row[3] = __popcll(x);
  row[4] = x & (0 - x);
  row[5] = ~x;
}
