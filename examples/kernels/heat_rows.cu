// Steps of the heat equation on some of a plate's rows, for halo.ts. The rows lie between two more, the halo, which are
// the neighbors' outermost rows. A plate has the same bits however its rows are divided.

// Rows from `top` to `bottom` of `next`, every `stride`th, from `now`; row 0 of both is the upper halo. `above` is the
// number of the plate's rows before row 1, of `height` in all. No heat leaves at the plate's edges, and a flame burns at
// (flame_x, flame_y).
extern "C" __global__ void heat_rows(float* next, const float* now, int width, int height, int above, int top,
                                     int bottom, int stride, float flame_x, float flame_y, float flame_radius) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = top + (blockIdx.y * blockDim.y + threadIdx.y) * stride;
  if (x >= width || row > bottom) return;
  const int at = row * width + x, y = above + row - 1;
  const float here = now[at];
  const float left = now[x > 0 ? at - 1 : at], right = now[x < width - 1 ? at + 1 : at];
  const float up = now[y > 0 ? at - width : at], down = now[y < height - 1 ? at + width : at];
  float t = (here + 0.2f * (left + right + up + down - 4 * here)) * 0.999f;
  const float dx = x - flame_x, dy = y - flame_y;
  if (dx * dx + dy * dy < flame_radius * flame_radius) t = 100;
  next[at] = t;
}
