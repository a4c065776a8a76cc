// Atomic operations on ten integers that the host changes at the same time, for system_wide_atomics.ts. Those of a name
// that ends with "_system" are atomic for the host and for other devices, too.

// Thread i does each operation `loops` times, with values that depend on i.
extern "C" __global__ void system_atomics(int* values, unsigned int loops) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned int* counters = reinterpret_cast<unsigned int*>(values);
#pragma unroll 1
  for (unsigned int loop = 0; loop < loops; loop++) {
    atomicAdd_system(&values[0], 10);
    atomicExch_system(&values[1], i);
    atomicMax_system(&values[2], i);
    atomicMin_system(&values[3], i);
    atomicInc_system(&counters[4], 17);
    atomicDec_system(&counters[5], 137);
    atomicCAS_system(&values[6], i - 1, i);
    atomicAnd_system(&values[7], 2 * i + 7);
    atomicOr_system(&counters[8], 1u << (i & 31));
    atomicXor_system(&values[9], i);
  }
}
