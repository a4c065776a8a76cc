// Calls through pointers: from tables in global and constant memory, and chosen by each thread.
typedef int (*Operation)(int, int);

__device__ __noinline__ int add(int a, int b) { return a + b; }
__device__ __noinline__ int subtract(int a, int b) { return a - b; }
__device__ __noinline__ int multiply(int a, int b) { return a * b; }
__device__ __noinline__ int power(int a, int b) {
  int result = 1;
  for (int i = 0; i < (b & 7); i++) result *= a;
  return result;
}

__device__ Operation operations[4] = {add, subtract, multiply, power};
__constant__ Operation constant_operations[2] = {power, add};

struct Step {
  void (*run)(int*, long long);
  long long operand;
};

__device__ __noinline__ void add_long(int* value, long long operand) { *value += static_cast<int>(operand >> 32); }
__device__ __noinline__ void mix_long(int* value, long long operand) { *value ^= static_cast<int>(operand); }

__device__ __noinline__ int twice(Operation operation, int a, int b) { return operation(operation(a, b), b); }

extern "C" __global__ void function_pointers(const int* in, int* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int a = in[i], b = i;
  int* row = out + i * 5;
  row[0] = operations[i % 4](a, b);
  row[1] = constant_operations[a & 1](b, a);
  const Operation chosen = i % 3 == 0 ? subtract : multiply;
  row[2] = twice(chosen, a, b);
  const Step steps[2] = {{i & 1 ? add_long : mix_long, 0x1234567800000000LL + a}, {mix_long, a * 3LL}};
  int value = i;
  for (const Step& step : steps) step.run(&value, step.operand);
  row[3] = value;
  row[4] = chosen == operations[1] && operations[3] == constant_operations[0];
}

// What later launches call in place of the first function.
extern "C" __global__ void replace_operation() { operations[0] = operations[2]; }
