// Complex numbers by plain operators, which the compiler may fuse: products, quotients, squares and a polynomial.
struct Complex {
  float real, imaginary;
};

__device__ Complex operator+(Complex a, Complex b) { return {a.real + b.real, a.imaginary + b.imaginary}; }

__device__ Complex operator*(Complex a, Complex b) {
  return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
}

__device__ Complex operator/(Complex a, Complex b) {
  const float square = b.real * b.real + b.imaginary * b.imaginary;
  return {(a.real * b.real + a.imaginary * b.imaginary) / square,
          (a.imaginary * b.real - a.real * b.imaginary) / square};
}

extern "C" __global__ void compute(const Complex* a, const Complex* b, const Complex* c, Complex* results,
                                   unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const Complex x = a[i], y = b[i], z = c[i];
  Complex* row = results + i * 4;
  row[0] = x + y;
  row[1] = x * y;
  row[2] = x / y;
  row[3] = x * y + z;
}
