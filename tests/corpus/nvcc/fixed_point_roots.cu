// Roots of integers: by digits in 32 and 64 bits, by Newton's steps in fixed point, and cube roots.
extern "C" __global__ void roots(const unsigned long long* values, unsigned* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const unsigned long long value = values[i];
  unsigned rest = static_cast<unsigned>(value), root = 0;
  for (unsigned bit = 1u << 30; bit != 0; bit >>= 2) {
    if (rest >= root + bit) {
      rest -= root + bit;
      root = (root >> 1) + bit;
    } else {
      root >>= 1;
    }
  }
  results[4 * i] = root;

  // Of 64 bits: the least estimate from above that Newton's steps do not lower.
  unsigned long long estimate = value == 0 ? 0 : 1ull << ((65 - __clzll(static_cast<long long>(value))) / 2);
  if (estimate > 0xffffffff) estimate = 0xffffffff;
  while (estimate != 0) {
    const unsigned long long next = (estimate + value / estimate) / 2;
    if (next >= estimate) break;
    estimate = next;
  }
  results[4 * i + 1] = static_cast<unsigned>(estimate);

  // The root of a number with 16 bits behind the point, with as many.
  const unsigned long long scaled = static_cast<unsigned long long>(static_cast<unsigned>(value)) << 16;
  unsigned long long fixed = 0;
  for (unsigned long long bit = 1ull << 23; bit != 0; bit >>= 1) {
    if ((fixed + bit) * (fixed + bit) <= scaled) fixed += bit;
  }
  results[4 * i + 2] = static_cast<unsigned>(fixed);

  unsigned long long left = value;
  unsigned cube = 0;
  for (int shift = 63; shift >= 0; shift -= 3) {
    cube += cube;
    const unsigned long long odd = 3ull * cube * (cube + 1ull) + 1;
    if (left >> shift >= odd) {
      left -= odd << shift;
      cube++;
    }
  }
  results[4 * i + 3] = cube;
}
