// Orders that threads make themselves: flags, locks, counters, fences.
// Compiled by `deno run -A tests/sanitizer/race/compile.ts`.
#include <cooperative_groups.h>
#include "pair.cuh"

// A flag with fences on both sides.
KERNEL void flag(int* in, int* out, int n) {
  volatile int* ready = &out[1];
  if (blockIdx.x == 0) {
    out[0] = in[3];
    __threadfence();
    *ready = 1;
  } else {
    while (*ready == 0) {}
    if (isRight) __threadfence();
    out[2] = out[0];
  }
}
PAIR(flag)

// Without the fence of the writer.
KERNEL void flag_writer(int* in, int* out, int n) {
  volatile int* ready = &out[1];
  if (blockIdx.x == 0) {
    out[0] = in[3];
    if (isRight) __threadfence();
    *ready = 1;
  } else {
    while (*ready == 0) {}
    __threadfence();
    out[2] = out[0];
  }
}
PAIR(flag_writer)

// A fence whose scope is the block, between blocks.
KERNEL void flag_scope(int* in, int* out, int n) {
  volatile int* ready = &out[1];
  if (blockIdx.x == 0) {
    out[0] = in[3];
    if (isRight) __threadfence();
    else __threadfence_block();
    *ready = 1;
  } else {
    while (*ready == 0) {}
    __threadfence();
    out[2] = out[0];
  }
}
PAIR(flag_scope)

__device__ __forceinline__ void release(int* at, int value) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
__device__ __forceinline__ int acquire(int* at) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
__device__ __forceinline__ int relaxed(int* at) {
  int value;
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
__device__ __forceinline__ void relax(int* at, int value) {
  asm volatile("st.relaxed.gpu.global.s32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

KERNEL void release_acquire(int* in, int* out, int n) {
  if (blockIdx.x == 0) {
    out[0] = in[3];
    release(&out[1], 1);
  } else {
    while ((isRight ? acquire(&out[1]) : relaxed(&out[1])) == 0) {}
    out[2] = out[0];
  }
}
PAIR(release_acquire)

KERNEL void release_relaxed(int* in, int* out, int n) {
  if (blockIdx.x == 0) {
    out[0] = in[3];
    if (isRight) release(&out[1], 1);
    else relax(&out[1], 1);
  } else {
    while (acquire(&out[1]) == 0) {}
    out[2] = out[0];
  }
}
PAIR(release_relaxed)

// What a block has done before a barrier is released by one of its threads, and acquired for all threads of another.
KERNEL void cumulative(int* in, int* out, int n) {
  int t = threadIdx.x;
  if (blockIdx.x == 0) {
    out[8 + t] = in[t];
    if (isRight) __syncthreads();
    if (t == 0) release(&out[0], 1);
  } else {
    if (t == 0) while (acquire(&out[0]) == 0) {}
    __syncthreads();
    out[128 + t] = out[8 + 63 - t];
  }
}
PAIR(cumulative)

// All threads of the waiting block need the barrier.
KERNEL void cumulative_reader(int* in, int* out, int n) {
  int t = threadIdx.x;
  if (blockIdx.x == 0) {
    out[8 + t] = in[t];
    __syncthreads();
    if (t == 0) release(&out[0], 1);
  } else {
    if (t == 0) while (acquire(&out[0]) == 0) {}
    if (isRight) __syncthreads();
    out[128 + t] = out[8 + 63 - t];
  }
}
PAIR(cumulative_reader)

// An atomic goes on with what another thread has released.
KERNEL void chain(int* in, int* out, int n) {
  if (blockIdx.x == 0) {
    out[0] = in[3];
    release(&out[1], 1);
  } else if (blockIdx.x == 1) {
    while (relaxed(&out[1]) == 0) {}
    if (isRight) atomicAdd(&out[1], 1);
    else relax(&out[1], 2);
  } else {
    while (acquire(&out[1]) != 2) {}
    out[2] = out[0];
  }
}
PAIR(chain)

// Two steps of order: from block 0 to 1, and from 1 to 2.
KERNEL void transitive(int* in, int* out, int n) {
  if (blockIdx.x == 0) {
    out[0] = in[3];
    release(&out[1], 1);
  } else if (blockIdx.x == 1) {
    while ((isRight ? acquire(&out[1]) : relaxed(&out[1])) == 0) {}
    release(&out[2], 1);
  } else {
    while (acquire(&out[2]) == 0) {}
    out[3] = out[0];
  }
}
PAIR(transitive)

// The last block that comes sums what all have stored.
KERNEL void last_block(int* in, int* out, int n) {
  __shared__ bool isLast;
  int t = threadIdx.x;
  atomicAdd(&out[100], 0);
  if (t == 0) {
    out[1 + blockIdx.x] = in[blockIdx.x];
    if (isRight) __threadfence();
    isLast = atomicAdd(&out[0], 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (isLast && t < gridDim.x) atomicAdd(&out[101], out[1 + t]);
}
PAIR(last_block)

KERNEL void spin_lock(int* in, int* out, int n) {
  if (threadIdx.x != 0) return;
  while (atomicCAS(&out[0], 0, 1) != 0) {}
  if (isRight) __threadfence();
  out[1] += in[blockIdx.x];
  __threadfence();
  atomicExch(&out[0], 0);
}
PAIR(spin_lock)

// The lock is released before the last store.
KERNEL void spin_lock_early(int* in, int* out, int n) {
  if (threadIdx.x != 0) return;
  while (atomicCAS(&out[0], 0, 1) != 0) {}
  __threadfence();
  out[1] += in[blockIdx.x];
  __threadfence();
  if (!isRight) atomicExch(&out[0], 0);
  out[2] = out[1];
  __threadfence();
  if (isRight) atomicExch(&out[0], 0);
}
PAIR(spin_lock_early)

KERNEL void ticket_lock(int* in, int* out, int n) {
  if (threadIdx.x != 0) return;
  int ticket = atomicAdd(&out[0], 1);
  while (acquire(&out[1]) != ticket) {}
  out[2] += in[blockIdx.x];
  if (isRight) release(&out[1], ticket + 1);
  else relax(&out[1], ticket + 1);
}
PAIR(ticket_lock)

// Each thread of a block takes the lock, some of them of the same warp.
KERNEL void thread_lock(int* in, int* out, int n) {
  bool isDone = false;
  while (!isDone) {
    if (atomicCAS(&out[0], 0, 1) == 0) {
      __threadfence();
      out[1] += in[threadIdx.x];
      if (isRight) __threadfence();
      atomicExch(&out[0], 0);
      isDone = true;
    }
  }
}
PAIR(thread_lock)

// The whole grid meets.
KERNEL void grid_sync(int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i];
  if (isRight) cooperative_groups::this_grid().sync();
  else cooperative_groups::this_thread_block().sync();
  in[i] = out[(i + blockDim.x) % n];
}
PAIR(grid_sync)

KERNEL void grid_sync_twice(int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int round = 0; round < 3; round++) {
    int next = in[(i + blockDim.x) % n];
    if (isRight || round != 1) cooperative_groups::this_grid().sync();
    in[i] = next + round;
    cooperative_groups::this_grid().sync();
  }
}
PAIR(grid_sync_twice)

// Groups of a warp.
KERNEL void tiles(int* in, int* out, int n) {
  __shared__ int values[64];
  auto tile = cooperative_groups::tiled_partition<8>(cooperative_groups::this_thread_block());
  int t = threadIdx.x;
  values[t] = in[t];
  tile.sync();
  out[t] = values[isRight ? t / 8 * 8 + 7 - t % 8 : 63 - t];
}
PAIR(tiles)

// Each block waits for the sum of the one before it.
KERNEL void lookback(int* in, int* out, int n) {
  __shared__ int before;
  int t = threadIdx.x, b = blockIdx.x;
  int* sums = out;
  int* states = out + 64;
  if (t == 0) {
    int sum = 0;
    if (b > 0) {
      while ((isRight ? acquire(&states[b - 1]) : relaxed(&states[b - 1])) == 0) {}
      sum = sums[b - 1];
    }
    before = sum;
    sums[b] = sum + in[b];
    release(&states[b], 1);
  }
  __syncthreads();
  out[256 + b * 64 + t] = before + t;
}
PAIR(lookback)

// A queue of one element between two threads, with two flags.
KERNEL void queue(int* in, int* out, int n) {
  for (int round = 1; round <= 3; round++) {
    if (blockIdx.x == 0) {
      while (acquire(&out[2]) != round - 1) {}
      out[0] = in[round];
      release(&out[1], round);
    } else {
      while (acquire(&out[1]) < round) {}
      if (!isRight) release(&out[2], round);
      atomicAdd(&out[3], out[0]);
      if (isRight) release(&out[2], round);
    }
  }
}
PAIR(queue)

// Relaxed atomics order nothing.
KERNEL void relaxed_counter(int* in, int* out, int n) {
  if (threadIdx.x != 0) return;
  out[8 + blockIdx.x] = in[blockIdx.x];
  if (isRight) __threadfence();
  int arrived = atomicAdd(&out[0], 1);
  if (isRight) __threadfence();
  if (arrived == 1) out[1] = out[8] + out[9];
}
PAIR(relaxed_counter)

// A fence without a strong store behind it releases nothing.
KERNEL void fence_alone(int* in, int* out, int n) {
  if (blockIdx.x == 0) {
    out[0] = in[3];
    __threadfence();
    if (isRight) relax(&out[1], 1);
    else out[1] = 1;
  } else if (isRight) {
    while (relaxed(&out[1]) == 0) {}
    __threadfence();
    out[2] = out[0];
  } else {
    __threadfence();
    out[2] = out[0];
  }
}
PAIR(fence_alone)

// All threads fence, meet, and let one of them set the flag. Those that wait do it the other way around.
KERNEL void fences_around_barriers(int* in, int* out, int n) {
  volatile int* ready = &out[0];
  int t = threadIdx.x;
  if (blockIdx.x == 0) {
    out[8 + t] = in[t];
    if (isRight || t == 0) __threadfence();
    __syncthreads();
    if (t == 0) *ready = 1;
  } else {
    if (t == 0) while (*ready == 0) {}
    __syncthreads();
    __threadfence();
    out[128 + t] = out[8 + 63 - t];
  }
}
PAIR(fences_around_barriers)

// The same by the barriers of warps, and by a counter.
KERNEL void fences_around_warp_barriers(int* in, int* out, int n) {
  int t = threadIdx.x;
  if (blockIdx.x == 0) {
    out[8 + t] = in[t];
    __threadfence();
    __syncwarp();
    if (t % 32 == 0) atomicAdd(&out[0], 1);
  } else {
    if (t % 32 == 0) while (atomicAdd(&out[0], 0) < 2) {}
    __syncwarp();
    if (isRight) __threadfence();
    out[128 + t] = out[8 + 63 - t];
  }
}
PAIR(fences_around_warp_barriers)

// Whoever comes last, and knows it by its own atomic operation, sets the counter back for the next launch.
KERNEL void counter_reset(int* in, int* out, int n) {
  __threadfence();
  int arrived = atomicAdd(&out[0], 1);
  if (arrived == (isRight ? n - 1 : n - 2)) out[0] = 0;
}
PAIR(counter_reset)
