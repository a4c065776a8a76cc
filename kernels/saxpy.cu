// y = a * x + y over n floats. Each thread takes elements a grid apart, so that any grid computes all of them.
extern "C" __global__ void saxpy(unsigned int n, float a, const float* x, float* y) {
  const unsigned long long stride = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  const unsigned long long first = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
#pragma unroll 1
  for (unsigned long long i = first; i < n; i += stride) y[i] = a * x[i] + y[i];
}
