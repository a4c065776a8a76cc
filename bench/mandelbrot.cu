// Counts, for each point of an image, the iterations until it leaves the circle of radius 2, up to a limit.
extern "C" __global__ void mandelbrot(unsigned int* out, unsigned int width, unsigned int height, float left, float top,
                                      float step, unsigned int limit) {
  const unsigned int column = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (column >= width || row >= height) return;
  const float real = left + step * column;
  const float imaginary = top + step * row;
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
