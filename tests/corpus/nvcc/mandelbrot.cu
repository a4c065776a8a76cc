// How many steps points of the plane take to leave a circle, in single and double precision. No step is fused, so that
// the numbers of steps are the same everywhere.
extern "C" __global__ void mandelbrot(unsigned* single, unsigned* wide, unsigned width, unsigned height,
                                      unsigned limit) {
  const unsigned column = blockIdx.x * blockDim.x + threadIdx.x, line = blockIdx.y * blockDim.y + threadIdx.y;
  if (column >= width || line >= height) return;
  {
    const float c_real = __fadd_rn(-2.25f, __fdiv_rn(__fmul_rn(3.0f, column), width));
    const float c_imaginary = __fadd_rn(-1.25f, __fdiv_rn(__fmul_rn(2.5f, line), height));
    float real = 0, imaginary = 0;
    unsigned step = 0;
    for (; step < limit; step++) {
      const float real_square = __fmul_rn(real, real), imaginary_square = __fmul_rn(imaginary, imaginary);
      if (__fadd_rn(real_square, imaginary_square) > 4) break;
      imaginary = __fadd_rn(__fmul_rn(__fmul_rn(2, real), imaginary), c_imaginary);
      real = __fadd_rn(__fsub_rn(real_square, imaginary_square), c_real);
    }
    single[line * width + column] = step;
  }
  const double c_real = __dadd_rn(-2.25, __ddiv_rn(__dmul_rn(3.0, column), width));
  const double c_imaginary = __dadd_rn(-1.25, __ddiv_rn(__dmul_rn(2.5, line), height));
  double real = 0, imaginary = 0;
  unsigned step = 0;
  while (step < limit) {
    const double real_square = __dmul_rn(real, real), imaginary_square = __dmul_rn(imaginary, imaginary);
    if (__dadd_rn(real_square, imaginary_square) > 4) break;
    imaginary = __dadd_rn(__dmul_rn(__dmul_rn(2, real), imaginary), c_imaginary);
    real = __dadd_rn(__dsub_rn(real_square, imaginary_square), c_real);
    step++;
  }
  wide[line * width + column] = step;
}
