// Blocks of ordinary launches that wait for blocks that already run: at a barrier of the grid that reverses its sense,
// for a ticket lock, for a producer with a higher number, in a chain from the last block to the first, and for work in
// a queue.

__device__ void wait_for_grid(unsigned* count, volatile unsigned* sense) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned before = *sense;
    __threadfence();
    if (atomicAdd(count, 1) == gridDim.x - 1) {
      *count = 0;
      __threadfence();
      *sense = !before;
    } else {
      while (*sense == before) {
      }
    }
    __threadfence();
  }
  __syncthreads();
}

// A prefix sum over the grid, whose steps are separated by barriers.
extern "C" __global__ void scan(unsigned* count, unsigned* sense, unsigned* from, unsigned* to, unsigned length) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  for (unsigned distance = 1; distance < length; distance *= 2) {
    for (unsigned i = thread; i < length; i += gridDim.x * blockDim.x) {
      to[i] = from[i] + (i >= distance ? from[i - distance] : 0);
    }
    wait_for_grid(count, sense);
    unsigned* const other = from;
    from = to, to = other;
  }
}

// Each block adds to a sum that is not atomic, several times.
extern "C" __global__ void ticket_lock(unsigned* lock, unsigned long long* sum, unsigned rounds) {
  __shared__ unsigned ticket;
  for (unsigned round = 0; round < rounds; round++) {
    if (threadIdx.x == 0) {
      ticket = atomicAdd(&lock[0], 1);
      while (((volatile unsigned*)lock)[1] != ticket) {
      }
      __threadfence();
    }
    __syncthreads();
    if (threadIdx.x == blockDim.x - 1) {
      *(volatile unsigned long long*)sum = *(volatile unsigned long long*)sum * 3 + 1;
      __threadfence();
    }
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(&lock[1], 1);
  }
}

// The last block produces what all others, with lower numbers, wait for. Every thread waits by itself.
extern "C" __global__ void produce_and_consume(volatile unsigned* ready, unsigned* item, unsigned* out) {
  if (blockIdx.x == gridDim.x - 1) {
    item[threadIdx.x] = threadIdx.x * threadIdx.x;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) *ready = 1;
    return;
  }
  while (*ready == 0) {
  }
  __threadfence();
  out[blockIdx.x * blockDim.x + threadIdx.x] = ((volatile unsigned*)item)[threadIdx.x] + blockIdx.x;
}

// Each block waits for the next one with barriers in the loop, and a warp's vote in place of a leader.
extern "C" __global__ void chain(volatile unsigned* done, unsigned* out) {
  __shared__ unsigned seen;
  if (blockIdx.x + 1 < gridDim.x) {
    do {
      if (threadIdx.x == 0) seen = done[blockIdx.x + 1];
      __syncthreads();
      const bool goes_on = seen != 0;
      __syncthreads();
      if (goes_on) break;
    } while (true);
    __threadfence();
  }
  unsigned value = blockIdx.x + 1 < gridDim.x ? ((volatile unsigned*)out)[blockIdx.x + 1] : 0;
  if (threadIdx.x == 0) {
    out[blockIdx.x] = value + blockIdx.x;
    __threadfence();
    done[blockIdx.x] = 1;
  }
}

extern "C" __global__ void chain_of_warps(volatile unsigned* done, unsigned* out) {
  unsigned value = 0;
  if (blockIdx.x + 1 < gridDim.x) {
    while (!__any_sync(0xffffffffu, threadIdx.x % 32 == 5 && done[blockIdx.x + 1] != 0)) {
    }
    __threadfence();
    value = ((volatile unsigned*)out)[blockIdx.x + 1];
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    out[blockIdx.x] = value * 3 + blockIdx.x;
    __threadfence();
    done[blockIdx.x] = 1;
  }
}

// Blocks take items from a queue until as many are done as there are. An item adds two smaller ones to the queue.
extern "C" __global__ void work_queue(volatile unsigned* queue, unsigned* head, unsigned* tail, unsigned* done,
                                      unsigned total, unsigned* depths) {
  __shared__ unsigned item;
  while (true) {
    if (threadIdx.x == 0) {
      item = 0;
      const unsigned place = atomicAdd(head, 1);
      if (place < total) {
        while ((item = queue[place]) == 0) {
        }
      }
    }
    __syncthreads();
    const unsigned depth = item;
    __syncthreads();
    if (depth == 0) break;
    if (threadIdx.x == 0) atomicAdd(&depths[depth], 1);
    if (depth > 1 && threadIdx.x < 2) {
      const unsigned place = atomicAdd(tail, 1);
      queue[place] = depth - 1;
      __threadfence();
    }
    if (threadIdx.x == 0) atomicAdd(done, 1);
  }
}
