// A lock of compare-and-swap, taken by every thread of a block in turn, around memory that is read and written plainly.

__device__ void lock(int* mutex) {
  while (atomicCAS(mutex, 0, 1) != 0) {
  }
  __threadfence();
}

__device__ void unlock(int* mutex) {
  __threadfence();
  atomicExch(mutex, 0);
}

extern "C" __global__ void shared_lock(const int* in, volatile int* list, int* count) {
  __shared__ int mutex;
  __shared__ volatile int length;
  if (threadIdx.x == 0) {
    mutex = 0;
    length = 0;
  }
  __syncthreads();
  int value = in[threadIdx.x];
  // Into a sorted list, so that the order in which the threads come does not show.
  lock(&mutex);
  int at = length;
  for (; at > 0 && list[at - 1] > value; at--) list[at] = list[at - 1];
  list[at] = value;
  length = length + 1;
  unlock(&mutex);
  __syncthreads();
  if (threadIdx.x == 0) *count = length;
}

// A lock in global memory over a block of several warps.
extern "C" __global__ void global_lock(int* mutex, volatile unsigned long long* total, volatile int* turns) {
  bool done = false;
  while (!done) {
    if (atomicCAS(mutex, 0, 1) == 0) {
      __threadfence();
      *total = *total + threadIdx.x + 1;
      *turns = *turns + 1;
      __threadfence();
      *(volatile int*)mutex = 0;
      done = true;
    }
  }
}
