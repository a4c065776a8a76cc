// CUB's sorts and exchanges of blocks.
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_store.cuh>

constexpr int threads = 64;
constexpr int items = 4;

struct Greater {
  __device__ bool operator()(unsigned a, unsigned b) const { return a > b; }
};

extern "C" __global__ void sort_and_exchange(const unsigned* x, unsigned* out, int valid) {
  using Load = cub::BlockLoad<unsigned, threads, items, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
  using Store = cub::BlockStore<unsigned, threads, items, cub::BLOCK_STORE_TRANSPOSE>;
  using Radix = cub::BlockRadixSort<unsigned, threads, items, unsigned>;
  using Merge = cub::BlockMergeSort<unsigned, threads, items>;
  using Exchange = cub::BlockExchange<unsigned, threads, items>;
  __shared__ union {
    Load::TempStorage load;
    Store::TempStorage store;
    Radix::TempStorage radix;
    Merge::TempStorage merge;
    Exchange::TempStorage exchange;
  } shared;
  constexpr int tile = threads * items;
  unsigned loaded[items], keys[items], values[items];
  Load(shared.load).Load(x, loaded, valid, 7u);
  for (int k = 0; k < items; k++) keys[k] = loaded[k] & 0xffff, values[k] = threadIdx.x * items + k;
  __syncthreads();
  Radix(shared.radix).Sort(keys, values, 4, 16);
  __syncthreads();
  Store(shared.store).Store(out, keys);
  __syncthreads();
  Store(shared.store).Store(out + tile, values);
  __syncthreads();
  for (int k = 0; k < items; k++) keys[k] = loaded[k];
  Merge(shared.merge).Sort(keys, Greater());
  __syncthreads();
  Store(shared.store).Store(out + 2 * tile, keys);
  __syncthreads();
  Exchange(shared.exchange).BlockedToStriped(loaded, keys);
  for (int k = 0; k < items; k++) out[3 * tile + threadIdx.x * items + k] = keys[k];
}
