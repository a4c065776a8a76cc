// Virtual functions of objects that each thread makes in its own memory.
#include <new>

struct Shape {
  int scale;
  __device__ explicit Shape(int scale) : scale(scale) {}
  __device__ virtual int area() const { return scale; }
  __device__ virtual int edges() const = 0;
  __device__ virtual void grow(int by) { scale += by; }
};

struct Square : Shape {
  int side;
  __device__ Square(int scale, int side) : Shape(scale), side(side) {}
  __device__ int area() const override { return scale * side * side; }
  __device__ int edges() const override { return 4; }
};

struct Polygon : Shape {
  int count;
  __device__ Polygon(int scale, int count) : Shape(scale), count(count) {}
  __device__ int edges() const override { return count; }
  __device__ void grow(int by) override {
    Shape::grow(by * 2);
    count += by;
  }
};

struct Hexagon final : Polygon {
  __device__ explicit Hexagon(int scale) : Polygon(scale, 6) {}
  __device__ int area() const override { return Polygon::area() + 1000; }
};

__device__ __noinline__ int measure(Shape& shape, int by) {
  const int before = shape.area() * 16 + shape.edges();
  shape.grow(by);
  return before * 3 + shape.area() + shape.edges();
}

extern "C" __global__ void virtual_functions(int* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  alignas(Square) char storage[sizeof(Square)];
  Shape* shape;
  if (i % 3 == 0) {
    shape = new (storage) Square(i, 3);
  } else if (i % 3 == 1) {
    shape = new (storage) Polygon(i * 2, i);
  } else {
    shape = new (storage) Hexagon(i + 5);
  }
  out[i] = measure(*shape, i % 7);
}
