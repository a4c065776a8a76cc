// A pair of kernels: one that is right, and one that lacks something. Both are compiled from the same lines.
#pragma once

#define PAIR(name)                                                                                          \
  extern "C" __global__ void name##_right(int* in, int* out, int n) { name<true>(in, out, n); }             \
  extern "C" __global__ void name##_wrong(int* in, int* out, int n) { name<false>(in, out, n); }

#define KERNEL template <bool isRight> __device__ __forceinline__
