// The standard library for device code.
#include <cuda/atomic>
#include <cuda/std/array>
#include <cuda/std/atomic>
#include <cuda/std/bit>
#include <cuda/std/bitset>
#include <cuda/std/chrono>
#include <cuda/std/complex>
#include <cuda/std/expected>
#include <cuda/std/functional>
#include <cuda/std/inplace_vector>
#include <cuda/std/limits>
#include <cuda/std/mdspan>
#include <cuda/std/numeric>
#include <cuda/std/optional>
#include <cuda/std/span>
#include <cuda/std/tuple>
#include <cuda/std/utility>
#include <cuda/std/variant>

namespace std_ = cuda::std;

__device__ std_::optional<int> half_of(int value) {
  if (value % 2 != 0) return std_::nullopt;
  return value / 2;
}
__device__ std_::expected<int, unsigned char> checked(int value) {
  if (value < 0) return std_::unexpected<unsigned char>(value & 255);
  return value;
}
__device__ std_::variant<int, float, std_::array<short, 4>> any_of(int value) {
  switch (value & 3) {
    case 0: return value;
    case 1: return static_cast<float>(value >> 20);
    default: return std_::array<short, 4>{static_cast<short>(value), 1, 2, static_cast<short>(value >> 16)};
  }
}
struct Visitor {
  __device__ int operator()(int value) const { return value ^ 1; }
  __device__ int operator()(float value) const { return static_cast<int>(value * 2); }
  __device__ int operator()(const std_::array<short, 4>& value) const { return value[0] + value[3] * 3; }
};

struct Fold {
  template <typename... Values>
  __device__ int operator()(Values... values) const {
    return (values ^ ...);
  }
};

extern "C" __global__ void values(const int* x, int* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int value = x[i];
  int* row = out + i * 12;
  row[0] = half_of(value).value_or(-1);
  row[1] = checked(value).has_value() ? *checked(value) : checked(value).error();
  row[2] = std_::visit(Visitor{}, any_of(value));
  const auto [low, high, sum] = std_::make_tuple(value & 0xffff, value >> 16, static_cast<long long>(value) * 3);
  row[3] = low - high + static_cast<int>(sum >> 2);
  row[4] = std_::popcount(static_cast<unsigned>(value)) + 100 * std_::countl_zero(static_cast<unsigned>(value)) +
           10000 * std_::countr_zero(static_cast<unsigned>(value));
  row[5] = std_::rotl(static_cast<unsigned>(value), i) ^ std_::bit_ceil(static_cast<unsigned>(value) >> 2);
  std_::bitset<80> bits;
  for (int k = 0; k < 80; k += 1 + (value & 3)) bits.set(k);
  row[6] = (bits << 3).count();
  row[7] = std_::gcd(value >> 8, 36 << (i & 7));
  row[8] = std_::chrono::duration_cast<std_::chrono::minutes>(std_::chrono::seconds(value)).count();
  row[9] = std_::midpoint(value, i);
  row[10] = std_::cmp_less(value, static_cast<unsigned>(i)) + 2 * std_::in_range<short>(value);
  row[11] = std_::bit_cast<int>(std_::array<unsigned char, 4>{static_cast<unsigned char>(i), 1, 2, 3});
}

extern "C" __global__ void sequences(const int* x, int* out, std_::complex<float>* roots) {
  const int i = threadIdx.x;
  const std_::span<const int> source(x + i * 12, 12);
  std_::inplace_vector<int, 12> kept;
  for (const int value : source.subspan(2).first(9)) {
    if (value % 3 != 0) kept.push_back(value);
  }
  while (kept.size() < 5) kept.insert(kept.begin(), static_cast<int>(kept.size()));
  kept.erase(kept.begin() + 1);
  int* row = out + i * 4;
  row[0] = std_::accumulate(kept.begin(), kept.end(), 0, [](int a, int b) { return a * 31 + b; });
  row[1] = std_::inner_product(kept.rbegin(), kept.rend(), source.begin(), static_cast<int>(kept.size()));
  const std_::mdspan<const int, std_::extents<int, 3, std_::dynamic_extent>> grid(source.data(), 4);
  row[2] = grid(2, 1) - grid(0, i % 4) + grid.extent(1);
  row[3] = std_::apply(Fold{}, std_::make_tuple(x[i], i, 5)) % std_::numeric_limits<short>::max();
  // Whole numbers, of which every product is exact.
  const std_::complex<float> z(x[i] % 64, i);
  const std_::complex<float> w = z * z + std_::complex<float>(1.0f, -2.0f);
  roots[i] = std_::conj(w) * std_::complex<float>(0.0f, 1.0f);
}

extern "C" __global__ void atomics(int* counters, unsigned long long* wide, int* order) {
  __shared__ cuda::atomic<int, cuda::thread_scope_block> shared;
  if (threadIdx.x == 0) shared.store(0, std_::memory_order_relaxed);
  __syncthreads();
  shared.fetch_add(threadIdx.x);
  cuda::atomic_ref<int, cuda::thread_scope_device> first(counters[0]);
  first.fetch_max(threadIdx.x * 3, std_::memory_order_acq_rel);
  std_::atomic_ref<int> second(counters[1]);
  int expected = second.load(std_::memory_order_relaxed);
  while (!second.compare_exchange_weak(expected, expected * 3 + 1, std_::memory_order_acq_rel)) {}
  cuda::atomic_ref<unsigned long long> third(*wide);
  // In bits that the sum does not reach, so that the order does not matter.
  third.fetch_xor(1ull << threadIdx.x % 32);
  third += 1ull << 40;
  __shared__ cuda::atomic<unsigned char, cuda::thread_scope_block> byte;
  if (threadIdx.x == 0) byte = 0;
  __syncthreads();
  byte.fetch_add(3);
  cuda::atomic_thread_fence(std_::memory_order_seq_cst, cuda::thread_scope_device);
  __syncthreads();
  if (threadIdx.x == 0) counters[2] = shared.load(), counters[3] = byte.load();
  // Thread after thread.
  std_::atomic_ref<int> turn(order[0]);
  if (threadIdx.x < 8) {
    while (turn.load(std_::memory_order_acquire) != static_cast<int>(threadIdx.x)) {}
    order[1 + threadIdx.x] = order[threadIdx.x] * 2 + 1;
    turn.store(threadIdx.x + 1, std_::memory_order_release);
  }
}
