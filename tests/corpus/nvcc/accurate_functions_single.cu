// CUDA's accurate functions of single precision, as the compiler writes them out.

// From -20 to 20.
extern "C" __global__ void exponentials(const float* values, float* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float value = values[i];
  float* row = results + i * 8;
  row[0] = expf(value);
  row[1] = exp2f(value);
  row[2] = exp10f(value);
  row[3] = expm1f(value);
  row[4] = sinhf(value);
  row[5] = coshf(value);
  row[6] = tanhf(value);
  row[7] = cbrtf(value);
}

// Positive.
extern "C" __global__ void logarithms(const float* values, float* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float value = values[i];
  float* row = results + i * 6;
  row[0] = logf(value);
  row[1] = log2f(value);
  row[2] = log10f(value);
  row[3] = log1pf(value);
  row[4] = sqrtf(value);
  row[5] = cbrtf(value);
}

// From -8 to 8.
extern "C" __global__ void error_functions(const float* values, float* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float value = values[i];
  float* row = results + i * 3;
  row[0] = erff(value);
  row[1] = erfcf(value);
  row[2] = atanf(value);
}

// A positive base and an exponent.
extern "C" __global__ void powers(const float* a, const float* b, float* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  results[2 * i] = powf(a[i], b[i]);
  results[2 * i + 1] = hypotf(a[i], b[i]);
}
