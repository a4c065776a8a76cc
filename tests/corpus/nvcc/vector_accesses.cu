// Vectors of two and four elements of every width, loaded and stored whole.

template <typename Vector>
__device__ void rotate_fours(const Vector* in, Vector* out) {
  Vector value = in[threadIdx.x];
  Vector rotated;
  rotated.x = value.w;
  rotated.y = value.x;
  rotated.z = value.y;
  rotated.w = value.z;
  out[threadIdx.x] = rotated;
}

template <typename Vector>
__device__ void swap_pairs(const Vector* in, Vector* out) {
  Vector value = in[threadIdx.x];
  Vector swapped;
  swapped.x = value.y;
  swapped.y = value.x;
  out[threadIdx.x] = swapped;
}

extern "C" __global__ void fours(const uchar4* bytes, const short4* halves, const float4* floats, const uint4* words,
                                 uchar4* bytes_out, short4* halves_out, float4* floats_out, uint4* words_out) {
  rotate_fours(bytes, bytes_out);
  rotate_fours(halves, halves_out);
  rotate_fours(floats, floats_out);
  rotate_fours(words, words_out);
}

extern "C" __global__ void pairs(const char2* bytes, const short2* halves, const int2* words, const float2* floats,
                                 const double2* doubles, const longlong2* longs, char2* bytes_out, short2* halves_out,
                                 int2* words_out, float2* floats_out, double2* doubles_out, longlong2* longs_out) {
  swap_pairs(bytes, bytes_out);
  swap_pairs(halves, halves_out);
  swap_pairs(words, words_out);
  swap_pairs(floats, floats_out);
  swap_pairs(doubles, doubles_out);
  swap_pairs(longs, longs_out);
}

// Three elements are no vector access: each is loaded by itself.
extern "C" __global__ void threes(const float3* in, float3* out) {
  float3 value = in[threadIdx.x];
  out[threadIdx.x] = make_float3(value.z, value.x, value.y);
}

extern "C" __global__ void shared_vectors(const uint4* in, uint4* out) {
  __shared__ uint4 tile[32];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  uint4 value = tile[31 - threadIdx.x];
  uint2 low = reinterpret_cast<uint2*>(tile)[threadIdx.x];
  out[threadIdx.x] = make_uint4(value.x + low.x, value.y, value.z + low.y, value.w);
}
