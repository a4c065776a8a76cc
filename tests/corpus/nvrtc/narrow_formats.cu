// The headers of narrow floats: 16, 8, 6 and 4 bits.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>

extern "C" __global__ void conversions(const float* x, unsigned char* bytes, float* back, unsigned short* halves) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float value = x[i];
  bytes[i * 8] = __nv_fp8_e4m3(value).__x;
  bytes[i * 8 + 1] = __nv_fp8_e5m2(value).__x;
  bytes[i * 8 + 2] = __nv_fp8_e8m0(value).__x;
  bytes[i * 8 + 3] = __nv_fp6_e2m3(value).__x;
  bytes[i * 8 + 4] = __nv_fp6_e3m2(value).__x;
  bytes[i * 8 + 5] = __nv_fp4_e2m1(value).__x;
  const __nv_fp8x2_e4m3 pair(make_float2(value, value * 2));
  bytes[i * 8 + 6] = pair.__x & 255;
  bytes[i * 8 + 7] = pair.__x >> 8;
  __nv_fp8_e4m3 four;
  four.__x = i & 255;
  __nv_fp8_e5m2 five;
  five.__x = i & 255;
  __nv_fp4_e2m1 tiny;
  tiny.__x = i & 15;
  back[i * 4] = static_cast<float>(four);
  back[i * 4 + 1] = static_cast<float>(five);
  back[i * 4 + 2] = static_cast<float>(tiny);
  back[i * 4 + 3] = static_cast<float>(__nv_bfloat16(__float2bfloat16_rn(value)));
  halves[i * 4] = __half_as_ushort(__float2half_rz(value));
  halves[i * 4 + 1] = __half_as_ushort(__hfma(__float2half(value), __float2half(2.0f), __float2half(1.0f)));
  halves[i * 4 + 2] = __bfloat16_as_ushort(__hmax(__float2bfloat16(value), __float2bfloat16(0.5f)));
  const __half2 both = __hadd2_rn(__floats2half2_rn(value, -value), __floats2half2_rn(1.0f, 2.0f));
  halves[i * 4 + 3] = __half_as_ushort(__low2half(both)) ^ __half_as_ushort(__high2half(both)) << 1;
}
