// Barriers in branches. In the first kernel all threads of a block take the same one, and go round a loop as often as
// each other, which only the data says. In the second each warp waits at a barrier of its own, and the barriers meet
// because they have the same number.
extern "C" __global__ void barrier_in_uniform_branches(const unsigned int* rounds, unsigned int* out) {
  __shared__ unsigned int words[2][64];
  const unsigned int thread = threadIdx.x;
  const unsigned int count = rounds[blockIdx.x];
  words[0][thread] = thread * thread + blockIdx.x;
  unsigned int from = 0;
  if (count % 2 == 0) {
    __syncthreads();
    for (unsigned int round = 0; round < count; round++) {
      words[from ^ 1][thread] = words[from][(thread + 1) % 64] + round;
      __syncthreads();
      from ^= 1;
    }
  } else {
    words[0][thread] ^= 0x55;
    for (unsigned int round = 0; round < count; round++) {
      __syncthreads();
      if (round == 3) break;
      words[from ^ 1][thread] = words[from][(thread + 63) % 64] * 5;
      from ^= 1;
    }
    __syncthreads();
  }
  out[blockIdx.x * 64 + thread] = words[from][63 - thread];
}

extern "C" __global__ void barrier_by_warp(unsigned int* out) {
  __shared__ unsigned int words[96];
  const unsigned int thread = threadIdx.x;
  words[thread] = thread * 7 + 1;
  if (thread < 32) {
    asm volatile("bar.sync 0;" ::: "memory");
    words[thread] += words[thread + 32];
    asm volatile("bar.sync 0;" ::: "memory");
  } else if (thread < 64) {
    for (int round = 0; round < 2; round++) asm volatile("bar.sync 0;" ::: "memory");
  } else {
    asm volatile("bar.sync 0;" ::: "memory");
    words[thread] *= 3;
    asm volatile("barrier.sync.aligned 0;" ::: "memory");
  }
  out[thread] = words[95 - thread];
}
