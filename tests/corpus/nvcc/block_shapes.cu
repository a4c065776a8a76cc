// Blocks and grids of three dimensions: which thread is which, which warp it is in, and that barriers wait for all.
extern "C" __global__ void block_shapes(unsigned int* out) {
  extern __shared__ unsigned int words[];
  const unsigned int count = blockDim.x * blockDim.y * blockDim.z;
  const unsigned int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  unsigned int lane, y, z;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm volatile("mov.u32 %0, %%ntid.y;" : "=r"(y));
  asm volatile("mov.u32 %0, %%nctaid.z;" : "=r"(z));
  words[thread] = threadIdx.x | threadIdx.y << 8 | threadIdx.z << 16 | lane << 24;
  __syncthreads();
  const unsigned int lanes = min(32u, count - thread / 32 * 32);
  const unsigned int neighbour = __shfl_sync(0xffffffffu >> (32 - lanes), words[thread], (lane + 1) % lanes);
  unsigned int* row = out + (block * count + thread) * 4;
  row[0] = words[count - 1 - thread];
  row[1] = neighbour;
  row[2] = blockIdx.x | blockIdx.y << 8 | blockIdx.z << 16;
  row[3] = gridDim.x | gridDim.y << 8 | z << 16 | y << 24;
}
