// Where a thread is, by the built-in variables and by the special registers, in grids of one, two and three dimensions.

__device__ unsigned linear_thread() {
  return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}

__device__ unsigned linear_block() { return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }

extern "C" __global__ void positions(unsigned* out) {
  unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  unsigned* own = out + 8 * (linear_block() * threads + linear_thread());
  own[0] = threadIdx.x | threadIdx.y << 8 | threadIdx.z << 16;
  own[1] = blockDim.x | blockDim.y << 8 | blockDim.z << 16;
  own[2] = blockIdx.x | blockIdx.y << 8 | blockIdx.z << 16;
  own[3] = gridDim.x | gridDim.y << 8 | gridDim.z << 16;
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  own[4] = lane;
  unsigned equal, less, less_equal, greater, greater_equal;
  asm("mov.u32 %0, %%lanemask_eq;" : "=r"(equal));
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(less));
  asm("mov.u32 %0, %%lanemask_le;" : "=r"(less_equal));
  asm("mov.u32 %0, %%lanemask_gt;" : "=r"(greater));
  asm("mov.u32 %0, %%lanemask_ge;" : "=r"(greater_equal));
  own[5] = equal;
  own[6] = less ^ greater;
  own[7] = less_equal & greater_equal ^ 0xffff0000u ^ less;
}

// What differs from device to device, by what holds of it on all.
extern "C" __global__ void relations(unsigned* out) {
  unsigned warp, warps, multiprocessor, multiprocessors, dynamic_bytes, total_bytes;
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
  asm volatile("mov.u32 %0, %%nwarpid;" : "=r"(warps));
  asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
  asm volatile("mov.u32 %0, %%nsmid;" : "=r"(multiprocessors));
  asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(dynamic_bytes));
  asm volatile("mov.u32 %0, %%total_smem_size;" : "=r"(total_bytes));
  long long begin = clock64();
  unsigned long long begin_time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin_time));
  long long end = clock64();
  unsigned long long end_time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end_time));
  unsigned* own = out + 7 * (blockIdx.x * blockDim.x + threadIdx.x);
  own[0] = warp < warps;
  own[1] = multiprocessor < multiprocessors;
  own[2] = dynamic_bytes;
  own[3] = total_bytes >= dynamic_bytes;
  own[4] = end >= begin;
  own[5] = end_time >= begin_time;
  own[6] = warpSize;
}
