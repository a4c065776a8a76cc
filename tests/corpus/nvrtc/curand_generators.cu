// cuRAND's counter-based generator. The tables of its other generators are too large for this folder.
#include <curand_kernel.h>

extern "C" __global__ void generators(unsigned* words, float* uniform, unsigned long long seed) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  curandStatePhilox4_32_10_t state;
  curand_init(seed, i * 0x40000001ull, 2 * i + 1, &state);
  for (int k = 0; k < 6; k++) words[i * 10 + k] = curand(&state);
  const uint4 four = curand4(&state);
  words[i * 10 + 6] = four.x;
  words[i * 10 + 7] = four.y;
  words[i * 10 + 8] = four.z;
  words[i * 10 + 9] = four.w;
  uniform[i] = curand_uniform(&state);
}
