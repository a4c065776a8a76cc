// Blurs an image of RGBA pixels, one byte for each channel. A blur of two dimensions is one along the rows and one
// along the columns: launch blur_rows from the image to another one, then blur_columns from that. Positions beyond the
// borders are clamped to them. Any grid and any block of two dimensions will do; each thread computes one pixel, or
// pixels a grid apart.
//
// input, output: width x height pixels each, row by row, aligned to 4 bytes, in different memory. weights: 2 * radius +
// 1 floats of sum 1, the middle one for the pixel itself: bell-shaped for a Gaussian blur, equal for a box blur. All
// four channels are blurred alike; where alpha varies, the colors must be premultiplied by it.
//
// The order, on which the bits depend: each channel starts with 0, to which the products of channel and weight are
// added, first to last, rounded one by one. The sum is rounded to the nearest integer, halves to even, from 0 to 255.
template <bool along_rows>
__device__ void blur(const unsigned char* input, unsigned char* output, unsigned int width, unsigned int height,
                     const float* weights, unsigned int radius) {
  typedef long long Index;
  const uchar4* pixels = reinterpret_cast<const uchar4*>(input);
  const Index end = along_rows ? width : height;
  const Index step = along_rows ? 1 : width;
#pragma unroll 1
  for (Index row = Index(blockIdx.y) * blockDim.y + threadIdx.y; row < height; row += Index(gridDim.y) * blockDim.y) {
#pragma unroll 1
    for (Index column = Index(blockIdx.x) * blockDim.x + threadIdx.x; column < width;
         column += Index(gridDim.x) * blockDim.x) {
      const Index center = along_rows ? column : row;
      const uchar4* line = pixels + (along_rows ? row * width : column);
      float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 1
      for (Index offset = -Index(radius); offset <= Index(radius); offset++) {
        const uchar4 pixel = line[max(Index(0), min(end - 1, center + offset)) * step];
        const float weight = weights[radius + offset];
        sums[0] += pixel.x * weight;
        sums[1] += pixel.y * weight;
        sums[2] += pixel.z * weight;
        sums[3] += pixel.w * weight;
      }
      uchar4 blurred;
      blurred.x = min(255u, __float2uint_rn(sums[0]));
      blurred.y = min(255u, __float2uint_rn(sums[1]));
      blurred.z = min(255u, __float2uint_rn(sums[2]));
      blurred.w = min(255u, __float2uint_rn(sums[3]));
      reinterpret_cast<uchar4*>(output)[row * width + column] = blurred;
    }
  }
}

extern "C" __global__ void blur_rows(const unsigned char* input, unsigned char* output, unsigned int width,
                                     unsigned int height, const float* weights, unsigned int radius) {
  blur<true>(input, output, width, height, weights, radius);
}

extern "C" __global__ void blur_columns(const unsigned char* input, unsigned char* output, unsigned int width,
                                        unsigned int height, const float* weights, unsigned int radius) {
  blur<false>(input, output, width, height, weights, radius);
}
