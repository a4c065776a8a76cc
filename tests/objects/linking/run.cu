// Uses what table.cu defines. run.ptx is made by: nvcc -ptx -rdc=true -arch=sm_75 run.cu
#include <stdio.h>

extern __device__ int counter;
extern __constant__ float factor;
extern __device__ int table[];
extern __device__ float twice(float);
extern __shared__ int dynamic[];

// table.cu has others of these names.
static __device__ int hidden = 7;
static __device__ __noinline__ int helper(int x) { return x + hidden; }

__device__ int *where = table + 1;

template <class T> __global__ void scale(T *x, int n) { x[threadIdx.x] *= n; }
template __global__ void scale<float>(float *, int);

extern "C" __global__ void run(float *out, int *counts) {
  int i = threadIdx.x;
  dynamic[i] = i;
  __syncthreads();
  out[i] = twice(i) * factor + dynamic[(i + 1) % blockDim.x];
  counts[i] = helper(i) + *where;
  atomicAdd(&counter, 1);
  if (counts[i] < 0) printf("run %d\n", counts[i]);
}
