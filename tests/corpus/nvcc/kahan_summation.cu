// Sums of many numbers, plainly and with what each addition loses carried along, in single and double precision.
extern "C" __global__ void sum_single(const float* values, float* results, unsigned sums, unsigned length) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= sums) return;
  float plain = 0, sum = 0, lost = 0;
  for (unsigned j = 0; j < length; j++) {
    const float value = values[i * length + j];
    plain = __fadd_rn(plain, value);
    const float corrected = __fsub_rn(value, lost);
    const float next = __fadd_rn(sum, corrected);
    lost = __fsub_rn(__fsub_rn(next, sum), corrected);
    sum = next;
  }
  results[3 * i] = plain;
  results[3 * i + 1] = sum;
  results[3 * i + 2] = lost;
}

extern "C" __global__ void sum_double(const float* values, double* results, unsigned sums, unsigned length) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= sums) return;
  double sum = 0, lost = 0;
  for (unsigned j = 0; j < length; j++) {
    const double corrected = __dsub_rn(__dmul_rn(values[i * length + j], 0.1), lost);
    const double next = __dadd_rn(sum, corrected);
    lost = __dsub_rn(__dsub_rn(next, sum), corrected);
    sum = next;
  }
  results[2 * i] = sum;
  results[2 * i + 1] = lost;
}
