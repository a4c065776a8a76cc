// Atomic operations of the block's and the system's scope, on every type that has them.

extern "C" __global__ void block_scope(const unsigned* in, unsigned* words, int* signed_words,
                                       unsigned long long* longs, float* floats, double* doubles) {
  unsigned number = in[threadIdx.x];
  unsigned* own = words + 8 * blockIdx.x;
  atomicAdd_block(&own[0], number);
  atomicSub_block(&own[1], number);
  atomicAnd_block(&own[2], number | 0xff);
  atomicOr_block(&own[3], number & 0xf0f0f0f0u);
  atomicXor_block(&own[4], number);
  atomicInc_block(&own[5], 10u);
  atomicDec_block(&own[6], 10u);
  atomicCAS_block(&own[7], 0u, 1234u);
  atomicMin_block(&signed_words[2 * blockIdx.x], (int)number);
  atomicMax_block(&signed_words[2 * blockIdx.x + 1], (int)number);
  atomicAdd_block(&longs[blockIdx.x], (unsigned long long)number << 20);
  atomicAdd_block(&floats[blockIdx.x], (float)(number % 8));
  atomicAdd_block(&doubles[blockIdx.x], (double)number);
}

extern "C" __global__ void system_scope(const unsigned* in, unsigned* words, int* signed_words,
                                        unsigned long long* longs, float* floats, double* doubles) {
  unsigned number = in[threadIdx.x];
  atomicAdd_system(&words[0], number);
  atomicSub_system(&words[1], number);
  atomicAnd_system(&words[2], number | 0xff);
  atomicOr_system(&words[3], number & 0xf0f0f0f0u);
  atomicXor_system(&words[4], number);
  atomicInc_system(&words[5], 10u);
  atomicDec_system(&words[6], 10u);
  atomicCAS_system(&words[7], 0u, 1234u);
  atomicMin_system(&signed_words[0], (int)number);
  atomicMax_system(&signed_words[1], (int)number);
  atomicAdd_system(&longs[0], (unsigned long long)number << 20);
  atomicAdd_system(&floats[0], (float)(number % 8));
  atomicAdd_system(&doubles[0], (double)number);
}
