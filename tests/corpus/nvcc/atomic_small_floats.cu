// nvcc -arch=compute_90
// Atomic additions of 16-bit floating-point numbers, alone and in pairs. The sums are of small whole numbers: every
// partial sum is exact, so that their order does not show.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void add_up(const int* in, __half* halves, __nv_bfloat16* bfloats, __half2* half_pairs,
                                  __nv_bfloat162* bfloat_pairs) {
  __shared__ __nv_bfloat162 shared;
  if (threadIdx.x == 0) shared = __floats2bfloat162_rn(3.0f, -3.0f);
  __syncthreads();
  int number = in[threadIdx.x] % 4;
  atomicAdd(&halves[threadIdx.x % 3], __int2half_rn(number));
  atomicAdd(&bfloats[threadIdx.x % 3], __int2bfloat16_rn(number));
  atomicAdd(&half_pairs[0], __floats2half2_rn((float)number, number * -0.5f));
  atomicAdd(&bfloat_pairs[0], __floats2bfloat162_rn((float)number, number * -0.5f));
  atomicAdd(&shared, __floats2bfloat162_rn((float)number, 1.0f));
  __syncthreads();
  if (threadIdx.x == 0) bfloat_pairs[1] = shared;
}

// The result is what was there before: each number comes once.
extern "C" __global__ void take_numbers(__half* half_next, __nv_bfloat16* bfloat_next, __nv_bfloat162* pair_next,
                                        unsigned* taken) {
  atomicAdd(&taken[(int)__half2float(atomicAdd(half_next, __float2half(1.0f)))], 1u);
  atomicAdd(&taken[64 + (int)__bfloat162float(atomicAdd(bfloat_next, __float2bfloat16(1.0f)))], 1u);
  __nv_bfloat162 pair = atomicAdd(pair_next, __floats2bfloat162_rn(1.0f, 2.0f));
  atomicAdd(&taken[128 + (int)__low2float(pair)], 1u);
  atomicAdd(&taken[192 + (int)__high2float(pair)], 1u);
}
