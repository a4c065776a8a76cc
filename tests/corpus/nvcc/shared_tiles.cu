// Static shared memory: several arrays of several types and alignments, exchanged between the threads of a block.

constexpr int side = 8;

extern "C" __global__ void transpose(const float* in, float* out, int width, int height) {
  __shared__ float tile[side][side + 1];
  int x = blockIdx.x * side + threadIdx.x;
  int y = blockIdx.y * side + threadIdx.y;
  if (x < width && y < height) tile[threadIdx.y][threadIdx.x] = in[y * width + x];
  __syncthreads();
  int row = blockIdx.x * side + threadIdx.y;
  int column = blockIdx.y * side + threadIdx.x;
  if (row < width && column < height) out[row * height + column] = tile[threadIdx.x][threadIdx.y];
}

extern "C" __global__ void mixed_arrays(const unsigned* in, unsigned long long* out) {
  __shared__ unsigned char bytes[33];
  __shared__ double doubles[32];
  __shared__ unsigned short halves[32];
  __shared__ int total;
  int thread = threadIdx.x;
  if (thread == 0) total = 0;
  bytes[thread] = (unsigned char)in[thread];
  halves[31 - thread] = (unsigned short)(in[thread] >> 8);
  doubles[thread ^ 5] = in[thread];
  __syncthreads();
  atomicAdd(&total, bytes[31 - thread]);
  __syncthreads();
  unsigned long long sum = (unsigned long long)doubles[thread];
  out[thread] = sum * 65536 + halves[thread] + bytes[(thread + 1) % 32] + total;
}
