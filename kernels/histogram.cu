// Counts how often each of the 256 values of a byte occurs. Each block counts in shared memory, where adding is fast
// and disturbs no other block, and then adds its 256 counts to those in global memory. Any grid and any block of one
// dimension will do; a few blocks for each multiprocessor are fastest, because every block adds its 256 counts.
//
// input: aligned to 4 bytes, because threads read whole words. bins: 256 counts, modulo 2^32, to which the counts are
// added; set them to 0 first.
extern "C" __global__ void histogram(const unsigned char* input, unsigned long long byte_length, unsigned int* bins) {
  __shared__ unsigned int counts[256];
  for (unsigned int bin = threadIdx.x; bin < 256; bin += blockDim.x) counts[bin] = 0;
  __syncthreads();

  const unsigned int* words = reinterpret_cast<const unsigned int*>(input);
  const unsigned long long word_count = byte_length / 4;
  const unsigned long long stride = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  const unsigned long long first = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
#pragma unroll 1
  for (unsigned long long i = first; i < word_count; i += stride) {
    const unsigned int word = words[i];
    atomicAdd(&counts[word & 255], 1);
    atomicAdd(&counts[word >> 8 & 255], 1);
    atomicAdd(&counts[word >> 16 & 255], 1);
    atomicAdd(&counts[word >> 24], 1);
  }
#pragma unroll 1
  for (unsigned long long i = word_count * 4 + first; i < byte_length; i += stride) atomicAdd(&counts[input[i]], 1);
  __syncthreads();

#pragma unroll 1
  for (unsigned int bin = threadIdx.x; bin < 256; bin += blockDim.x) {
    if (counts[bin] != 0) atomicAdd(&bins[bin], counts[bin]);
  }
}
