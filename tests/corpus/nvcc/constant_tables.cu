// Constants of the module: initialised tables of several types, read at indices known at run time, and by a pointer.

struct Entry {
  char tag;
  int value;
  double factor;
};

__constant__ int powers[10] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
__constant__ float weights[2][3] = {{0.5f, -1.25f, 3.0f}, {1e-30f, -0.0f, 65504.0f}};
__constant__ Entry entries[4] = {{'a', -1, 0.1}, {'b', 2, -0.2}, {'c', 0x7fffffff, 1e300}, {'d', 0, 0.0}};
__constant__ char text[] = "the quick brown fox";
__constant__ unsigned long long wide = 0x123456789abcdef0ull;
__constant__ short unset[5];

extern "C" __global__ void read_tables(const unsigned* indices, int* out, float* floats, double* doubles) {
  int thread = threadIdx.x;
  unsigned index = indices[thread];
  const Entry& entry = entries[index % 4];
  out[4 * thread] = powers[index % 10];
  out[4 * thread + 1] = entry.value + entry.tag;
  out[4 * thread + 2] = text[index % sizeof text];
  out[4 * thread + 3] = (int)(wide >> (index % 33)) + unset[index % 5];
  floats[thread] = weights[index % 2][index % 3];
  doubles[thread] = entry.factor;
}

__device__ __noinline__ int sum_of(const int* table, int count) {
  int sum = 0;
  for (int i = 0; i < count; i++) sum += table[i];
  return sum;
}

// The same function reads a constant and a global table: it takes generic addresses.
extern "C" __global__ void sum_tables(const int* global, int* sums) {
  int count = threadIdx.x % 10;
  sums[threadIdx.x] = sum_of(threadIdx.x % 2 == 0 ? powers : global, count);
}
