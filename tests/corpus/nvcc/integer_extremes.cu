// The smaller and the larger of two, absolute values and differences, averages, and sums that saturate.
extern "C" __global__ void extremes_of_16_bits(const unsigned short* a, const unsigned short* b,
                                               const unsigned short* c, unsigned short* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const unsigned short x = a[i], y = b[i], z = c[i];
  unsigned short* row = results + i * 9;
  asm("min.s16 %0, %1, %2;" : "=h"(row[0]) : "h"(x), "h"(y));
  asm("max.s16 %0, %1, %2;" : "=h"(row[1]) : "h"(x), "h"(y));
  asm("min.u16 %0, %1, %2;" : "=h"(row[2]) : "h"(x), "h"(y));
  asm("max.u16 %0, %1, %2;" : "=h"(row[3]) : "h"(x), "h"(y));
  asm("abs.s16 %0, %1;" : "=h"(row[4]) : "h"(x));
  asm("neg.s16 %0, %1;" : "=h"(row[5]) : "h"(x));
  asm("sad.s16 %0, %1, %2, %3;" : "=h"(row[6]) : "h"(x), "h"(y), "h"(z));
  asm("sad.u16 %0, %1, %2, %3;" : "=h"(row[7]) : "h"(x), "h"(y), "h"(z));
  asm("cnot.b16 %0, %1;" : "=h"(row[8]) : "h"(x));
}

extern "C" __global__ void extremes_of_32_bits(const unsigned* a, const unsigned* b, const unsigned* c,
                                               unsigned* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const unsigned x = a[i], y = b[i], z = c[i];
  const int signed_x = static_cast<int>(x), signed_y = static_cast<int>(y);
  unsigned* row = results + i * 16;
  row[0] = min(signed_x, signed_y);
  row[1] = max(signed_x, signed_y);
  row[2] = min(x, y);
  row[3] = max(x, y);
  row[4] = abs(signed_x);
  row[5] = 0 - x;
  row[6] = __sad(signed_x, signed_y, z);
  row[7] = __usad(x, y, z);
  row[8] = __hadd(signed_x, signed_y);
  row[9] = __rhadd(signed_x, signed_y);
  row[10] = __uhadd(x, y);
  row[11] = __urhadd(x, y);
  asm("add.sat.s32 %0, %1, %2;" : "=r"(row[12]) : "r"(x), "r"(y));
  asm("sub.sat.s32 %0, %1, %2;" : "=r"(row[13]) : "r"(x), "r"(y));
  asm("cnot.b32 %0, %1;" : "=r"(row[14]) : "r"(x));
  row[15] = signed_x < signed_y ? min(y, z) : max(x, z);
}

extern "C" __global__ void extremes_of_64_bits(const unsigned long long* a, const unsigned long long* b,
                                               const unsigned long long* c, unsigned long long* results,
                                               unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const unsigned long long x = a[i], y = b[i], z = c[i];
  const long long signed_x = static_cast<long long>(x), signed_y = static_cast<long long>(y);
  unsigned long long* row = results + i * 9;
  row[0] = min(signed_x, signed_y);
  row[1] = max(signed_x, signed_y);
  row[2] = min(x, y);
  row[3] = max(x, y);
  row[4] = llabs(signed_x);
  row[5] = 0 - x;
  asm("sad.s64 %0, %1, %2, %3;" : "=l"(row[6]) : "l"(x), "l"(y), "l"(z));
  asm("sad.u64 %0, %1, %2, %3;" : "=l"(row[7]) : "l"(x), "l"(y), "l"(z));
  asm("cnot.b64 %0, %1;" : "=l"(row[8]) : "l"(x));
}
