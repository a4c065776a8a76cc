// printf in kernels: how many arguments it says it took, and that the threads go on.
#include <cstdio>

extern "C" __global__ void printing(const int* in, int* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  int* row = out + i * 5;
  row[0] = printf("thread %d of block %d\n", threadIdx.x, blockIdx.x);
  row[1] = printf("");
  row[2] = -1;
  if (in[i] % 2) {
    row[2] = printf("%s: %5.2f %c %llx %% %p\n", "odd", __dmul_rn(in[i], 0.25), 'a' + i, 0x123456789abcdefULL * in[i],
                    nullptr);
  }
  row[3] = in[i] * 2;
  for (int round = 0; round < i % 3; round++) row[3] += printf("%i", round);
  row[4] = printf("%u %hd %ld\n", in[i], static_cast<short>(in[i]), static_cast<long>(in[i]));
}
