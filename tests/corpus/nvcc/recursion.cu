// Functions that call themselves and each other, as deep as each thread's number says, within the 1024 bytes of stack
// that a thread has by default.
__device__ __noinline__ unsigned long long factorial(unsigned int n) { return n < 2 ? 1 : n * factorial(n - 1); }

__device__ __noinline__ unsigned int fibonacci(unsigned int n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__device__ __noinline__ unsigned int ackermann(unsigned int m, unsigned int n) {
  if (m == 0) return n + 1;
  if (n == 0) return ackermann(m - 1, 1);
  return ackermann(m - 1, ackermann(m, n - 1));
}

__device__ __noinline__ bool is_odd(unsigned int n);
__device__ __noinline__ bool is_even(unsigned int n) { return n == 0 || is_odd(n - 1); }
__device__ __noinline__ bool is_odd(unsigned int n) { return n != 0 && is_even(n - 1); }

// Hofstadter's female and male sequences, which need each other's results.
__device__ __noinline__ int male(int n);
__device__ __noinline__ int female(int n) { return n == 0 ? 1 : n - male(female(n - 1)); }
__device__ __noinline__ int male(int n) { return n == 0 ? 0 : n - female(male(n - 1)); }

extern "C" __global__ void recursion(unsigned long long* factorials, unsigned int* out) {
  const unsigned int i = threadIdx.x;
  factorials[i] = factorial(i);
  unsigned int* row = out + i * 5;
  row[0] = fibonacci(i % 13);
  row[1] = ackermann(i % 3, i % 5);
  row[2] = is_even(i) ? 2 : 1;
  row[3] = female(i % 16);
  row[4] = male(i % 16);
}
