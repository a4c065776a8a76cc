// Kernels whose threads take different paths. Each has the same loop in JavaScript in `loops.ts`.
typedef unsigned int Word;
typedef unsigned char Byte;

__device__ static Word threadNumber() { return blockIdx.x * blockDim.x + threadIdx.x; }

// The steps of z = z * z + c until z leaves the circle of radius 2, in doubles.
extern "C" __global__ void mandelbrot_doubles(Word* out, Word width, Word height, double left, double top, double step,
                                              Word limit) {
  const Word column = threadNumber(), row = blockIdx.y * blockDim.y + threadIdx.y;
  if (column >= width || row >= height) return;
  const double real = left + step * column, imaginary = top + step * row;
  double x = 0, y = 0, xx = 0, yy = 0;
  Word iterations = 0;
  while (iterations < limit && xx + yy <= 4) {
    y = (x + x) * y + imaginary;
    x = xx - yy + real;
    xx = x * x;
    yy = y * y;
    iterations++;
  }
  out[row * width + column] = iterations;
}

// The steps from a start to 1 in the Collatz sequence.
extern "C" __global__ void collatz(const Word* starts, Word* out, Word count) {
  const Word i = threadNumber();
  if (i >= count) return;
  Word number = starts[i], steps = 0;
  while (number != 1) {
    number = (number & 1) == 0 ? number >> 1 : 3 * number + 1;
    steps++;
  }
  out[i] = steps;
}

// The index of the first element of a sorted array that is not less than a key.
extern "C" __global__ void binary_search(const Word* sorted, Word length, const Word* keys, Word* out, Word count) {
  const Word i = threadNumber();
  if (i >= count) return;
  const Word key = keys[i];
  Word low = 0, high = length;
  while (low < high) {
    const Word middle = (low + high) >> 1;
    if (sorted[middle] < key) low = middle + 1;
    else high = middle;
  }
  out[i] = low;
}

// The greatest common divisor of two numbers, by Euclid's algorithm.
extern "C" __global__ void common_divisor(const Word* first, const Word* second, Word* out, Word count) {
  const Word i = threadNumber();
  if (i >= count) return;
  Word a = first[i], b = second[i];
  while (b != 0) {
    const Word rest = a % b;
    a = b;
    b = rest;
  }
  out[i] = a;
}

// A square root by Newton's iteration, until it no longer changes by more than a part in a million.
extern "C" __global__ void newton(const float* numbers, float* out, Word count) {
  const Word i = threadNumber();
  if (i >= count) return;
  const float number = numbers[i];
  float root = number, change;
  do {
    const float next = 0.5f * (root + number / root);
    change = fabsf(next - root);
    root = next;
  } while (change > 1e-6f * root);
  out[i] = root;
}

// For each position of a text, how many bytes of a pattern match there before the first that differs.
extern "C" __global__ void match_text(const Byte* text, Word length, const Byte* pattern, Word patternLength,
                                      Byte* out) {
  const Word i = threadNumber();
  if (i + patternLength > length) return;
  Word matched = 0;
  while (matched < patternLength && text[i + matched] == pattern[matched]) matched++;
  out[i] = matched;
}

// The distance along each ray to the first of some spheres, or infinity. Rays start at the origin. A sphere is x, y, z
// and the square of its radius.
extern "C" __global__ void trace_spheres(const float* directions, const float* spheres, Word sphereCount, float* out,
                                         Word count) {
  const Word i = threadNumber();
  if (i >= count) return;
  const float dx = directions[3 * i], dy = directions[3 * i + 1], dz = directions[3 * i + 2];
  float nearest = __int_as_float(0x7f800000);
  for (Word s = 0; s < sphereCount; s++) {
    const float x = spheres[4 * s], y = spheres[4 * s + 1], z = spheres[4 * s + 2];
    const float along = x * dx + y * dy + z * dz;
    if (along <= 0) continue;
    const float discriminant = along * along - (x * x + y * y + z * z) + spheres[4 * s + 3];
    if (discriminant < 0) continue;
    const float distance = along - sqrtf(discriminant);
    if (distance < nearest) nearest = distance;
  }
  out[i] = nearest;
}

// The solutions of the problem of n queens whose first two queens stand in given columns, with a stack in local memory.
extern "C" __global__ void queens(Word* out, Word size) {
  const Word i = threadNumber();
  if (i >= size * size) return;
  const Word all = (1u << size) - 1, first = 1u << i / size, second = 1u << i % size;
  Word columns[18], left[18], right[18], free[18], solutions = 0;
  if (((first | first << 1 | first >> 1) & second) == 0) {
    int depth = 0;
    columns[0] = first | second;
    left[0] = (first << 1 | second) << 1;
    right[0] = (first >> 1 | second) >> 1;
    free[0] = all & ~(columns[0] | left[0] | right[0]);
    while (depth >= 0) {
      const Word choices = free[depth];
      if (choices == 0) {
        depth--;
        continue;
      }
      const Word choice = choices & (0u - choices);
      free[depth] = choices ^ choice;
      const Word taken = columns[depth] | choice;
      if (taken == all) {
        solutions++;
        continue;
      }
      const Word nextLeft = (left[depth] | choice) << 1, nextRight = (right[depth] | choice) >> 1;
      depth++;
      columns[depth] = taken;
      left[depth] = nextLeft;
      right[depth] = nextRight;
      free[depth] = all & ~(taken | nextLeft | nextRight);
    }
  }
  out[i] = solutions;
}

// The product of a sparse matrix and a vector, one row for each thread. Rows have different lengths.
extern "C" __global__ void sparse_product(const Word* begins, const Word* columns, const float* values, const float* x,
                                          float* out, Word rows) {
  const Word row = threadNumber();
  if (row >= rows) return;
  float sum = 0;
  for (Word k = begins[row]; k < begins[row + 1]; k++) sum += values[k] * x[columns[k]];
  out[row] = sum;
}
