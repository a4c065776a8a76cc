// Barriers and exchanges that do, or do not, what they were meant to.
// Compiled by `deno run -A tests/sanitizer/race/compile.ts`.
#include "../race/pair.cuh"

// The lanes of a warp reach two barriers, or whole warps do.
KERNEL void branches(int* in, int* out, int n) {
  int t = threadIdx.x;
  bool isFirst = isRight ? t < 32 : t % 2 == 0;
  if (isFirst) {
    out[t] = 1;
    asm volatile("bar.sync 0;" ::: "memory");
  } else {
    out[t] = 2;
    asm volatile("bar.sync 0;" ::: "memory");
    out[t] = 3;
  }
}
PAIR(branches)

// The barrier that is not aligned may be reached at several places.
KERNEL void unaligned(int* in, int* out, int n) {
  int t = threadIdx.x;
  if (t % 2 == 0) {
    out[t] = 1;
    if (isRight) asm volatile("barrier.sync 0;" ::: "memory");
    else asm volatile("barrier.sync.aligned 0;" ::: "memory");
  } else {
    out[t] = 2;
    asm volatile("barrier.sync 0;" ::: "memory");
    out[t] = 3;
  }
}
PAIR(unaligned)

// Lanes go around a loop with a barrier a different number of times, and then meet at another one.
KERNEL void loop(int* in, int* out, int n) {
  int t = threadIdx.x;
  int rounds = isRight ? 3 : t % 2 + 1;
  for (int round = 0; round < rounds; round++) {
    out[t] = round;
    __syncthreads();
  }
  in[t] = 1;
  __syncthreads();
  out[t] = in[t ^ 1];
  if (!isRight && t % 2 == 0) __syncthreads();
}
PAIR(loop)

// A lane takes part that the mask does not name.
KERNEL void shuffle_mask(int* in, int* out, int n) {
  int t = threadIdx.x;
  if (t < 16) out[t] = __shfl_xor_sync(isRight ? 0xffff : 0xff, in[t], 1);
}
PAIR(shuffle_mask)

KERNEL void vote_mask(int* in, int* out, int n) {
  int t = threadIdx.x;
  unsigned mask = isRight ? __ballot_sync(0xffffffff, t % 3 == 0) : 1;
  if (t % 3 == 0) out[t] = __any_sync(mask, in[t] > 4);
}
PAIR(vote_mask)

KERNEL void warp_barrier_mask(int* in, int* out, int n) {
  int t = threadIdx.x;
  if (t < 8) __syncwarp(isRight ? 0xff : 0x7f);
  out[t] = in[t];
}
PAIR(warp_barrier_mask)

// The mask names lanes that never come.
KERNEL void absent_lanes(int* in, int* out, int n) {
  int t = threadIdx.x;
  if (t < 16) out[t] = __shfl_xor_sync(isRight ? 0xffff : 0xffffffff, in[t], 1);
  else asm volatile("barrier.sync 1, 32;" ::: "memory");
  if (t < 16) asm volatile("barrier.sync 1, 32;" ::: "memory");
}
PAIR(absent_lanes)

// Lanes of one group disagree about who is in it.
KERNEL void masks_disagree(int* in, int* out, int n) {
  int t = threadIdx.x;
  out[t] = __shfl_xor_sync(isRight || t < 16 ? 0xffffffff : 0xffff0001, in[t], 1);
}
PAIR(masks_disagree)

// A barrier counts more threads than come.
KERNEL void too_few(int* in, int* out, int n) {
  int t = threadIdx.x;
  if (t < 32) asm volatile("bar.sync 1, %0;" ::"n"(isRight ? 32 : 64) : "memory");
  out[t] = in[t];
}
PAIR(too_few)

// Two barriers, in another order.
KERNEL void other_order(int* in, int* out, int n) {
  int t = threadIdx.x;
  int first = isRight || t < 32 ? 1 : 2;
  asm volatile("barrier.sync %0, 64;" ::"r"(first) : "memory");
  out[t] = in[t];
  asm volatile("barrier.sync %0, 64;" ::"r"(3 - first) : "memory");
}
PAIR(other_order)

// Threads name different counts.
KERNEL void counts(int* in, int* out, int n) {
  int t = threadIdx.x;
  if (t < 32) asm volatile("bar.sync 1, 64;" ::: "memory");
  else if (isRight) asm volatile("bar.sync 1, 64;" ::: "memory");
  else asm volatile("bar.sync 1, 96;" ::: "memory");
  out[t] = in[t];
}
PAIR(counts)

// Some arrive, and others reduce.
KERNEL void mixed(int* in, int* out, int n) {
  int t = threadIdx.x, any = 0;
  if (t < 32) {
    if (isRight) asm volatile("bar.sync 1, 64;" ::: "memory");
    else asm volatile("bar.arrive 1, 64;" ::: "memory");
  } else if (isRight) {
    asm volatile("bar.sync 1, 64;" ::: "memory");
  } else {
    asm volatile("{ .reg .pred p, q; setp.gt.s32 p, %1, 3; bar.red.or.pred q, 1, 64, p; selp.s32 %0, 1, 0, q; }"
                 : "=r"(any)
                 : "r"(t)
                 : "memory");
  }
  out[t] = any;
}
PAIR(mixed)

// Threads that have exited no longer count, as PTX defines it.
extern "C" __global__ void exits(int* in, int* out, int n) {
  int t = threadIdx.x;
  if (t >= 40) return;
  out[t] = 1;
  __syncthreads();
  if (t % 3 == 0) return;
  __syncwarp();
  __syncthreads();
  out[t] = 2 + __shfl_sync(__activemask(), t, t % 32);
}

// Producers arrive, and consumers wait.
extern "C" __global__ void specialized(int* in, int* out, int n) {
  int t = threadIdx.x;
  for (int round = 0; round < 3; round++) {
    if (t < 32) {
      if (round > 0) asm volatile("bar.sync 2, 64;" ::: "memory");
      out[t] = in[t] + round;
      asm volatile("bar.arrive 1, 64;" ::: "memory");
    } else {
      asm volatile("bar.sync 1, 64;" ::: "memory");
      out[t] = out[t - 32];
      if (round < 2) asm volatile("bar.arrive 2, 64;" ::: "memory");
    }
  }
}

// Functions of cooperative groups, and an exchange in each of two branches.
extern "C" __global__ void divided(int* in, int* out, int n) {
  int t = threadIdx.x;
  if (t < 10) out[t] = __shfl_xor_sync(0x3ff, in[t], 1);
  else out[t] = __reduce_add_sync(0xfffffc00, in[t]);
  __syncthreads();
}
