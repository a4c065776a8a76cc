// The kernels of examples/textures.ts: a shift by a texture that wraps, and five filters of an image.

/** Moves a matrix: each element is read where a texture repeats it. `pitch` is in elements. */
extern "C" __global__ void shift(
  float* moved,
  int pitch,
  int width,
  int height,
  int shift_x,
  int shift_y,
  cudaTextureObject_t matrix
) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float right = (x + shift_x + 0.5f) / width, down = (y + shift_y + 0.5f) / height;
  moved[y * pitch + x] = tex2D<float>(matrix, right, down);
}

// The weights of a cubic B-spline for the four texels around a point, a part of the way from the second to the third.
__device__ float before(float part) { return (1 - part) * (1 - part) * (1 - part) / 6; }
__device__ float second(float part) { return (4 - 6 * part * part + 3 * part * part * part) / 6; }
__device__ float third(float part) { return (1 + 3 * part + 3 * part * part - 3 * part * part * part) / 6; }
__device__ float last(float part) { return part * part * part / 6; }

// The weights of a Catmull-Rom spline, which passes through the texels.
__device__ float catmull(int index, float part) {
  float square = part * part, cube = square * part;
  if (index == 0) return (-part + 2 * square - cube) / 2;
  if (index == 1) return (2 - 5 * square + 3 * cube) / 2;
  return index == 2 ? (part + 4 * square - 3 * cube) / 2 : (cube - square) / 2;
}

__device__ float spline(int index, float part) {
  return index == 0 ? before(part) : index == 1 ? second(part) : index == 2 ? third(part) : last(part);
}

// The sum of sixteen texels, which a texture without a filter returns.
__device__ float cubic(cudaTextureObject_t image, float x, float y, bool passes) {
  float left = floorf(x - 0.5f), top = floorf(y - 0.5f), part_x = x - 0.5f - left, part_y = y - 0.5f - top;
  float sum = 0;
  for (int row = 0; row < 4; row++) {
    float line = 0;
    for (int column = 0; column < 4; column++) {
      float weight = passes ? catmull(column, part_x) : spline(column, part_x);
      line += weight * tex2D<float>(image, left + column - 0.5f, top + row - 0.5f);
    }
    sum += (passes ? catmull(row, part_y) : spline(row, part_y)) * line;
  }
  return sum;
}

// The same sum of B-splines by four reads, each of which a linear filter makes of four texels.
__device__ float fast_cubic(cudaTextureObject_t image, float x, float y) {
  float left = floorf(x - 0.5f), top = floorf(y - 0.5f), part_x = x - 0.5f - left, part_y = y - 0.5f - top;
  float near_x = before(part_x) + second(part_x), far_x = third(part_x) + last(part_x);
  float near_y = before(part_y) + second(part_y), far_y = third(part_y) + last(part_y);
  float x0 = left - 0.5f + second(part_x) / near_x, x1 = left + 1.5f + last(part_x) / far_x;
  float y0 = top - 0.5f + second(part_y) / near_y, y1 = top + 1.5f + last(part_y) / far_y;
  return near_y * (near_x * tex2D<float>(image, x0, y0) + far_x * tex2D<float>(image, x1, y0)) +
    far_y * (near_x * tex2D<float>(image, x0, y1) + far_x * tex2D<float>(image, x1, y1));
}

/** Draws a part of an image, enlarged. `filter`: 0 as the texture is, 1 cubic, 2 the same fast, 3 Catmull-Rom. */
extern "C" __global__ void enlarge(
  unsigned char* pixels,
  int width,
  int height,
  float left,
  float top,
  float scale,
  int filter,
  cudaTextureObject_t image
) {
  int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (column >= width || row >= height) return;
  float x = left + (column + 0.5f) * scale, y = top + (row + 0.5f) * scale;
  float value = filter == 0
    ? tex2D<float>(image, x, y)
    : filter == 2
    ? fast_cubic(image, x, y)
    : cubic(image, x, y, filter == 3);
  pixels[row * width + column] = (unsigned char)(255 * __saturatef(value) + 0.5f);
}
