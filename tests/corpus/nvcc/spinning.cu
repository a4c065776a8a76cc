// Threads that spin until another thread of their block has stored: on a flag, for a turn in a ring, and for a lock.
extern "C" __global__ void spin_on_flag(unsigned int* out) {
  __shared__ volatile unsigned int flag, value;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x == 40) {
    value = 1234;
    __threadfence_block();
    flag = 1;
  }
  if (threadIdx.x == 1) {
    while (flag != 1) {
    }
    value = value * 3;
    __threadfence_block();
    flag = 2;
  } else {
    while (flag != 2) {
    }
  }
  __threadfence_block();
  out[threadIdx.x] = value + threadIdx.x;
}

extern "C" __global__ void spin_in_ring(unsigned int rounds, unsigned int* out) {
  __shared__ unsigned int turn, state;
  if (threadIdx.x == 0) turn = 0, state = blockIdx.x + 1;
  __syncthreads();
  unsigned int seen = 0;
  for (unsigned int round = 0; round < rounds; round++) {
    const unsigned int mine = round * blockDim.x + (threadIdx.x * 7) % blockDim.x;
    while (atomicAdd(&turn, 0) != mine) {
    }
    __threadfence_block();
    state = state * 1664525 + threadIdx.x;
    seen ^= state;
    __threadfence_block();
    atomicExch(&turn, mine + 1);
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = seen;
}

extern "C" __global__ void spin_for_lock(unsigned int* out) {
  __shared__ unsigned int next_ticket;
  __shared__ volatile unsigned int serving, sum;
  if (threadIdx.x == 0) next_ticket = 0, serving = 0, sum = 0;
  __syncthreads();
  const unsigned int ticket = atomicAdd(&next_ticket, 1);
  bool done = false;
  while (!done) {
    if (serving == ticket) {
      sum = sum + threadIdx.x * threadIdx.x + 1;
      __threadfence_block();
      serving = ticket + 1;
      done = true;
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
