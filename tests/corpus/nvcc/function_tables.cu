// Pointers to functions, in constant and in global memory, called indirectly.

typedef int (*Operation)(int, int);

__device__ int add(int a, int b) { return a + b; }
__device__ int subtract(int a, int b) { return a - b; }
__device__ int multiply(int a, int b) { return a * b; }
__device__ int greatest_common_divisor(int a, int b) { return b == 0 ? a : greatest_common_divisor(b, a % b); }

__constant__ Operation operations[4] = {add, subtract, multiply, greatest_common_divisor};
__device__ Operation chosen = add;

extern "C" __global__ void choose(int which) { chosen = operations[which]; }

extern "C" __global__ void apply(const int* left, const int* right, int* out) {
  int thread = threadIdx.x;
  int own = operations[thread % 4](left[thread], right[thread]);
  out[2 * thread] = own;
  out[2 * thread + 1] = chosen(own, right[thread]) + (chosen == operations[thread % 4] ? 1 : 0);
}
