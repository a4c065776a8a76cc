// Atomic operations whose results nobody wants: histograms in shared memory, merged into global memory, and the
// reductions of PTX by name.

extern "C" __global__ void histogram(const unsigned char* in, int count, unsigned* bins) {
  __shared__ unsigned own[64];
  for (int bin = threadIdx.x; bin < 64; bin += blockDim.x) own[bin] = 0;
  __syncthreads();
  int stride = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) atomicAdd(&own[in[i] / 4], 1u);
  __syncthreads();
  for (int bin = threadIdx.x; bin < 64; bin += blockDim.x) atomicAdd(&bins[bin], own[bin]);
}

extern "C" __global__ void reductions(const unsigned* in, unsigned* words, unsigned long long* longs) {
  __shared__ unsigned shared_words[2];
  if (threadIdx.x < 2) shared_words[threadIdx.x] = 0;
  __syncthreads();
  unsigned number = in[threadIdx.x];
  unsigned shared_address = (unsigned)__cvta_generic_to_shared(shared_words);
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(&words[0]), "r"(number) : "memory");
  asm volatile("red.release.cta.global.max.u32 [%0], %1;" ::"l"(&words[1]), "r"(number) : "memory");
  asm volatile("red.global.min.s32 [%0+8], %1;" ::"l"(&words[0]), "r"(number) : "memory");
  asm volatile("red.xor.b32 [%0], %1;" ::"l"(&words[3]), "r"(number) : "memory");
  asm volatile("red.relaxed.sys.inc.u32 [%0], %1;" ::"l"(&words[4]), "r"(6) : "memory");
  asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(shared_address), "r"(number & 0xff) : "memory");
  asm volatile("red.relaxed.cta.shared::cta.or.b32 [%0+4], %1;" ::"r"(shared_address), "r"(number) : "memory");
  asm volatile("red.global.add.u64 [%0], %1;" ::"l"(&longs[0]), "l"((unsigned long long)number * number) : "memory");
  asm volatile("red.global.and.b64 [%0], %1;" ::"l"(&longs[1]), "l"(~(unsigned long long)number) : "memory");
  __syncthreads();
  if (threadIdx.x < 2) words[5 + threadIdx.x] = shared_words[threadIdx.x];
}
