// Volatile loads and stores: none may be left out, merged or moved past another, in any state space and of any width.

extern "C" __global__ void exchange(volatile unsigned* global, const unsigned* in, unsigned* out) {
  __shared__ volatile unsigned short shared[32];
  volatile unsigned char local[8];
  int thread = threadIdx.x;
  global[thread] = in[thread];
  shared[thread] = (unsigned short)in[thread];
  for (int i = 0; i < 8; i++) local[(i + thread) % 8] = (unsigned char)(in[thread] >> i);
  __syncthreads();
  unsigned sum = global[31 - thread];
  sum += global[31 - thread];
  sum += shared[thread ^ 3];
  sum += local[thread % 8] + local[(thread + 5) % 8];
  out[thread] = sum;
}

// A thread waits for what another one of its block stores.
extern "C" __global__ void wait_for_neighbour(volatile int* flags, volatile double* values, double* out) {
  int thread = threadIdx.x;
  if (thread > 0) {
    while (flags[thread - 1] == 0) {
    }
    __threadfence_block();
    values[thread] = values[thread - 1] * 2.0 + 1.0;
  } else {
    values[0] = 1.0;
  }
  __threadfence_block();
  flags[thread] = 1;
  out[thread] = values[thread];
}

extern "C" __global__ void wide_volatile(volatile long long* words, volatile float* floats, long long* out) {
  long long sum = 0;
  for (int i = 0; i < 4; i++) {
    words[i] = words[i] + i;
    floats[i] = floats[i] * 2.0f;
    sum += words[i] + (long long)floats[i];
  }
  *out = sum;
}
