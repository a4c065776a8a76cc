// Single precision with subnormal operands and results flushed to zero.
#define TWO(text, result, a, b) asm(text " %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b))
#define ONE(text, result, a) asm(text " %0, %1;" : "=f"(result) : "f"(a))
__device__ __forceinline__ unsigned bits_of(float value) { return isnan(value) ? 1 : __float_as_uint(value); }

extern "C" __global__ void flush_to_zero(const float* a, const float* b, const float* c, unsigned* results,
                                         unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float x = a[i], y = b[i], z = c[i];
  unsigned* row = results + i * 19;
  float result;
  TWO("add.rn.ftz.f32", result, x, y);
  row[0] = bits_of(result);
  TWO("add.rp.ftz.f32", result, x, y);
  row[1] = bits_of(result);
  TWO("sub.rz.ftz.f32", result, x, y);
  row[2] = bits_of(result);
  TWO("mul.rn.ftz.f32", result, x, y);
  row[3] = bits_of(result);
  TWO("mul.rm.ftz.f32", result, x, y);
  row[4] = bits_of(result);
  TWO("mul.rn.ftz.sat.f32", result, x, y);
  row[5] = bits_of(result);
  TWO("div.rn.ftz.f32", result, x, y);
  row[6] = bits_of(result);
  asm("fma.rn.ftz.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(x), "f"(y), "f"(z));
  row[7] = bits_of(result);
  asm("fma.rz.ftz.sat.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(x), "f"(y), "f"(z));
  row[8] = bits_of(result);
  ONE("sqrt.rn.ftz.f32", result, x);
  row[9] = bits_of(result);
  ONE("rcp.rn.ftz.f32", result, x);
  row[10] = bits_of(result);
  ONE("neg.ftz.f32", result, x);
  row[11] = bits_of(result);
  ONE("abs.ftz.f32", result, x);
  row[12] = bits_of(result);
  TWO("min.ftz.f32", result, x, y);
  row[13] = bits_of(result);
  TWO("max.ftz.f32", result, x, y);
  row[14] = bits_of(result);
  asm("set.lt.ftz.u32.f32 %0, %1, %2;" : "=r"(row[15]) : "f"(x), "f"(y));
  asm("set.equ.ftz.u32.f32 %0, %1, %2;" : "=r"(row[16]) : "f"(x), "f"(y));
  asm("cvt.rpi.ftz.s32.f32 %0, %1;" : "=r"(row[17]) : "f"(x));
  asm("cvt.rmi.ftz.f32.f32 %0, %1;" : "=f"(result) : "f"(x));
  row[18] = bits_of(result);
}
