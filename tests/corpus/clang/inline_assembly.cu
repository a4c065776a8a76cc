// PTX that is written into the source: with operands of each kind, registers and labels of its own, and side effects.
#include "device.h"

__device__ __noinline__ uint32 funnel(uint32 low, uint32 high, uint32 by) {
  uint32 result;
  asm("shf.l.wrap.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(by));
  return result;
}

__device__ __noinline__ uint32 collatz(uint32 value) {
  uint32 steps;
  asm volatile(
      "{\n\t"
      ".reg .pred %%odd, %%done;\n\t"
      ".reg .b32 %%x, %%bit;\n\t"
      "mov.u32 %0, 0;\n\t"
      "mov.u32 %%x, %1;\n"
      "next%=:\n\t"
      "setp.le.u32 %%done, %%x, 1;\n\t"
      "@%%done bra done%=;\n\t"
      "and.b32 %%bit, %%x, 1;\n\t"
      "setp.ne.u32 %%odd, %%bit, 0;\n\t"
      "@%%odd mad.lo.u32 %%x, %%x, 3, 1;\n\t"
      "@!%%odd shr.u32 %%x, %%x, 1;\n\t"
      "add.u32 %0, %0, 1;\n\t"
      "bra.uni next%=;\n"
      "done%=:\n\t"
      "}"
      : "=&r"(steps)
      : "r"(value));
  return steps;
}

__device__ void divide(uint64& quotient, uint64& rest, uint64 by) {
  asm("{ .reg .u64 q; div.u64 q, %0, %2; rem.u64 %1, %0, %2; mov.u64 %0, q; }"
      : "+l"(quotient), "=l"(rest)
      : "l"(by));
}

extern "C" __global__ void inline_assembly(const uint32* in, uint64* out, float* floats, double* doubles) {
  const uint32 i = THREAD_INDEX();
  const uint32 value = in[i];
  uint64* row = out + i * 8;
  row[0] = funnel(value, ~value, i);
  row[1] = collatz(value % 100) + collatz(i);
  uint64 quotient = static_cast<uint64>(value) << 20 | i;
  uint64 rest;
  divide(quotient, rest, value % 1000 + 1);
  row[2] = quotient;
  row[3] = rest;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(row[4]) : "r"(value), "r"(i));
  uint16 low = static_cast<uint16>(value), high = static_cast<uint16>(value >> 16);
  asm("{ .reg .b32 t; mov.b32 t, {%1, %0}; add.u32 t, t, 1; mov.b32 {%0, %1}, t; }" : "+h"(low), "+h"(high));
  row[5] = low | static_cast<uint64>(high) << 16;
  asm volatile("st.global.u32 [%0+48], %1;\n\tst.global.u32 [%0+52], 0xabcdef;" ::"l"(row), "n"(1234) : "memory");
  asm volatile("// A comment with a brace {\n\tld.global.u64 %0, [%1];" : "=l"(row[7]) : "l"(row + 6) : "memory");
  float scaled = static_cast<float>(i);
  asm("fma.rn.f32 %0, %0, 0f40200000, %1;" : "+f"(scaled) : "f"(0.125f));
  floats[i] = scaled;
  asm("rcp.rz.f64 %0, %1;" : "=d"(doubles[i]) : "d"(static_cast<double>(i + 3)));
}
