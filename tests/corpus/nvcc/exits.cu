// Threads that end where they are: in a branch, in a loop, and inside functions that they were called into.
__device__ __noinline__ unsigned int checked(unsigned int value, unsigned int limit) {
  if (value > limit) asm volatile("exit;");
  return value * 2;
}

__device__ __noinline__ unsigned int descend(unsigned int depth, unsigned int* out) {
  *out = depth + 100;
  if (depth == 0) asm volatile("exit;");
  return descend(depth - 1, out) + 1;
}

extern "C" __global__ void exits(unsigned int* out) {
  __shared__ unsigned int finished;
  const unsigned int thread = threadIdx.x;
  if (thread == 0) finished = 0;
  __syncthreads();
  out[thread] = 1;
  if (thread % 4 == 3) {
    out[thread] = 2;
    asm volatile("exit;");
    out[thread] = 3;
  }
  for (unsigned int i = 0; i < 10; i++) {
    out[thread] += 10;
    asm volatile("{ .reg .pred p; setp.gt.u32 p, %0, %1; @p exit; }" ::"r"(i * thread), "r"(200));
  }
  if (thread % 4 == 2) out[thread] = descend(thread / 8, &out[thread]);
  out[thread] = checked(thread, 19);
  atomicAdd(&finished, 1);
  __syncthreads();
  out[thread] += finished * 1000;
}
