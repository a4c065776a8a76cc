// CUDA's accurate functions of double precision, as the compiler writes them out.

// From -300 to 300.
extern "C" __global__ void exponentials(const double* values, double* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const double value = values[i];
  double* row = results + i * 6;
  row[0] = exp(value);
  row[1] = exp2(value);
  row[2] = exp10(value);
  row[3] = expm1(value);
  row[4] = tanh(value);
  row[5] = cbrt(value);
}

// Positive.
extern "C" __global__ void logarithms(const double* values, double* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const double value = values[i];
  double* row = results + i * 6;
  row[0] = log(value);
  row[1] = log2(value);
  row[2] = log10(value);
  row[3] = log1p(value);
  row[4] = sqrt(value);
  row[5] = rsqrt(value);
}

// Of any size.
extern "C" __global__ void trigonometry(const double* angles, double* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const double angle = angles[i];
  double* row = results + i * 4;
  row[0] = sin(angle);
  row[1] = cos(angle);
  row[2] = tan(angle);
  row[3] = atan(angle);
}

// A positive base and an exponent.
extern "C" __global__ void powers(const double* a, const double* b, double* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  results[2 * i] = pow(a[i], b[i]);
  results[2 * i + 1] = hypot(a[i], b[i]);
}

// No integers below 1.
extern "C" __global__ void gammas(const double* values, double* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  results[i] = tgamma(values[i]);
}
