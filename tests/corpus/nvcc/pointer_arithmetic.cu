// Pointers moved by negative, scaled and 64-bit offsets, subtracted and compared.

struct Row {
  int cells[5];
};

extern "C" __global__ void walk(const int* begin, long long length, int* out) {
  int thread = threadIdx.x;
  const int* end = begin + length;
  const int* middle = begin + (end - begin) / 2;
  out[5 * thread] = middle[-thread];
  out[5 * thread + 1] = *(end - 1 - thread);
  long long far = (1ll << 35) + thread;
  // There and back: only the sum of both is an address in the buffer.
  const int* beyond = begin + far;
  out[5 * thread + 2] = beyond[-(1ll << 35)];
  const char* bytes = reinterpret_cast<const char*>(middle) + 4 * (long long)(thread - 8);
  out[5 * thread + 3] = *reinterpret_cast<const int*>(bytes);
  unsigned index = 0u - (unsigned)thread;
  out[5 * thread + 4] = begin[(int)index + 40] + (middle - thread < begin + 20 ? 1000000 : 0);
}

extern "C" __global__ void rows(const Row* rows, int* out, long long stride, int count) {
  int thread = threadIdx.x;
  const Row* last = rows + count - 1;
  int sum = 0;
  for (const Row* row = last - thread; row >= rows; row -= stride) sum = sum * 31 + row->cells[thread % 5];
  out[2 * thread] = sum;
  out[2 * thread + 1] = (int)(last - (rows + thread)) * 100 + (int)((const char*)&last->cells[3] - (const char*)last);
}

// The sum of a 32-bit product that overflows and of one that is widened first.
extern "C" __global__ void wide_products(const unsigned char* in, unsigned char* out, int pitch, unsigned huge) {
  int thread = threadIdx.x;
  long long offset = (long long)pitch * thread;
  unsigned wrapped = huge * 4u + thread;
  unsigned long long wide = (unsigned long long)huge * 4u;
  out[2 * thread] = in[offset - (long long)(pitch + 1) * thread + 40];
  out[2 * thread + 1] = in[wrapped + (wide >> 32) - 1];
}

extern "C" __global__ void linked(unsigned long long* nodes, int* out) {
  // A ring of addresses that the kernel makes itself, and follows.
  int count = blockDim.x;
  int thread = threadIdx.x;
  nodes[2 * thread] = (unsigned long long)&nodes[2 * ((thread * 7 + 3) % count)];
  nodes[2 * thread + 1] = thread;
  __syncthreads();
  const unsigned long long* node = &nodes[2 * thread];
  int sum = 0;
  for (int i = 0; i < 5; i++) {
    node = reinterpret_cast<const unsigned long long*>(*node);
    sum = sum * 10 + (int)node[1];
  }
  out[thread] = sum;
}
