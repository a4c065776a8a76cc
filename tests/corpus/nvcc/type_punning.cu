// The bits of numbers taken as numbers of other types, whole, in halves and by their bytes.
struct Parts {
  unsigned fraction : 23;
  unsigned exponent : 8;
  unsigned sign : 1;
};

union Pun {
  double number;
  struct {
    unsigned low, high;
  } words;
  unsigned char bytes[8];
};

extern "C" __global__ void pun(const unsigned long long* values, const unsigned long long* threads,
                               unsigned long long* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count || threads[i] != i) return;
  const unsigned long long value = values[i];
  unsigned long long* row = results + i * 12;
  const float single = __uint_as_float(static_cast<unsigned>(value));
  const double number = __longlong_as_double(static_cast<long long>(value));
  row[0] = __float_as_uint(single);
  row[1] = static_cast<unsigned>(__float_as_int(__int_as_float(static_cast<int>(value >> 32))));
  row[2] = static_cast<unsigned>(__double2loint(number));
  row[3] = static_cast<unsigned>(__double2hiint(number));
  row[4] = __double_as_longlong(__hiloint2double(static_cast<int>(value), static_cast<int>(value >> 32)));
  const Parts parts = *reinterpret_cast<const Parts*>(values + i);
  row[5] = parts.fraction;
  row[6] = parts.exponent;
  row[7] = parts.sign;
  Pun pun;
  pun.number = number;
  row[8] = pun.bytes[i & 7];
  pun.bytes[(i >> 3) & 7] = static_cast<unsigned char>(i);
  row[9] = __double_as_longlong(pun.number);
  Parts changed = parts;
  changed.exponent += 1;
  changed.sign ^= 1;
  row[10] = *reinterpret_cast<const unsigned*>(&changed);
  const float4 vector = *reinterpret_cast<const float4*>(values + (i & ~1u));
  row[11] = __float_as_uint(i & 1 ? vector.w : vector.y);
}
