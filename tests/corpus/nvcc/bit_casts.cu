// Unions, casts of bits between types of one size, and the bytes of larger types.

union Word {
  unsigned word;
  float number;
  unsigned short halves[2];
  unsigned char bytes[4];
};

union Wide {
  double number;
  unsigned long long word;
  int2 pair;
};

extern "C" __global__ void cast_words(const unsigned* in, unsigned* out, const unsigned* places) {
  int thread = threadIdx.x;
  Word word;
  word.word = in[thread];
  word.bytes[places[thread] % 4] = 0x5a;
  unsigned short low = word.halves[0];
  word.halves[0] = word.halves[1];
  word.halves[1] = low;
  out[2 * thread] = word.word;
  float number = __uint_as_float(in[thread] & 0x7f7fffff);
  int exponent = (__float_as_int(number) >> 23) - 127;
  out[2 * thread + 1] = (unsigned)exponent ^ (number < 1.0f ? 0x80000000u : 0u);
}

extern "C" __global__ void cast_wides(const unsigned long long* in, unsigned long long* out) {
  int thread = threadIdx.x;
  Wide wide;
  wide.word = in[thread] & 0x7fefffffffffffffull;
  int high = __double2hiint(wide.number);
  int low = __double2loint(wide.number);
  Wide other;
  other.pair = make_int2(high, low);
  out[3 * thread] = other.word;
  out[3 * thread + 1] = __double_as_longlong(__hiloint2double(low, high));
  const unsigned char* bytes = reinterpret_cast<const unsigned char*>(&in[thread]);
  unsigned long long reversed = 0;
  for (int i = 0; i < 8; i++) reversed = reversed << 8 | bytes[i];
  out[3 * thread + 2] = reversed;
}
