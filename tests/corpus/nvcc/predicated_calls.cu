// Calls, barriers and returns under a predicate, as only assembly has them.
extern "C" __device__ __noinline__ void add_to(unsigned int* where, unsigned int value) { *where += value; }

extern "C" __global__ void predicated_calls(const unsigned int* flags, unsigned int* out) {
  __shared__ unsigned int words[64];
  const unsigned int thread = threadIdx.x;
  const unsigned int flag = flags[blockIdx.x];
  unsigned int* mine = out + blockIdx.x * 64 + thread;
  add_to(mine, thread);
  words[thread] = *mine + flag;
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 0; @p bar.sync 0; @!p barrier.sync 0; }" ::"r"(flag) : "memory");
  const unsigned int other = words[63 - thread];
  asm volatile(
      "{ .reg .pred p; .param .b64 where; .param .b32 value;\n\t"
      "setp.ne.u32 p, %0, 0;\n\t"
      "st.param.b64 [where], %1;\n\t"
      "st.param.b32 [value], %2;\n\t"
      "@p call.uni add_to, (where, value);\n\t"
      "}" ::"r"(flag), "l"(mine), "r"(other)
      : "memory");
  asm volatile(
      "{ .reg .pred p; .param .b64 where; .param .b32 value;\n\t"
      "setp.lt.u32 p, %0, 20;\n\t"
      "st.param.b64 [where], %1;\n\t"
      "st.param.b32 [value], 1000;\n\t"
      "@!p call add_to, (where, value);\n\t"
      "}" ::"r"(thread), "l"(mine)
      : "memory");
  asm volatile("{ .reg .pred p; setp.eq.u32 p, %0, 2; @p ret; }" ::"r"(flag) : "memory");
  *mine += 100000;
}
