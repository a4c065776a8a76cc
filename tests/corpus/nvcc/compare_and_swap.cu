// Operations that the hardware lacks, made of compare-and-swap on 16, 32 and 64 bits.

__device__ void multiply_atomically(unsigned* address, unsigned factor) {
  unsigned seen = *address;
  unsigned assumed;
  do {
    assumed = seen;
    seen = atomicCAS(address, assumed, assumed * factor);
  } while (seen != assumed);
}

__device__ void maximum_atomically(double* address, double value) {
  unsigned long long* word = reinterpret_cast<unsigned long long*>(address);
  unsigned long long seen = *word;
  while (__longlong_as_double((long long)seen) < value) {
    unsigned long long assumed = seen;
    seen = atomicCAS(word, assumed, (unsigned long long)__double_as_longlong(value));
    if (seen == assumed) break;
  }
}

__device__ void add_atomically(unsigned short* address, unsigned short addend) {
  unsigned short seen = *address;
  unsigned short assumed;
  do {
    assumed = seen;
    seen = atomicCAS(address, assumed, (unsigned short)(assumed + addend));
  } while (seen != assumed);
}

extern "C" __global__ void combine(const unsigned* in, unsigned* products, double* maxima, unsigned short* sums) {
  __shared__ unsigned product;
  __shared__ unsigned short sum[2];
  if (threadIdx.x == 0) product = 1;
  if (threadIdx.x < 2) sum[threadIdx.x] = 0;
  __syncthreads();
  unsigned number = in[blockIdx.x * blockDim.x + threadIdx.x];
  multiply_atomically(&products[0], number | 1);
  multiply_atomically(&product, number | 1);
  maximum_atomically(&maxima[0], number * 0.5 - 1e9);
  add_atomically(&sums[threadIdx.x % 2], (unsigned short)number);
  add_atomically(&sum[threadIdx.x % 2], (unsigned short)number);
  __syncthreads();
  if (threadIdx.x == 0) {
    products[1 + blockIdx.x] = product;
    sums[2 + 2 * blockIdx.x] = sum[0];
    sums[3 + 2 * blockIdx.x] = sum[1];
  }
}

// A swap that fails changes nothing, and tells what is there.
extern "C" __global__ void try_swaps(unsigned* words, unsigned long long* longs, unsigned short* halves) {
  words[1] = atomicCAS(&words[0], 1u, 100u);
  words[2] = atomicCAS(&words[0], words[1], 200u);
  longs[1] = atomicCAS(&longs[0], 1ull << 40, 5ull);
  longs[2] = atomicCAS(&longs[0], longs[1], ~0ull);
  halves[2] = atomicCAS(&halves[1], (unsigned short)1, (unsigned short)2);
  halves[3] = atomicCAS(&halves[1], halves[2], (unsigned short)0xfffe);
}
