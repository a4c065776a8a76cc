// CRC-32 by bits, by a table that the block makes in shared memory, and of the reflected polynomial by reversed bits.
__device__ unsigned step(unsigned crc) { return crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0); }

extern "C" __global__ void crc32(const unsigned char* messages, unsigned stride, const unsigned* lengths,
                                 unsigned* results, unsigned count) {
  __shared__ unsigned table[256];
  for (unsigned entry = threadIdx.x; entry < 256; entry += blockDim.x) {
    unsigned crc = entry;
    for (int bit = 0; bit < 8; bit++) crc = step(crc);
    table[entry] = crc;
  }
  __syncthreads();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  unsigned by_bits = ~0u, by_table = ~0u, reversed = ~0u;
  for (unsigned at = 0; at < lengths[i]; at++) {
    const unsigned byte = messages[i * stride + at];
    by_bits ^= byte;
    for (int bit = 0; bit < 8; bit++) by_bits = step(by_bits);
    by_table = by_table >> 8 ^ table[(by_table ^ byte) & 0xff];
    reversed ^= __brev(byte);
    for (int bit = 0; bit < 8; bit++) reversed = reversed << 1 ^ (static_cast<int>(reversed) < 0 ? 0x04c11db7 : 0);
  }
  results[3 * i] = ~by_bits;
  results[3 * i + 1] = ~by_table;
  results[3 * i + 2] = ~__brev(reversed);
}
