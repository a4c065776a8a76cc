// Defines what run.cu uses. table.ptx is made by: nvcc -ptx -rdc=true -arch=sm_75 table.cu
#include <stdio.h>

__device__ int counter = 5;
__constant__ float factor = 3;
__device__ int table[4] = {10, 20, 30, 40};
__device__ float twice(float x) { return 2 * x; }
extern __shared__ int dynamic[];

static __device__ int hidden = 100;
static __device__ __noinline__ int helper(int x) { return x * hidden; }

template <class T> __global__ void scale(T *x, int n) { x[threadIdx.x] *= n; }
template __global__ void scale<float>(float *, int);

extern "C" __global__ void other(int *out) {
  dynamic[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = helper(dynamic[threadIdx.x]);
  if (out[threadIdx.x] < 0) printf("other %d\n", out[threadIdx.x]);
}
