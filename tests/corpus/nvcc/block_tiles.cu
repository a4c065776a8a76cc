// nvcc -arch=compute_80
// Groups of several warps of a block, which wait for each other at barriers in reserved shared memory, and exchange
// values there.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

template <unsigned size>
__device__ void exchange(const cg::thread_block& block, unsigned* out) {
  __shared__ unsigned cells[512];
  const auto tile = cg::tiled_partition<size>(block);
  const unsigned rank = block.thread_rank();
  unsigned value = rank * 3 + blockIdx.x;
  // Tiles take different numbers of steps, so that a barrier of the whole block would not do.
  for (unsigned step = 0; step <= tile.meta_group_rank(); step++) {
    cells[rank] = value;
    tile.sync();
    value = value * 5 + cells[rank / size * size + (tile.thread_rank() + 33) % size];
    tile.sync();
  }
  out[blockIdx.x * blockDim.x + rank] = value;
  out[(gridDim.x + blockIdx.x) * blockDim.x + rank] = tile.shfl(value, 40) + tile.any(rank == 130) * 2;
  block.sync();
}

extern "C" __global__ void tiles(unsigned* of64, unsigned* of256) {
  __shared__ cg::block_tile_memory<512> memory;
  const cg::thread_block block = cg::this_thread_block(memory);
  exchange<64>(block, of64);
  exchange<256>(block, of256);
}

// What -G writes for every this_thread_block(), with shared memory of the kernel's own beside the reserved.
extern "C" __global__ void reserved(unsigned* out) {
  __shared__ unsigned own[4];
  unsigned begin, end, cap, library;
  asm("mov.u32 %0, %%reserved_smem_offset_begin;" : "=r"(begin));
  asm("mov.u32 %0, %%reserved_smem_offset_end;" : "=r"(end));
  asm("mov.u32 %0, %%reserved_smem_offset_cap;" : "=r"(cap));
  asm("mov.u32 %0, %%reserved_smem_offset_1;" : "=r"(library));
  own[threadIdx.x % 4] = 77;
  __syncthreads();
  if (threadIdx.x == 0) {
    out[0] = end - begin <= cap && library - begin <= end - begin - 288;
    out[1] = own[0] + own[3];
  }
}
