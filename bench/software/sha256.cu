// Computes SHA-256 of many 64-byte messages: one thread per message, two hash blocks per message.
__constant__ unsigned int round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

__device__ unsigned int rotate_right(unsigned int value, int bits) {
  return (value >> bits) | (value << (32 - bits));
}

__device__ unsigned int swap_bytes(unsigned int value) {
  return __byte_perm(value, 0, 0x0123);
}

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
      const unsigned int w15 = w[(i + 1) % 16], w2 = w[(i + 14) % 16];
      w[i] += (rotate_right(w15, 7) ^ rotate_right(w15, 18) ^ (w15 >> 3)) + w[(i + 9) % 16] +
              (rotate_right(w2, 17) ^ rotate_right(w2, 19) ^ (w2 >> 10));
    }
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d;
  state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

extern "C" __global__ void sha256(const unsigned int* messages, unsigned int* digests, unsigned int count) {
  const unsigned int message = blockIdx.x * blockDim.x + threadIdx.x;
  if (message >= count) return;
  unsigned int state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                           0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  unsigned int w[16];
#pragma unroll
  for (int i = 0; i < 16; i++) w[i] = swap_bytes(messages[message * 16 + i]);
  compress(state, w);
  // The padding block: a one bit, zeros, and the message's length in bits.
#pragma unroll
  for (int i = 0; i < 16; i++) w[i] = i == 0 ? 0x80000000u : i == 15 ? 512u : 0u;
  compress(state, w);
#pragma unroll
  for (int i = 0; i < 8; i++) digests[message * 8 + i] = swap_bytes(state[i]);
}
