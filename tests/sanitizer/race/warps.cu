// The lanes of a warp.
// Compiled by `deno run -A tests/sanitizer/race/compile.ts`.
#include "pair.cuh"

// The last rounds of a reduction, in one warp.
KERNEL void warp_reduce(int* in, int* out, int n) {
  __shared__ int sums[64];
  int t = threadIdx.x;
  sums[t] = in[t];
  sums[t + 32] = in[t + 32];
  __syncwarp();
  for (int half = 32; half > 0; half >>= 1) {
    int sum = sums[t] + (t < half ? sums[t + half] : 0);
    __syncwarp();
    sums[t] = sum;
    if (isRight) __syncwarp();
  }
  if (t == 0) out[0] = sums[0];
}
PAIR(warp_reduce)

// Volatile accesses of the lanes are strong: no race, although their order is not defined.
KERNEL void warp_volatile(int* in, int* out, int n) {
  __shared__ int values[32];
  int t = threadIdx.x;
  if (isRight) {
    *(volatile int*)&values[t] = in[t];
    out[t] = *(volatile int*)&values[31 - t];
  } else {
    values[t] = in[t];
    out[t] = *(volatile int*)&values[31 - t];
  }
}
PAIR(warp_volatile)

// A shuffle exchanges registers, and does not order memory.
KERNEL void shuffled(int* in, int* out, int n) {
  __shared__ int values[32];
  int t = threadIdx.x;
  values[t] = in[t];
  int other = __shfl_xor_sync(0xffffffff, t, 1);
  if (isRight) __syncwarp();
  out[t] = values[other];
}
PAIR(shuffled)

// Neither does a vote.
KERNEL void voted(int* in, int* out, int n) {
  __shared__ int values[32];
  int t = threadIdx.x;
  values[t] = in[t];
  int any = __any_sync(0xffffffff, in[t] > 3);
  if (isRight) __syncwarp();
  out[t] = values[31 - t] + any;
}
PAIR(voted)

// Half of a warp meets, and the other half does not.
KERNEL void half_warps(int* in, int* out, int n) {
  __shared__ int values[32];
  int t = threadIdx.x, first = t & 16;
  values[t] = in[t];
  if (t < 16) __syncwarp(0xffff);
  else __syncwarp(0xffff0000);
  out[t] = values[isRight ? first + 15 - (t & 15) : 31 - t];
}
PAIR(half_warps)

// The warp's barrier does not order other warps.
KERNEL void other_warps(int* in, int* out, int n) {
  __shared__ int values[64];
  int t = threadIdx.x;
  values[t] = in[t];
  __syncwarp();
  out[t] = values[isRight ? t ^ 1 : t ^ 32];
}
PAIR(other_warps)

// A leader updates for its warp.
KERNEL void leader(int* in, int* out, int n) {
  __shared__ int sums[4];
  int t = threadIdx.x, warp = t / 32;
  if (t % 32 == 0) sums[warp] = in[warp];
  if (isRight) __syncwarp();
  out[t] = sums[warp];
}
PAIR(leader)

// In global memory, too.
KERNEL void warp_global(int* in, int* out, int n) {
  int t = threadIdx.x;
  out[t] = in[t];
  if (isRight) __syncwarp();
  in[t] = out[t ^ 1];
}
PAIR(warp_global)

// A barrier of the warp passes on what its leader has learned by a barrier with another warp.
KERNEL void learned(int* in, int* out, int n) {
  __shared__ int value;
  int t = threadIdx.x;
  if (t == 32) value = in[0];
  if (t >= 32) __syncwarp();
  if (t >= 32 || isRight) asm volatile("barrier.sync 3, 64;" ::: "memory");
  else asm volatile("barrier.sync 3, 64;" ::: "memory");
  if (!isRight && t == 40) value = 3;
  __syncwarp();
  out[t] = value;
}
PAIR(learned)
