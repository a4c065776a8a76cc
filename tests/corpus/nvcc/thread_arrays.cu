// Arrays of a thread's own, indexed at run time, so that they lie in local memory and not in registers.

extern "C" __global__ void sort_columns(const int* in, int* out, int stride) {
  int numbers[16];
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = 0; i < 16; i++) numbers[i] = in[i * stride + column];
  for (int i = 1; i < 16; i++) {
    int value = numbers[i];
    int at = i;
    while (at > 0 && numbers[at - 1] > value) {
      numbers[at] = numbers[at - 1];
      at--;
    }
    numbers[at] = value;
  }
  for (int i = 0; i < 16; i++) out[i * stride + column] = numbers[i];
}

extern "C" __global__ void count_digits(const unsigned* in, unsigned char* out) {
  unsigned char counts[10] = {0};
  unsigned number = in[threadIdx.x];
  do {
    counts[number % 10]++;
    number /= 10;
  } while (number != 0);
  for (int digit = 0; digit < 10; digit++) out[10 * threadIdx.x + digit] = counts[digit];
}

// A table that is initialised on the stack, and a matrix that is walked in both directions.
extern "C" __global__ void walk_matrix(const int* path, double* out, int steps) {
  double matrix[4][4];
  const int turns[4] = {1, 4, 5, 7};
  for (int i = 0; i < 16; i++) matrix[i / 4][i % 4] = i * 0.25 + threadIdx.x;
  int at = threadIdx.x % 16;
  for (int i = 0; i < steps; i++) {
    int next = (at + turns[path[i] & 3]) % 16;
    matrix[next % 4][next / 4] += matrix[at / 4][at % 4];
    at = next;
  }
  double sum = 0;
  for (int i = 0; i < 16; i++) sum += matrix[i / 4][i % 4] * (i + 1);
  out[threadIdx.x] = sum;
}
