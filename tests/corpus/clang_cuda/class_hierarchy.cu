// Virtual functions, multiple inheritance, pointers to members, lambdas, destructors, placement new.
#include <cuda_runtime.h>

struct Shape {
  __device__ virtual int area() const = 0;
  __device__ virtual int scaled(int by) const { return area() * by; }
  __device__ virtual ~Shape() {}
  // The deleting destructor calls it, though nothing here is deleted.
  __device__ static void operator delete(void*) {}
};
struct Named {
  int name;
  __device__ explicit Named(int name) : name(name) {}
  __device__ virtual int describe() const { return name * 7; }
};
struct Square : Shape, Named {
  int side;
  __device__ Square(int side) : Named(side + 100), side(side) {}
  __device__ int area() const override { return side * side; }
  __device__ int describe() const override { return name - side; }
};
struct Box : Square {
  int depth;
  int* log;
  __device__ Box(int side, int depth, int* log) : Square(side), depth(depth), log(log) {}
  __device__ int area() const override { return Square::area() * 2 + side * depth * 4; }
  __device__ int scaled(int by) const final { return Shape::scaled(by) ^ depth; }
  __device__ ~Box() { *log += depth; }
};

template <typename F>
__device__ __noinline__ int applied(const F& f, int n) {
  int total = 0;
  for (int k = 0; k < n; k++) total += f(k);
  return total;
}

struct Accumulator {
  int value;
  __device__ int add(int x) { return value += x; }
  __device__ int mix(int x) { return value = value * 3 ^ x; }
};

// What a table of virtual functions names in place of a pure one.
extern "C" __device__ void __cxa_pure_virtual() { __trap(); }

inline __device__ void* operator new(decltype(sizeof(0)) size, void* at, int) { return at; }

extern "C" __global__ void class_hierarchy(const int* x, int* out, int* logs) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int value = x[i] & 31;
  alignas(16) char memory[sizeof(Box)];
  Shape* shape;
  if (value & 1) shape = new (memory, 0) Square(value);
  else shape = new (memory, 0) Box(value, i & 7, logs + i);
  int* row = out + i * 6;
  row[0] = shape->area();
  row[1] = shape->scaled(3);
  const Named& named = *static_cast<Square*>(shape);
  row[2] = named.describe();
  shape->~Shape();
  row[3] = applied([=](int k) { return k * value - i; }, value & 7);
  Accumulator accumulator{i};
  int (Accumulator::*const operations[])(int) = {&Accumulator::add, &Accumulator::mix};
  for (int k = 0; k < 5; k++) (accumulator.*operations[value >> k & 1])(k + 1);
  row[4] = accumulator.value;
  const auto recursive = [&](auto&& self, int n) -> int { return n < 2 ? n : self(self, n - 1) + self(self, n - 2); };
  row[5] = recursive(recursive, value % 12);
}
