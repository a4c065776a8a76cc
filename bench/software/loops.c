// The computations of the kernels in this folder, as loops. A loop stands for the threads of a block, and a local array
// for shared memory. Numbers are added in the same order as in the kernels, so that the results are equal bit for bit.
// The loops use one thread, and with -fopenmp all cores.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void saxpy(uint32_t n, float a, const float *restrict x, float *restrict y) {
#pragma omp parallel for
  for (uint32_t i = 0; i < n; i++) y[i] = a * x[i] + y[i];
}

void fill(uint8_t *restrict out, uint64_t byte_length, uint32_t pattern) {
  uint32_t *words = (uint32_t *)out;
  const uint64_t word_count = byte_length / 4;
#pragma omp parallel for
  for (uint64_t i = 0; i < word_count; i++) words[i] = pattern;
  for (uint64_t i = word_count * 4; i < byte_length; i++) out[i] = (uint8_t)(pattern >> (8 * (i & 3)));
}

static inline float multiply_add(float a, float b, float c) { return a * b + c; }

#define MATRIX_MULTIPLY(name, tile, multiply_add)                                                        \
  void name(const float *restrict a, const float *restrict b, float *restrict c, int32_t size) {         \
    _Pragma("omp parallel for collapse(2) schedule(dynamic)")                                            \
    for (int32_t top = 0; top < size; top += tile) {                                                     \
      for (int32_t left = 0; left < size; left += tile) {                                                \
        float a_tile[tile][tile], b_tile[tile][tile], sums[tile][tile];                                  \
        memset(sums, 0, sizeof sums);                                                                    \
        for (int32_t first = 0; first < size; first += tile) {                                           \
          for (int32_t y = 0; y < tile; y++) {                                                           \
            for (int32_t x = 0; x < tile; x++) {                                                         \
              a_tile[y][x] = a[(top + y) * size + first + x];                                            \
              b_tile[y][x] = b[(first + y) * size + left + x];                                           \
            }                                                                                            \
          }                                                                                              \
          for (int32_t y = 0; y < tile; y++) {                                                           \
            for (int32_t x = 0; x < tile; x++) {                                                         \
              float sum = sums[y][x];                                                                    \
              for (int32_t k = 0; k < tile; k++) sum = multiply_add(a_tile[y][k], b_tile[k][x], sum);    \
              sums[y][x] = sum;                                                                          \
            }                                                                                            \
          }                                                                                              \
        }                                                                                                \
        for (int32_t y = 0; y < tile; y++) {                                                             \
          for (int32_t x = 0; x < tile; x++) c[(top + y) * size + left + x] = sums[y][x];                \
        }                                                                                                \
      }                                                                                                  \
    }                                                                                                    \
  }

MATRIX_MULTIPLY(matrix_multiply_16, 16, multiply_add)
MATRIX_MULTIPLY(matrix_multiply_32, 32, multiply_add)

// Compilers for x86-64 turn fmaf into one instruction only if they are told that the processor has that instruction.
#ifdef __x86_64__
#pragma GCC target("fma")
#endif
static inline float fused_multiply_add(float a, float b, float c) { return fmaf(a, b, c); }

MATRIX_MULTIPLY(matrix_multiply_32_fused, 32, fused_multiply_add)
#pragma GCC reset_options

static float half_to_float(uint32_t bits) {
  // Only for normal numbers and zero.
  const uint32_t magnitude = bits & 0x7fff;
  const uint32_t single = (bits & 0x8000) << 16 | (magnitude == 0 ? 0 : (magnitude << 13) + (112u << 23));
  float value;
  memcpy(&value, &single, sizeof value);
  return value;
}

// Multiplies half-precision matrices, of which b is transposed: a row of it has the elements of a column.
void matrix_multiply_half(float *restrict c, const uint16_t *restrict a, const uint16_t *restrict b, int size) {
  float *columns = malloc(sizeof(float) * size * size);
  for (int j = 0; j < size; j++) {
    for (int k = 0; k < size; k++) columns[k * size + j] = half_to_float(b[j * size + k]);
  }
#pragma omp parallel for schedule(dynamic)
  for (int i = 0; i < size; i++) {
    float *row = c + (size_t)i * size;
    memset(row, 0, sizeof(float) * size);
    for (int k = 0; k < size; k++) {
      const float factor = half_to_float(a[i * size + k]);
      for (int j = 0; j < size; j++) row[j] += factor * columns[k * size + j];
    }
  }
  free(columns);
}

enum { warp_size = 32, maximum_block_size = 1024 };

// Adds 32 sums in the order in which lane 0 of a warp adds them by shuffles, with the distance halved each time.
static float sum_of_warp(const float *sums) {
  float lanes[warp_size];
  memcpy(lanes, sums, sizeof lanes);
  for (int distance = warp_size / 2; distance > 0; distance /= 2) {
    for (int lane = 0; lane < distance; lane++) lanes[lane] += lanes[lane + distance];
  }
  return lanes[0];
}

// Reads the elements in memory order, and adds each one to the sum of the thread that handles it in the kernel.
void block_reduction(const float *restrict in, float *restrict sums, uint32_t n, uint32_t blocks, uint32_t block_size) {
  const uint32_t part = (n + blocks - 1) / blocks;
#pragma omp parallel for schedule(dynamic)
  for (uint32_t block = 0; block < blocks; block++) {
    float threads[maximum_block_size] = {0};
    const uint32_t end = n < (block + 1) * part ? n : (block + 1) * part;
    for (uint32_t first = block * part; first < end; first += block_size) {
      const uint32_t count = end - first < block_size ? end - first : block_size;
      for (uint32_t thread = 0; thread < count; thread++) threads[thread] += in[first + thread];
    }
    float warps[warp_size] = {0};
    for (uint32_t warp = 0; warp < block_size / warp_size; warp++) warps[warp] = sum_of_warp(threads + warp * warp_size);
    sums[block] = sum_of_warp(warps);
  }
}

void mandelbrot(uint32_t *restrict out, uint32_t width, uint32_t height, float left, float top, float step,
                uint32_t limit) {
#pragma omp parallel for schedule(dynamic)
  for (uint32_t row = 0; row < height; row++) {
    for (uint32_t column = 0; column < width; column++) {
      const float real = left + step * column;
      const float imaginary = top + step * row;
      float x = 0.0f, y = 0.0f, x_squared = 0.0f, y_squared = 0.0f;
      uint32_t iterations = 0;
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

void xorshift(uint32_t *restrict sums, uint32_t generators, uint32_t count) {
#pragma omp parallel for schedule(dynamic, 256)
  for (uint32_t generator = 0; generator < generators; generator++) {
    uint32_t state = 2463534242u + generator;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
      state ^= state << 13;
      state ^= state >> 17;
      state ^= state << 5;
      sum += state;
    }
    sums[generator] = sum;
  }
}

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static inline uint32_t rotate_right(uint32_t value, int bits) {
  return (value >> bits) | (value << (32 - bits));
}

static inline uint32_t swap_bytes(uint32_t value) {
  return __builtin_bswap32(value);
}

static inline void compress(uint32_t state[8], uint32_t w[16]) {
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
  for (int first = 0; first < 64; first += 16) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
      const uint32_t s1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
      const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + round_constants[first + i] + w[i];
      const uint32_t s0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
      const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
      const uint32_t w15 = w[(i + 1) % 16], w2 = w[(i + 14) % 16];
      w[i] += (rotate_right(w15, 7) ^ rotate_right(w15, 18) ^ (w15 >> 3)) + w[(i + 9) % 16] +
              (rotate_right(w2, 17) ^ rotate_right(w2, 19) ^ (w2 >> 10));
    }
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d;
  state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

void sha256(const uint32_t *restrict messages, uint32_t *restrict digests, uint32_t count) {
#pragma omp parallel for schedule(dynamic, 256)
  for (uint32_t message = 0; message < count; message++) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint32_t w[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) w[i] = swap_bytes(messages[message * 16 + i]);
    compress(state, w);
    // The padding block: a one bit, zeros, and the message's length in bits.
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) w[i] = i == 0 ? 0x80000000u : i == 15 ? 512u : 0u;
    compress(state, w);
#pragma GCC unroll 16
    for (int i = 0; i < 8; i++) digests[message * 8 + i] = swap_bytes(state[i]);
  }
}
