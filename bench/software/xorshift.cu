// Each thread runs its own generator, Marsaglia's xorshift32, and writes the sum of `count` numbers.
extern "C" __global__ void xorshift(unsigned int* sums, unsigned int generators, unsigned int count) {
  const unsigned int generator = blockIdx.x * blockDim.x + threadIdx.x;
  if (generator >= generators) return;
  unsigned int state = 2463534242u + generator;
  unsigned int sum = 0;
  for (unsigned int i = 0; i < count; i++) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    sum += state;
  }
  sums[generator] = sum;
}
