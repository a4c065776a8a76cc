// Calls through pointers: of functions in tables, in structs, and of virtual functions.
#include "device.h"

struct Pair {
  int32 first;
  int16 second;
};

using Binary = int32 (*)(int32, int32);
using OnPairs = Pair (*)(Pair, int8);
using OnDoubles = double (*)(double);

__device__ int32 plus(int32 a, int32 b) { return a + b; }
__device__ int32 minus(int32 a, int32 b) { return a - b; }
__device__ int32 times(int32 a, int32 b) { return a * b; }
__device__ int32 twice(int32 a, int32 b) { return plus(a, plus(b, b)); }

__device__ Pair swap(Pair pair, int8 by) { return {pair.second + by, static_cast<int16>(pair.first)}; }
__device__ Pair grow(Pair pair, int8 by) { return {pair.first * by, static_cast<int16>(pair.second + by)}; }

__device__ double negative(double x) { return -x; }
__device__ double square(double x) { return x * x; }

__device__ Binary table[4] = {plus, minus, times, twice};

struct Methods {
  OnPairs on_pairs;
  OnDoubles on_doubles;
  uint8 tag;
};

__constant__ Methods methods[2] = {{swap, negative, 5}, {grow, square, 9}};

class Shape {
 public:
  __device__ virtual int32 area() const { return -1; }
  __device__ virtual void scale(int32 by) { factor *= by; }
  int32 factor = 1;
};

class Square : public Shape {
 public:
  __device__ explicit Square(int32 side) : side(side) {}
  __device__ int32 area() const override { return side * side * factor; }
  int32 side;
};

class Box : public Square {
 public:
  __device__ Box(int32 side, int32 height) : Square(side), height(height) {}
  __device__ int32 area() const override { return Square::area() + height; }
  __device__ void scale(int32 by) override { height += by; }
  int32 height;
};

__device__ __noinline__ void scale_all(Shape** shapes, int32 count) {
  for (int32 i = 0; i < count; i++) shapes[i]->scale(i + 2);
}

extern "C" __global__ void indirect_calls(const int32* in, int32* integers, double* doubles) {
  const uint32 i = THREAD_INDEX();
  int32* row = integers + i * 6;
  row[0] = table[i % 4](in[i], static_cast<int32>(i));
  row[1] = table[(in[i] & 1) + 2](row[0], in[i] >> 3);
  const Methods& chosen = methods[i / 4 % 2];
  const Pair pair = chosen.on_pairs({in[i], static_cast<int16>(i * 3000)}, static_cast<int8>(i - 8));
  row[2] = pair.first + chosen.tag;
  row[3] = pair.second;
  doubles[i] = chosen.on_doubles(static_cast<double>(in[i]) * 0.125);

  Square square_shape(static_cast<int32>(i));
  Box box(static_cast<int32>(i) + 1, in[i]);
  Shape* shapes[3] = {&square_shape, &box, i & 1 ? static_cast<Shape*>(&square_shape) : &box};
  scale_all(shapes, 3);
  row[4] = shapes[0]->area();
  row[5] = shapes[2]->area();
}
