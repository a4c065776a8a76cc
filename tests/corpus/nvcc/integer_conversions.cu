// Between all integer types, as C++ converts them and saturated.
#define SATURATE(to, from, letter_to, letter_from, result, value) \
  asm("cvt.sat." to "." from " %0, %1;" : "=" letter_to(result) : letter_from(value))

// Inline assembly has no registers of 8 bits: values of 8 bits lie in ones of 32, which cvt writes whole.
#define SATURATE_TO_8(to, from, letter, result, value)                                                        \
  asm("{\n\t.reg .b8 narrow;\n\tcvt.sat." to "." from " narrow, %1;\n\tcvt.s32." to " %0, narrow;\n\t}"        \
      : "=r"(result)                                                                                          \
      : letter(value))

extern "C" __global__ void convert(const unsigned long long* values, unsigned long long* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const unsigned long long value = values[i];
  const unsigned word = static_cast<unsigned>(value);
  const unsigned short half = static_cast<unsigned short>(value);
  unsigned long long* row = results + i * 28;
  row[0] = static_cast<signed char>(value);
  row[1] = static_cast<unsigned char>(value);
  row[2] = static_cast<short>(value);
  row[3] = static_cast<unsigned short>(value);
  row[4] = static_cast<int>(value);
  row[5] = static_cast<unsigned>(value);
  row[6] = static_cast<unsigned>(static_cast<signed char>(word));
  row[7] = static_cast<unsigned short>(static_cast<signed char>(half));
  row[8] = static_cast<int>(static_cast<short>(word));
  unsigned short narrow;
  unsigned wide;
  unsigned long long widest;
  SATURATE_TO_8("s8", "s32", "r", wide, word);
  row[9] = wide;
  SATURATE_TO_8("u8", "s32", "r", wide, word);
  row[10] = wide;
  SATURATE_TO_8("s8", "u32", "r", wide, word);
  row[11] = wide;
  SATURATE_TO_8("u8", "s16", "h", wide, half);
  row[12] = wide;
  SATURATE_TO_8("s8", "s64", "l", wide, value);
  row[13] = wide;
  SATURATE_TO_8("u8", "u64", "l", wide, value);
  row[14] = wide;
  SATURATE("s16", "s32", "h", "r", narrow, word);
  row[15] = narrow;
  SATURATE("u16", "s32", "h", "r", narrow, word);
  row[16] = narrow;
  SATURATE("s16", "u32", "h", "r", narrow, word);
  row[17] = narrow;
  SATURATE("u16", "u64", "h", "l", narrow, value);
  row[18] = narrow;
  SATURATE("u16", "s16", "h", "h", narrow, half);
  row[19] = narrow;
  SATURATE("s32", "s64", "r", "l", wide, value);
  row[20] = wide;
  SATURATE("u32", "s64", "r", "l", wide, value);
  row[21] = wide;
  SATURATE("s32", "u64", "r", "l", wide, value);
  row[22] = wide;
  SATURATE("u32", "s32", "r", "r", wide, word);
  row[23] = wide;
  SATURATE("s32", "u32", "r", "r", wide, word);
  row[24] = wide;
  SATURATE("u64", "s64", "l", "l", widest, value);
  row[25] = widest;
  SATURATE("u64", "s32", "l", "r", widest, word);
  row[26] = widest;
  SATURATE("s64", "u64", "l", "l", widest, value);
  row[27] = widest;
}
