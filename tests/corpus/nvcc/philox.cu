// Random numbers without state: Philox 4x32 with ten rounds, and a multiply-with-carry generator of 64 bits.
__device__ uint4 philox_round(uint4 counter, uint2 key) {
  const unsigned high_0 = __umulhi(0xd2511f53, counter.x), low_0 = 0xd2511f53 * counter.x;
  const unsigned high_1 = __umulhi(0xcd9e8d57, counter.z), low_1 = 0xcd9e8d57 * counter.z;
  return make_uint4(high_1 ^ counter.y ^ key.x, low_1, high_0 ^ counter.w ^ key.y, low_0);
}

extern "C" __global__ void philox(const uint4* counters, const uint2* keys, uint4* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  uint4 counter = counters[i];
  uint2 key = keys[i];
#pragma unroll
  for (int round = 0; round < 10; round++) {
    counter = philox_round(counter, key);
    key.x += 0x9e3779b9;
    key.y += 0xbb67ae85;
  }
  results[i] = counter;
}

extern "C" __global__ void multiply_with_carry(const uint2* keys, unsigned long long* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  unsigned long long state = keys[i].x | 1, carry = keys[i].y;
  for (int step = 0; step < 40; step++) {
    const unsigned long long high = __umul64hi(state, 0xff3a275c007b8ee6), low = state * 0xff3a275c007b8ee6;
    state = low + carry;
    carry = high + (state < low ? 1 : 0);
  }
  results[2 * i] = state;
  results[2 * i + 1] = carry;
}
