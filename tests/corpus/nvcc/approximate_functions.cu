// The approximate instructions, and CUDA's fast functions, which are made of them.
#define APPROXIMATE(text, result, value) asm(text " %0, %1;" : "=f"(result) : "f"(value))

// Angles within 100 pi.
extern "C" __global__ void fast_trigonometry(const float* angles, float* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float angle = angles[i];
  float* row = results + i * 5;
  APPROXIMATE("sin.approx.f32", row[0], angle);
  APPROXIMATE("cos.approx.f32", row[1], angle);
  row[2] = __sinf(angle);
  row[3] = __cosf(angle);
  float sine, cosine;
  __sincosf(angle, &sine, &cosine);
  row[4] = sine - cosine;
}

// Exponents of up to 80.
extern "C" __global__ void fast_exponentials(const float* values, float* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float value = values[i];
  float* row = results + i * 5;
  APPROXIMATE("ex2.approx.f32", row[0], value);
  APPROXIMATE("ex2.approx.ftz.f32", row[1], value);
  row[2] = __expf(value);
  row[3] = __exp10f(value * 0.25f);
  APPROXIMATE("tanh.approx.f32", row[4], value);
}

// Positive numbers.
extern "C" __global__ void fast_logarithms(const float* values, float* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float value = values[i];
  float* row = results + i * 8;
  APPROXIMATE("lg2.approx.f32", row[0], value);
  row[1] = __logf(value);
  row[2] = __log2f(value);
  row[3] = __log10f(value);
  APPROXIMATE("rsqrt.approx.f32", row[4], value);
  APPROXIMATE("sqrt.approx.f32", row[5], value);
  APPROXIMATE("rcp.approx.f32", row[6], value);
  row[7] = rsqrtf(value);
}

// A positive base, an exponent, and two numbers whose quotient is neither very large nor very small.
extern "C" __global__ void fast_powers_and_quotients(const float* a, const float* b, float* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float x = a[i], y = b[i];
  float* row = results + i * 4;
  row[0] = __powf(x, y);
  row[1] = __fdividef(x, y);
  asm("div.approx.f32 %0, %1, %2;" : "=f"(row[2]) : "f"(x), "f"(y));
  asm("div.full.f32 %0, %1, %2;" : "=f"(row[3]) : "f"(x), "f"(y));
}
