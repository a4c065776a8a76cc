// Random numbers by shifts: xorshift of 32 and 64 bits, xorwow with a counter, and SplitMix64.
extern "C" __global__ void xorshift(const unsigned* seeds, unsigned long long* results, unsigned count,
                                    unsigned steps) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const unsigned seed = seeds[i];
  unsigned narrow = seed | 1;
  unsigned long long wide = (static_cast<unsigned long long>(seed) << 32) | 1;
  unsigned state[5] = {seed, 362436069, 521288629, 88675123, 5783321};
  unsigned counter = 6615241, xorwow = 0;
  unsigned long long gamma = seed, mixed = 0;
  for (unsigned step = 0; step < steps; step++) {
    narrow ^= narrow << 13;
    narrow ^= narrow >> 17;
    narrow ^= narrow << 5;
    wide ^= wide >> 12;
    wide ^= wide << 25;
    wide ^= wide >> 27;
    const unsigned t = state[0] ^ (state[0] >> 2);
    for (int j = 0; j < 4; j++) state[j] = state[j + 1];
    state[4] ^= (state[4] << 4) ^ t ^ (t << 1);
    counter += 362437;
    xorwow = state[4] + counter;
    gamma += 0x9e3779b97f4a7c15;
    mixed = (gamma ^ (gamma >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    mixed ^= mixed >> 31;
  }
  results[4 * i] = narrow;
  results[4 * i + 1] = wide * 0x2545f4914f6cdd1d;
  results[4 * i + 2] = xorwow;
  results[4 * i + 3] = mixed;
}
