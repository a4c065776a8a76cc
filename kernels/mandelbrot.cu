// For each pixel of an image, counts the iterations of z = z * z + c until z leaves the circle of radius 2, up to a
// limit; pixels that reach it belong to the Mandelbrot set. Any grid and any block of two dimensions will do.
//
// out: width x height counts, row by row. left, top: the real and the imaginary part of c at the first pixel. step: the
// distance of two pixels, in both directions: imaginary parts grow from row to row. Floats resolve steps down to about
// 1e-6; below that, pixels blur into blocks. All operations are rounded one by one.
extern "C" __global__ void mandelbrot(unsigned int* out, unsigned int width, unsigned int height, float left, float top,
                                      float step, unsigned int limit) {
  typedef unsigned long long Index;
#pragma unroll 1
  for (Index row = Index(blockIdx.y) * blockDim.y + threadIdx.y; row < height; row += Index(gridDim.y) * blockDim.y) {
#pragma unroll 1
    for (Index column = Index(blockIdx.x) * blockDim.x + threadIdx.x; column < width;
         column += Index(gridDim.x) * blockDim.x) {
      const float real = left + step * static_cast<unsigned int>(column);
      const float imaginary = top + step * static_cast<unsigned int>(row);
      float x = 0.0f, y = 0.0f, x_squared = 0.0f, y_squared = 0.0f;
      unsigned int iterations = 0;
      while (iterations < limit && x_squared + y_squared <= 4.0f) {
        y = 2.0f * x * y + imaginary;
        x = x_squared - y_squared + real;
        x_squared = x * x;
        y_squared = y * y;
        iterations++;
      }
      out[row * width + column] = iterations;
    }
  }
}
