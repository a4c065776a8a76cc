// Barriers that threads no longer reach because they have returned: part of each warp, and the whole of one.
extern "C" __global__ void barrier_after_exit(unsigned int* out) {
  __shared__ unsigned int words[128];
  const unsigned int thread = threadIdx.x;
  const unsigned int i = blockIdx.x * blockDim.x + thread;
  words[thread] = 1000 + thread;
  __syncthreads();
  if (thread / 32 == 1 || thread % 3 == blockIdx.x) {
    out[i] = 7;
    return;
  }
  words[thread] = thread * 2;
  __syncthreads();
  const unsigned int after_one = words[127 - thread];
  if (thread > 100) return;
  __syncthreads();
  words[thread] += 5;
  __syncthreads();
  out[i] = after_one * 4096 + words[(thread + 64) % 128];
}
