// Loads that acquire and stores that release, as atomic objects of C++ compile to: what is stored before a release is
// seen after the acquire that reads it.

__device__ int load_acquire(const int* address) {
  int value;
  asm volatile("ld.acquire.gpu.s32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}

__device__ void store_release(int* address, int value) {
  asm volatile("st.release.gpu.s32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

// Each thread adds to what the one before it handed over.
extern "C" __global__ void hand_over(int* flag, unsigned long long* message, unsigned long long* out) {
  int thread = threadIdx.x;
  while (load_acquire(flag) != thread) {
  }
  unsigned long long value = *message * 3 + thread;
  *message = value;
  out[thread] = value;
  store_release(flag, thread + 1);
}

// Of every scope and state space, and relaxed with fences of their own.
extern "C" __global__ void scopes(unsigned* words, unsigned long long* longs, unsigned* out) {
  __shared__ unsigned shared[2];
  unsigned shared_address = (unsigned)__cvta_generic_to_shared(shared);
  unsigned a, b, c, d;
  unsigned long long e;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(a) : "l"(words) : "memory");
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(words + 1), "r"(a + 1) : "memory");
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  asm volatile("ld.acquire.cta.global.u32 %0, [%1];" : "=r"(b) : "l"(words + 1) : "memory");
  asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(shared_address), "r"(b * 2) : "memory");
  asm volatile("fence.sc.cta;" ::: "memory");
  asm volatile("ld.relaxed.cta.shared.u32 %0, [%1];" : "=r"(c) : "r"(shared_address) : "memory");
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(e) : "l"(longs) : "memory");
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(longs + 1), "l"(e + c) : "memory");
  asm volatile("fence.acq_rel.sys;" ::: "memory");
  asm volatile("atom.acq_rel.gpu.global.exch.b32 %0, [%1], %2;" : "=r"(d) : "l"(words + 2), "r"(c) : "memory");
  asm volatile("atom.acquire.cta.shared.add.u32 %0, [%1], 5;" : "=r"(a) : "r"(shared_address) : "memory");
  asm volatile("atom.release.sys.cas.b64 %0, [%1], %2, 9;" : "=l"(e) : "l"(longs + 1), "l"(e + c) : "memory");
  out[0] = a;
  out[1] = b;
  out[2] = c;
  out[3] = d;
  out[4] = shared[0];
  out[5] = (unsigned)e;
}
