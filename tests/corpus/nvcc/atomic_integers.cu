// Atomic operations on integers of 32 and 64 bits, in global and shared memory. Every thread works on the same words,
// and what comes out does not depend on who was first.

extern "C" __global__ void accumulate(const int* in, int* signed_words, unsigned* words, unsigned long long* longs,
                                      long long* signed_longs) {
  int thread = blockIdx.x * blockDim.x + threadIdx.x;
  int value = in[thread];
  unsigned word = (unsigned)value;
  long long wide = (long long)value * 1000003;
  atomicAdd(&signed_words[0], value);
  atomicSub(&signed_words[1], value);
  atomicMin(&signed_words[2], value);
  atomicMax(&signed_words[3], value);
  atomicAdd(&words[0], word);
  atomicSub(&words[1], word);
  atomicMin(&words[2], word);
  atomicMax(&words[3], word);
  atomicAnd(&words[4], word | 0xffff0000u);
  atomicOr(&words[5], word & 0x0f0f0f0fu);
  atomicXor(&words[6], word);
  atomicInc(&words[7], 99u);
  atomicDec(&words[8], 99u);
  atomicAdd(&longs[0], (unsigned long long)wide);
  atomicMin(&longs[1], (unsigned long long)wide);
  atomicMax(&longs[2], (unsigned long long)wide);
  atomicAnd(&longs[3], (unsigned long long)wide | 0xffffffff00000000ull);
  atomicOr(&longs[4], (unsigned long long)wide & 0x00ff00ff00ff00ffull);
  atomicXor(&longs[5], (unsigned long long)wide);
  atomicMin(&signed_longs[0], wide);
  atomicMax(&signed_longs[1], wide);
}

// What an operation returns is what was there: counted, each number comes once.
extern "C" __global__ void take_tickets(unsigned* next, unsigned* taken, unsigned* wrapped) {
  __shared__ unsigned shared_next;
  __shared__ unsigned long long shared_long;
  if (threadIdx.x == 0) {
    shared_next = 5;
    shared_long = 0x100000000ull;
  }
  __syncthreads();
  atomicAdd(&taken[atomicAdd(next, 1u)], 1u);
  atomicAdd(&taken[64 + atomicAdd(&shared_next, 2u)], 1u);
  atomicAdd(&taken[256 + (unsigned)(atomicAdd(&shared_long, 3ull) - 0x100000000ull)], 1u);
  atomicAdd(&wrapped[atomicInc(next + 1, 6u)], 1u);
  atomicAdd(&wrapped[8 + atomicDec(next + 2, 6u)], 1u);
}

// Exchanged values are passed from thread to thread: what all got and what is left is what there was.
extern "C" __global__ void pass_values(unsigned* slot, unsigned long long* wide_slot, unsigned long long* sums) {
  unsigned got = atomicExch(slot, threadIdx.x + 1);
  unsigned long long wide = atomicExch(wide_slot, (threadIdx.x + 1ull) << 33);
  atomicAdd(&sums[0], got);
  atomicAdd(&sums[1], wide);
  float swapped = atomicExch((float*)(slot + 1), 2.5f);
  atomicAdd(&sums[2], (unsigned long long)(swapped * 2.0f));
}

extern "C" __global__ void collect(const unsigned* slot, const unsigned long long* wide_slot,
                                   unsigned long long* sums) {
  sums[0] += slot[0];
  sums[1] += *wide_slot;
}
