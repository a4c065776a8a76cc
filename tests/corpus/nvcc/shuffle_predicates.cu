// What C++ has no name for: the predicate that a shuffle gives, amounts above 31, of which five bits count, and
// segments and clamps that no width stands for.
template <int kind>
__device__ unsigned int shuffled(unsigned int value, unsigned int amount, unsigned int control) {
  unsigned int result, inside;
  if (kind == 0) {
    asm volatile("{ .reg .pred p; shfl.sync.idx.b32 %0|p, %2, %3, %4, 0xffffffff; selp.u32 %1, 1, 0, p; }"
                 : "=r"(result), "=r"(inside) : "r"(value), "r"(amount), "r"(control));
  } else if (kind == 1) {
    asm volatile("{ .reg .pred p; shfl.sync.up.b32 %0|p, %2, %3, %4, 0xffffffff; selp.u32 %1, 1, 0, p; }"
                 : "=r"(result), "=r"(inside) : "r"(value), "r"(amount), "r"(control));
  } else if (kind == 2) {
    asm volatile("{ .reg .pred p; shfl.sync.down.b32 %0|p, %2, %3, %4, 0xffffffff; selp.u32 %1, 1, 0, p; }"
                 : "=r"(result), "=r"(inside) : "r"(value), "r"(amount), "r"(control));
  } else {
    asm volatile("{ .reg .pred p; shfl.sync.bfly.b32 %0|p, %2, %3, %4, 0xffffffff; selp.u32 %1, 1, 0, p; }"
                 : "=r"(result), "=r"(inside) : "r"(value), "r"(amount), "r"(control));
  }
  return result * 2 + inside;
}

extern "C" __global__ void shuffle_predicates(const unsigned int* amounts, const unsigned int* controls,
                                              unsigned int count, unsigned int* out) {
  const unsigned int value = threadIdx.x * 3 + 1000;
  for (unsigned int i = 0; i < count; i++) {
    unsigned int* row = out + i * 128 + threadIdx.x;
    row[0] = shuffled<0>(value, amounts[i], controls[i]);
    row[32] = shuffled<1>(value, amounts[i], controls[i]);
    row[64] = shuffled<2>(value, amounts[i], controls[i]);
    row[96] = shuffled<3>(value, amounts[i], controls[i]);
  }
}
