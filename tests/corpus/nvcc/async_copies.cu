// nvcc -arch=compute_80
// Copies from global to shared memory that run beside the thread: of every size, in groups, with part filled by zeroes.
__device__ unsigned int shared_address(const void* pointer) {
  return static_cast<unsigned int>(__cvta_generic_to_shared(pointer));
}

extern "C" __global__ void async_copies(const unsigned int* in, unsigned int* out) {
  __shared__ alignas(16) unsigned int words[32 * 4];
  const unsigned int thread = threadIdx.x;
  const unsigned int* from = in + (blockIdx.x * 32 + thread) * 4;
  const unsigned int to = shared_address(words + thread * 4);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  for (int k = 0; k < 4; k++) out[(blockIdx.x * 32 + thread) * 4 + k] = words[(thread * 4 + k * 33) % 128];
}

extern "C" __global__ void async_copy_sizes(const unsigned int* in, unsigned int* out) {
  __shared__ alignas(16) unsigned int words[32][12];
  const unsigned int thread = threadIdx.x;
  const unsigned int to = shared_address(words[thread]);
  const unsigned int* from = in + thread * 12;
  const unsigned int kept = thread % 17;
  asm volatile(
      "cp.async.ca.shared.global [%0], [%1], 4;\n\t"
      "cp.async.ca.shared.global [%0+8], [%1+8], 8;\n\t"
      "cp.async.cg.shared.global [%0+16], [%1+16], 16;\n\t"
      "cp.async.cg.shared.global [%0+32], [%1+32], 16, %2;\n\t"
      "cp.async.ca.shared.global [%0+4], [%1+4], 4, 0;\n\t"
      "cp.async.wait_all;" ::"r"(to), "l"(from), "r"(kept)
      : "memory");
  for (int k = 0; k < 12; k++) out[thread * 12 + k] = words[thread][k];
}

// Two tiles in turn: while one is summed the next is on its way.
extern "C" __global__ void async_copy_pipeline(const unsigned int* in, unsigned int tiles, unsigned int* out) {
  __shared__ unsigned int words[2][64];
  const unsigned int thread = threadIdx.x;
  unsigned int sum = 0;
  for (unsigned int tile = 0; tile <= tiles; tile++) {
    if (tile < tiles) {
      const unsigned int to = shared_address(&words[tile % 2][thread]);
      const unsigned int* from = in + tile * 64 + thread;
      asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    if (tile == 0) continue;
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    sum = sum * 3 + words[(tile - 1) % 2][63 - thread];
    __syncthreads();
  }
  out[thread] = sum;
}
