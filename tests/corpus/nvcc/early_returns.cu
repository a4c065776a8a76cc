// Functions and kernels that return out of loops: from a search, from two loops at once, and before a barrier of warps.
__device__ int first_factor(unsigned int n) {
  if (n < 2) return -1;
  for (unsigned int factor = 2; factor * factor <= n; factor++) {
    if (n % factor == 0) return static_cast<int>(factor);
  }
  return 0;
}

extern "C" __global__ void early_returns(const unsigned int* table, unsigned int n, int* out) {
  const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = first_factor(i);
  for (unsigned int row = 0; row < 8; row++) {
    for (unsigned int column = 0; column < 8; column++) {
      if (table[row * 8 + column] == i) {
        out[i] += static_cast<int>(row * 1000 + column * 100);
        return;
      }
      if (row * column > i) return;
    }
  }
  out[i] -= 5;
}
