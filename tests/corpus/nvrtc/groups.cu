// Cooperative groups: tiles, coalesced threads, reductions, scans.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

extern "C" __global__ void tiles(const int* x, int* out) {
  const cg::thread_block block = cg::this_thread_block();
  const unsigned i = block.thread_rank();
  const int value = x[blockIdx.x * block.size() + i];
  int* row = out + (blockIdx.x * block.size() + i) * 12;
  const auto eight = cg::tiled_partition<8>(block);
  row[0] = cg::reduce(eight, value, cg::plus<int>());
  row[1] = cg::reduce(eight, value, cg::less<int>());
  row[2] = cg::inclusive_scan(eight, value, cg::plus<int>());
  row[3] = cg::exclusive_scan(eight, value, cg::bit_xor<int>());
  row[4] = eight.shfl_xor(value, 3) + eight.meta_group_rank() * 1000;
  row[5] = eight.match_any(value & 3);
  const auto warp = cg::tiled_partition<32>(block);
  row[6] = warp.any(value > 1000000) + 2 * warp.all(value > -2147483647) + 4 * warp.ballot(value & 1);
  row[7] = cg::reduce(warp, value, [](int a, int b) { return a > b ? a : b; });
  const auto two = cg::tiled_partition<2>(eight);
  row[8] = cg::reduce(two, static_cast<long long>(value) * value, cg::plus<long long>()) >> 7;
  const auto runtime = cg::tiled_partition(block, 16);
  row[9] = runtime.size() * 100 + runtime.thread_rank();
  const auto wide = cg::tiled_partition<4>(warp);
  struct Pair {
    int first, second;
    long long third;
  };
  const Pair pair = wide.shfl(Pair{value, static_cast<int>(i), value * 3ll}, 2);
  row[10] = pair.first + pair.second + static_cast<int>(pair.third >> 1);
  row[11] = cg::reduce(cg::tiled_partition<1>(block), value, cg::bit_or<int>());
}

extern "C" __global__ void coalesced(const int* x, int* out, int* counter) {
  const cg::thread_block block = cg::this_thread_block();
  const unsigned i = block.thread_rank();
  const int value = x[i];
  int* row = out + i * 6;
  if (value % 3 != 0) {
    const cg::coalesced_group active = cg::coalesced_threads();
    row[0] = active.size() * 100 + active.thread_rank();
    row[1] = cg::reduce(active, value, cg::plus<int>());
    row[2] = active.shfl(value, 0);
    row[3] = cg::inclusive_scan(active, value & 15);
    // Aggregated: one thread adds for all.
    int base = 0;
    if (active.thread_rank() == 0) base = atomicAdd(counter, static_cast<int>(active.size()));
    base = active.shfl(base, 0);
    row[4] = base >= 0;
  }
  const auto warp = cg::tiled_partition<32>(block);
  const auto labeled = cg::labeled_partition(warp, value & 3);
  row[5] = cg::reduce(labeled, value >> 4, cg::plus<int>()) + static_cast<int>(labeled.size());
  const auto binary = cg::binary_partition(warp, value > 0);
  if (value > 0) row[0] += 10000 * binary.size();
  block.sync();
  cg::invoke_one(block, [&] { atomicAdd(counter, 1000000); });
}

extern "C" __global__ void copied(const int* x, int* out) {
  __shared__ int tile[256];
  const cg::thread_block block = cg::this_thread_block();
  cg::memcpy_async(block, tile, x + blockIdx.x * 256, sizeof(tile));
  cg::wait(block);
  out[blockIdx.x * 256 + block.thread_rank()] = tile[255 - block.thread_rank()];
  out[blockIdx.x * 256 + 128 + block.thread_rank()] = tile[127 - block.thread_rank()];
  const auto token = block.barrier_arrive();
  block.barrier_wait(cuda::std::move(const_cast<cg::thread_block::arrival_token&>(token)));
}
