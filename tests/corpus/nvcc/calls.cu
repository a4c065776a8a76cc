// Calls of device functions with every size of argument and result.
struct Pair {
  unsigned char small;
  long long large;
};

struct Nine {
  int items[9];
};

struct Empty {};

struct alignas(16) Quad {
  float x, y, z, w;
};

__device__ __noinline__ signed char narrow(signed char a, unsigned short b, bool negate) {
  const int sum = a + b;
  return static_cast<signed char>(negate ? -sum : sum);
}

__device__ __noinline__ double mixed(float a, double b, long long c, unsigned int d) {
  return __dadd_rn(__dmul_rn(a, b), static_cast<double>(c - d));
}

__device__ __noinline__ Pair swap_halves(Pair pair, Empty) {
  return {static_cast<unsigned char>(pair.large), (pair.large >> 8) + pair.small};
}

__device__ __noinline__ Nine rotate(Nine nine, unsigned int by) {
  Nine result;
  for (int i = 0; i < 9; i++) result.items[i] = nine.items[(i + by) % 9];
  return result;
}

__device__ __noinline__ Quad cross(const Quad a, const Quad& b) {
  return {__fmul_rn(a.y, b.z), __fmul_rn(a.z, b.x), __fmul_rn(a.x, b.y), __fadd_rn(a.w, b.w)};
}

__device__ __noinline__ void store(int* where, int value) { *where += value; }

extern "C" __global__ void calls(long long* integers, double* doubles, float* floats) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  long long* row = integers + i * 4;
  row[0] = narrow(static_cast<signed char>(i * 5 - 100), static_cast<unsigned short>(i * 1000), i & 1);
  doubles[i] = mixed(__fmul_rn(i, 0.5f), __dadd_rn(i, 0.25), static_cast<long long>(i) << 33, i * 3);

  Pair pair = {static_cast<unsigned char>(i), i * 0x123456789abcdLL};
  for (int round = 0; round < 3; round++) pair = swap_halves(pair, Empty{});
  row[1] = pair.large * 256 + pair.small;

  Nine nine;
  for (int item = 0; item < 9; item++) nine.items[item] = i * item + 1;
  nine = rotate(rotate(nine, i), 4);
  row[2] = nine.items[0] * 1000 + nine.items[8];

  int stored = i;
  if (i % 3) store(&stored, 10 * i);
  store(&stored, 7);
  row[3] = stored;

  const Quad a = {__fmul_rn(i, 1.5f), __fsub_rn(2.0f, i), 3.0f, __fmul_rn(i, 0.1f)};
  const Quad b = {0.1f, __fadd_rn(i, 0.7f), 0.25f, 4.0f};
  *reinterpret_cast<Quad*>(floats + i * 4) = cross(a, b);
}
