// One level of the tree digests of many byte ranges: the SHA-256 digests of all pieces of 16 KiB of each range, which are
// the bytes of the next level. When a range is one piece, its digest is the range's. A thread computes the digest of one
// piece, so a grid of one dimension needs as many threads as all ranges have pieces; a range of no bytes is one piece.
//
// ranges: four numbers for each range, in the order of their first pieces: the address of its bytes, their number, the
// address of its digests (32 bytes for each piece, aligned to 4), and the index of its first piece among all pieces.
// Ranges at addresses that are no multiples of 4 take several times as long.
struct Range {
  unsigned long long bytes, byte_length, digests, first_piece;
};

__constant__ unsigned int round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

__device__ __forceinline__ unsigned int rotate_right(unsigned int value, int bits) {
  return __funnelshift_r(value, value, bits);
}

// Both orders of a word's bytes: SHA-256 reads and writes the most significant byte first.
__device__ __forceinline__ unsigned int swap_bytes(unsigned int value) {
  return __byte_perm(value, 0, 0x0123);
}

// Adds a block of 16 words to the state. The words are overwritten.
__device__ __forceinline__ void compress(unsigned int state[8], unsigned int w[16]) {
  unsigned int a = state[0], b = state[1], c = state[2], d = state[3];
  unsigned int e = state[4], f = state[5], g = state[6], h = state[7];
#pragma unroll 1
  for (int first = 0; first < 64; first += 16) {
#pragma unroll
    for (int i = 0; i < 16; i++) {
      const unsigned int s1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
      const unsigned int t1 = h + s1 + ((e & f) ^ (~e & g)) + round_constants[first + i] + w[i];
      const unsigned int s0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
      const unsigned int t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
      const unsigned int w1 = w[(i + 1) % 16], w14 = w[(i + 14) % 16];
      w[i] += (rotate_right(w1, 7) ^ rotate_right(w1, 18) ^ (w1 >> 3)) + w[(i + 9) % 16] +
              (rotate_right(w14, 17) ^ rotate_right(w14, 19) ^ (w14 >> 10));
    }
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d;
  state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

// Reads a block of the message: `left` bytes of it, or all 64, then the byte 0x80 and zeros.
__device__ __forceinline__ void read_block(const unsigned char* bytes, unsigned int left, bool is_aligned,
                                           unsigned int w[16]) {
  if (left >= 64 && is_aligned) {
    const unsigned int* words = reinterpret_cast<const unsigned int*>(bytes);
#pragma unroll
    for (int i = 0; i < 16; i++) w[i] = swap_bytes(words[i]);
    return;
  }
#pragma unroll
  for (int i = 0; i < 16; i++) {
    unsigned int word = 0;
#pragma unroll
    for (unsigned int byte = 4 * i; byte < 4 * i + 4; byte++) {
      word = word << 8 | (byte < left ? bytes[byte] : byte == left ? 0x80u : 0u);
    }
    w[i] = word;
  }
}

extern "C" __global__ void tree_digest(const unsigned long long* ranges, unsigned int range_count,
                                       unsigned long long piece_count) {
  const unsigned long long index = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= piece_count) return;
  const Range* table = reinterpret_cast<const Range*>(ranges);
  unsigned int low = 0, high = range_count;
#pragma unroll 1
  while (high - low > 1) {
    const unsigned int middle = low + (high - low) / 2;
    if (table[middle].first_piece <= index) low = middle;
    else high = middle;
  }
  const Range range = table[low];
  const unsigned long long piece = index - range.first_piece;
  const unsigned char* bytes = reinterpret_cast<const unsigned char*>(range.bytes) + piece * 16384;
  const unsigned long long rest = range.byte_length - piece * 16384;
  const unsigned int byte_length = rest < 16384 ? static_cast<unsigned int>(rest) : 16384;
  const bool is_aligned = range.bytes % 4 == 0;

  unsigned int state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                           0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  // The byte 0x80 and the length in bits, 8 bytes, follow the message.
  const unsigned int block_count = (byte_length + 9 + 63) / 64;
#pragma unroll 1
  for (unsigned int block = 0; block < block_count; block++) {
    unsigned int w[16];
    const unsigned int begin = 64 * block;
    // Behind the block that has the byte 0x80, nothing of the message is left, and no such byte.
    if (begin <= byte_length) {
      read_block(bytes + begin, byte_length - begin, is_aligned, w);
    } else {
#pragma unroll
      for (int i = 0; i < 16; i++) w[i] = 0;
    }
    if (block == block_count - 1) w[15] = 8 * byte_length;
    compress(state, w);
  }
  unsigned int* digest = reinterpret_cast<unsigned int*>(range.digests) + piece * 8;
#pragma unroll
  for (int i = 0; i < 8; i++) digest[i] = swap_bytes(state[i]);
}
