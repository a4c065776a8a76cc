// Transposes a matrix of floats: output[column][row] = input[row][column]. Each block moves tiles of 32 x 32 elements
// through shared memory, so that consecutive threads both read and write consecutive addresses. Blocks of [32, 8] and a
// grid of one block for each tile, [columns / 32, rows / 32] rounded up, are fast; any grid and any block will do.
//
// input: rows x columns floats, row by row. output: columns x rows floats, in other memory. The bits are moved as they
// are, so that the elements may be integers of 32 bits too.
extern "C" __global__ void transpose(const float* input, float* output, unsigned int rows, unsigned int columns) {
  // With 33 columns, the elements of a tile's column lie in 32 different banks of shared memory.
  __shared__ float tile[32][33];
  typedef unsigned long long Index;
#pragma unroll 1
  for (Index row = blockIdx.y * 32ull; row < rows; row += gridDim.y * 32ull) {
#pragma unroll 1
    for (Index column = blockIdx.x * 32ull; column < columns; column += gridDim.x * 32ull) {
#pragma unroll 1
      for (Index y = threadIdx.y; y < 32 && row + y < rows; y += blockDim.y) {
#pragma unroll 1
        for (Index x = threadIdx.x; x < 32 && column + x < columns; x += blockDim.x) {
          tile[y][x] = input[(row + y) * columns + column + x];
        }
      }
      __syncthreads();
#pragma unroll 1
      for (Index y = threadIdx.y; y < 32 && column + y < columns; y += blockDim.y) {
#pragma unroll 1
        for (Index x = threadIdx.x; x < 32 && row + x < rows; x += blockDim.x) {
          output[(column + y) * rows + row + x] = tile[x][y];
        }
      }
      __syncthreads();
    }
  }
}
