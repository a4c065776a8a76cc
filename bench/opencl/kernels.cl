// The kernels of `bench/workloads.ts` in OpenCL C, with the same work-groups and the same order of additions, so that the
// results are equal bit for bit.
#pragma OPENCL FP_CONTRACT OFF

__kernel void saxpy(unsigned int n, float a, __global const float* x, __global float* y) {
  for (size_t i = get_global_id(0); i < n; i += get_global_size(0)) y[i] = a * x[i] + y[i];
}

__kernel void fill(__global void* out, unsigned long byte_length, unsigned int pattern) {
  __global unsigned int* words = out;
  const unsigned long word_count = byte_length / 4;
  for (size_t i = get_global_id(0); i < word_count; i += get_global_size(0)) words[i] = pattern;
  for (size_t i = word_count * 4 + get_global_id(0); i < byte_length; i += get_global_size(0)) {
    ((__global unsigned char*)out)[i] = (unsigned char)(pattern >> (8 * (i & 3)));
  }
}

#define MATRIX_MULTIPLY(name, tile, multiply_add)                                                                      \
  __kernel __attribute__((reqd_work_group_size(tile, tile, 1))) void name(                                             \
      __global const float* restrict a, __global const float* restrict b, __global float* restrict c, int size) {      \
    __local float a_tile[tile][tile], b_tile[tile][tile];                                                              \
    const int x = get_local_id(0), y = get_local_id(1);                                                                \
    const int row = get_group_id(1) * tile + y, column = get_group_id(0) * tile + x;                                   \
    float sum = 0.0f;                                                                                                  \
    for (int first = 0; first < size; first += tile) {                                                                 \
      a_tile[y][x] = a[row * size + first + x];                                                                        \
      b_tile[y][x] = b[(first + y) * size + column];                                                                   \
      barrier(CLK_LOCAL_MEM_FENCE);                                                                                    \
      for (int k = 0; k < tile; k++) sum = multiply_add(a_tile[y][k], b_tile[k][x], sum);                              \
      barrier(CLK_LOCAL_MEM_FENCE);                                                                                    \
    }                                                                                                                  \
    c[row * size + column] = sum;                                                                                      \
  }

static float multiply_add(float a, float b, float c) { return a * b + c; }

MATRIX_MULTIPLY(matrix_multiply_16, 16, multiply_add)
MATRIX_MULTIPLY(matrix_multiply_32, 32, multiply_add)
MATRIX_MULTIPLY(matrix_multiply_32_fused, 32, fma)

// OpenCL 1.2 has no shuffles: the sums of a warp are added in local memory, in the same order.
__kernel void block_reduction(__global const float* restrict in, __global float* restrict sums, unsigned int n) {
  __local float thread_sums[1024];
  __local float warp_sums[32];
  const unsigned int thread = get_local_id(0), lane = thread % 32, warp = thread / 32;
  const unsigned int part = (n + get_num_groups(0) - 1) / get_num_groups(0);
  const unsigned int end = min(n, (unsigned int)(get_group_id(0) + 1) * part);
  float sum = 0.0f;
  for (unsigned int i = get_group_id(0) * part + thread; i < end; i += get_local_size(0)) sum += in[i];
  thread_sums[thread] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (unsigned int distance = 16; distance > 0; distance /= 2) {
    if (lane < distance) thread_sums[thread] += thread_sums[thread + distance];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lane == 0) warp_sums[warp] = thread_sums[thread];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (thread < 32) thread_sums[thread] = thread < get_local_size(0) / 32 ? warp_sums[thread] : 0.0f;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (unsigned int distance = 16; distance > 0; distance /= 2) {
    if (thread < distance) thread_sums[thread] += thread_sums[thread + distance];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (thread == 0) sums[get_group_id(0)] = thread_sums[0];
}

__kernel void mandelbrot(__global unsigned int* out, unsigned int width, unsigned int height, float left, float top,
                         float step, unsigned int limit) {
  for (size_t row = get_global_id(1); row < height; row += get_global_size(1)) {
    for (size_t column = get_global_id(0); column < width; column += get_global_size(0)) {
      const float real = left + step * (unsigned int)column;
      const float imaginary = top + step * (unsigned int)row;
      float x = 0.0f, y = 0.0f, x_squared = 0.0f, y_squared = 0.0f;
      unsigned int iterations = 0;
      while (iterations < limit && x_squared + y_squared <= 4.0f) {
        y = 2.0f * x * y + imaginary;
        x = x_squared - y_squared + real;
        x_squared = x * x;
        y_squared = y * y;
        iterations++;
      }
      out[row * width + column] = iterations;
    }
  }
}

__kernel void xorshift(__global unsigned int* sums, unsigned int generators, unsigned int count) {
  const unsigned int generator = get_global_id(0);
  if (generator >= generators) return;
  unsigned int state = 2463534242u + generator, sum = 0;
  for (unsigned int i = 0; i < count; i++) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    sum += state;
  }
  sums[generator] = sum;
}

__constant unsigned int round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static unsigned int rotate_right(unsigned int value, int bits) {
  return (value >> bits) | (value << (32 - bits));
}

static unsigned int swap_bytes(unsigned int value) {
  return as_uint(as_uchar4(value).wzyx);
}

static void compress(unsigned int* state, unsigned int* w) {
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

__kernel void sha256(__global const unsigned int* messages, __global unsigned int* digests, unsigned int count) {
  const unsigned int message = get_global_id(0);
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
