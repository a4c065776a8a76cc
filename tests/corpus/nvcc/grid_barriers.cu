// nvcc -arch=compute_80
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// Each block leaves its sum; after all have, the grid adds those up in pairs.
extern "C" __global__ void reduce(const unsigned* input, unsigned count, unsigned* partial, unsigned* result) {
  const cg::grid_group grid = cg::this_grid();
  const cg::thread_block block = cg::this_thread_block();
  extern __shared__ unsigned shared[];
  unsigned own = 0;
  for (unsigned i = grid.thread_rank(); i < count; i += grid.size()) own += input[i];
  shared[block.thread_rank()] = own;
  for (unsigned half = block.size() / 2; half > 0; half /= 2) {
    block.sync();
    if (block.thread_rank() < half) shared[block.thread_rank()] += shared[block.thread_rank() + half];
  }
  if (block.thread_rank() == 0) partial[grid.block_rank()] = shared[0];
  for (unsigned left = grid.num_blocks(); left > 1; left = (left + 1) / 2) {
    grid.sync();
    const unsigned half = (left + 1) / 2, i = grid.thread_rank();
    if (i < left / 2) partial[i] += partial[i + half];
  }
  if (grid.thread_rank() == 0) {
    *result = partial[0];
    result[1] = grid.is_valid();
  }
}

// Jacobi iterations of a heated plate. Work between arriving at the barrier and waiting needs no other block.
extern "C" __global__ void jacobi(double* from, double* to, unsigned width, unsigned height, unsigned steps,
                                  unsigned* turns) {
  cg::grid_group grid = cg::this_grid();
  for (unsigned step = 0; step < steps; step++) {
    for (unsigned long long i = grid.thread_rank(); i < width * height; i += grid.size()) {
      const unsigned x = i % width, y = i / width;
      const bool is_edge = x == 0 || y == 0 || x == width - 1 || y == height - 1;
      to[i] = is_edge ? from[i] : ((from[i - 1] + from[i + 1]) + (from[i - width] + from[i + width])) / 4;
    }
    cg::grid_group::arrival_token token = grid.barrier_arrive();
    if (threadIdx.x + threadIdx.y == 0) turns[grid.block_rank()]++;
    grid.barrier_wait(static_cast<cg::grid_group::arrival_token&&>(token));
    double* const other = from;
    from = to, to = other;
  }
}

// Without a cooperative launch there is no barrier of the grid.
extern "C" __global__ void is_valid(unsigned* valid) {
  if (threadIdx.x == 0) valid[blockIdx.x] = cg::this_grid().is_valid();
}
