// Arithmetic of the compiler's own 128-bit integers, division among it.
typedef unsigned __int128 Wide;

extern "C" __global__ void unsigned_of_128_bits(const Wide* a, const Wide* b, Wide* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const Wide x = a[i], y = b[i];
  const unsigned places = static_cast<unsigned>(y) & 127;
  Wide* row = results + i * 9;
  row[0] = x + y;
  row[1] = x - y;
  row[2] = x * y;
  row[3] = x / y;
  row[4] = x % y;
  row[5] = x << places;
  row[6] = x >> places;
  row[7] = static_cast<__int128>(x) >> places;
  row[8] = (x < y ? 1 : 0) | (static_cast<__int128>(x) < static_cast<__int128>(y) ? 2 : 0) | (x == y ? 4 : 0);
}

extern "C" __global__ void signed_of_128_bits(const __int128* a, const __int128* b, __int128* results,
                                              unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  results[2 * i] = a[i] / b[i];
  results[2 * i + 1] = a[i] % b[i];
}
