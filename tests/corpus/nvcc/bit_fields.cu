// Fields of bits taken out and put in, the highest bit found, and logic of three operands by its table.
#define EXTRACT(type, letter, result, value, position, length) \
  asm("bfe." type " %0, %1, %2, %3;" : "=" letter(result) : letter(value), "r"(position), "r"(length))
#define INSERT(type, letter, result, value, into, position, length)           \
  asm("bfi." type " %0, %1, %2, %3, %4;"                                      \
      : "=" letter(result)                                                    \
      : letter(value), letter(into), "r"(position), "r"(length))
#define HIGHEST(type, letter, result, value) asm("bfind." type " %0, %1;" : "=r"(result) : letter(value))
#define LOGIC(table, result, a, b, c) \
  asm("lop3.b32 %0, %1, %2, %3, " table ";" : "=r"(result) : "r"(a), "r"(b), "r"(c))

extern "C" __global__ void fields_of_32_bits(const unsigned* a, const unsigned* b, const unsigned* positions,
                                             const unsigned* lengths, unsigned* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const unsigned x = a[i], y = b[i], position = positions[i], length = lengths[i];
  unsigned* row = results + i * 11;
  EXTRACT("u32", "r", row[0], x, position, length);
  EXTRACT("s32", "r", row[1], x, position, length);
  INSERT("b32", "r", row[2], x, y, position, length);
  HIGHEST("u32", "r", row[3], x);
  HIGHEST("s32", "r", row[4], x);
  HIGHEST("shiftamt.u32", "r", row[5], x);
  HIGHEST("shiftamt.s32", "r", row[6], x);
  LOGIC("0xe8", row[7], x, y, position);
  LOGIC("0x1b", row[8], x, y, position);
  LOGIC("0xff", row[9], x, y, position);
  row[10] = (x >> 11 & 0x7ff) + (static_cast<int>(y << 4) >> 20);
}

extern "C" __global__ void fields_of_64_bits(const unsigned long long* a, const unsigned long long* b,
                                             const unsigned* positions, const unsigned* lengths,
                                             unsigned long long* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const unsigned long long x = a[i], y = b[i];
  const unsigned position = positions[i], length = lengths[i];
  unsigned long long* row = results + i * 7;
  unsigned highest;
  EXTRACT("u64", "l", row[0], x, position, length);
  EXTRACT("s64", "l", row[1], x, position, length);
  INSERT("b64", "l", row[2], x, y, position, length);
  HIGHEST("u64", "l", highest, x);
  row[3] = highest;
  HIGHEST("s64", "l", highest, x);
  row[4] = highest;
  HIGHEST("shiftamt.u64", "l", highest, x);
  row[5] = highest;
  HIGHEST("shiftamt.s64", "l", highest, x);
  row[6] = highest;
}
