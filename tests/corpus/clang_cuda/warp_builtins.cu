// Warp intrinsics and math functions of CUDA's headers, as clang's own headers wrap them; vectors of the runtime.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

extern "C" __global__ void warp_builtins(const int* x, int* out, double* numbers, float4* vectors) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int value = x[i];
  int* row = out + i * 12;
  row[0] = __shfl_xor_sync(~0u, value, 7) ^ __shfl_up_sync(~0u, value, 3, 16);
  row[1] = __ballot_sync(~0u, value > 0);
  // clang's own __reduce_add_sync exchanges the mask and the value.
  row[2] = __nvvm_redux_sync_add(value & 1023, ~0);
  row[3] = __popcll(static_cast<long long>(value) * value) + __clz(value) * 100 + __ffs(value) * 10000;
  row[4] = __byte_perm(value, i, 0x5140) + __brev(value);
  row[5] = __funnelshift_l(value, i, value & 31) ^ __mulhi(value, i * 100003);
  row[6] = __umul24(value, i) + __sad(value, i, 5u);
  row[7] = __syncthreads_or(value == 3) + __syncthreads_count(value & 1);
  row[8] = __dp4a(value, i * 0x01020304, 7);
  row[9] = __any_sync(~0u, value == x[0]) + __all_sync(~0u, value != x[0]) * 2;
  // A whole number of 24 bits: with optimization, clang rounds to the nearest.
  row[10] = __float2int_rn(__int2float_rz(value >> 9) * 0.5f) + __double2hiint(value * 0.25);
  row[11] = __half2int_rz(__hmul(__int2half_rn(value & 63), __float2half(0.5f)));
  const long long wide = __shfl_down_sync(~0u, static_cast<long long>(value) << 24, 1);
  numbers[i * 2] = __longlong_as_double(0x3ff0000000000000ll | (wide & 0xffffffffll) << 20);
  numbers[i * 2 + 1] = __drcp_rn(value | 1) + __dsqrt_rn(static_cast<double>(value & 0x7fffffff));
  const float f = value & 255;
  vectors[i] = make_float4(f + 1.0f, fmaxf(f, 100.0f), __fadd_rz(f, 0.1f), truncf(f * 0.3f));
  vectors[i].x *= copysignf(2.0f, value);
}
