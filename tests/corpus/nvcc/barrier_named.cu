// Barriers by number, of a part of the block: in each of two pairs of warps one warp produces what the other consumes.
// A warp arrives at the barrier on which it need not wait. The numbers of the second pair's barriers are in registers.
__device__ unsigned int produced(unsigned int lane, unsigned int round) { return lane * 17 + round * round; }

extern "C" __global__ void barrier_named(unsigned int rounds, unsigned int* out) {
  __shared__ unsigned int slots[64];
  const unsigned int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  unsigned int sum = 0;
  if (warp == 0) {
    for (unsigned int round = 0; round < rounds; round++) {
      if (round > 0) asm volatile("bar.sync 2, 64;" ::: "memory");
      slots[lane] = produced(lane, round);
      asm volatile("bar.arrive 1, 64;" ::: "memory");
    }
  } else if (warp == 1) {
    for (unsigned int round = 0; round < rounds; round++) {
      asm volatile("bar.sync 1, 64;" ::: "memory");
      sum = sum * 3 + slots[31 - lane];
      if (round + 1 < rounds) asm volatile("bar.arrive 2, 64;" ::: "memory");
    }
  } else {
    const unsigned int full = rounds + 3, empty = rounds + 4, count = 64;
    for (unsigned int round = 0; round < rounds; round++) {
      if (warp == 2) {
        slots[32 + lane] = produced(lane, round) + 1;
        asm volatile("barrier.sync.aligned %0, %1;" ::"r"(full), "r"(count) : "memory");
      } else {
        asm volatile("bar.sync %0, %1;" ::"r"(full), "r"(count) : "memory");
        sum = sum * 5 + slots[32 + (lane ^ 1)];
      }
      asm volatile("bar.sync %0, 64;" ::"r"(empty) : "memory");
    }
  }
  __syncthreads();
  out[threadIdx.x] = sum + slots[(threadIdx.x + 1) % 64];
}
