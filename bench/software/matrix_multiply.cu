// Computes c = a * b for square matrices of floats, with one tile of each matrix at a time in shared memory. Each
// thread computes one element of a tile. `size` is a multiple of the tile size.
template <int tile>
__device__ void multiply(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int size) {
  __shared__ float a_tile[tile][tile];
  __shared__ float b_tile[tile][tile];
  const int row = blockIdx.y * tile + threadIdx.y;
  const int column = blockIdx.x * tile + threadIdx.x;
  float sum = 0.0f;
  for (int first = 0; first < size; first += tile) {
    a_tile[threadIdx.y][threadIdx.x] = a[row * size + first + threadIdx.x];
    b_tile[threadIdx.y][threadIdx.x] = b[(first + threadIdx.y) * size + column];
    __syncthreads();
    for (int k = 0; k < tile; k++) sum += a_tile[threadIdx.y][k] * b_tile[k][threadIdx.x];
    __syncthreads();
  }
  c[row * size + column] = sum;
}

extern "C" __global__ void matrix_multiply_16(const float* a, const float* b, float* c, int size) {
  multiply<16>(a, b, c, size);
}

extern "C" __global__ void matrix_multiply_32(const float* a, const float* b, float* c, int size) {
  multiply<32>(a, b, c, size);
}
