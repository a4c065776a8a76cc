// nvcc -arch=compute_80
// Loads and stores with hints to the caches, which change nothing of what is loaded and stored.
// __ldcv and __stwt are what mapped memory needs; the rest says how soon a line is wanted again.

template <typename Type>
__device__ void copy_with_hints(const Type* in, Type* out, int thread) {
  out[thread] = __ldg(&in[thread]);
  __stwb(&out[64 + thread], __ldcg(&in[thread]));
  __stcg(&out[128 + thread], __ldca(&in[thread]));
  __stcs(&out[192 + thread], __ldcs(&in[thread]));
  __stwt(&out[256 + thread], __ldlu(&in[thread]));
  out[320 + thread] = __ldcv(&in[thread]);
}

extern "C" __global__ void copy_words(const unsigned* words, unsigned* words_out, const unsigned char* bytes,
                                      unsigned char* bytes_out, const short* halves, short* halves_out,
                                      const double* doubles, double* doubles_out) {
  copy_with_hints(words, words_out, threadIdx.x);
  copy_with_hints(bytes, bytes_out, threadIdx.x);
  copy_with_hints(halves, halves_out, threadIdx.x);
  copy_with_hints(doubles, doubles_out, threadIdx.x);
}

extern "C" __global__ void copy_vectors(const float4* fours, float4* fours_out, const uchar4* bytes, uchar4* bytes_out,
                                        const longlong2* pairs, longlong2* pairs_out) {
  copy_with_hints(fours, fours_out, threadIdx.x);
  copy_with_hints(bytes, bytes_out, threadIdx.x);
  copy_with_hints(pairs, pairs_out, threadIdx.x);
}

// What is read only by all threads of a kernel may be loaded past the coherent caches.
extern "C" __global__ void read_only(const int* __restrict__ in, int* __restrict__ out) {
  int thread = threadIdx.x;
  out[thread] = in[thread] - in[63 - thread];
}

// Lines asked for before they are needed, and hints that only assembly can give.
extern "C" __global__ void prefetched(const float* in, float* out, unsigned* words) {
  const float* address = &in[threadIdx.x];
  asm volatile("prefetch.global.L1 [%0];" ::"l"(address));
  asm volatile("prefetch.global.L2 [%0+64];" ::"l"(address));
  asm volatile("prefetch.L2 [%0];" ::"l"(address));
  asm volatile("prefetchu.L1 [%0];" ::"l"(address));
  float value;
  asm volatile("ld.global.L1::evict_last.L2::128B.f32 %0, [%1];" : "=f"(value) : "l"(address));
  float again;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.f32 %0, [%1];" : "=f"(again) : "l"(address));
  asm volatile("st.global.L1::evict_first.f32 [%0], %1;" ::"l"(&out[threadIdx.x]), "f"(value - again * 2.0f));
  unsigned word;
  asm volatile("ldu.global.u32 %0, [%1];" : "=r"(word) : "l"(in));
  asm volatile("st.weak.global.u32 [%0], %1;" ::"l"(&words[threadIdx.x]), "r"(word + threadIdx.x));
}
