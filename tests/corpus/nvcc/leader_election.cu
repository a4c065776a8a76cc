// One lane acts for the others: the first of those that a branch holds adds for all to a counter, and each takes its
// place behind what was there before. Each warp has a counter of its own, so that the places are certain.
__device__ unsigned int take_place(unsigned int* counter, unsigned int takers, unsigned int lane) {
  const int leader = __ffs(takers) - 1;
  unsigned int first = 0;
  if (lane == leader) first = atomicAdd(counter, __popc(takers));
  first = __shfl_sync(takers, first, leader);
  return first + __popc(takers & ((1u << lane) - 1));
}

extern "C" __global__ void leader_election(const unsigned int* in, unsigned int* counters, unsigned int* total,
                                           unsigned int* out) {
  const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
  for (unsigned int round = 0; round < 4; round++) {
    const unsigned int value = in[i] >> (8 * round);
    const unsigned int takers = __ballot_sync(0xffffffff, value % 3 == 0);
    if (value % 3 == 0) {
      out[i * 4 + round] = take_place(&counters[i / 32], takers, lane);
      if (__ffs(takers) - 1 == lane) atomicAdd(total, __popc(takers));
    } else {
      out[i * 4 + round] = 1000 + __ffs(__ballot_sync(~takers, value & 1));
    }
    __syncwarp();
  }
}
