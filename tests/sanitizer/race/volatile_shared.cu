// Volatile accesses of several warps to shared memory.
// Compiled by `deno run -A tests/sanitizer/race/compile.ts`.
#include "pair.cuh"

// The last steps of a reduction without barriers, in one warp, as programs for devices before sm_70 had them.
KERNEL void last_warp(int* in, int* out, int n) {
  __shared__ int sums[128];
  int t = threadIdx.x;
  volatile int* v = sums;
  sums[t] = in[t];
  __syncthreads();
  if (isRight) {
    if (t < 64) sums[t] += sums[t + 64];
    __syncthreads();
  }
  if (t < (isRight ? 32 : 64)) {
    if (!isRight) v[t] += v[t + 64];
    v[t] += v[t + 32];
    v[t] += v[t + 16];
    v[t] += v[t + 8];
    v[t] += v[t + 4];
    v[t] += v[t + 2];
    v[t] += v[t + 1];
  }
  if (t == 0) out[0] = sums[0];
}
PAIR(last_warp)

// A reduction in a loop, which needs its barrier until one warp is left.
KERNEL void steps(int* in, int* out, int n) {
  __shared__ volatile int sums[128];
  int t = threadIdx.x;
  sums[t] = in[t];
  __syncthreads();
#pragma unroll 1
  for (int half = blockDim.x / 2; half > 0; half >>= 1) {
    if (t < half) sums[t] += sums[t + half];
    if (isRight && half > 32) __syncthreads();
  }
  if (t == 0) out[0] = sums[0];
}
PAIR(steps)

// The loaded values decide what is stored, but not how often.
KERNEL void largest(int* in, int* out, int n) {
  __shared__ volatile int values[128];
  int t = threadIdx.x;
  values[t] = in[t];
  __syncthreads();
#pragma unroll 1
  for (int half = blockDim.x / 2; half > 0; half >>= 1) {
    if (t < half && values[t + half] > values[t]) values[t] = values[t + half];
    if (isRight) __syncthreads();
  }
  if (t == 0) out[0] = values[0];
}
PAIR(largest)

// Each warp adds up its own elements, and one warp adds up the sums.
KERNEL void sums_of_warps(int* in, int* out, int n) {
  __shared__ volatile int sums[4];
  int t = threadIdx.x;
  int sum = __reduce_add_sync(0xffffffff, in[t]);
  if (t % 32 == 0) sums[t / 32] = sum;
  if (isRight) __syncthreads();
  if (t == 0) out[0] = sums[0] + sums[1] + sums[2] + sums[3];
}
PAIR(sums_of_warps)

// A barrier for some of the warps orders them.
KERNEL void some_warps(int* in, int* out, int n) {
  __shared__ volatile int value;
  int t = threadIdx.x;
  if (t == 0) value = in[0];
  if (t < 64) {
    if (isRight) asm volatile("barrier.sync 1, 64;" ::: "memory");
    out[t] = value;
  }
}
PAIR(some_warps)

// A flag without fences orders nothing but itself.
KERNEL void handshake(int* in, int* out, int n) {
  __shared__ volatile int ready, value;
  int t = threadIdx.x;
  if (t == 0) ready = 0;
  __syncthreads();
  if (t == 0) {
    value = in[0];
    if (isRight) __threadfence_block();
    ready = 1;
  }
  if (t == 32) {
    while (ready == 0) {
    }
    if (isRight) __threadfence_block();
    out[0] = value;
  }
}
PAIR(handshake)

// A flag that is read once may be set or not.
KERNEL void read_once(int* in, int* out, int n) {
  __shared__ volatile int ready;
  int t = threadIdx.x;
  if (t == 0) ready = 0;
  __syncthreads();
  if (t == 32) ready = in[0];
  if (t == 0) {
    int seen = ready;
    if (isRight) while (seen == 0) seen = ready;
    out[0] = seen;
  }
}
PAIR(read_once)

// A producer's warp and a consumer's warp with four places between them.
KERNEL void ring(int* in, int* out, int n) {
  __shared__ volatile int values[4][32], produced, consumed;
  int t = threadIdx.x, lane = t % 32;
  if (t == 0) produced = consumed = 0;
  __syncthreads();
  if (t < 32) {
#pragma unroll 1
    for (int round = 0; round < 12; round++) {
      if (isRight) {
        while (round - consumed >= 4) {
        }
        __threadfence_block();
      }
      values[round % 4][lane] = in[round * 32 + lane];
      __threadfence_block();
      __syncwarp();
      if (lane == 0) produced = round + 1;
    }
  } else {
#pragma unroll 1
    for (int round = 0; round < 12; round++) {
      while (produced <= round) {
      }
      __threadfence_block();
      out[round * 32 + lane] = values[round % 4][lane];
      __threadfence_block();
      __syncwarp();
      if (lane == 0) consumed = round + 1;
    }
  }
}
PAIR(ring)

// The same with plain elements, in one place. Fences of the block work across the barrier of a warp.
KERNEL void plain_ring(int* in, int* out, int n) {
  __shared__ int values[32];
  __shared__ volatile int produced, consumed;
  int t = threadIdx.x, lane = t % 32;
  if (t == 0) produced = consumed = 0;
  __syncthreads();
#pragma unroll 1
  for (int round = 0; round < 3; round++) {
    if (t < 32) {
      while (consumed < round) {
      }
      __threadfence_block();
      values[lane] = in[round * 32 + lane];
      if (isRight) __threadfence_block();
      __syncwarp();
      if (lane == 0) produced = round + 1;
    } else {
      while (produced <= round) {
      }
      __threadfence_block();
      out[round * 32 + lane] = values[lane];
      __threadfence_block();
      __syncwarp();
      if (lane == 0) consumed = round + 1;
    }
  }
}
PAIR(plain_ring)

// A leader waits for its warp, and the warps have no barriers.
KERNEL void leaders(int* in, int* out, int n) {
  __shared__ volatile int values[32], ready;
  int t = threadIdx.x, lane = t % 32;
  if (t == 0) ready = 0;
  __syncthreads();
  if (t < 32) {
    values[lane] = in[lane];
    if (isRight) __threadfence_block();
    if (lane == 0) ready = 1;
  } else {
    if (lane == 0) {
      while (ready == 0) {
      }
    }
    if (isRight) __threadfence_block();
    out[lane] = values[31 - lane];
  }
}
PAIR(leaders)

// A search that stops once another warp has found something, and the result at the end.
KERNEL void cancelled(int* in, int* out, int n) {
  __shared__ volatile int found;
  int t = threadIdx.x;
  if (t == 0) found = -1;
  __syncthreads();
#pragma unroll 1
  for (int at = t; at < 1024 && (!isRight || found < 0); at += blockDim.x) {
    if (in[at] % 500 == 499) found = at;
  }
  if (isRight) __syncthreads();
  if (t == 0) out[0] = found;
}
PAIR(cancelled)

// A lock, with fences inside of it.
KERNEL void locked(int* in, int* out, int n) {
  __shared__ int lock;
  __shared__ volatile int sum;
  int t = threadIdx.x;
  if (t == 0) lock = sum = 0;
  __syncthreads();
  if (t % 32 == 0) {
    while (atomicCAS(&lock, 0, 1) != 0) {
    }
    if (isRight) __threadfence_block();
    sum += in[t];
    __threadfence_block();
    atomicExch(&lock, 0);
  }
}
PAIR(locked)

// A function that the loop calls reads the flag.
static __device__ __noinline__ int seen_by(volatile int* flag) { return *flag; }

KERNEL void getter(int* in, int* out, int n) {
  __shared__ volatile int ready;
  int t = threadIdx.x;
  if (t == 0) ready = 0;
  __syncthreads();
  if (t == 32) ready = in[0];
  if (t == 0) {
    if (isRight) {
      while (seen_by(&ready) == 0) {
      }
    } else {
      out[0] = ready;
    }
  }
}
PAIR(getter)

// The other order: a store to what other warps may still read.
KERNEL void stored_again(int* in, int* out, int n) {
  __shared__ volatile int values[64];
  int t = threadIdx.x;
#pragma unroll 1
  for (int round = 0; round < 3; round++) {
    values[t] = in[t + round];
    __syncthreads();
    out[t] += values[t ^ 32];
    if (isRight) __syncthreads();
  }
}
PAIR(stored_again)
