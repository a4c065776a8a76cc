// Templates and lambdas: functions made for types and numbers, closures that hold values and references.
template <typename T, int count>
struct Ring {
  T items[count];
  int next = 0;
  __device__ void push(T item) { items[next++ % count] = item; }
  template <typename Function>
  __device__ auto fold(T start, Function function) const -> decltype(function(start, start)) {
    for (int i = 0; i < count; i++) start = function(start, items[(next + i) % count]);
    return start;
  }
};

template <typename Function>
__device__ __noinline__ int apply(Function function, int times) {
  int result = 0;
  for (int i = 0; i < times; i++) result = function(result, i);
  return result;
}

template <int n>
struct Power {
  __device__ static unsigned int of(unsigned int base) { return base * Power<n - 1>::of(base); }
};
template <>
struct Power<0> {
  __device__ static unsigned int of(unsigned int) { return 1; }
};

template <typename... Terms>
__device__ int sum_of(Terms... terms) {
  return (0 + ... + terms);
}

extern "C" __global__ void templates(const int* in, int* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int value = in[i];
  int* row = out + i * 5;

  int calls = 0;
  row[0] = apply([value, &calls](int result, int k) {
    calls += k;
    return result * 3 + (value >> k);
  }, i % 5 + 1);
  row[1] = calls + apply([=](int result, int) { return result ^ value; }, i % 2 + 1);

  Ring<short, 5> shorts;
  Ring<long long, 3> longs;
  for (int k = 0; k < 9; k++) {
    shorts.push(static_cast<short>(value >> k));
    longs.push(static_cast<long long>(value) * k);
  }
  row[2] = shorts.fold(1, [](int a, int b) { return a * 2 + b; });
  row[3] = static_cast<int>(longs.fold(7, [i](long long a, long long b) { return (a << 1) ^ (b >> (i % 8)); }) >> 3);
  row[4] = static_cast<int>(Power<5>::of(value)) + sum_of(value, short(i), static_cast<unsigned char>(value), 'c');
}
