// A matrix by a vector in double precision, by plain operators: a thread for each row, and the rows of the transpose.
extern "C" __global__ void multiply(const double* matrix, const double* vector, double* result, unsigned rows,
                                    unsigned columns) {
  const unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  double sum = 0;
  for (unsigned column = 0; column < columns; column++) sum += matrix[row * columns + column] * vector[column];
  result[row] = sum;
}

extern "C" __global__ void multiply_transposed(const double* matrix, const double* vector, double* result,
                                               unsigned rows, unsigned columns) {
  const unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  double sum = 0;
#pragma unroll 4
  for (unsigned row = 0; row < rows; row++) sum += matrix[row * columns + column] * vector[row];
  result[column] = sum;
}
