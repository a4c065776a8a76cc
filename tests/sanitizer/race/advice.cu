// Kernels with one mistake each, whose reports must say what mends it. The first array holds 1, 2, 3 and so on.

#define KERNEL extern "C" __global__ void

// A reduction whose steps lie in one warp and across warps.
KERNEL no_barrier_in_loop(const int* in, int* out, int n) {
  __shared__ int part[256];
  int t = threadIdx.x;
  part[t] = in[t];
  __syncthreads();
  for (int stride = 128; stride > 0; stride /= 2) {
    if (t < stride) part[t] += part[t + stride];
  }
  if (t == 0) out[0] = part[0];
}

KERNEL no_barrier(const int* in, int* out, int n) {
  __shared__ int part[256];
  int t = threadIdx.x;
  part[t] = in[t];
  out[t] = part[n - 1 - t];
}

KERNEL no_barrier_in_warp(const int* in, int* out, int n) {
  __shared__ int part[256];
  int t = threadIdx.x;
  part[t] = in[t];
  out[t] = part[t ^ 31];
}

KERNEL count(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[in[i] % 4]++;
}

KERNEL count_in_block(const int* in, int* out, int n) {
  __shared__ int bins[4];
  if (threadIdx.x < 4) bins[threadIdx.x] = 0;
  __syncthreads();
  int old = bins[in[threadIdx.x] % 4];
  bins[in[threadIdx.x] % 4] = old + 1;
  __syncthreads();
  if (threadIdx.x < 4) out[threadIdx.x] = bins[threadIdx.x];
}

KERNEL largest(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (in[i] > *out) atomicMax(out, in[i]);
}

KERNEL last_writer(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i % 32] = in[i];
}

KERNEL shift(int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n - 1) in[i] = in[i + 1];
}

KERNEL two_steps(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i];
  out[n + i] = out[n - 1 - i];
}

KERNEL flag(const int* in, int* out, int n) {
  if (blockIdx.x == 0) {
    out[1] = in[0];
    atomicExch(out, 1);
  } else {
    while (atomicAdd(out, 0) == 0) {}
    out[2] = out[1];
  }
}

KERNEL lock(const int* in, int* out, int n) {
  while (atomicCAS(out, 0, 1) != 0) {}
  out[1] += in[blockIdx.x];
  atomicExch(out, 0);
}
