// Clang's vector types: loaded and stored as a whole, and changed by element.
#include "device.h"

typedef float float2 __attribute__((ext_vector_type(2)));
typedef float float3 __attribute__((ext_vector_type(3)));
typedef float float4 __attribute__((ext_vector_type(4)));
typedef int32 int4 __attribute__((ext_vector_type(4)));
typedef uint32 uint2 __attribute__((ext_vector_type(2)));
typedef int64 long2 __attribute__((ext_vector_type(2)));
typedef double double2 __attribute__((ext_vector_type(2)));
typedef uint8 uchar4 __attribute__((ext_vector_type(4)));
typedef uint8 uchar16 __attribute__((ext_vector_type(16)));
typedef uint16 ushort8 __attribute__((ext_vector_type(8)));
typedef int16 short4 __attribute__((ext_vector_type(4)));

__device__ __noinline__ int4 rotate(int4 v, short4 by) { return v.yzwx + __builtin_convertvector(by, int4); }
__device__ __noinline__ float3 cross(float3 a, float3 b) { return a.yzx * b.zxy - a.zxy * b.yzx; }

extern "C" __global__ void vectors(const int4* in, int4* out, float4* floats, double2* doubles, uchar4* bytes,
                                   volatile int4* kept) {
  const uint32 i = THREAD_INDEX();
  const int4 v = in[i];
  const int4 w = in[i ^ 1];
  int4 mixed = rotate(v, __builtin_convertvector(w, short4));
  mixed[i % 4] = static_cast<int32>(i);
  out[i * 4] = mixed;
  out[i * 4 + 1] = (v < w ? v : w) + (v & 7) * 3;
  out[i * 4 + 2] = v >> 2 ^ (v == w);
  const uchar16 narrow = __builtin_bit_cast(uchar16, v);
  const ushort8 halves = __builtin_bit_cast(ushort8, w);
  const uchar16 doubled = narrow + narrow * static_cast<uint8>(i);
  out[i * 4 + 3] = __builtin_bit_cast(int4, doubled) ^ __builtin_bit_cast(int4, halves * halves.s76543210);

  // Small whole numbers, of which every sum and product is exact.
  const float4 f = __builtin_convertvector(v & 255, float4);
  const float4 g = __builtin_convertvector(w & 255, float4) - 128.0f;
  floats[i * 2] = f * g + f.wzyx;
  floats[i * 2 + 1].xyz = cross(f.xyz, g.yzw);
  floats[i * 2 + 1].w = f.x < g.y ? f.z : g.w;
  doubles[i] = __builtin_convertvector(f.xy, double2) * 0.25 + __builtin_convertvector(v.zw, double2);
  bytes[i * 2] = __builtin_convertvector(v, uchar4) + static_cast<uint8>(i);
  bytes[i * 2 + 1] = bytes[i * 2].wxyz;
  const long2 wide = __builtin_convertvector(v.xy, long2) * 3;
  kept[i] = __builtin_bit_cast(int4, wide);
  kept[i] = kept[i] + 1;
}
