// The kernels of a user who makes mistakes. Built, like textured.cu and multicast.cu, with:
// nvcc -ptx -arch=compute_75 -lineinfo kernels.cu && sed -i "s|$PWD|/home/user/demo|" kernels.ptx
#include <cassert>

struct View {
  float cx, cy, scale;
  int limit;
};

__constant__ float table[4];

// A struct by value. With the wrong bytes in `limit`, the loop is as good as endless.
extern "C" __global__ void escape_time(View view, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = 0, y = 0;
  int steps = 0;
  while (steps < view.limit) {
    float next = x * x - y * y + view.cx;
    y = 2 * x * y + view.cy;
    x = next * view.scale;
    steps++;
  }
  out[i] = steps + (x > y);
}

extern "C" __global__ void scale(float* data, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) data[i] *= factor;  // one too far
}

extern "C" __global__ void block_sums(const float* in, float* out, int n) {
  extern __shared__ float parts[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  parts[threadIdx.x] = i < n ? in[i] : 0;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = parts[0];
}

extern "C" __global__ void wait_for(volatile int* flag) {
  while (*flag == 0) {}
}

// Half of each block waits at a barrier for the other half, which waits for a flag that is set behind the barrier.
extern "C" __global__ void meet_halfway(volatile int* flag) {
  if (threadIdx.x < blockDim.x / 2) {
    __syncthreads();
    *flag = 1;
  } else {
    while (*flag == 0) {}
    __syncthreads();
  }
}

extern "C" __global__ void add_quads(float4* data) {
  float4 quad = data[threadIdx.x];
  quad.x += 1;
  data[threadIdx.x] = quad;
}

extern "C" __global__ void local_histogram(const unsigned char* in, unsigned int* out, int n) {
  unsigned int bins[16];
#pragma unroll 1
  for (int i = 0; i < 16; i++) bins[i] = 0;
#pragma unroll 1
  for (int i = 0; i < n; i++) bins[in[i]]++;  // a byte may be above 15
#pragma unroll 1
  for (int i = 0; i < 16; i++) out[i] = bins[i];
}

extern "C" __global__ void check_positive(const float* in) { assert(in[threadIdx.x] > 0); }

extern "C" __global__ void types(signed char a, unsigned short b, long long c, bool d, double e, int* out) {
  out[threadIdx.x] = a + b + c + d + e + table[0];
}

__global__ void half_of(float* data, int n) {
  if (threadIdx.x < n) data[threadIdx.x] /= 2;
}

template <typename T>
__global__ void cube(T* data) {
  data[threadIdx.x] *= data[threadIdx.x] * data[threadIdx.x];
}
template __global__ void cube<float>(float*);
