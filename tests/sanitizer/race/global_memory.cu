// Global memory, between blocks and within them.
// Compiled by `deno run -A tests/sanitizer/race/compile.ts`.
#include "pair.cuh"

KERNEL void increment(int* in, int* out, int n) {
  if (isRight) atomicAdd(out, 1);
  else out[0]++;
}
PAIR(increment)

KERNEL void global_histogram(int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (isRight) atomicAdd(&out[in[i] % 32], 1);
  else out[in[i] % 32] += 1;
}
PAIR(global_histogram)

KERNEL void maximum(int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (isRight) atomicMax(out, in[i]);
  else if (in[i] > out[0]) out[0] = in[i];
}
PAIR(maximum)

// Blocks read what their neighbors write.
KERNEL void smooth(int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int* to = isRight ? out : in;
  to[i] = in[i] + (i + 1 < n ? in[i + 1] : 0);
}
PAIR(smooth)

// The last element of each block belongs to the next one, too.
KERNEL void overlap(int* in, int* out, int n) {
  int i = blockIdx.x * (blockDim.x - (isRight ? 0 : 1)) + threadIdx.x;
  out[i] = in[i] + blockIdx.x;
}
PAIR(overlap)

KERNEL void same_block(int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i];
  if (isRight) __syncthreads();
  in[i] = out[blockIdx.x * blockDim.x + blockDim.x - 1 - threadIdx.x];
}
PAIR(same_block)

// A barrier orders the threads of a block only.
KERNEL void other_block(int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i];
  __syncthreads();
  in[i] = out[isRight ? blockIdx.x * blockDim.x + (threadIdx.x + 1) % blockDim.x : (i + 1) % n];
}
PAIR(other_block)

// All write the same number: a weak store that changes nothing is no race, and one that does is.
KERNEL void found(int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (in[i] % 3 == 0) out[0] = isRight ? 1 : i;
}
PAIR(found)

// An atomic and a plain read.
KERNEL void progress(int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0) atomicAdd(out, 1);
  else out[1] = isRight ? atomicAdd(out, 0) : out[0];
}
PAIR(progress)

// An atomic and a plain write.
KERNEL void cleared(int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i != 40) atomicAdd(out, 1);
  else if (isRight) atomicExch(out, 0);
  else out[0] = 0;
}
PAIR(cleared)

// Places are taken by an atomic, or by a plain counter.
KERNEL void compact(int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (in[i] % 2 == 0) out[1 + (isRight ? atomicAdd(out, 1) : out[0]++)] = in[i];
}
PAIR(compact)

// An atomic whose scope is the block, by threads of several blocks.
KERNEL void block_scope(int* in, int* out, int n) {
  if (isRight) atomicAdd(out, 1);
  else atomicAdd_block(out, 1);
}
PAIR(block_scope)

// Atomics of a block's own counter may have its scope.
KERNEL void own_counter(int* in, int* out, int n) {
  atomicAdd_block(isRight ? &out[blockIdx.x] : &out[0], 1);
}
PAIR(own_counter)

// Words of a double number.
KERNEL void halves(int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (isRight) atomicAdd(reinterpret_cast<unsigned long long*>(out), 1ull);
  else if (i % 2 == 0) atomicAdd(reinterpret_cast<unsigned long long*>(out), 1ull);
  else atomicAdd(out, 1);
}
PAIR(halves)

// A prefix of a linked list: each block appends by exchanging the head.
KERNEL void linked(int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (isRight) out[i + 1] = atomicExch(out, i);
  else {
    out[i + 1] = out[0];
    out[0] = i;
  }
}
PAIR(linked)

// Bytes of one word by different threads, and the same byte.
KERNEL void flags(int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  reinterpret_cast<unsigned char*>(out)[isRight ? i : i / 2] = in[i];
}
PAIR(flags)

__device__ int total;

// A variable of the module.
KERNEL void module_variable(int* in, int* out, int n) {
  if (isRight) atomicAdd(&total, in[threadIdx.x]);
  else total += in[threadIdx.x];
}
PAIR(module_variable)

// Memory that a kernel allocates, frees and gets again.
KERNEL void heap(int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int* own = static_cast<int*>(malloc(64));
  own[0] = i;
  own[1] = own[0] + 1;
  out[isRight ? i : 0] = own[1];
  free(own);
}
PAIR(heap)

// Memory that a block shares, and one of its threads frees.
KERNEL void freed(int* in, int* out, int n) {
  __shared__ int* values;
  int t = threadIdx.x;
  if (t == 0) values = static_cast<int*>(malloc(blockDim.x * sizeof(int)));
  __syncthreads();
  values[t] = in[t];
  __syncthreads();
  out[t] = values[blockDim.x - 1 - t];
  if (isRight) __syncthreads();
  if (t == 32) free(values);
}
PAIR(freed)

// What is read through the cache that is not coherent must not be written by the same kernel.
KERNEL void cached(int* in, int* out, int n) {
  int t = threadIdx.x;
  out[t] = in[t];
  __syncthreads();
  in[t] = isRight ? out[blockDim.x - 1 - t] : __ldg(&out[blockDim.x - 1 - t]);
}
PAIR(cached)

// A graph's levels: neighbors are marked with the same number.
KERNEL void levels(int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int* level = in;
  if (isRight) out[(level[i] * 7) % n] = 5;
  else level[(level[i] * 7) % n] = 5;
}
PAIR(levels)
