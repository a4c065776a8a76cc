// Structs passed to kernels by value: nested, with padding, and a large one that is indexed at run time.

struct Point {
  short x;
  short y;
};

struct Shape {
  char kind;
  Point corners[3];
  double weight;
  unsigned char color[3];
};

struct Table {
  unsigned words[200];
  unsigned length;
};

__device__ void write_members(const Shape& shape, long long* out, double* weight) {
  out[0] = shape.kind;
  for (int corner = 0; corner < 3; corner++) {
    out[1 + 2 * corner] = shape.corners[corner].x;
    out[2 + 2 * corner] = shape.corners[corner].y;
  }
  for (int channel = 0; channel < 3; channel++) out[7 + channel] = shape.color[channel];
  *weight = shape.weight;
}

extern "C" __global__ void read_members(Shape shape, long long* out, double* weight) {
  write_members(shape, out, weight);
}

// The index is known at run time alone.
extern "C" __global__ void look_up(Table table, const unsigned* indices, unsigned* out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = table.words[indices[i] % table.length];
}

// A parameter that is written to is the thread's own copy.
extern "C" __global__ void sort_parameter(Table table, unsigned* out) {
  int begin = 8 * threadIdx.x;
  for (int i = begin + 1; i < begin + 8; i++) {
    unsigned word = table.words[i];
    int at = i;
    for (; at > begin && table.words[at - 1] > word; at--) table.words[at] = table.words[at - 1];
    table.words[at] = word;
  }
  for (int i = begin; i < begin + 8; i++) out[i] = table.words[i] + table.words[(i + 8) % 64];
}

__device__ __noinline__ Shape mirrored(Shape shape) {
  for (int corner = 0; corner < 3; corner++) shape.corners[corner].x = -shape.corners[corner].x;
  shape.kind++;
  return shape;
}

extern "C" __global__ void pass_on(Shape shape, long long* out, double* weight) {
  write_members(mirrored(shape), out, weight);
}
