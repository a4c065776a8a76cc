// CUDA's accurate sine, cosine and tangent of single precision: of small angles and of huge ones, which are reduced by
// a table of the digits of 2 / pi.
extern "C" __global__ void trigonometry(const float* angles, float* results, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float angle = angles[i];
  float* row = results + i * 5;
  row[0] = sinf(angle);
  row[1] = cosf(angle);
  row[2] = tanf(angle);
  sincosf(angle, row + 3, row + 4);
}
