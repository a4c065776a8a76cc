// Copies of whole structs of every alignment, between global, shared and local memory.

struct Bytes {
  unsigned char items[7];
};

struct Halves {
  short items[5];
};

struct Words {
  int items[9];
};

struct alignas(8) Pairs {
  int items[6];
};

struct alignas(16) Quads {
  float items[12];
};

struct Nested {
  Bytes bytes;
  char end;
  Halves halves[2];
  Words words;
};

template <typename Struct>
__device__ void reverse(const Struct* in, Struct* out) {
  __shared__ Struct shared[16];
  shared[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  Struct own[2];
  own[threadIdx.x % 2] = shared[15 - threadIdx.x];
  own[1 - threadIdx.x % 2] = in[0];
  out[threadIdx.x] = own[threadIdx.x & 1];
}

extern "C" __global__ void reverse_all(const Bytes* bytes, Bytes* bytes_out, const Halves* halves, Halves* halves_out,
                                       const Words* words, Words* words_out, const Pairs* pairs, Pairs* pairs_out,
                                       const Quads* quads, Quads* quads_out, const Nested* nested, Nested* nested_out) {
  reverse(bytes, bytes_out);
  reverse(halves, halves_out);
  reverse(words, words_out);
  reverse(pairs, pairs_out);
  reverse(quads, quads_out);
  reverse(nested, nested_out);
}

// Structs returned by functions, and members swapped through a copy.
__device__ __noinline__ Nested exchanged(Nested a, const Nested& b, int which) {
  Nested result = b;
  result.halves[which] = a.halves[1 - which];
  result.words.items[which] = a.words.items[8 - which];
  result.end++;
  return result;
}

extern "C" __global__ void exchange(const Nested* in, Nested* out) {
  out[threadIdx.x] = exchanged(in[threadIdx.x], in[15 - threadIdx.x], threadIdx.x % 2);
}
