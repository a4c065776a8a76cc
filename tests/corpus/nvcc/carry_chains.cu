// Sums, differences and products of 128 and 256 bits by the carry from one instruction to the next.
struct Wide {
  unsigned limbs[8];
};

extern "C" __global__ void add_and_subtract(const Wide* a, const Wide* b, Wide* sums, Wide* differences,
                                            unsigned* carries, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const Wide x = a[i], y = b[i];
  Wide sum, difference;
  unsigned carry, borrow;
  asm("add.cc.u32 %0, %9, %17;\n\taddc.cc.u32 %1, %10, %18;\n\taddc.cc.u32 %2, %11, %19;\n\t"
      "addc.cc.u32 %3, %12, %20;\n\taddc.cc.u32 %4, %13, %21;\n\taddc.cc.u32 %5, %14, %22;\n\t"
      "addc.cc.u32 %6, %15, %23;\n\taddc.cc.u32 %7, %16, %24;\n\taddc.u32 %8, 0, 0;"
      : "=r"(sum.limbs[0]), "=r"(sum.limbs[1]), "=r"(sum.limbs[2]), "=r"(sum.limbs[3]), "=r"(sum.limbs[4]),
        "=r"(sum.limbs[5]), "=r"(sum.limbs[6]), "=r"(sum.limbs[7]), "=r"(carry)
      : "r"(x.limbs[0]), "r"(x.limbs[1]), "r"(x.limbs[2]), "r"(x.limbs[3]), "r"(x.limbs[4]), "r"(x.limbs[5]),
        "r"(x.limbs[6]), "r"(x.limbs[7]), "r"(y.limbs[0]), "r"(y.limbs[1]), "r"(y.limbs[2]), "r"(y.limbs[3]),
        "r"(y.limbs[4]), "r"(y.limbs[5]), "r"(y.limbs[6]), "r"(y.limbs[7]));
  asm("sub.cc.u32 %0, %9, %17;\n\tsubc.cc.u32 %1, %10, %18;\n\tsubc.cc.u32 %2, %11, %19;\n\t"
      "subc.cc.u32 %3, %12, %20;\n\tsubc.cc.u32 %4, %13, %21;\n\tsubc.cc.u32 %5, %14, %22;\n\t"
      "subc.cc.u32 %6, %15, %23;\n\tsubc.cc.u32 %7, %16, %24;\n\tsubc.u32 %8, 0, 0;"
      : "=r"(difference.limbs[0]), "=r"(difference.limbs[1]), "=r"(difference.limbs[2]), "=r"(difference.limbs[3]),
        "=r"(difference.limbs[4]), "=r"(difference.limbs[5]), "=r"(difference.limbs[6]), "=r"(difference.limbs[7]),
        "=r"(borrow)
      : "r"(x.limbs[0]), "r"(x.limbs[1]), "r"(x.limbs[2]), "r"(x.limbs[3]), "r"(x.limbs[4]), "r"(x.limbs[5]),
        "r"(x.limbs[6]), "r"(x.limbs[7]), "r"(y.limbs[0]), "r"(y.limbs[1]), "r"(y.limbs[2]), "r"(y.limbs[3]),
        "r"(y.limbs[4]), "r"(y.limbs[5]), "r"(y.limbs[6]), "r"(y.limbs[7]));
  sums[i] = sum;
  differences[i] = difference;
  carries[2 * i] = carry;
  carries[2 * i + 1] = borrow;
}

// Whether there was a borrow, as an addition that follows sees it: the compiler's own division of 128 bits asks so, and
// takes 1 to mean that there was none.
extern "C" __global__ void add_after_subtracting(const unsigned* a, const unsigned* b, unsigned* results,
                                                 unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  unsigned difference;
  asm("sub.cc.u32 %0, %2, %3;\n\taddc.u32 %1, 0, 0;"
      : "=&r"(difference), "=r"(results[2 * i])
      : "r"(a[i]), "r"(b[i]));
  asm("sub.cc.u32 %0, %2, %3;\n\tsubc.cc.u32 %0, %3, %2;\n\taddc.u32 %1, %2, %3;"
      : "=&r"(difference), "=r"(results[2 * i + 1])
      : "r"(a[i]), "r"(b[i]));
}

// Numbers of 128 bits in limbs of 64: their sum, their difference, and a sum that ends in a signed limb.
extern "C" __global__ void add_limbs_of_64_bits(const ulonglong2* a, const ulonglong2* b, ulonglong2* results,
                                                unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const ulonglong2 x = a[i], y = b[i];
  ulonglong2 sum, difference, product;
  asm("add.cc.u64 %0, %2, %4;\n\taddc.u64 %1, %3, %5;"
      : "=l"(sum.x), "=l"(sum.y)
      : "l"(x.x), "l"(x.y), "l"(y.x), "l"(y.y));
  asm("sub.cc.s64 %0, %2, %4;\n\tsubc.s64 %1, %3, %5;"
      : "=l"(difference.x), "=l"(difference.y)
      : "l"(x.x), "l"(x.y), "l"(y.x), "l"(y.y));
  asm("mad.lo.cc.u64 %0, %2, %4, %3;\n\tmadc.hi.u64 %1, %2, %4, %5;"
      : "=&l"(product.x), "=l"(product.y)
      : "l"(x.x), "l"(x.y), "l"(y.x), "l"(y.y));
  results[3 * i] = sum;
  results[3 * i + 1] = difference;
  results[3 * i + 2] = product;
}

// Products of 128 bits, in limbs of 32, into 256: rows of products, each added to what is there with its carries.
extern "C" __global__ void multiply(const uint4* a, const uint4* b, Wide* products, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const uint4 x = a[i];
  const unsigned multipliers[4] = {b[i].x, b[i].y, b[i].z, b[i].w};
  unsigned limbs[9] = {};
#pragma unroll
  for (int row = 0; row < 4; row++) {
    const unsigned multiplier = multipliers[row];
    asm("mad.lo.cc.u32 %0, %5, %9, %0;\n\tmadc.lo.cc.u32 %1, %6, %9, %1;\n\tmadc.lo.cc.u32 %2, %7, %9, %2;\n\t"
        "madc.lo.cc.u32 %3, %8, %9, %3;\n\taddc.u32 %4, %4, 0;"
        : "+r"(limbs[row]), "+r"(limbs[row + 1]), "+r"(limbs[row + 2]), "+r"(limbs[row + 3]), "+r"(limbs[row + 4])
        : "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(multiplier));
    asm("mad.hi.cc.u32 %0, %5, %9, %0;\n\tmadc.hi.cc.u32 %1, %6, %9, %1;\n\tmadc.hi.cc.u32 %2, %7, %9, %2;\n\t"
        "madc.hi.cc.u32 %3, %8, %9, %3;\n\taddc.u32 %4, %4, 0;"
        : "+r"(limbs[row + 1]), "+r"(limbs[row + 2]), "+r"(limbs[row + 3]), "+r"(limbs[row + 4]),
          "+r"(limbs[row + 5])
        : "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(multiplier));
  }
  for (int limb = 0; limb < 8; limb++) products[i].limbs[limb] = limbs[limb];
}
