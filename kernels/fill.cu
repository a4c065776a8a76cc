// Fills memory with a 32-bit pattern. Each thread takes whole words a grid apart; the bytes past the last whole word,
// three at most, get the pattern's low bytes in order, so that every byte is written whatever the length and the grid.
//
// out: aligned to 4 bytes.
extern "C" __global__ void fill(void* out, unsigned long long byte_length, unsigned int pattern) {
  unsigned int* words = static_cast<unsigned int*>(out);
  const unsigned long long word_count = byte_length / 4;
  const unsigned long long stride = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  const unsigned long long first = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
#pragma unroll 1
  for (unsigned long long i = first; i < word_count; i += stride) words[i] = pattern;
#pragma unroll 1
  for (unsigned long long i = word_count * 4 + first; i < byte_length; i += stride) {
    static_cast<unsigned char*>(out)[i] = static_cast<unsigned char>(pattern >> (8 * (i & 3)));
  }
}
