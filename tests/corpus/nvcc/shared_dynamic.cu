// Dynamic shared memory: its size is the launch's, and several arrays are carved from it.

extern __shared__ double storage[];
extern __shared__ unsigned char raw[];

extern "C" __global__ void carve(const float* in, double* doubles, float* floats, unsigned char* bytes) {
  int count = blockDim.x;
  double* first = storage;
  float* second = reinterpret_cast<float*>(first + count);
  unsigned char* third = reinterpret_cast<unsigned char*>(second + count);
  int thread = threadIdx.x;
  int global = blockIdx.x * count + thread;
  first[thread] = in[global] * 0.5;
  second[count - 1 - thread] = in[global];
  third[thread] = (unsigned char)(thread * 3 + blockIdx.x);
  __syncthreads();
  doubles[global] = first[count - 1 - thread];
  floats[global] = second[(thread + 1) % count];
  bytes[global] = third[thread ^ 1];
}

// Beside static memory, which lies before it.
extern "C" __global__ void beside_static(int* out) {
  __shared__ int fixed[16];
  int* dynamic = reinterpret_cast<int*>(raw);
  unsigned size;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
  for (unsigned i = threadIdx.x; i < size / 4; i += blockDim.x) dynamic[i] = 1000 + i;
  if (threadIdx.x < 16) fixed[threadIdx.x] = threadIdx.x;
  __syncthreads();
  int sum = 0;
  for (unsigned i = 0; i < size / 4; i++) sum += dynamic[i];
  out[threadIdx.x] = sum * 100 + fixed[threadIdx.x % 16];
  if (threadIdx.x == 0) out[blockDim.x] = size;
}
