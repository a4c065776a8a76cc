// Words taken as two numbers of 16 bits or four of 8: CUDA's intrinsics for them, as the compiler makes them.
extern "C" __global__ void lanes_in_words(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* results,
                                          unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const unsigned x = a[i], y = b[i], z = c[i];
  unsigned* row = results + i * 32;
  row[0] = __vadd2(x, y);
  row[1] = __vadd4(x, y);
  row[2] = __vsub2(x, y);
  row[3] = __vsub4(x, y);
  row[4] = __vaddss2(x, y);
  row[5] = __vaddus4(x, y);
  row[6] = __vsubss4(x, y);
  row[7] = __vsubus2(x, y);
  row[8] = __vabsdiffu4(x, y);
  row[9] = __vabsdiffs2(x, y);
  row[10] = __vabs4(x);
  row[11] = __vabsss2(x);
  row[12] = __vneg2(x);
  row[13] = __vnegss4(x);
  row[14] = __vmaxs2(x, y);
  row[15] = __vmaxu4(x, y);
  row[16] = __vmins4(x, y);
  row[17] = __vminu2(x, y);
  row[18] = __vcmpeq4(x, y);
  row[19] = __vcmpgts2(x, y);
  row[20] = __vcmpleu4(x, y);
  row[21] = __vcmpges4(x, y);
  row[22] = __vsetltu4(x, y);
  row[23] = __vsetne2(x, y);
  row[24] = __vsadu4(x, y);
  row[25] = __vsads2(x, y);
  row[26] = __vavgu4(x, y);
  row[27] = __vhaddu2(x, y);
  row[28] = __vimax_s16x2_relu(x, y);
  row[29] = __viaddmin_u16x2(x, y, z);
  row[30] = __vimax3_s32(static_cast<int>(x), static_cast<int>(y), static_cast<int>(z));
  row[31] = __viaddmax_s32_relu(static_cast<int>(x), static_cast<int>(y), static_cast<int>(z));
}
