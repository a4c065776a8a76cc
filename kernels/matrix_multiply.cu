// c = a * b for matrices of floats, row by row: a has m x k elements, b has k x n, and c has m x n. A block computes
// tiles of 16 x 16 elements of c, one for each thread, from tiles of a and b that it copies into shared memory: each
// element of a and b is then read from there 16 times. The block must be [16, 16]; with any other, the kernel traps.
// Any grid will do; [n / 16, m / 16], rounded up, is one block for each tile.
//
// The order, on which the bits depend: each element of c starts with 0, to which the products of a row and a column are
// added, first to last. Products and sums are rounded one by one: the PTX has no fused multiply-adds.
extern "C" __global__ void matrix_multiply(const float* a, const float* b, float* c, unsigned int m, unsigned int n,
                                           unsigned int k) {
  constexpr unsigned int tile = 16;
  const unsigned int tile_rows = m / tile + (m % tile != 0);
  const unsigned int tile_columns = n / tile + (n % tile != 0);
  const unsigned int steps = k / tile + (k % tile != 0);
  __shared__ float a_tile[tile][tile];
  __shared__ float b_tile[tile][tile];
  if (blockDim.x != tile || blockDim.y != tile || blockDim.z != 1) __trap();
  const unsigned int x = threadIdx.x;
  const unsigned int y = threadIdx.y;
#pragma unroll 1
  for (unsigned int tile_row = blockIdx.y; tile_row < tile_rows; tile_row += gridDim.y) {
#pragma unroll 1
    for (unsigned int tile_column = blockIdx.x; tile_column < tile_columns; tile_column += gridDim.x) {
      const unsigned int row = tile_row * tile + y;
      const unsigned int column = tile_column * tile + x;
      float sum = 0.0f;
#pragma unroll 1
      for (unsigned int step = 0; step < steps; step++) {
        const unsigned int a_column = step * tile + x;
        const unsigned int b_row = step * tile + y;
        // Zeros beyond the edges add nothing.
        a_tile[y][x] = row < m && a_column < k ? a[static_cast<unsigned long long>(row) * k + a_column] : 0.0f;
        b_tile[y][x] = column < n && b_row < k ? b[static_cast<unsigned long long>(b_row) * n + column] : 0.0f;
        __syncthreads();
        for (unsigned int i = 0; i < tile; i++) sum += a_tile[y][i] * b_tile[i][x];
        __syncthreads();
      }
      if (row < m && column < n) c[static_cast<unsigned long long>(row) * n + column] = sum;
    }
  }
}
