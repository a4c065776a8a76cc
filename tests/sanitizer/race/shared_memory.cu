// Shared memory, between the threads of a block.
// Compiled by `deno run -A tests/sanitizer/race/compile.ts`.
#include "pair.cuh"

// A barrier is missing between the rounds of a reduction.
KERNEL void reduce(int* in, int* out, int n) {
  __shared__ int sums[256];
  int t = threadIdx.x;
  sums[t] = in[blockIdx.x * 256 + t];
  __syncthreads();
  for (int half = 128; half > 0; half >>= 1) {
    if (t < half) sums[t] += sums[t + half];
    if (isRight) __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = sums[0];
}
PAIR(reduce)

// The barrier behind the loads is missing.
KERNEL void reverse(int* in, int* out, int n) {
  __shared__ int values[128];
  int t = threadIdx.x;
  values[t] = in[t];
  if (isRight) __syncthreads();
  out[t] = values[127 - t];
}
PAIR(reverse)

// The same in dynamic shared memory.
KERNEL void reverse_dynamic(int* in, int* out, int n) {
  extern __shared__ int dynamic[];
  int t = threadIdx.x;
  dynamic[t] = in[t];
  if (isRight) __syncthreads();
  out[t] = dynamic[n - 1 - t];
}
PAIR(reverse_dynamic)

// The last round of an inclusive scan needs a second barrier: reads come before the writes of the round.
KERNEL void scan(int* in, int* out, int n) {
  __shared__ int values[64];
  int t = threadIdx.x;
  values[t] = in[t];
  __syncthreads();
  for (int distance = 1; distance < 64; distance *= 2) {
    int left = t >= distance ? values[t - distance] : 0;
    if (isRight) __syncthreads();
    values[t] += left;
    __syncthreads();
  }
  out[t] = values[t];
}
PAIR(scan)

// A scan with two buffers needs one barrier a round.
KERNEL void scan_two_buffers(int* in, int* out, int n) {
  __shared__ int values[2][64];
  int t = threadIdx.x, from = 0;
  values[0][t] = in[t];
  __syncthreads();
  for (int distance = 1; distance < 64; distance *= 2) {
    int left = t >= distance ? values[from][t - distance] : 0;
    values[isRight ? 1 - from : from][t] = values[from][t] + left;
    if (isRight) from = 1 - from;
    __syncthreads();
  }
  out[t] = values[from][t];
}
PAIR(scan_two_buffers)

// A histogram in shared memory needs atomics.
KERNEL void histogram(int* in, int* out, int n) {
  __shared__ int counts[16];
  int t = threadIdx.x;
  if (t < 16) counts[t] = 0;
  __syncthreads();
  if (isRight) atomicAdd(&counts[in[t] & 15], 1);
  else counts[in[t] & 15]++;
  __syncthreads();
  if (t < 16) atomicAdd(&out[t], counts[t]);
}
PAIR(histogram)

// The counts are cleared by some threads, and counted by others at once.
KERNEL void histogram_cleared(int* in, int* out, int n) {
  __shared__ int counts[16];
  int t = threadIdx.x;
  if (t < 16) counts[t] = 0;
  if (isRight) __syncthreads();
  atomicAdd(&counts[in[t] & 15], 1);
  __syncthreads();
  if (t < 16) atomicAdd(&out[t], counts[t]);
}
PAIR(histogram_cleared)

// The counts are read while others count.
KERNEL void histogram_read(int* in, int* out, int n) {
  __shared__ int counts[16];
  int t = threadIdx.x;
  if (t < 16) counts[t] = 0;
  __syncthreads();
  atomicAdd(&counts[in[t] & 15], 1);
  if (isRight) __syncthreads();
  if (t < 16) atomicAdd(&out[t], counts[t]);
}
PAIR(histogram_read)

// A transposed tile.
KERNEL void transpose(int* in, int* out, int n) {
  __shared__ int tile[16][17];
  int x = threadIdx.x, y = threadIdx.y;
  tile[y][x] = in[y * 16 + x];
  if (isRight) __syncthreads();
  out[y * 16 + x] = tile[x][y];
}
PAIR(transpose)

// Tiles of two matrices: the second barrier of each round keeps the next tile out.
KERNEL void multiply(int* in, int* out, int n) {
  __shared__ int a[8][8], b[8][8];
  int x = threadIdx.x, y = threadIdx.y, sum = 0;
  for (int tile = 0; tile < 4; tile++) {
    a[y][x] = in[(y * 32 + tile * 8 + x) % 1024];
    b[y][x] = in[((tile * 8 + y) * 8 + x) % 1024];
    __syncthreads();
    for (int k = 0; k < 8; k++) sum += a[y][k] * b[k][x];
    if (isRight) __syncthreads();
  }
  out[y * 8 + x] = sum;
}
PAIR(multiply)

// A stencil reads the neighbors' cells.
KERNEL void stencil(int* in, int* out, int n) {
  __shared__ int cells[66];
  int t = threadIdx.x;
  cells[t + 1] = in[t];
  if (t == 0) cells[0] = cells[65] = 0;
  __syncthreads();
  for (int step = 0; step < 3; step++) {
    int sum = cells[t] + cells[t + 1] + cells[t + 2];
    __syncthreads();
    cells[t + 1] = sum;
    if (isRight) __syncthreads();
  }
  out[t] = cells[t + 1];
}
PAIR(stencil)

// A value that one thread finds for all others.
KERNEL void broadcast(int* in, int* out, int n) {
  __shared__ int first;
  int t = threadIdx.x;
  if (t == 0) first = in[5];
  if (isRight) __syncthreads();
  out[t] = first + t;
}
PAIR(broadcast)

// The next value overwrites the one that others may still read.
KERNEL void broadcast_twice(int* in, int* out, int n) {
  __shared__ int value;
  int t = threadIdx.x, sum = 0;
  for (int round = 0; round < 4; round++) {
    if (t == 0) value = in[round];
    __syncthreads();
    sum += value;
    if (isRight) __syncthreads();
  }
  out[t] = sum;
}
PAIR(broadcast_twice)

// A barrier that only some threads of the condition reach would be another mistake: here the flag itself races.
KERNEL void any_flag(int* in, int* out, int n) {
  __shared__ int flag;
  int t = threadIdx.x;
  if (t == 0) flag = 0;
  __syncthreads();
  if (isRight) {
    if (in[t] == 7) atomicOr(&flag, 1);
  } else if (in[t] > 5) {
    flag = t;
  }
  __syncthreads();
  out[t] = flag;
}
PAIR(any_flag)

// Bytes: neighbors write different bytes of a word, or the same ones.
KERNEL void bytes(int* in, int* out, int n) {
  __shared__ unsigned char text[128];
  int t = threadIdx.x;
  text[t] = in[t];
  if (!isRight) text[t ^ 1] = 3 * t;
  __syncthreads();
  out[t] = text[t];
}
PAIR(bytes)

// Words of four bytes and of eight overlap.
KERNEL void widths(int* in, int* out, int n) {
  __shared__ __align__(16) int words[128];
  int t = threadIdx.x;
  words[2 * t] = in[t];
  words[2 * t + 1] = in[t];
  if (isRight) __syncthreads();
  int2 pair = reinterpret_cast<int2*>(words)[63 - t];
  out[t] = pair.x + pair.y;
}
PAIR(widths)

// A barrier of two warps of a block, by number.
KERNEL void named_barrier(int* in, int* out, int n) {
  __shared__ int values[128];
  int t = threadIdx.x, half = t / 64;
  values[t] = in[t];
  if (isRight) asm volatile("barrier.sync %0, 64;" ::"r"(half + 1) : "memory");
  else asm volatile("barrier.sync %0, 64;" ::"r"(half + 1) : "memory");
  out[t] = values[isRight ? half * 64 + 63 - t % 64 : 127 - t];
}
PAIR(named_barrier)

// Two warps produce, and two consume: the producers only arrive.
KERNEL void producer(int* in, int* out, int n) {
  __shared__ int values[64];
  int t = threadIdx.x;
  for (int round = 0; round < 3; round++) {
    if (t < 64) {
      if (round > 0) asm volatile("barrier.sync 2, 128;" ::: "memory");
      values[t] = in[t] + round;
      asm volatile("barrier.arrive 1, 128;" ::: "memory");
    } else {
      asm volatile("barrier.sync 1, 128;" ::: "memory");
      out[t - 64] = values[127 - t];
      if (isRight && round < 2) asm volatile("barrier.arrive 2, 128;" ::: "memory");
      else if (round < 2) asm volatile("barrier.arrive 2, 128;" ::: "memory");
      if (!isRight) out[t] = values[127 - t];
    }
  }
}
PAIR(producer)

// __syncthreads_count is a barrier too.
KERNEL void counted(int* in, int* out, int n) {
  __shared__ int values[128];
  int t = threadIdx.x;
  values[t] = in[t];
  int count = isRight ? __syncthreads_count(in[t] > 3) : 1;
  out[t] = values[127 - t] + count;
}
PAIR(counted)

// The next block begins in the same memory, with nothing of the one before.
KERNEL void blocks(int* in, int* out, int n) {
  __shared__ int value;
  if (threadIdx.x == (isRight ? 0 : blockIdx.x)) value = in[blockIdx.x];
  if (isRight || blockIdx.x > 0) __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = value;
  if (!isRight && threadIdx.x == 1) value = 1 + threadIdx.x;
}
PAIR(blocks)

// Asynchronous copies: the thread that copies waits, then all meet.
KERNEL void copies(int* in, int* out, int n) {
  __shared__ __align__(16) int values[128];
  int t = threadIdx.x;
  unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&values[t]));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(in + t) : "memory");
  if (isRight) asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  out[t] = values[127 - t];
}
PAIR(copies)

// Two groups of copies: the first one must be done.
KERNEL void copy_groups(int* in, int* out, int n) {
  __shared__ __align__(16) int values[2][64];
  int t = threadIdx.x;
  for (int group = 0; group < 2; group++) {
    unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&values[group][t]));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(in + t) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  asm volatile("cp.async.wait_group 1;" ::: "memory");
  __syncthreads();
  out[t] = values[isRight ? 0 : 1][63 - t];
}
PAIR(copy_groups)

// A barrier in memory, whose phases are waited for: who waits for one knows nothing of the next.
KERNEL void phases(int* in, int* out, int n) {
  __shared__ unsigned long long barrier;
  __shared__ int values[64];
  int t = threadIdx.x, sum = 0;
  unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(at) : "memory");
  __syncthreads();
  for (int round = 0; round < 3; round++) {
    values[t] = in[t] + round;
    for (int meeting = 0; meeting < (isRight ? 2 : 1); meeting++) {
      unsigned long long state;
      asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(at) : "memory");
      int isDone = 0;
      while (!isDone) {
        asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }"
                     : "=r"(isDone)
                     : "r"(at), "l"(state)
                     : "memory");
      }
      if (meeting == 0) sum += values[63 - t];
    }
  }
  out[t] = sum;
}
PAIR(phases)

// The last of the warps to leave ends the barrier, as cuda::pipeline does; other memory may not be there yet.
KERNEL void ended_barrier(int* in, int* out, int n) {
  __shared__ unsigned long long barrier;
  __shared__ int users;
  int t = threadIdx.x;
  unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  if (t == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(at) : "memory");
    users = 2;
  }
  __syncthreads();
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(at) : "memory");
  if (t % 32 == 0 && atomicSub(&users, 1) == 1) {
    if (isRight) asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(at) : "memory");
    else barrier = in[3];
  }
}
PAIR(ended_barrier)
