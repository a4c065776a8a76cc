// Local memory of a size that each thread computes: in a loop, and in each frame of a recursion.
__device__ __noinline__ unsigned int digits_sum(unsigned int value, unsigned int count) {
  unsigned char* digits = static_cast<unsigned char*>(__builtin_alloca(count));
  for (unsigned int i = 0; i < count; i++) digits[i] = (value >> (4 * i)) & 15;
  unsigned int sum = count > 1 ? digits_sum(value * 3, count - 1) : 0;
  for (unsigned int i = 0; i < count; i++) sum = sum * 5 + digits[count - 1 - i];
  return sum;
}

extern "C" __global__ void dynamic_alloca(const unsigned int* in, unsigned int* out) {
  const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned int value = in[i];
  unsigned int** kept = static_cast<unsigned int**>(__builtin_alloca(4 * sizeof(unsigned int*)));
  for (unsigned int k = 0; k < 4; k++) {
    const unsigned int length = 1 + (value + k) % 6;
    kept[k] = static_cast<unsigned int*>(__builtin_alloca(length * sizeof(unsigned int)));
    for (unsigned int j = 0; j < length; j++) kept[k][j] = value * (j + k + 1);
  }
  unsigned int sum = 0;
  for (unsigned int k = 0; k < 4; k++) {
    for (unsigned int j = 0; j < 1 + (value + k) % 6; j++) sum = sum * 7 + kept[k][j];
  }
  out[i] = sum ^ digits_sum(value, 1 + i % 5);
}
