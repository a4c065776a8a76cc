// The kernels of the benchmark of calls.

extern "C" __global__ void empty_0() {}

extern "C" __global__ void empty_3(unsigned *, float, unsigned) {}

extern "C" __global__ void empty_12(unsigned *, unsigned *, unsigned *, unsigned *, float, float, float, float, unsigned,
                                    unsigned, unsigned, unsigned) {}

// Each thread writes one vector of 16 bytes.
extern "C" __global__ void fill_vectors(uint4 *to, unsigned count, unsigned value) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = make_uint4(value, value, value, value);
}

extern "C" __global__ void copy_vectors(uint4 *to, const uint4 *from, unsigned count) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = from[i];
}
