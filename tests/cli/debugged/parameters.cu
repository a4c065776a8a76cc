// Kernels with parameters of every kind. `parameters.ptx` and `parameters_100.ptx` are built from it, for a debugger:
// nvcc -ptx -G -arch=compute_75 and -arch=compute_100.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

enum Color { RED, GREEN = 4, BLUE };
enum class Level : signed char { LOW = -1, HIGH = 1 };
typedef float real;

struct Inner {
  char tag;
  double values[3];
};
struct Base {
  int id;
  short rest;
};
struct Derived : Base {
  unsigned long long wide;
};
union Bits {
  float f;
  unsigned int u;
};
struct Params {
  int n;
  float scale;
  Inner inner[2];
  const float* data;
  unsigned int flags : 3;
  unsigned int more : 5;
  int matrix[2][3];
  Bits bits;
  float4 vector;
  __half half;
  bool on;
  Color color;
};
struct alignas(16) Aligned {
  float x, y, z;
};
struct __attribute__((packed)) Packed {
  char c;
  int i;
};
struct Particle {
  float3 position;
  float3 velocity;
};
namespace outer {
struct Point {
  float x;
  int id;
};
}  // namespace outer
struct Point {
  double x;
};

extern "C" __global__ void numbers(int n, unsigned int u, float a, double d, long long l, unsigned long long ul,
                                   bool flag, char c, unsigned char uc, short s, Color color, Level level, real r,
                                   size_t size, cudaTextureObject_t texture) {}

extern "C" __global__ void pointers(const float* __restrict__ x, float* y, const int* const i, double* d, char* c,
                                    unsigned char* uc, bool* flags, __half* h, const __nv_bfloat16* b, long long* l,
                                    float4* v, __half2* h2, void* any, const void* any_const, float** rows,
                                    int (*table)[4], const float2& reference, volatile short* s, Color* colors,
                                    void (*function)(int)) {}

extern "C" __global__ void structs(Params params, const Params* array, Aligned aligned, Packed packed, Derived derived,
                                   const Particle* particles, outer::Point point, Point* points, float4 vector,
                                   __half half, Bits bits, const __grid_constant__ Inner constant) {
  points[0].x = array[0].scale + params.scale + point.x + particles[0].position.x + constant.values[0];
}

extern "C" __global__ void words(int in, float* await, int, float*, unsigned int function_) {}

template <typename T, int N>
__global__ void scale(T* x, T factor) {
  x[threadIdx.x] *= factor * N;
}
template __global__ void scale<float, 3>(float*, float);
template __global__ void scale<double, 1>(double*, double);
