// Loops in loops that threads leave, and go on with, at different times.
extern "C" __global__ void nested_loops(const unsigned int* in, unsigned int* out) {
  const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned int value = in[i], hash = 0;
  for (unsigned int outer = 0;; outer++) {
    if (outer == 40) break;
    if ((value >> (outer % 32)) & 1) continue;
    unsigned int inner = outer;
    while (true) {
      hash = hash * 31 + inner;
      if (hash % 7 == 0) break;
      if (hash % 5 == 1) {
        inner += 3;
        continue;
      }
      do {
        hash ^= value >> (inner % 13);
        inner++;
        if (hash % 11 == 4) goto next_outer;
      } while (inner % 4 != 0);
      if (inner > 30) break;
    }
    value += hash;
    if (value % 97 == 0) break;
  next_outer:
    hash += 1;
  }
  // The steps of the Collatz sequence down to 1, which differ widely from one number to the next.
  unsigned int steps = 0;
  for (unsigned int n = i + 1; n != 1; steps++) n = n % 2 == 0 ? n / 2 : 3 * n + 1;
  out[i * 2] = hash;
  out[i * 2 + 1] = steps;
}
