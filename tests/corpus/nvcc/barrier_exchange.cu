// Barriers in straight code: each thread reads what its mirror image in the block wrote, then writes again.
extern "C" __global__ void barrier_exchange(const unsigned int* in, unsigned int* out) {
  __shared__ unsigned int words[100];
  const unsigned int thread = threadIdx.x, size = blockDim.x;
  const unsigned int i = blockIdx.x * size + thread;
  words[thread] = in[i];
  __syncthreads();
  const unsigned int mirrored = words[size - 1 - thread];
  __syncthreads();
  words[thread] = mirrored * 3 + thread;
  __syncthreads();
  out[i] = words[(thread + 37) % size] ^ mirrored;
}
