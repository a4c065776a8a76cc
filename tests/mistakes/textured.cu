// A kernel that reads a texture, and two that do not.
extern "C" __global__ void brighten(float* image, float by) { image[threadIdx.x] += by; }

extern "C" __global__ void resample(cudaTextureObject_t image, float* out) {
  out[threadIdx.x] = tex2D<float>(image, threadIdx.x + 0.5f, 0.5f);
}

extern "C" __global__ void darken(float* image, float by) { image[threadIdx.x] -= by; }
