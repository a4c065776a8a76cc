// Shuffles of float, double and 64-bit integers, which keep every bit.
template <typename T>
__device__ void shuffles(const T* in, T* out) {
  const T value = in[threadIdx.x];
  out[threadIdx.x] = __shfl_sync(0xffffffff, value, (threadIdx.x * 5 + 3) % 32);
  out[threadIdx.x + 32] = __shfl_up_sync(0xffffffff, value, 3);
  out[threadIdx.x + 64] = __shfl_down_sync(0xffffffff, value, 9, 16);
  out[threadIdx.x + 96] = __shfl_xor_sync(0xffffffff, value, 21);
}

extern "C" __global__ void shuffle_types(const float* floats, const double* doubles, const long long* integers,
                                         float* floats_out, double* doubles_out, long long* integers_out) {
  shuffles(floats, floats_out);
  shuffles(doubles, doubles_out);
  shuffles(integers, integers_out);
}
