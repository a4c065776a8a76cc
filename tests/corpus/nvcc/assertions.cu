// Assertions that hold: the call of what reports one that does not stands in the code, and nobody gets there.
#include <cassert>

extern "C" __global__ void assertions(const int* in, int* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  assert(in[i] >= 0 && "no input is negative");
  int root = 0;
  while ((root + 1) * (root + 1) <= in[i]) {
    root++;
    assert(root < 1000);
  }
  assert(root * root <= in[i]);
  out[i] = root;
}
