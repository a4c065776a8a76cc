// CUB's histograms, flags and differences of blocks.
#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_histogram.cuh>

constexpr int threads = 64;
constexpr int items = 4;

extern "C" __global__ void histogram_and_flags(const unsigned* x, unsigned* counts, int* flags, int* differences) {
  using Sorted = cub::BlockHistogram<unsigned char, threads, items, 32, cub::BLOCK_HISTO_SORT>;
  using Atomic = cub::BlockHistogram<unsigned char, threads, items, 32, cub::BLOCK_HISTO_ATOMIC>;
  using Discontinuity = cub::BlockDiscontinuity<unsigned, threads>;
  using Difference = cub::BlockAdjacentDifference<int, threads>;
  __shared__ union {
    Sorted::TempStorage sorted;
    Atomic::TempStorage atomic;
    Discontinuity::TempStorage discontinuity;
    Difference::TempStorage difference;
  } shared;
  __shared__ unsigned bins[64];
  unsigned char bytes[items];
  unsigned keys[items];
  int numbers[items], heads[items], subtracted[items];
  for (int k = 0; k < items; k++) {
    const unsigned word = x[threadIdx.x * items + k];
    bytes[k] = word % 32;
    keys[k] = word >> 31;
    numbers[k] = word >> 4;
  }
  Sorted(shared.sorted).Histogram(bytes, bins);
  __syncthreads();
  for (int k = 0; k < items; k++) bytes[k] = (bytes[k] * 7 + 1) % 32;
  Atomic(shared.atomic).Histogram(bytes, bins + 32);
  __syncthreads();
  counts[threadIdx.x] = bins[threadIdx.x];
  Discontinuity(shared.discontinuity).FlagHeads(heads, keys, cuda::std::not_equal_to<>{});
  __syncthreads();
  Difference(shared.difference).SubtractLeft(numbers, subtracted, cuda::std::minus<>{});
  for (int k = 0; k < items; k++) {
    flags[threadIdx.x * items + k] = heads[k];
    differences[threadIdx.x * items + k] = subtracted[k];
  }
}
